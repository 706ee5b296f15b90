"""Reports of commands: their titles and facts, and failures to write them."""

import errno
import hashlib
import json
import shlex
from html import unescape

import numpy as np
import pandas as pd
import pytest
from cli_tables import GOAL, fit_arguments, payments, printed, run

import setpoint


@pytest.fixture
def full_disk(monkeypatch):
    """The disk is full when a report is written."""

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("setpoint.report.rendering.write_atomically", full)


def test_title_and_called_appear_in_reports(files, model, write_rows, tmp_path):
    page = tmp_path / "page.html"
    words = ["--report", page, "--called", "fraud, frauds", "--title", "Is it <fraud>?", "-q"]
    full = write_rows(payments(seed=1).dropna(), "full.csv")
    certify = ["certify", full, "--label", "class", "--score", "amount", "--goal", GOAL]
    for command in (
        fit_arguments(files, tmp_path / "m"),
        ["evaluate", model, write_rows()],
        certify,
    ):
        assert run(*command, *words) == 0
        html = page.read_text("utf-8")
        assert "<h1>Is it &lt;fraud&gt;?</h1>" in html
        assert " frauds" in html
        assert "“fraud” case" not in html


def test_a_report_has_everything_needed_to_repeat_it(files, tmp_path):
    page = tmp_path / "page.html"
    fit = fit_arguments(files, tmp_path / "m", "--report", page, "--confidence", 0.8, "--seed", 7,
                        "--test", 0.3, "-q")  # fmt: skip
    assert run(*fit) == 0
    text = unescape(page.read_text("utf-8"))
    facts = text[text.index('id="facts"') :].partition("</section>")[0]
    digest = hashlib.sha256((files / "train.csv").read_bytes()).hexdigest()
    for known in (digest, "class", "fraud", "id, when, customer", "0.8", "0.3", "7",
                  shlex.join(["setpoint", *fit])):  # fmt: skip
        assert f">{known}<" in facts, known
    assert "None" not in facts
    assert facts.count(">7<") == 1  # the seed, once


def test_large_counts_are_separated_and_absent_ones_left_out(files, tmp_path):
    table, page = tmp_path / "large.csv", tmp_path / "page.html"
    payments(1500).to_csv(table, index=False)
    fit = fit_arguments(files, tmp_path / "m", "--report", page, "--seed", 12345, "-q")
    fit[1] = str(table)
    assert run(*fit) == 0
    facts = unescape(page.read_text("utf-8")).partition('id="facts"')[2].partition("</section>")[0]
    assert ">1,500<" in facts
    assert ">1500<" not in facts
    assert ">12345<" in facts
    assert "certif" not in facts


def test_a_report_says_that_no_threshold_meets_the_goal(write_rows, tmp_path):
    page = tmp_path / "page.html"
    rng = np.random.default_rng(0)
    noise = pd.DataFrame({"x": rng.normal(size=400), "class": np.repeat(["no", "yes"], [360, 40])})
    noise.to_csv(tmp_path / "noise.csv", index=False)
    goal = "max recall s.t. precision >= 0.9, recall >= 0.9"
    fit = ["fit", tmp_path / "noise.csv", "--target", "class", "--goal", goal]
    assert run(*fit, "--model", "logistic", "--out", tmp_path / "m", "--report", page, "-q") == 0
    assert "No threshold meets this goal; the closest one was taken." in page.read_text("utf-8")


def test_a_report_on_other_rows_names_model_and_data(model, write_rows, tmp_path):
    page, table = tmp_path / "page.html", write_rows()
    assert run("evaluate", model, table, "--report", page, "-q") == 0
    text = unescape(page.read_text("utf-8"))
    assert hashlib.sha256(table.read_bytes()).hexdigest() in text
    assert str(model) in text
    assert f"setpoint evaluate {model}" in text


def test_without_a_report_the_table_is_not_hashed(files, tmp_path, monkeypatch):
    def hashed(*given):
        raise AssertionError("the table was hashed")

    monkeypatch.setattr("setpoint.cli.reports.hashlib.file_digest", hashed)
    assert run(*fit_arguments(files, tmp_path / "m", "-q")) == 0


def test_options_without_effect_are_noted(model, rows, tmp_path, capsys):
    words = ["--title", "Mine", "--called", "fraud,frauds", "--cost-alarm", 1, "--cost-miss", 9]
    full = tmp_path / "full.csv"
    full.write_text("class,amount\n" + "fraud,2\nok,1\n" * 60)
    certify = ["certify", full, "--label", "class", "--score", "amount", "--goal", GOAL]
    for command in (["evaluate", model, rows], certify):
        assert run(*command, *words) == 0
        err = capsys.readouterr().err
        assert "--title, --called, --cost-alarm and --cost-miss have no effect" in err
        assert run(*command, *words, "--figures", tmp_path / "figs") == 0
        assert "no effect" not in capsys.readouterr().err
    assert run("evaluate", model, rows, "--title", "Mine", "--json") == 0
    notes = printed(capsys)["notes"]
    assert any(note.startswith("--title has no effect") for note in notes)


def test_fit_uses_called_without_a_report(files, tmp_path, capsys):
    words = ["--title", "Mine", "--called", "fraud,frauds"]
    assert run(*fit_arguments(files, tmp_path / "m", *words)) == 0
    out, err = capsys.readouterr()
    assert "frauds" in out
    assert "--title has no effect" in err
    assert run(*fit_arguments(files, tmp_path / "m", *words, "--test", 0)) == 0
    assert "--title and --called have no effect" in capsys.readouterr().err


def test_a_failed_report_does_not_hide_the_model(files, tmp_path, capsys, full_disk):
    page = tmp_path / "page.html"
    assert run(*fit_arguments(files, tmp_path / "m", "--report", page)) == 1
    out, err = capsys.readouterr()
    assert "precision" in out
    assert f"Model: {tmp_path / 'm'}" in out
    assert "Report:" not in out
    assert "No space left" in err
    assert f"The model is saved: {tmp_path / 'm'}" in err
    assert setpoint.load(tmp_path / "m")


def test_a_failed_report_leaves_one_json_object(files, tmp_path, capsys, full_disk):
    page = tmp_path / "page.html"
    assert run(*fit_arguments(files, tmp_path / "m", "--report", page, "--json")) == 1
    result = printed(capsys)
    assert result["model"] == str(tmp_path / "m")
    assert result["report"] is None
    assert "No space left" in result["error"]
    assert result["test"]["tp"] > 0


@pytest.mark.parametrize(
    ("error", "code"), [(MemoryError(), 1), (OSError("no room"), 1), (KeyError("x"), 4)]
)
def test_any_error_in_a_report_leaves_the_result(
    error, code, model, rows, tmp_path, capsys, monkeypatch
):
    def fails(*given):
        raise error

    monkeypatch.setattr("setpoint.report.page.write_report", fails)
    assert run("evaluate", model, rows, "--json", "--report", tmp_path / "r.html") == code
    out, err = capsys.readouterr()
    result = json.loads(out)
    assert result["evaluated"]["tp"] > 0
    assert result["report"] is None
    assert result["error"] in err
    assert ("internal error" in err) == (code == 4)


def test_evaluate_prints_its_result_if_the_report_fails(model, rows, tmp_path, capsys, full_disk):
    assert run("evaluate", model, rows, "--report", tmp_path / "page.html") == 1
    out, err = capsys.readouterr()
    assert "on rows.csv" in out
    assert "No space left" in err


def test_json_contains_the_paths_of_report_and_figures(model, rows, tmp_path, capsys):
    page, figures = tmp_path / "page.html", tmp_path / "figures"
    for _ in range(2):  # their own they may replace
        capsys.readouterr()
        assert run("evaluate", model, rows, "--json", "--report", page, "--figures", figures) == 0
    result = printed(capsys)
    assert result["report"] == str(page)
    assert sorted(result["figures"]) == sorted(str(p) for p in figures.iterdir())
    assert "error" not in result

"""What commands say: to whom, in which words, and that nothing of it is lost."""

import hashlib
import json
import shlex
from html import unescape

import numpy as np
import pandas as pd
import pytest
from cli_tables import GOAL, fit_arguments, payments

from setpoint.cli import main
from setpoint.tables.model import TableModel

DROPPED = ["id", "when", "customer"]


def run(*arguments):
    return main([str(a) for a in arguments])


@pytest.fixture
def rows(tmp_path):
    """Write labelled rows, under a name of one's choice."""

    def write(frame=None, name="rows.csv"):
        frame = payments(seed=1).drop(columns=DROPPED) if frame is None else frame
        frame.to_csv(tmp_path / name, index=False)
        return tmp_path / name

    return write


# --- which label is positive ----------------------------------------------------------------------


def test_certify_says_which_label_it_took_for_positive(tmp_path, capsys):
    rng = np.random.default_rng(0)
    y = rng.random(2000) < 0.2
    table = tmp_path / "scores.csv"
    scores = rng.normal(size=2000) + 2 * y
    pd.DataFrame({"y": np.where(y, "sick", "well"), "p": scores}).to_csv(table, index=False)
    certify = ["certify", table, "--label", "y", "--score", "p", "--goal", GOAL]
    assert run(*certify) == 0
    assert "'sick' is taken for the positive label" in capsys.readouterr().err
    assert run(*certify, "--positive", "sick") == 0
    assert "taken for" not in capsys.readouterr().err
    assert run(*certify, "--json") == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["positive"], told["negative"]) == ("sick", "well")
    assert any("'sick' is taken" in note for note in told["notes"])


# --- the report's words and facts -----------------------------------------------------------------


def test_reports_call_things_as_the_user_does(files, model, rows, tmp_path):
    page = tmp_path / "page.html"
    words = ["--report", page, "--called", "fraud, frauds", "--title", "Is it <fraud>?", "-q"]
    certify = ["certify", rows(), "--label", "class", "--score", "amount", "--goal", GOAL]
    certify[1] = rows(payments(seed=1).dropna(), "full.csv")
    for command in (fit_arguments(files, tmp_path / "m"), ["evaluate", model, rows()], certify):
        assert run(*command, *words) == 0
        html = page.read_text("utf-8")
        assert "<h1>Is it &lt;fraud&gt;?</h1>" in html
        assert " frauds" in html
        assert "“fraud” case" not in html


def test_a_report_holds_all_that_is_needed_to_repeat_it(files, tmp_path):
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


def test_a_report_on_other_rows_names_model_and_data(model, rows, tmp_path):
    page, table = tmp_path / "page.html", rows()
    assert run("evaluate", model, table, "--report", page, "-q") == 0
    text = unescape(page.read_text("utf-8"))
    assert hashlib.sha256(table.read_bytes()).hexdigest() in text
    assert str(model) in text
    assert f"setpoint evaluate {model}" in text


def test_without_a_report_the_table_is_not_read_again(files, tmp_path, monkeypatch):
    def hashed(*given):
        raise AssertionError("for whom?")

    monkeypatch.setattr("setpoint.cli.reports.hashlib.file_digest", hashed)
    assert run(*fit_arguments(files, tmp_path / "m", "-q")) == 0


# --- terminals, pipes and odd names ---------------------------------------------------------------


def test_piped_tables_are_not_cut_off(files, capsys):
    goal = "max recall s.t. precision >= 0.5, fpr <= 0.25, specificity >= 0.5, alarm_rate <= 0.9"
    compare = ["compare", files / "train.csv", "--target", "class", "--positive", "fraud",
               "--goal", goal, "--model", "logistic", "--model", "hgb", "--drop", "id",
               "--drop", "when", "--drop", "customer"]  # fmt: skip
    assert run(*compare) == 0
    out = capsys.readouterr().out
    assert "…" not in out
    assert sum(goal in line for line in out.splitlines()) == 2
    assert "goal met" in out
    assert "The best of several looks better" in out
    assert run(*compare, "--json") == 0
    assert "looks better" in json.loads(capsys.readouterr().out)["caution"]


@pytest.mark.parametrize("name", ["[red]rows.csv", "[bold].csv", "a [blink]b c.csv"])
def test_names_of_files_are_no_markup(model, rows, capsys, name, monkeypatch):
    table = rows(name=name)
    monkeypatch.setenv("FORCE_COLOR", "1")  # as on a terminal, with a bar
    assert run("evaluate", model, table) == 0
    assert f"on {name}" in capsys.readouterr().out


# --- tables that changed --------------------------------------------------------------------------


def test_columns_that_the_model_does_not_know_may_be_passed_over(model, rows, tmp_path, capsys):
    table = rows(payments(seed=1).drop(columns=DROPPED).assign(colour="red"))
    out = tmp_path / "scored.csv"
    for command in (["predict", model, table, "--out", out], ["evaluate", model, table]):
        assert run(*command, "-q") == 1
        assert "'colour'" in capsys.readouterr().err
        assert run(*command, "-q", "--ignore-extra") == 0
    assert list(pd.read_csv(out).columns) == ["score", "alarm", "predicted"]


def test_values_that_the_model_has_never_seen_are_noted(model, rows, tmp_path, capsys):
    frame = payments(seed=1).drop(columns=DROPPED)
    frame.loc[:11, "country"] = "Atlantis"
    table = rows(frame)
    for command in (
        ["predict", model, table, "--out", tmp_path / "s.csv"],
        ["evaluate", model, table],
    ):
        assert run(*command) == 0
        err = capsys.readouterr().err
        assert "'country'" in err
        assert "12" in err
        assert run(*command, "--json") == 0
        assert any("'country'" in n for n in json.loads(capsys.readouterr().out)["notes"])


def test_a_column_named_label_may_be_kept(model, rows, tmp_path):
    table = rows(payments(seed=1).drop(columns=DROPPED).assign(label="mine"))
    out = tmp_path / "scored.csv"
    assert run("predict", model, table, "--out", out, "--keep", "label", "-q") == 0
    assert list(pd.read_csv(out).columns) == ["label", "score", "alarm", "predicted"]


def test_evaluate_scores_the_rows_once(model, rows, monkeypatch):
    real, calls = TableModel.scores, []

    def counted(self, frame, **named):
        calls.append(len(frame))
        return real(self, frame, **named)

    monkeypatch.setattr(TableModel, "scores", counted)
    assert run("evaluate", model, rows(), "-q") == 0
    assert calls.count(600) == 1

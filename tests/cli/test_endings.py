"""How commands end: exit codes, what --strict asks, and what a failure leaves said."""

import errno
import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from cli_tables import GOAL, fit_arguments, later, payments

import setpoint
from setpoint.cli import main
from setpoint.tables import fitting


def run(*arguments):
    return main([str(a) for a in arguments])


@pytest.fixture
def full_disk(monkeypatch):
    """Reports find no room."""

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("setpoint.report.page.write_atomically", full)


# --- the report fails after the work --------------------------------------------------------------


def test_a_report_that_fails_does_not_hide_the_model(files, tmp_path, capsys, full_disk):
    page = tmp_path / "page.html"
    assert run(*fit_arguments(files, tmp_path / "m", "--report", page)) == 1
    out, err = capsys.readouterr()
    assert "precision" in out
    assert f"Model: {tmp_path / 'm'}" in out
    assert "Report:" not in out
    assert "No space left" in err
    assert f"The model is saved: {tmp_path / 'm'}" in err
    assert setpoint.load(tmp_path / "m")


def test_a_report_that_fails_leaves_one_json_object(files, tmp_path, capsys, full_disk):
    page = tmp_path / "page.html"
    assert run(*fit_arguments(files, tmp_path / "m", "--report", page, "--json")) == 1
    told = json.loads(capsys.readouterr().out)
    assert told["model"] == str(tmp_path / "m")
    assert told["report"] is None
    assert "No space left" in told["error"]
    assert told["test"]["tp"] > 0


def test_evaluate_prints_its_numbers_though_the_report_fails(
    files, model, tmp_path, capsys, full_disk
):
    rows = tmp_path / "rows.csv"
    payments(seed=1).drop(columns=["id", "when", "customer"]).to_csv(rows, index=False)
    assert run("evaluate", model, rows, "--report", tmp_path / "page.html") == 1
    out, err = capsys.readouterr()
    assert "on rows.csv" in out
    assert "No space left" in err


def test_json_names_report_and_figures(files, model, tmp_path, capsys):
    rows = tmp_path / "rows.csv"
    payments(seed=1).drop(columns=["id", "when", "customer"]).to_csv(rows, index=False)
    page, figures = tmp_path / "page.html", tmp_path / "figures"
    for _ in range(2):  # their own they may replace
        capsys.readouterr()
        assert run("evaluate", model, rows, "--json", "--report", page, "--figures", figures) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["report"] == str(page)
    assert sorted(told["figures"]) == sorted(str(p) for p in figures.iterdir())
    assert "error" not in told


# --- --strict -------------------------------------------------------------------------------------


def drifting(n=1200):
    """Rows in order of time, the newest fifth of which is another world."""
    frame = payments(n)
    old = np.arange(n) < 0.8 * n
    rng = np.random.default_rng(5)
    frame["amount"] = np.where(old, frame["amount"], np.exp(rng.normal(5, 0.8, n)))
    frame["night hour"] = frame["night hour"].where(old, True)
    return frame


def test_fit_is_strict_about_the_test_rows(tmp_path, capsys):
    table = tmp_path / "table.csv"
    drifting().to_csv(table, index=False)
    fit = ["fit", table, "--target", "class", "--goal", GOAL, "--positive", "fraud", "--model",
           "logistic", "--drop", "id", "--drop", "customer", "--time", "when",
           "--out", tmp_path / "m", "--json"]  # fmt: skip
    assert run(*fit) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["threshold_set_on"]["feasible"]
    assert not told["test"]["feasible"]
    assert run(*fit, "--strict") == 3
    capsys.readouterr()


def test_without_test_rows_fit_is_strict_about_those_that_set_the_threshold(files, tmp_path):
    assert run(*fit_arguments(files, tmp_path / "m", "--test", 0, "--strict", "-q")) == 0


def test_no_alarms_keep_no_goal(files, tmp_path, capsys, monkeypatch):
    real = fitting.fit_table

    def silent(*given, **named):
        fitted = real(*given, **named)
        point = fitted.test_point
        none = replace(point, tp=0.0, fp=0.0, fn=point.fn + point.tp, tn=point.tn + point.fp)
        return replace(fitted, test_point=none)

    monkeypatch.setattr(fitting, "fit_table", silent)
    assert run(*fit_arguments(files, tmp_path / "m")) == 0
    assert "trivially (no alarms)" in capsys.readouterr().out
    assert run(*fit_arguments(files, tmp_path / "m", "--strict", "-q")) == 3


def test_evaluate_is_strict_about_goal_and_promise(promising, tmp_path, capsys):
    good, bad = later(tmp_path / "good.csv"), later(tmp_path / "bad.csv", broken=True)
    assert run("evaluate", promising, good, "--strict", "-q") == 0
    page = tmp_path / "page.html"
    assert run("evaluate", promising, bad, "--report", page) == 0
    out = capsys.readouterr().out
    assert "BROKEN" in out
    assert "promise broken on these rows" in page.read_text("utf-8")
    assert run("evaluate", promising, bad, "--strict") == 3
    assert "BROKEN" in capsys.readouterr().out


def test_a_broken_promise_of_groups_shows_in_the_report(tmp_path, capsys):
    table = tmp_path / "table.csv"
    frame = payments(3000).drop(columns=["id", "when"]).assign(customer=range(3000))
    frame.to_csv(table, index=False)
    fit = ["fit", table, "--target", "class", "--goal", "max recall s.t. precision >= 0.5",
           "--positive", "fraud", "--model", "logistic", "--confidence", "0.9", "--out",
           tmp_path / "m", "-q", "--strict", "--group", "customer"]  # fmt: skip
    assert run(*fit) == 0
    frame["amount"], frame["night hour"] = 5000.0, True
    bad, page = tmp_path / "bad.csv", tmp_path / "page.html"
    frame.to_csv(bad, index=False)
    assert run("evaluate", tmp_path / "m", bad, "--report", page, "--strict", "-q") == 3
    assert "promise broken on these rows" in page.read_text("utf-8")


# --- one check over several files -----------------------------------------------------------------


def test_a_check_goes_on_from_file_to_file(promising, tmp_path, capsys):
    """In parts it says what it says of all rows together."""
    one, two = later(tmp_path / "one.csv", seed=1), later(tmp_path / "two.csv", seed=2)
    both = tmp_path / "both.csv"
    pd.concat([pd.read_csv(one), pd.read_csv(two)]).to_csv(both, index=False)
    kept = tmp_path / "verdict.json"
    assert run("evaluate", promising, one, "--json") == 0
    kept.write_text(capsys.readouterr().out, "utf-8")
    assert run("evaluate", promising, two, "--after", kept, "--json") == 0
    went_on = json.loads(capsys.readouterr().out)
    assert run("evaluate", promising, both, "--json") == 0
    at_once = json.loads(capsys.readouterr().out)
    assert went_on["verdict"]["looks"] == 2
    for name in ("tp", "fp", "fn", "tn"):
        assert (
            went_on["verdict"]["operating_point"][name]
            == at_once["verdict"]["operating_point"][name]
        )
    assert went_on["evaluated"]["tp"] < at_once["evaluated"]["tp"]  # of these rows alone


def test_what_was_broken_stays_broken(promising, tmp_path, capsys):
    bad, good = later(tmp_path / "bad.csv", broken=True), later(tmp_path / "good.csv")
    kept = tmp_path / "verdict.json"
    assert run("evaluate", promising, bad, "--json") == 0
    kept.write_text(capsys.readouterr().out, "utf-8")
    assert run("evaluate", promising, good, "--after", kept, "--strict", "-q") == 3


def test_what_cannot_be_gone_on_from_is_told(promising, model, tmp_path, capsys):
    rows, kept = later(tmp_path / "rows.csv"), tmp_path / "verdict.json"
    good = {"broken": False, "evidence": [1.0], "level": 0.05, "looks": 1, "certificate": ["x"],
            "operating_point": {"tp": 1, "fp": 0, "fn": 0, "tn": 3}}  # fmt: skip
    for content in ("[]", "{}", '{"verdict": null}', '{"verdict": {"broken": false}}',
                    json.dumps({"verdict": {**good, "evidence": []}}),
                    json.dumps({"verdict": {**good, "operating_point": {}}})):  # fmt: skip
        kept.write_text(content)
        assert run("evaluate", promising, rows, "--after", kept) == 1
        assert "is not the output of 'setpoint evaluate --json'" in capsys.readouterr().err
    kept.write_text(json.dumps({"verdict": good}))
    assert run("evaluate", promising, rows, "--after", kept) == 1
    assert "another certificate" in capsys.readouterr().err
    assert run("evaluate", promising, rows, "--after", tmp_path / "nothing.json") == 1
    assert "nothing.json" in capsys.readouterr().err
    assert run("evaluate", model, rows, "--after", kept) == 1
    assert "no certificate" in capsys.readouterr().err


# --- mistakes of ours, Ctrl-C, numbers that make no sense -----------------------------------------


def test_a_mistake_of_ours_is_one_line(files, tmp_path, capsys, monkeypatch):
    def wrong(*given, **named):
        return {}["no such thing"]

    monkeypatch.setattr("setpoint.tables.fitting.fit_table", wrong)
    assert run(*fit_arguments(files, tmp_path / "m")) == 4
    err = capsys.readouterr().err
    assert err.splitlines()[-1].startswith("internal error: KeyError: 'no such thing'; run again")
    assert "--debug" in err
    assert "Traceback" not in err
    assert run(*fit_arguments(files, tmp_path / "m", "--debug")) == 4
    assert "Traceback" in capsys.readouterr().err


def test_too_little_memory_is_no_mistake_of_ours(files, tmp_path, capsys, monkeypatch):
    def large(*given, **named):
        raise MemoryError

    monkeypatch.setattr("setpoint.data.table_reader.read_table", large)
    assert run(*fit_arguments(files, tmp_path / "m")) == 1
    assert "not enough memory" in capsys.readouterr().err


def test_ctrl_c_says_that_it_stopped(files, tmp_path, capsys, monkeypatch):
    def stop(*given, **named):
        raise KeyboardInterrupt

    monkeypatch.setattr("setpoint.tables.fitting.fit_table", stop)
    assert run(*fit_arguments(files, tmp_path / "m")) == 130
    assert capsys.readouterr().err.endswith("stopped.\n")
    assert not (tmp_path / "m").exists()


def test_version(capsys):
    assert run("--version") == 0
    assert capsys.readouterr().out == f"setpoint {setpoint.__version__}\n"


@pytest.mark.parametrize(
    ("option", "value", "words"),
    [
        ("--seed", "-1", "from 0"),
        ("--seed", str(2**40), "from 0"),
        ("--test", ".999", "--test 0"),
        ("--test", "-0.1", "--test 0"),
        ("--test", "nan", "--test 0"),
        ("--confidence", "1", "between 0 and 1"),
        ("--confidence", "nan", "between 0 and 1"),
        ("--called", "fraud", "fraud,frauds"),
        ("--called", "fraud,", "fraud,frauds"),
    ],
)
def test_options_that_make_no_sense_are_told_before_any_work(
    option, value, words, tmp_path, capsys, monkeypatch
):
    monkeypatch.setenv("COLUMNS", "200")
    fit = ["fit", tmp_path / "no.csv", "--target", "y", "--goal", GOAL, "--out", tmp_path / "m"]
    assert run(*fit, option, value) == 2
    err = " ".join(capsys.readouterr().err.replace("│", " ").split())
    assert words in err
    assert option in err


def test_too_few_rows_for_a_test_part_name_the_option(tmp_path, capsys):
    table = tmp_path / "table.csv"
    frame = payments(40)
    frame["class"] = ["fraud", *["ok"] * 39]
    frame.to_csv(table, index=False)
    fit = ["fit", table, "--target", "class", "--goal", "max f1", "--out", tmp_path / "m"]
    assert run(*fit) == 1
    assert "--test 0" in capsys.readouterr().err


def test_a_model_that_does_not_exist_is_told_before_the_table_is_read(tmp_path, capsys):
    fit = ["fit", tmp_path / "no.csv", "--target", "y", "--goal", GOAL, "--out", tmp_path / "m"]
    assert run(*fit, "--model", "xgb") == 1
    assert "'xgb'" in capsys.readouterr().err
    assert run("compare", tmp_path / "no.csv", "--target", "y", "--goal", GOAL, "--model", "x") == 1
    assert "'x'" in capsys.readouterr().err

"""Exit codes, errors and options that all commands share."""

import gc
import json
import sys

import numpy as np
import pandas as pd
import pytest
import typer
from cli_tables import GOAL, failure, fit_arguments, payments, printed, run

import setpoint
from setpoint.cli import main
from setpoint.cli.app import first_imports
from setpoint.cli.options import _fraction


def test_with_json_an_error_is_one_json_object(files, model, tmp_path, capsys):
    missing = tmp_path / "nothing.csv"
    for command in (
        ["fit", missing, "--target", "y", "--goal", GOAL, "--out", tmp_path / "m"],
        ["predict", model, missing, "--out", tmp_path / "s.csv"],
        ["evaluate", model, missing],
        ["evaluate", tmp_path, files / "new.csv"],
        ["certify", missing, "--label", "y", "--score", "p", "--goal", GOAL],
        ["compare", missing, "--target", "y", "--goal", GOAL],
        ["export", tmp_path, tmp_path / "m.onnx"],
        ["demo", "--folder", files / "new.csv"],
    ):
        assert run(*command, "--json") == 1
        out, err = capsys.readouterr()
        result = json.loads(out)
        assert list(result) == ["error"]
        assert err == f"error: {result['error']}\n"
        assert run(*command) == 1
        assert capsys.readouterr().out == ""


def test_with_json_internal_and_memory_errors_are_json_too(files, tmp_path, capsys, monkeypatch):
    for error, code, words in (
        (KeyError("no such thing"), 4, "internal error: KeyError"),
        (MemoryError(), 1, "not enough memory"),
    ):

        def fails(*given, error=error, **named):
            raise error

        monkeypatch.setattr("setpoint.tables.fitting.fit_table", fails)
        assert run(*fit_arguments(files, tmp_path / "m", "--json")) == code
        assert words in printed(capsys)["error"]


def test_wrong_usage_prints_nothing_on_stdout(model, capsys):
    assert run("evaluate", model, "--json") == 2
    assert capsys.readouterr().out == ""


def test_an_internal_error_is_one_line_unless_debug(files, tmp_path, capsys, monkeypatch):
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


def test_too_little_memory_is_not_an_internal_error(files, tmp_path, capsys, monkeypatch):
    def large(*given, **named):
        raise MemoryError

    monkeypatch.setattr("setpoint.data.table_reader.read_table", large)
    assert run(*fit_arguments(files, tmp_path / "m")) == 1
    assert "not enough memory" in capsys.readouterr().err


def test_ctrl_c_stops_with_its_own_exit_code(files, tmp_path, capsys, monkeypatch):
    def stop(*given, **named):
        raise KeyboardInterrupt

    monkeypatch.setattr("setpoint.tables.fitting.fit_table", stop)
    assert run(*fit_arguments(files, tmp_path / "m")) == 130
    assert capsys.readouterr().err.endswith("stopped.\n")
    assert not (tmp_path / "m").exists()


def test_version(capsys):
    assert run("--version") == 0
    assert capsys.readouterr().out == f"setpoint {setpoint.__version__}\n"


def test_invalid_options_are_reported_before_any_work(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    fit = ["fit", tmp_path / "no.csv", "--target", "y", "--goal", GOAL, "--out", tmp_path / "m"]
    for option, value, words in (
        ("--seed", "-1", "from 0"),
        ("--seed", str(2**40), "from 0"),
        ("--test", ".999", "--test 0"),
        ("--test", "-0.1", "--test 0"),
        ("--test", "nan", "--test 0"),
        ("--confidence", "1", "between 0 and 1"),
        ("--confidence", "nan", "between 0 and 1"),
        ("--called", "fraud", "fraud,frauds"),
        ("--called", "fraud,", "fraud,frauds"),
    ):
        assert run(*fit, option, value) == 2
        err = " ".join(capsys.readouterr().err.replace("│", " ").split())
        assert words in err
        assert option in err


def test_an_option_of_one_value_cannot_be_given_twice(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    table = tmp_path / "no.csv"
    fit = ["fit", table, "--target", "y", "--goal", GOAL, "--out", tmp_path / "m"]
    for command, option, words in (
        ([*fit, "--goal", "max f1"], "--goal", "'setpoint compare'"),
        ([*fit, f"--goal={GOAL}"], "--goal", "'setpoint compare'"),
        ([*fit, "--model", "hgb", "--model=linear"], "--model", "'setpoint compare'"),
        ([*fit, "--positive", "a", "--positive", "b"], "--positive", "--positive a,b"),
        ([*fit, "--seed", "1", "--seed", "1"], "--seed", "2 times"),
        ([*fit, "--stream", "--no-stream"], "--stream", "2 times"),
        (["compare", *fit[1:6], "--test=0.2", "--test", "0.3"], "--test", "2 times"),
        (["predict", "m", table, "--out", "a.csv", "--out", "b.csv"], "--out", "2 times"),
        (["evaluate", "m", table, *["--after", "a.json"] * 3], "--after", "3 times"),
        (["certify", table, "--label", "y", "--label", "z"], "--label", "2 times"),
        (["label", table, "--goal", "max f1", "--goal", "max recall"], "--goal", "2 times"),
        (["export", "m", "m.sql", "--table", "a", "--table", "b"], "--table", "2 times"),
        (["demo", "--folder", "a", "--folder", "b"], "--folder", "2 times"),
    ):
        assert run(*command) == 2
        err = " ".join(capsys.readouterr().err.replace("│", " ").split())
        assert f"'{option}'" in err
        assert words in err
        assert ("compare" in err) == ("compare" in words or command[0] == "compare")


def test_options_of_several_values_and_flags_may_be_repeated(model, files, tmp_path, capsys):
    keep = ["--keep", "id", "--keep", "when"]
    scored = tmp_path / "s.csv"
    assert run("predict", model, files / "new.csv", "--out", scored, *keep, "-q", "--quiet") == 0
    assert scored.read_text().startswith('"id","when"')
    assert run("reproduce", "--help", "--help") == 0


def test_an_unknown_model_is_reported_before_the_table_is_read(tmp_path, capsys):
    fit = ["fit", tmp_path / "no.csv", "--target", "y", "--goal", GOAL, "--out", tmp_path / "m"]
    assert run(*fit, "--model", "xgb") == 1
    assert "'xgb'" in capsys.readouterr().err
    assert run("compare", tmp_path / "no.csv", "--target", "y", "--goal", GOAL, "--model", "x") == 1
    assert "'x'" in capsys.readouterr().err


def test_usage_and_debug(capsys, tmp_path):
    assert main(["fit"]) == 2
    assert main(["predict", "--no-such-option"]) == 2
    capsys.readouterr()
    assert main(["predict", str(tmp_path / "m"), "rows.csv", "--out", "x.csv", "--debug"]) == 1
    assert "Traceback" in capsys.readouterr().err


def test_file_names_are_not_markup(model, write_rows, capsys, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")  # as on a terminal, with a progress bar
    for name in ("[red]rows.csv", "[bold].csv", "a [blink]b c.csv"):
        assert run("evaluate", model, write_rows(name=name)) == 0
        assert f"on {name}" in capsys.readouterr().out


@pytest.fixture
def unfreeze():
    yield
    gc.unfreeze()


def test_first_imports_are_not_collected(monkeypatch, unfreeze):
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    with first_imports():
        assert not gc.isenabled()
    assert gc.isenabled()
    assert gc.get_freeze_count() > 0


def test_later_imports_change_nothing(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", sys)
    frozen = gc.get_freeze_count()
    with first_imports():
        assert gc.isenabled()
    assert gc.get_freeze_count() == frozen


def test_collections_that_are_off_stay_off(monkeypatch):
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    gc.disable()
    try:
        with first_imports():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_fractions_may_be_written_as_percentages():
    for text, value in (
        ("0.9", 0.9), ("90%", 0.9), (" 99.9 % ", 0.999), ("5e-1", 0.5), ("0%", 0.0), (0.2, 0.2),
    ):  # fmt: skip
        assert _fraction(text) == value
    for text in ("", "%", "90%%", "ninety", "9,5%", "% 90"):
        with pytest.raises(typer.BadParameter, match="is not a number, such as 0.9 or 90%"):
            _fraction(text)


def test_percentages_are_accepted_and_checked_where_fractions_are(
    files, tmp_path, capsys, monkeypatch
):
    monkeypatch.setenv("COLUMNS", "200")
    test = ["--test", "25 %", "--json"]
    assert run(*fit_arguments(files, tmp_path / "m", *test)) == 0
    point = printed(capsys)["test"]
    assert sum(point[count] for count in ("tp", "fp", "fn", "tn")) == 150
    fit = ["fit", tmp_path / "no.csv", "--target", "y", "--goal", GOAL, "--out", tmp_path / "m"]
    for option, value, words in (
        ("--confidence", "150%", "1.5 is not between 0 and 1"),
        ("--confidence", "95", "Is 95% meant?"),
        ("--confidence", "nan%", "between 0 and 1"),
        ("--test", "95%", "0.95 is not between 0 and 0.9"),
        ("--test", "-5%", "is not between"),
    ):
        assert run(*fit, option, value) == 2
        assert words in " ".join(capsys.readouterr().err.replace("│", " ").split())


def test_a_header_that_looks_like_data_is_noticed(tmp_path, capsys):
    frame = payments(60)[["amount", "night hour", "class"]].fillna(1.0)
    frame["night hour"] = frame["night hour"].astype(float)
    table = tmp_path / "t.csv"
    frame.to_csv(table, index=False, header=False)
    out = ["--goal", "max f1", "--out", tmp_path / "m"]
    err = failure(capsys, "fit", table, "--target", "class", *out)
    assert "looks like data" in err
    assert "such as c1,c2,c3 before it" in err
    first = table.read_text().split("\n")[0].split(",")
    fit = ["fit", table, "--target", first[2], *out, "--model", "logistic", "--positive", "fraud"]
    assert run(*fit) == 0  # a column is called like the label of the first row
    assert "warning: The first line of" in capsys.readouterr().err
    assert "looks like data" in failure(capsys, "certify", table, "--label", "class", "--score",
                                        "amount", "--goal", "max f1")  # fmt: skip
    named = tmp_path / "named.csv"
    frame.to_csv(named, index=False)
    assert run("fit", named, "--target", "class", *out, "--model", "logistic") == 0
    capsys.readouterr()
    assert "looks like data" in failure(capsys, "evaluate", tmp_path / "m", table)
    assert "looks like data" in failure(
        capsys, "predict", tmp_path / "m", table, "--out", tmp_path / "s.csv"
    )


def test_a_header_of_years_is_a_header(tmp_path, capsys):
    frame = payments(200)[["amount", "class"]].fillna(1.0)
    frame = frame.rename(columns={"amount": "2023"}).assign(**{"2024": range(len(frame))})
    frame = frame.assign(**{"2025": frame["2023"] * 2})
    frame.to_csv(tmp_path / "t.csv", index=False)
    fit = ["fit", tmp_path / "t.csv", "--target", "class", "--goal", "max f1", "--out",
           tmp_path / "m", "--model", "logistic"]  # fmt: skip
    assert run(*fit) == 0
    assert "looks like data" not in capsys.readouterr().err
    assert "looks like data (2023" in failure(capsys, *fit, "--drop", "2026")


def test_rows_without_a_label_are_skipped_on_request(tmp_path, capsys):
    frame = payments(600)[["amount", "night hour", "class"]].assign(score=np.arange(600) / 600)
    frame.loc[::10, "class"] = [None, "", " "] * 20
    table = tmp_path / "t.csv"
    frame.to_csv(table, index=False)
    skip = "--skip-unlabelled"
    fit = ["fit", table, "--target", "class", "--positive", "fraud", "--goal", "max f1", "--out",
           tmp_path / "m", "--model", "logistic", "--drop", "score"]  # fmt: skip
    certify = ["certify", table, "--label", "class", "--score", "score", "--goal", "max recall"]
    compare = ["compare", *fit[1:8], "--model", "logistic", "--drop", "score"]
    evaluate = ["evaluate", tmp_path / "m", table]
    for command in (fit, certify, compare, evaluate):
        assert skip in failure(capsys, *command)
        assert run(*command, skip) == 0
        assert "60 of 600 rows have no label in 'class' and are skipped" in capsys.readouterr().err
    frame.assign(**{"class": None}).to_csv(table, index=False)
    assert "no row has a label in 'class'" in failure(capsys, *fit, skip)
    frame.to_parquet(tmp_path / "t.parquet")
    streamed = ["fit", tmp_path / "t.parquet", *fit[2:-4], "--stream", skip]
    assert "needs the table in memory" in failure(capsys, *streamed)


def test_rows_without_some_of_several_labels_are_skipped_on_request(tmp_path, capsys):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"x": rng.normal(size=400), "z": rng.normal(size=400)})
    frame = frame.assign(a=pd.array(frame.x > 0, "Int64"), b=pd.array(frame.z > 1, "Int64"))
    frame.loc[:9, "a"] = None
    frame.loc[5:19, "b"] = None
    frame.to_csv(tmp_path / "t.csv", index=False)
    fit = ["fit", tmp_path / "t.csv", "--target", "a,b", "--goal", "max f1", "--out",
           tmp_path / "m"]  # fmt: skip
    assert "--skip-unlabelled" in failure(capsys, *fit)
    for command in (fit, ["evaluate", tmp_path / "m", tmp_path / "t.csv"]):
        assert run(*command, "--skip-unlabelled") == 0
        assert "20 of 400 rows have no label in 'a', 'b'" in capsys.readouterr().err


def test_columns_to_drop_or_keep_may_be_a_list(tmp_path, capsys):
    frame = payments(300)[["amount", "night hour", "country", "class"]]
    frame["amount,country"] = np.arange(300)
    frame.to_csv(tmp_path / "t.csv", index=False)
    fit = ["fit", tmp_path / "t.csv", "--target", "class", "--goal", "max f1", "--out",
           tmp_path / "m", "--model", "logistic", "--json"]  # fmt: skip
    for given, left in (
        (["--drop", "country,amount,country"], {"night hour", "amount,country"}),
        (["--drop", "amount,country"], {"amount", "night hour", "country"}),
        (["--drop", "amount,country", "--drop", "country,amount"], {"night hour"}),
        (["--drop", " amount , country,"], {"night hour", "amount,country"}),
    ):
        assert run(*fit, *given) == 0
        assert set(setpoint.load(tmp_path / "m").schema.names) == left
        capsys.readouterr()
    scored = tmp_path / "s.csv"
    predict = ["predict", tmp_path / "m", tmp_path / "t.csv", "--out", scored, "--ignore-extra"]
    assert run(*predict, "--keep", "amount,country", "--keep", "amount,class") == 0
    assert pd.read_csv(scored).columns[:3].tolist() == ["amount,country", "amount", "class"]

"""Exit codes, errors and options that all commands share."""

import gc
import json
import sys

import pytest
from cli_tables import GOAL, fit_arguments, printed, run

import setpoint
from setpoint.cli import main
from setpoint.cli.app import first_imports


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

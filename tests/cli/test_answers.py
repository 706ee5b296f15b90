"""What a program reads when something fails, what --after can go on from, and notes."""

import json

import pytest
from cli_tables import GOAL, fit_arguments, later

from setpoint.cli import main


def run(*arguments):
    return main([str(a) for a in arguments])


# --- --json when something fails ------------------------------------------------------------------


def test_an_error_is_one_json_object_too(files, model, tmp_path, capsys):
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
        told = json.loads(out)
        assert list(told) == ["error"]
        assert err == f"error: {told['error']}\n"
        assert run(*command) == 1
        assert capsys.readouterr().out == ""


def test_mistakes_of_ours_and_too_little_memory_are_told_to_programs(
    files, tmp_path, capsys, monkeypatch
):
    for error, code, words in (
        (KeyError("no such thing"), 4, "internal error: KeyError"),
        (MemoryError(), 1, "not enough memory"),
    ):

        def fails(*given, error=error, **named):
            raise error

        monkeypatch.setattr("setpoint.tables.fitting.fit_table", fails)
        assert run(*fit_arguments(files, tmp_path / "m", "--json")) == code
        assert words in json.loads(capsys.readouterr().out)["error"]


@pytest.mark.parametrize(
    ("error", "code"), [(MemoryError(), 1), (OSError("no room"), 1), (KeyError("x"), 4)]
)
def test_a_report_that_fails_in_any_way_leaves_one_object_with_the_result(
    error, code, files, model, tmp_path, capsys, monkeypatch
):
    def fails(*given):
        raise error

    monkeypatch.setattr("setpoint.cli.reports.write_report", fails)
    rows = later(tmp_path / "rows.csv")
    assert run("evaluate", model, rows, "--json", "--report", tmp_path / "r.html") == code
    out, err = capsys.readouterr()
    told = json.loads(out)
    assert told["evaluated"]["tp"] > 0
    assert told["report"] is None
    assert told["error"] in err
    assert ("internal error" in err) == (code == 4)


def test_wrong_usage_is_told_on_stderr_alone(model, capsys):
    assert run("evaluate", model, "--json") == 2
    assert capsys.readouterr().out == ""


# --- --after --------------------------------------------------------------------------------------


def test_what_cannot_be_read_to_go_on_from_is_told_before_the_rows_are_read(
    promising, tmp_path, capsys
):
    rows = tmp_path / "not_read.csv"
    after = ["evaluate", promising, rows, "--after"]
    for place, words in (
        (tmp_path / "nofile.json", "there is no file"),
        (tmp_path, "is a folder"),
    ):
        assert run(*after, place) == 1
        err = capsys.readouterr().err
        assert f"{place}" in err
        assert words in err
        assert "evaluate --json" in err
        assert "Errno" not in err
    empty = tmp_path / "same.json"
    empty.touch()
    assert run(*after, empty) == 1
    err = capsys.readouterr().err
    assert "same.json is empty" in err
    assert "'> same.json' empties" in err
    (tmp_path / "odd.json").write_bytes(b"\xff\xfe\x00")
    assert run(*after, tmp_path / "odd.json") == 1
    assert "is not the output of 'setpoint evaluate --json'" in capsys.readouterr().err


def test_how_a_check_goes_on_is_said_where_it_can(promising, model, tmp_path, capsys):
    rows = later(tmp_path / "rows.csv")
    page = tmp_path / "page.html"
    assert run("evaluate", promising, rows, "--report", page) == 0
    assert "--after" in capsys.readouterr().out
    assert "setpoint evaluate --after" in page.read_text("utf-8")
    assert run("evaluate", promising, later(tmp_path / "bad.csv", broken=True)) == 0
    assert "--after" not in capsys.readouterr().out
    table = promising.parent / "table.parquet"
    fit = ["fit", table, "--target", "class", "--goal", "max recall s.t. precision >= 0.5",
           "--positive", "fraud", "--model", "logistic", "--out", tmp_path / "m"]  # fmt: skip
    assert run(*fit, "--confidence", 0.9) == 0
    assert "'setpoint evaluate', with --after" in capsys.readouterr().out
    assert run(*fit) == 0
    assert "--after" not in capsys.readouterr().out
    assert run("evaluate", model, rows) == 0  # which promises nothing
    assert "--after" not in capsys.readouterr().out


# --- options without effect -----------------------------------------------------------------------


def test_words_for_a_report_that_is_not_wanted_are_noted(files, model, tmp_path, capsys):
    rows = later(tmp_path / "rows.csv")
    words = ["--title", "Mine", "--called", "fraud,frauds", "--cost-alarm", 1, "--cost-miss", 9]
    certify = ["certify", rows, "--label", "class", "--score", "amount", "--goal", GOAL]
    certify[1] = tmp_path / "full.csv"
    certify[1].write_text("class,amount\n" + "fraud,2\nok,1\n" * 60)
    for command in (["evaluate", model, rows], certify):
        assert run(*command, *words) == 0
        err = capsys.readouterr().err
        assert "--title, --called, --cost-alarm and --cost-miss have no effect" in err
        assert run(*command, *words, "--figures", tmp_path / "figs") == 0
        assert "no effect" not in capsys.readouterr().err
    assert run("evaluate", model, rows, "--title", "Mine", "--json") == 0
    notes = json.loads(capsys.readouterr().out)["notes"]
    assert any(note.startswith("--title has no effect") for note in notes)


def test_fit_speaks_to_the_user_in_their_words_without_a_report(files, tmp_path, capsys):
    words = ["--title", "Mine", "--called", "fraud,frauds"]
    assert run(*fit_arguments(files, tmp_path / "m", *words)) == 0
    out, err = capsys.readouterr()
    assert "frauds" in out
    assert "--title has no effect" in err
    assert run(*fit_arguments(files, tmp_path / "m", *words, "--test", 0)) == 0
    assert "--title and --called have no effect" in capsys.readouterr().err

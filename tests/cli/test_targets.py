"""What may be overwritten: nothing that was given, nothing of a model, nothing of others."""

import os

import numpy as np
import pandas as pd
import pytest
from cli_tables import GOAL, fit_arguments, payments

from setpoint.cli import main


@pytest.fixture
def rows(tmp_path):
    """Labelled rows that the model can score."""
    path = tmp_path / "rows.csv"
    payments(seed=1).drop(columns=["id", "when", "customer"]).to_csv(path, index=False)
    return path


@pytest.fixture
def untrained(monkeypatch):
    """No refusal may come after the work."""

    def worked(*given, **named):
        raise AssertionError("the work had begun")

    for place in ("tables.fitting.fit_table", "data.table_reader.read_table",
                  "cli.predict.load_table_model"):  # fmt: skip
        monkeypatch.setattr(f"setpoint.{place}", worked)


def refused(capsys, arguments):
    assert main([str(a) for a in arguments]) == 1
    out, err = capsys.readouterr()
    assert "Traceback" not in err
    assert out == ""
    return err


def snapshot(folder):
    return {p: p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def certify_arguments(table, *more):
    return ["certify", table, "--label", "class", "--score", "amount", "--goal", GOAL, *more]


def commands(model, rows, files, tmp_path):
    """Every command that writes a report."""
    fit = fit_arguments(files, tmp_path / "new")
    return [
        [fit[0], rows, *fit[2:]],
        ["evaluate", model, rows],
        certify_arguments(rows),
    ]  # fmt: skip


@pytest.mark.parametrize("which", range(3), ids=["fit", "evaluate", "certify"])
def test_a_report_never_overwrites_the_table(
    which, model, rows, files, tmp_path, capsys, untrained
):
    before = snapshot(tmp_path)
    link = tmp_path / "link.html"
    link.symlink_to(rows)
    for page in (rows, link):
        err = refused(capsys, [*commands(model, rows, files, tmp_path)[which], "--report", page])
        assert "is the table" in err
        assert str(page) in err
    link.unlink()
    assert snapshot(tmp_path) == before


@pytest.mark.parametrize("name", ["model.json", "report.html"])
def test_a_report_is_never_put_into_a_model(name, model, rows, files, tmp_path, capsys, untrained):
    before = snapshot(model)
    for command in commands(model, rows, files, tmp_path):
        assert "model" in refused(capsys, [*command, "--report", model / name])
        assert "model" in refused(capsys, [*command, "--figures", model])
    new = tmp_path / "new"  # is not there yet
    command = commands(model, rows, files, tmp_path)[0]
    assert "is inside the model" in refused(capsys, [*command, "--report", new / name])
    assert "is the model" in refused(capsys, [*command, "--figures", new])
    assert not new.exists()
    assert snapshot(model) == before


def test_a_report_is_no_model_file(files, tmp_path, capsys, untrained):
    zipped = tmp_path / "m.zip"
    err = refused(capsys, fit_arguments(files, zipped, "--report", zipped))
    assert "is the model" in err
    assert not zipped.exists()


@pytest.mark.parametrize(
    "content", [b"dear diary", b"<!DOCTYPE html><title>Our page</title>", b"\xff\x00\xfe" * 500]
)
@pytest.mark.parametrize("which", range(3), ids=["fit", "evaluate", "certify"])
def test_a_report_overwrites_nothing_that_it_did_not_make(
    which, content, model, rows, files, tmp_path, capsys, untrained
):
    page = tmp_path / "page.html"
    page.write_bytes(content)
    err = refused(capsys, [*commands(model, rows, files, tmp_path)[which], "--report", page])
    assert "page.html exists and is not" in err
    assert "name another file" in err
    assert page.read_bytes() == content


def test_a_report_replaces_an_earlier_one_or_an_empty_file(model, rows, tmp_path):
    page = tmp_path / "page.html"
    page.touch()
    evaluate = ["evaluate", model, rows, "--report", page, "-q"]
    assert main([str(a) for a in evaluate]) == 0
    first = page.stat().st_mtime_ns, page.stat().st_size
    assert first[1] > 0
    assert main([str(a) for a in evaluate]) == 0
    assert page.stat().st_mtime_ns > first[0]


@pytest.mark.parametrize("which", range(3), ids=["fit", "evaluate", "certify"])
def test_places_where_nothing_can_be_written_are_found_before_the_work(
    which, model, rows, files, tmp_path, capsys, untrained, monkeypatch
):
    command = commands(model, rows, files, tmp_path)[which]
    (tmp_path / "folder").mkdir()
    assert "is a folder" in refused(capsys, [*command, "--report", tmp_path / "folder"])
    (tmp_path / "file").write_text("x")
    assert "is a file" in refused(capsys, [*command, "--figures", tmp_path / "file"])
    assert "is a file" in refused(capsys, [*command, "--report", tmp_path / "file" / "r.html"])
    for option, place in (("--report", "nowhere/r.html"), ("--figures", "nowhere/figures")):
        err = refused(capsys, [*command, option, tmp_path / place])
        assert "does not exist" in err
        assert "nowhere" in err
    # Root may write anywhere, so a read-only folder is simulated where the system tells of it.
    real, locked = os.access, str(tmp_path / "folder")

    def access(path, mode, **named):
        return not (str(path) == locked and mode & os.W_OK) and real(path, mode, **named)

    monkeypatch.setattr(os, "access", access)
    for option, place in (("--report", "folder/r.html"), ("--figures", "folder")):
        assert "read-only" in refused(capsys, [*command, option, tmp_path / place])
    assert not (tmp_path / "new").exists()


def test_figures_overwrite_no_pictures_of_others(model, rows, tmp_path, capsys, untrained):
    folder = tmp_path / "pictures"
    folder.mkdir()
    (folder / "holiday.png").write_bytes(b"sea")
    (folder / "scores.png").write_bytes(b"football")
    err = refused(capsys, ["evaluate", model, rows, "--figures", folder])
    assert "scores.png exists and is not" in err
    assert (folder / "scores.png").read_bytes() == b"football"


def test_a_device_is_no_file_to_replace(model, rows, capsys, untrained):
    assert "not a regular file" in refused(capsys, ["evaluate", model, rows, "--report", os.devnull])


def test_export_overwrites_neither_model_nor_other_files(model, tmp_path, capsys, files):
    before = snapshot(model)
    assert "model" in refused(capsys, ["export", model, model / "model.json"])
    assert "is a folder" in refused(capsys, ["export", model, tmp_path])
    zipped = tmp_path / "m.zip"
    assert main(fit_arguments(files, zipped, "-q")) == 0
    assert "is the model" in refused(capsys, ["export", zipped, zipped])
    other = tmp_path / "other.onnx"
    other.write_bytes(b"\x08\x09\x12\x07pytorch")
    assert "is not the ONNX model of an earlier run" in refused(capsys, ["export", model, other])
    assert other.read_bytes() == b"\x08\x09\x12\x07pytorch"
    own = tmp_path / "own.onnx"
    for _ in range(2):  # its own it may replace
        assert main(["export", str(model), str(own), "-q"]) == 0
    assert snapshot(model) == before


def test_predict_overwrites_scores_and_no_other_table(model, rows, tmp_path, capsys):
    out = tmp_path / "scored.parquet"
    for _ in range(2):
        assert main(["predict", str(model), str(rows), "--out", str(out), "-q"]) == 0
    before = snapshot(tmp_path), snapshot(model)
    assert "is the table" in refused(capsys, ["predict", model, rows, "--out", rows])
    precious = tmp_path / "precious.csv"
    pd.DataFrame({"score": np.arange(3)}).to_csv(precious, index=False)
    err = refused(capsys, ["predict", model, rows, "--out", precious])
    assert "precious.csv exists and is not" in err
    assert "score" in precious.read_text()
    assert "model" in refused(capsys, ["predict", model, rows, "--out", model / "scored.csv"])
    missing = tmp_path / "nowhere" / "s.csv"
    assert "does not exist" in refused(capsys, ["predict", model, rows, "--out", missing])
    precious.unlink()
    assert (snapshot(tmp_path), snapshot(model)) == before

"""Output paths are checked before any work; only earlier outputs of the same kind are replaced."""

import os
import shutil

import matplotlib as mpl
import numpy as np
import pandas as pd
from cli_tables import GOAL, failure, fit_arguments, run
from matplotlib.figure import Figure

from setpoint.cli import main


def snapshot(folder):
    return {p: p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def commands(model, rows, files, tmp_path):
    """Every command that writes a report."""
    fit = fit_arguments(files, tmp_path / "new")
    return [
        [fit[0], rows, *fit[2:]],
        ["evaluate", model, rows],
        certify_arguments(rows),
    ]  # fmt: skip


def certify_arguments(table, *more):
    return ["certify", table, "--label", "class", "--score", "amount", "--goal", GOAL, *more]


def test_a_report_does_not_overwrite_the_table(model, rows, files, tmp_path, capsys, no_work):
    before = snapshot(tmp_path)
    link = tmp_path / "link.html"
    link.symlink_to(rows)
    for command in commands(model, rows, files, tmp_path):
        for page in (rows, link):
            err = failure(capsys, *command, "--report", page)
            assert "is the table" in err
            assert str(page) in err
    link.unlink()
    assert snapshot(tmp_path) == before


def test_a_report_is_not_written_into_a_model(model, rows, files, tmp_path, capsys, no_work):
    before = snapshot(model)
    new = tmp_path / "new"  # does not exist yet
    for name in ("model.json", "report.html"):
        for command in commands(model, rows, files, tmp_path):
            assert "model" in failure(capsys, *command, "--report", model / name)
            assert "model" in failure(capsys, *command, "--figures", model)
        command = commands(model, rows, files, tmp_path)[0]
        assert "is inside the model" in failure(capsys, *command, "--report", new / name)
    assert "is the model" in failure(capsys, *command, "--figures", new)
    assert not new.exists()
    assert snapshot(model) == before


def test_a_report_does_not_overwrite_a_model(files, tmp_path, capsys, no_work):
    zipped = tmp_path / "m.zip"
    err = failure(capsys, *fit_arguments(files, zipped, "--report", zipped))
    assert "is the model" in err
    assert not zipped.exists()


def test_a_report_does_not_overwrite_other_files(model, rows, files, tmp_path, capsys, no_work):
    page = tmp_path / "page.html"
    for content in (
        b"dear diary",
        b"\xff\x00\xfe" * 500,
        b"<!DOCTYPE html><title>Our page</title>",
        b"<!DOCTYPE html><title>Blog</title><p>Made by setpoint.</p>",
        b'<!DOCTYPE html><meta name="generator" content="Hugo"><p>Made by setpoint.</p>',
        b"<!DOCTYPE html><head></head><pre>&lt;meta name=generator content=setpoint&gt;</pre>",
        b'<!DOCTYPE html>\n<html><head></head><body><meta name="generator" content="setpoint 1">',
        b'<!DOCTYPE html>\n<head><meta name="generator" content="setpoints.com"></head>',
    ):
        page.write_bytes(content)
        for command in commands(model, rows, files, tmp_path):
            err = failure(capsys, *command, "--report", page)
            assert "page.html exists and is not" in err
            assert "name another file" in err
        assert page.read_bytes() == content


def test_a_report_replaces_an_earlier_one_or_an_empty_file(model, rows, tmp_path):
    page = tmp_path / "page.html"
    page.touch()
    evaluate = ["evaluate", model, rows, "--report", page, "-q"]
    assert run(*evaluate) == 0
    first = page.stat().st_mtime_ns, page.stat().st_size
    assert first[1] > 0
    assert run(*evaluate) == 0
    assert page.stat().st_mtime_ns > first[0]


def test_paths_that_cannot_be_written_are_found_before_the_work(
    model, rows, files, tmp_path, capsys, no_work, monkeypatch
):
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_text("x")
    all_commands = commands(model, rows, files, tmp_path)
    for command in all_commands:
        assert "is a folder" in failure(capsys, *command, "--report", tmp_path / "folder")
        assert "is a file" in failure(capsys, *command, "--figures", tmp_path / "file")
        assert "is a file" in failure(capsys, *command, "--report", tmp_path / "file" / "r.html")
        for option, place in (("--report", "nowhere/r.html"), ("--figures", "nowhere/figures")):
            err = failure(capsys, *command, option, tmp_path / place)
            assert "does not exist" in err
            assert "nowhere" in err
    # Root may write anywhere, so a read-only folder is simulated in os.access.
    real, locked = os.access, str(tmp_path / "folder")

    def access(path, mode, **named):
        return not (str(path) == locked and mode & os.W_OK) and real(path, mode, **named)

    monkeypatch.setattr(os, "access", access)
    for command in all_commands:
        for option, place in (("--report", "folder/r.html"), ("--figures", "folder")):
            assert "read-only" in failure(capsys, *command, option, tmp_path / place)
    assert not (tmp_path / "new").exists()


def test_figures_do_not_overwrite_other_pictures(model, rows, tmp_path, capsys, no_work):
    folder = tmp_path / "pictures"
    folder.mkdir()
    (folder / "holiday.png").write_bytes(b"sea")
    (folder / "scores.png").write_bytes(b"football")
    err = failure(capsys, "evaluate", model, rows, "--figures", folder)
    assert "scores.png exists and is not" in err
    assert (folder / "scores.png").read_bytes() == b"football"


def test_a_device_file_is_not_replaced(model, rows, capsys, no_work):
    assert "not a regular file" in failure(capsys, "evaluate", model, rows, "--report", os.devnull)


def test_export_does_not_overwrite_models_or_other_files(model, tmp_path, capsys, files):
    before = snapshot(model)
    assert "model" in failure(capsys, "export", model, model / "model.json")
    assert "is a folder" in failure(capsys, "export", model, tmp_path)
    zipped = tmp_path / "m.zip"
    assert main(fit_arguments(files, zipped, "-q")) == 0
    assert "is the model" in failure(capsys, "export", zipped, zipped)
    other = tmp_path / "other.onnx"
    other.write_bytes(b"\x08\x09\x12\x07pytorch")
    assert "is not the ONNX model of an earlier run" in failure(capsys, "export", model, other)
    assert other.read_bytes() == b"\x08\x09\x12\x07pytorch"
    own = tmp_path / "own.onnx"
    for _ in range(2):  # its own it may replace
        assert main(["export", str(model), str(own), "-q"]) == 0
    assert snapshot(model) == before


def test_predict_overwrites_scores_but_no_other_table(model, rows, tmp_path, capsys):
    out = tmp_path / "scored.parquet"
    for _ in range(2):
        assert main(["predict", str(model), str(rows), "--out", str(out), "-q"]) == 0
    before = snapshot(tmp_path), snapshot(model)
    assert "is the table" in failure(capsys, "predict", model, rows, "--out", rows)
    precious = tmp_path / "precious.csv"
    pd.DataFrame({"score": np.arange(3)}).to_csv(precious, index=False)
    err = failure(capsys, "predict", model, rows, "--out", precious)
    assert "precious.csv exists and is not" in err
    assert "score" in precious.read_text()
    assert "model" in failure(capsys, "predict", model, rows, "--out", model / "scored.csv")
    missing = tmp_path / "nowhere" / "s.csv"
    assert "does not exist" in failure(capsys, "predict", model, rows, "--out", missing)
    precious.unlink()
    assert (snapshot(tmp_path), snapshot(model)) == before


def test_figures_of_matplotlib_are_not_replaced(model, rows, tmp_path, capsys, no_work):
    figure = Figure()
    figure.subplots().set_title("made by setpoint 0.1, or so it says")
    for kind in ("png", "svg"):
        folder = tmp_path / kind
        folder.mkdir()
        with mpl.rc_context({"svg.fonttype": "none"}):
            figure.savefig(folder / f"scores.{kind}", metadata={"Title": "setpoint scores"})
        before = snapshot(folder)
        err = failure(capsys, "evaluate", model, rows, "--figures", folder)
        assert f"scores.{kind} exists and is not" in err
        assert snapshot(folder) == before


def test_tables_with_similar_columns_are_not_replaced(model, rows, tmp_path, capsys, no_work):
    for columns in (
        ["score", "alarm"],
        ["score", "alarm", "predicted", "note"],
        ["alarm", "score", "predicted"],
    ):
        frame = pd.DataFrame({name: np.arange(3) for name in columns})
        frame.to_csv(tmp_path / "mine.csv", index=False)
        frame.to_parquet(tmp_path / "mine.parquet")
        for table in (tmp_path / "mine.csv", tmp_path / "mine.parquet"):
            before = table.read_bytes()
            err = failure(capsys, "predict", model, rows, "--out", table)
            assert f"{table.name} exists and is not" in err
            assert table.read_bytes() == before


def test_the_demo_does_not_overwrite_other_files(tmp_path, capsys, no_work):
    for name in ("setpoint-demo.html", "setpoint-demo.png"):
        file = tmp_path / name
        file.write_bytes(b"my own")
        assert f"{name} exists and is not" in failure(capsys, "demo", "--folder", tmp_path)
        assert snapshot(tmp_path) == {file: b"my own"}
        file.unlink()


def test_the_demo_is_not_written_into_a_model(model, tmp_path, capsys, no_work):
    before = snapshot(model)
    for folder, words in ((model, "is"), (model / "deep" / "demo", "is inside")):
        err = failure(capsys, "demo", "--folder", folder)
        assert f"{folder} {words} a model's folder" in err
    assert snapshot(model) == before
    (tmp_path / "file").write_text("x")
    assert "is a file; name a folder" in failure(capsys, "demo", "--folder", tmp_path / "file")
    assert "does not exist" in failure(capsys, "demo", "--folder", tmp_path / "no" / "demo")


def test_nothing_is_written_deep_into_a_model(
    model, certified, rows, files, tmp_path, capsys, no_work
):
    (model / "deep" / "er").mkdir(parents=True)
    try:
        before = snapshot(model)
        link = tmp_path / "link"
        link.symlink_to(model / "deep")
        fit = fit_arguments(files, tmp_path / "new")
        score = ["predict", certified, rows, "--out"]
        for command in (
            ["evaluate", certified, rows, "--figures", model / "deep" / "figs"],
            ["evaluate", certified, rows, "--figures", model / "deep"],
            ["evaluate", certified, rows, "--report", model / "deep" / "er" / "r.html"],
            ["evaluate", certified, rows, "--report", link / "r.html"],
            [*fit, "--report", model / "deep" / "r.html"],
            fit_arguments(
                files,
                tmp_path / "new",
                "--model",
                "linear",
                "--checkpoint",
                model / "deep" / "kept.pt",
            ),
            [*score, model / "deep" / "s.csv"],
            ["export", certified, model / "deep" / "er" / "m.onnx"],
            fit_arguments(files, model / "inner"),
            fit_arguments(files, model / "deep" / "er" / "inner.zip"),
            fit_arguments(files, link / "inner"),
        ):
            assert "is inside a model's folder" in failure(capsys, *command), command
        assert snapshot(model) == before
    finally:
        shutil.rmtree(model / "deep")


def test_nothing_is_written_into_the_new_model(files, tmp_path, capsys, no_work):
    new = tmp_path / "new"
    new.mkdir()
    for option, place in (("--report", new / "r.html"), ("--figures", new / "a" / "figs")):
        assert "is inside the model" in failure(capsys, *fit_arguments(files, new, option, place))
    assert list(new.iterdir()) == []


def test_models_can_be_fitted_again_and_side_by_side(files, model, tmp_path):
    """Neither a model's own folder nor that of models is inside of one."""
    shutil.copytree(model, tmp_path / "one")
    for name in ("one", "other"):
        assert main(fit_arguments(files, tmp_path / name, "-q")) == 0


def test_outputs_do_not_share_a_path(files, model, rows, tmp_path, capsys, no_work):
    page, figures = tmp_path / "r.html", tmp_path / "figs"
    evaluate = ["evaluate", model, rows]
    err = failure(capsys, *evaluate, "--report", page, "--figures", page)
    assert "is the report" in err
    odd = tmp_path / "x" / ".." / "r.html"
    (tmp_path / "x").mkdir()
    err = failure(capsys, *evaluate, "--report", odd, "--figures", page)
    assert "is the report" in err
    err = failure(capsys, *evaluate, "--report", page, "--figures", page / "figs")
    assert "is inside the report" in err
    figures.mkdir()
    err = failure(capsys, *evaluate, "--report", figures / "scores.svg", "--figures", figures)
    assert "scores.svg is the report" in err
    fit = fit_arguments(files, tmp_path / "m", "--model", "linear", "--report", page)
    assert "is the report" in failure(capsys, *fit, "--checkpoint", page)
    for out in (page, page / "m", page / "deep" / "m.zip"):
        err = failure(capsys, *fit_arguments(files, out, "--report", page))
        assert "the model" in err
    for out in (figures, figures / "scores.png", figures / "scores.png" / "m"):
        err = failure(capsys, *fit_arguments(files, out, "--figures", figures))
        assert "the model" in err
    assert sorted(p.name for p in tmp_path.iterdir()) == ["figs", "rows.csv", "x"]


def test_outputs_can_share_a_folder(files, tmp_path):
    folder = tmp_path / "run"
    folder.mkdir()
    fit = fit_arguments(files, folder / "model", "--report", folder / "r.html", "--figures",
                        folder, "-q")  # fmt: skip
    assert main(fit) == 0
    assert {"model", "r.html", "scores.png"} <= set(os.listdir(folder))


def test_a_report_is_written_to_the_target_of_a_link(model, rows, tmp_path):
    (tmp_path / "there").mkdir()
    link, page = tmp_path / "link.html", tmp_path / "there" / "page.html"
    link.symlink_to(page)  # which is not there yet
    for _ in range(2):
        assert main(["evaluate", str(model), str(rows), "--report", str(link), "-q"]) == 0
        assert link.is_symlink()
        assert page.read_text("utf-8").startswith("<!DOCTYPE html>")
        assert os.listdir(page.parent) == ["page.html"]

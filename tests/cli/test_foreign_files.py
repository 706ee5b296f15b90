"""Files of others that look like ours, folders inside models, and outputs in each other's way."""

import os
import shutil

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from cli_tables import fit_arguments, later
from matplotlib.figure import Figure

from setpoint.cli import main


@pytest.fixture
def rows(tmp_path):
    return later(tmp_path / "rows.csv")


@pytest.fixture
def untrained(monkeypatch):
    """No refusal may come after the work."""

    def worked(*given, **named):
        raise AssertionError("the work had begun")

    for place in ("tables.fitting.fit_table", "data.table_reader.read_table",
                  "cli.predict.load_table_model", "cli.demo.run"):  # fmt: skip
        monkeypatch.setattr(f"setpoint.{place}", worked)


def refused(capsys, *arguments):
    assert main([str(a) for a in arguments]) == 1
    out, err = capsys.readouterr()
    assert "Traceback" not in err
    assert "Errno" not in err
    assert out == ""
    return err


def snapshot(folder):
    return {p: p.read_bytes() for p in folder.rglob("*") if p.is_file()}


# --- what only looks like ours --------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["png", "svg"])
def test_figures_of_matplotlib_are_not_therefore_ours(
    kind, model, rows, tmp_path, capsys, untrained
):
    folder = tmp_path / "own"
    folder.mkdir()
    figure = Figure()
    figure.subplots().set_title("made by setpoint 0.1, or so it says")
    with mpl.rc_context({"svg.fonttype": "none"}):
        figure.savefig(folder / f"scores.{kind}", metadata={"Title": "setpoint scores"})
    before = snapshot(folder)
    err = refused(capsys, "evaluate", model, rows, "--figures", folder)
    assert f"scores.{kind} exists and is not" in err
    assert snapshot(folder) == before


@pytest.mark.parametrize(
    "columns",
    [["score", "alarm"], ["score", "alarm", "predicted", "note"], ["alarm", "score", "predicted"]],
)
@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_a_table_with_scores_and_alarms_is_not_therefore_ours(
    columns, ending, model, rows, tmp_path, capsys, untrained
):
    table = tmp_path / f"mine.{ending}"
    frame = pd.DataFrame({name: np.arange(3) for name in columns})
    frame.to_csv(table, index=False) if ending == "csv" else frame.to_parquet(table)
    before = table.read_bytes()
    err = refused(capsys, "predict", model, rows, "--out", table)
    assert f"mine.{ending} exists and is not" in err
    assert table.read_bytes() == before


@pytest.mark.parametrize(
    "content",
    [
        "<!DOCTYPE html><title>Blog</title><p>Made by setpoint.</p>",
        '<!DOCTYPE html><meta name="generator" content="Hugo"><p>Made by setpoint.</p>',
        "<!DOCTYPE html><head></head><pre>&lt;meta name=generator content=setpoint&gt;</pre>",
        '<!DOCTYPE html>\n<html><head></head><body><meta name="generator" content="setpoint 1">',
        '<!DOCTYPE html>\n<head><meta name="generator" content="setpoints.com"></head>',
    ],
)
def test_a_page_about_setpoint_is_no_report(content, model, rows, tmp_path, capsys, untrained):
    page = tmp_path / "page.html"
    page.write_text(content)
    assert "page.html exists and is not" in refused(
        capsys, "evaluate", model, rows, "--report", page
    )
    assert page.read_text() == content


# --- the demo -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["setpoint-demo.html", "setpoint-demo.png"])
def test_the_demo_overwrites_nothing_of_others(name, tmp_path, capsys, untrained):
    (tmp_path / name).write_bytes(b"my own")
    err = refused(capsys, "demo", "--folder", tmp_path)
    assert f"{name} exists and is not" in err
    assert snapshot(tmp_path) == {tmp_path / name: b"my own"}


def test_the_demo_goes_into_a_folder_that_is_no_model(model, tmp_path, capsys, untrained):
    before = snapshot(model)
    for folder, words in ((model, "is"), (model / "deep" / "demo", "is inside")):
        err = refused(capsys, "demo", "--folder", folder)
        assert f"{folder} {words} a model's folder" in err
    assert snapshot(model) == before
    (tmp_path / "file").write_text("x")
    assert "is a file; name a folder" in refused(capsys, "demo", "--folder", tmp_path / "file")
    assert "does not exist" in refused(capsys, "demo", "--folder", tmp_path / "no" / "demo")


# --- inside a model -------------------------------------------------------------------------------


def test_nothing_is_put_deep_into_a_model(
    model, promising, rows, files, tmp_path, capsys, untrained
):
    (model / "deep" / "er").mkdir(parents=True)
    try:
        before = snapshot(model)
        link = tmp_path / "link"
        link.symlink_to(model / "deep")
        fit = fit_arguments(files, tmp_path / "new")
        score = ["predict", promising, rows, "--out"]
        for command in (
            ["evaluate", promising, rows, "--figures", model / "deep" / "figs"],
            ["evaluate", promising, rows, "--figures", model / "deep"],
            ["evaluate", promising, rows, "--report", model / "deep" / "er" / "r.html"],
            ["evaluate", promising, rows, "--report", link / "r.html"],
            [*fit, "--report", model / "deep" / "r.html"],
            [*score, model / "deep" / "s.csv"],
            ["export", promising, model / "deep" / "er" / "m.onnx"],
            fit_arguments(files, model / "inner"),
            fit_arguments(files, model / "deep" / "er" / "inner.zip"),
            fit_arguments(files, link / "inner"),
        ):
            assert "is inside a model's folder" in refused(capsys, *command), command
        assert snapshot(model) == before
    finally:
        shutil.rmtree(model / "deep")


def test_nothing_is_put_deep_into_the_model_that_is_made(files, tmp_path, capsys, untrained):
    new = tmp_path / "new"
    new.mkdir()
    for option, place in (("--report", new / "r.html"), ("--figures", new / "a" / "figs")):
        assert "is inside the model" in refused(capsys, *fit_arguments(files, new, option, place))
    assert list(new.iterdir()) == []


def test_a_model_may_be_fitted_anew_and_lie_beside_another(files, model, tmp_path):
    """Neither a model's own folder nor that of models is inside of one."""
    shutil.copytree(model, tmp_path / "one")
    for name in ("one", "other"):
        assert main(fit_arguments(files, tmp_path / name, "-q")) == 0


# --- in each other's way --------------------------------------------------------------------------


def test_two_outputs_never_take_one_place(files, model, rows, tmp_path, capsys, untrained):
    page, figures = tmp_path / "r.html", tmp_path / "figs"
    evaluate = ["evaluate", model, rows]
    err = refused(capsys, *evaluate, "--report", page, "--figures", page)
    assert "is the report" in err
    odd = tmp_path / "x" / ".." / "r.html"
    (tmp_path / "x").mkdir()
    err = refused(capsys, *evaluate, "--report", odd, "--figures", page)
    assert "is the report" in err
    err = refused(capsys, *evaluate, "--report", page, "--figures", page / "figs")
    assert "is inside the report" in err
    figures.mkdir()
    err = refused(capsys, *evaluate, "--report", figures / "scores.svg", "--figures", figures)
    assert "scores.svg is the report" in err
    for out in (page, page / "m", page / "deep" / "m.zip"):
        err = refused(capsys, *fit_arguments(files, out, "--report", page))
        assert "the model" in err
    for out in (figures, figures / "scores.png", figures / "scores.png" / "m"):
        err = refused(capsys, *fit_arguments(files, out, "--figures", figures))
        assert "the model" in err
    assert sorted(p.name for p in tmp_path.iterdir()) == ["figs", "rows.csv", "x"]


def test_report_figures_and_model_may_share_a_folder(files, tmp_path):
    folder = tmp_path / "run"
    folder.mkdir()
    fit = fit_arguments(files, folder / "model", "--report", folder / "r.html", "--figures",
                        folder, "-q")  # fmt: skip
    assert main(fit) == 0
    assert {"model", "r.html", "scores.png"} <= set(os.listdir(folder))


# --- links ----------------------------------------------------------------------------------------


def test_a_report_goes_where_a_link_leads(model, rows, tmp_path):
    (tmp_path / "there").mkdir()
    link, page = tmp_path / "link.html", tmp_path / "there" / "page.html"
    link.symlink_to(page)  # which is not there yet
    for _ in range(2):
        assert main(["evaluate", str(model), str(rows), "--report", str(link), "-q"]) == 0
        assert link.is_symlink()
        assert page.read_text("utf-8").startswith("<!DOCTYPE html>")
        assert os.listdir(page.parent) == ["page.html"]

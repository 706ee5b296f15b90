"""The command line: output, errors and exit codes."""

import re
import runpy
import subprocess
import sys

import numpy as np
import pytest

from setpoint.paper import figures
from setpoint.paper.datasets import LOADERS, Dataset, creditcard, prepared, stand_in
from setpoint.paper.datasets.files import Expected
from setpoint.paper.methods import SCALES
from setpoint.paper.reproduce import main
from setpoint.paper.tables import TABLES, all_jobs


@pytest.fixture(autouse=True)
def no_official_files(monkeypatch, tmp_path):
    monkeypatch.setenv("SETPOINT_DATA", str(tmp_path / "official"))


def times(out):
    return {p.name: p.stat().st_mtime_ns for p in (out / "jobs").iterdir()}


def run_main(arguments, capsys):
    code = main(arguments)
    printed = capsys.readouterr()
    return code, printed.out, printed.err


ARGUMENTS = ["--scale", "smoke", "--datasets", "ade", "--methods", "wce", "projected"]
ARGUMENTS += ["--workers", "1"]


def test_the_command_prints_its_files_and_its_progress(tmp_path, capsys):
    out = tmp_path / "out"
    code, printed, errors = run_main(["fpor", *ARGUMENTS, "--out", str(out)], capsys)
    assert code == 0
    assert printed.splitlines() == [
        str(out / name)
        for name in (
            "results-honest.parquet", "about-honest.md", "tables/fpor-honest_ade_wce_projected.md",
            "tables/fpor-honest_ade_wce_projected.tex",
        )
    ]  # fmt: skip
    assert errors.splitlines()[-1].startswith("4 of 4 jobs finished, the last ade_honest_2_trial0_")
    code, _, errors = run_main(["fpor", *ARGUMENTS, "--out", str(out), "--quiet"], capsys)
    assert (code, errors) == (0, "")


def test_a_mistake_is_one_line_and_exit_code_1(tmp_path, capsys):
    for wrong in (
        ["fprr"],
        ["fpor", "--datasets", "mnist"],
        ["fpor", "--methods", "xgboost"],
        ["fpor", "--trials", "0"],
        ["fpor", "--workers", "-1"],
        ["fpor", "--devices", "cpu", "cuda:77"],
        ["fpor", "--devices", "gpu"],
    ):
        code, printed, errors = run_main([*wrong, "--out", str(tmp_path / "out")], capsys)
        assert (code, printed) == (1, "")
        assert re.fullmatch(r"error: [^\n]+\n", errors)


def test_invalid_choices_end_with_usage(capsys):
    for wrong in (
        [],
        ["fpor", "--scale", "huge"],
        ["fpor", "--split", "x"],
        ["fpor", "--trials", "two"],
    ):
        with pytest.raises(SystemExit) as caught:
            main(wrong)
        assert caught.value.code == 2
        assert "usage: python -m setpoint.paper" in capsys.readouterr().err


def test_help_names_tables_figures_and_data(capsys):
    with pytest.raises(SystemExit) as caught:
        main(["--help"])
    assert caught.value.code == 0
    text = "".join(capsys.readouterr().out.split())  # long names are broken at their hyphens
    for name in (*TABLES, *figures.NAMES, *LOADERS, *SCALES):
        assert name in text


def test_a_folder_that_cannot_be_written_is_one_line(tmp_path, capsys):
    for names in (["fpor"], ["regulariser"]):
        (tmp_path / "out").write_text("a file already")
        code, _, errors = run_main([*names, *ARGUMENTS, "--out", str(tmp_path / "out")], capsys)
        assert code == 1
        assert re.fullmatch(r"error: [^\n]+--out[^\n]*\n", errors)
        assert str(tmp_path / "out") in errors


@pytest.mark.parametrize("what", ["data", "tables", "results-honest.parquet"])
def test_an_output_path_in_use_is_named_and_trainings_are_kept(what, tmp_path, capsys):
    """Whatever the system refuses to write: a full disk, no rights, a file in the way."""
    (tmp_path / what).mkdir() if "." in what else (tmp_path / what).write_text("a file already")
    code, _, errors = run_main(["fpor", *ARGUMENTS, "--quiet", "--out", str(tmp_path)], capsys)
    assert code == 1
    assert re.fullmatch(r"error: [^\n]+\n", errors)
    assert what in errors
    assert "the same command continues" in errors
    (tmp_path / what).rmdir() if "." in what else (tmp_path / what).unlink()
    before = times(tmp_path)
    assert len(before) == (0 if what == "data" else 4)
    assert main(["fpor", *ARGUMENTS, "--quiet", "--out", str(tmp_path)]) == 0
    assert before.items() <= times(tmp_path).items()


def test_failed_jobs_are_named_with_their_tracebacks_and_tried_again(tmp_path, capsys):
    """Data of which only some trials can be split, as with a very rare class."""
    rare = stand_in("ade", rows=30)
    y = rare.y & False
    y[[3, 17]] = True
    path = prepared("ade", tmp_path / "data")
    Dataset("ade", rare.X, y, None, None, "two positives").save(path)
    arguments = ["fpor", "--scale", "small", "--datasets", "ade", "--methods", "wce", "--quiet"]
    arguments += ["--workers", "1", "--trials", "2", "--out", str(tmp_path)]
    code, printed, errors = run_main(arguments, capsys)
    assert (code, printed) == (1, "")
    done = times(tmp_path)
    total = len(all_jobs((TABLES["fpor"],), "small", "honest", ("ade",), 2, ("wce",)))
    assert 0 < len(done) < total
    assert errors.startswith(f"error: {total - len(done)} of {total} jobs failed; the others are ")
    assert "the same command repeats only these" in errors
    assert errors.count("Traceback") == 3
    failed = re.findall(r"^ade_honest_2_trial\d_wce_(?:paper|converged)_\d_any$", errors, re.M)
    assert len(failed) == 3
    assert not {f"{name}.json" for name in failed} & set(done)
    assert "has no positives" in errors
    assert not (tmp_path / "tables").exists()
    assert run_main(arguments, capsys)[0] == 1
    assert times(tmp_path) == done


def test_an_interrupted_command_reports_it(tmp_path, capsys, monkeypatch):
    def stop(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("setpoint.paper.reproduce.run", stop)
    code, _, errors = run_main(["fpor", *ARGUMENTS, "--out", str(tmp_path)], capsys)
    assert (code, errors.strip()) == (130, "stopped; the same command continues from here.")


# --- data -----------------------------------------------------------------------------------------


def test_missing_data_are_named_and_the_next_step_too(tmp_path, capsys):
    out = tmp_path / "out"
    code = main(["fpor", "--datasets", "creditcard", "--workers", "1", "--out", str(out)])
    assert code == 1
    message = capsys.readouterr().err
    assert message.startswith("error: creditcard.csv not found in ")
    assert "https://www.kaggle.com/datasets/mlg-ulb/creditcardfraud" in message
    assert "Traceback" not in message


def resaved(folder, rows, positives):
    """Write a table like creditcard.csv, well formed, but not the published bytes."""
    rng = np.random.default_rng(0)
    names = ["Time", *(f"V{k}" for k in range(1, 29)), "Amount", "Class"]
    values = np.column_stack([rng.normal(size=(rows, 30)), np.arange(rows) < positives])
    folder.mkdir()
    path = folder / "creditcard.csv"
    np.savetxt(path, values, fmt="%.3g", delimiter=",", header=",".join(names), comments="")
    return path


def test_a_resaved_copy_is_rejected_with_instructions(tmp_path, capsys, monkeypatch):
    path = resaved(tmp_path / "official", 60, 6)
    # As many rows and positives as published: only its bytes are others.
    monkeypatch.setattr(creditcard, "PUBLISHED", Expected(60, 6, creditcard.PUBLISHED.md5))
    arguments = ["fpor", "--datasets", "creditcard", "--methods", "wce", "--workers", "1"]
    arguments += ["--out", str(tmp_path / "out")]
    code, printed, errors = run_main(arguments, capsys)
    assert (code, printed) == (1, "")
    assert re.fullmatch(r"error: [^\n]+\n", errors)
    assert f"{path} has the md5 " in errors
    assert f"instead of the published {creditcard.PUBLISHED.md5}" in errors
    assert "Replace it: download creditcard.csv from https://www.kaggle.com/datasets/" in errors
    assert "leave it as it is" in errors
    assert not list((tmp_path / "out" / "jobs").iterdir())


@pytest.mark.parametrize("share", [0.2, 0.7, 0.999])
def test_a_truncated_csv_gives_one_line_with_instructions(share, tmp_path, capsys, monkeypatch):
    path = resaved(tmp_path / "official", 60, 6)
    path.write_bytes(path.read_bytes()[: int(share * path.stat().st_size)])
    monkeypatch.setattr(creditcard, "PUBLISHED", Expected(60, 6, creditcard.PUBLISHED.md5))
    arguments = ["fpor", "--datasets", "creditcard", "--methods", "wce", "--workers", "1"]
    code, printed, errors = run_main([*arguments, "--out", str(tmp_path / "out")], capsys)
    assert (code, printed) == (1, "")
    assert re.fullmatch(r"error: [^\n]+\n", errors)
    assert str(path) in errors
    assert "Replace it: download creditcard.csv from https://www.kaggle.com/datasets/" in errors


def test_a_damaged_prepared_file_without_the_official_ones_is_one_line(tmp_path, capsys):
    out = tmp_path / "out"
    path = prepared("ade", out / "data")
    Dataset("ade", *(getattr(stand_in("ade"), k) for k in ("X", "y")), None, None, "x").save(path)
    path.write_bytes(path.read_bytes()[:300])
    code, _, errors = run_main(["fpor", "--datasets", "ade", "--out", str(out)], capsys)
    assert code == 1
    assert re.fullmatch(r"error: [^\n]+\n", errors)
    assert str(path) in errors
    assert "https://sites.google.com/site/adecorpus" in errors


def test_a_missing_extra_is_one_line(tmp_path, capsys, monkeypatch):
    """Of the extra for features as well, of which the command's own knows nothing."""
    official = tmp_path / "official" / "ade_corpus_v2_classification"
    official.mkdir(parents=True)
    row = '{"text": "a", "label": %d}\n'
    (official / "train.jsonl").write_text("".join(row % (k % 2) for k in range(23_515)))
    (official / "test.jsonl").write_text(row % 1)
    monkeypatch.setitem(sys.modules, "transformers", None)
    arguments = ["fpor", "--datasets", "ade-bert", "--out", str(tmp_path / "out")]
    code, _, errors = run_main(arguments, capsys)
    assert code == 1
    assert re.fullmatch(r"error: [^\n]+\n", errors)
    assert 'pip install "setpoint[features]"' in errors


def test_old_trainings_can_be_kept(tmp_path, capsys):
    arguments = ["fpor", *ARGUMENTS, "--quiet", "--out", str(tmp_path)]
    assert main(arguments) == 0
    for path in (tmp_path / "jobs").iterdir():
        path.write_text(path.read_text().replace('"code": "', '"code": "not '))
    before = times(tmp_path)
    assert main([*arguments, "--keep-old"]) == 0
    assert times(tmp_path) == before
    assert "4 of them were trained by code other" in (tmp_path / "about-honest.md").read_text()


def test_the_module_can_be_run(tmp_path, capsys, monkeypatch):
    """As ``python -m`` does; test_interruption starts real processes."""
    monkeypatch.setattr(sys, "argv", ["setpoint.paper", "fprr", "--out", str(tmp_path / "x")])
    with pytest.raises(SystemExit) as caught:
        runpy.run_module("setpoint.paper", run_name="__main__", alter_sys=True)
    assert caught.value.code == 1
    assert capsys.readouterr().err.startswith("error: unknown table or figure 'fprr'")


def test_the_former_module_can_be_run(tmp_path):
    """With workers, which run their parent's main module again."""
    workers = ["--workers", "2", "--out", str(tmp_path)]
    few = ["--scale", "smoke", "--datasets", "ade", "--methods", "wce"]
    command = [sys.executable, "-m", "setpoint.experiments", "fpor", *few, *workers]
    ended = subprocess.run(command, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    assert (
        "DeprecationWarning: python -m setpoint.experiments is deprecated; "
        "use python -m setpoint reproduce" in ended.stderr
    )
    assert len(times(tmp_path)) == 3


def test_former_names_can_be_imported():
    with pytest.warns(DeprecationWarning, match="its names are now in setpoint.paper"):
        from setpoint.experiments.reproduce import reproduce
    with pytest.warns(DeprecationWarning, match="its names are now in setpoint.paper.methods"):
        from setpoint.experiments.scale import Scale
    assert (reproduce.__module__, Scale.__module__) == (
        "setpoint.paper.reproduce",
        "setpoint.paper.methods",
    )

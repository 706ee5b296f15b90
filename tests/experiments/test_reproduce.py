"""The command: what it trains, what it writes, and what it says when it cannot."""

import json
import re
import time

import pandas as pd
import pyarrow.parquet as pq
import pytest

from setpoint.datasets import Dataset
from setpoint.errors import SetpointError
from setpoint.experiments import figures
from setpoint.experiments.data import LOADERS, prepared, stand_in
from setpoint.experiments.jobs import TARGETS
from setpoint.experiments.methods import METHODS
from setpoint.experiments.reproduce import NAMES, main, reproduce
from setpoint.experiments.scale import SCALES
from setpoint.experiments.tables import TABLES, all_jobs


@pytest.fixture(autouse=True)
def no_official_files(monkeypatch, tmp_path):
    monkeypatch.setenv("SETPOINT_DATA", str(tmp_path / "official"))


def smoke(names, out, methods=("wce", "tfco", "projected"), datasets=("ade",), **named):
    named = {"workers": 1, "quiet": True, "scale": "smoke", **named}
    return reproduce(names, out, methods=methods, datasets=datasets, **named)


def times(out):
    return {p.name: p.stat().st_mtime_ns for p in (out / "jobs").iterdir()}


def relative(paths, out):
    assert all(path.is_file() and path.stat().st_size for path in paths)
    return sorted(str(path.relative_to(out)) for path in paths)


# --- everything, once -----------------------------------------------------------------------------


def test_all_tables_and_figures_from_nothing(tmp_path):
    """End to end, by two workers, with every method, table and figure."""
    written = reproduce(["all"], tmp_path, scale="smoke", workers=2, quiet=True)
    tables = [f"tables/{name}-honest.{end}" for name in TABLES for end in ("md", "tex")]
    drawn = [*figures.FIGURES, "logit-histograms"]
    drawn += [f"stress-test-{kind}-honest" for kind in ("fpor", "frop")]
    pictures = [f"figures/{name}.{end}" for name in drawn for end in ("png", "svg")]
    assert relative(written, tmp_path) == sorted(
        [*tables, *pictures, "results-honest.parquet", "about-honest.md"]
    )

    jobs = all_jobs(tuple(TABLES.values()), "smoke", "honest")
    assert {p.name for p in (tmp_path / "jobs").iterdir()} == {f"{j.name}.json" for j in jobs}
    assert {p.name for p in (tmp_path / "data").iterdir()} == {
        "ade.npz", "creditcard.npz", "eyepacs.npz",
    }  # fmt: skip
    for name, table in TABLES.items():
        text = (tmp_path / "tables" / f"{name}-honest.md").read_text(encoding="utf-8")
        assert "nan" not in text
        rows = sum(len(m.variants) for m in table.methods)
        blocks = len(table.datasets) * len(table.targets)
        assert text.count("\n| ") == 2 + rows * blocks, name
        for method in table.methods:
            assert all(method.label_of(variant) in text for variant in method.variants)

    # A second time there is nothing to train: what remains is to read and to write.
    before = times(tmp_path)
    assert reproduce(["fpor"], tmp_path, scale="smoke", workers=1, quiet=True)
    assert times(tmp_path) == before


# --- what is written ------------------------------------------------------------------------------


def test_the_parquet_file_is_tidy(tmp_path):
    smoke(["fpor", "ofos", "three-split-frop"], tmp_path, trials=2)
    path = tmp_path / "results-honest.parquet"
    frame = pd.read_parquet(path)
    asked = tuple(TABLES[n] for n in ("fpor", "ofos", "three-split-frop"))
    jobs = all_jobs(asked, "smoke", "honest", ("ade",), 2, ("wce", "tfco", "projected"))
    # One row per job, goal, rule and part.
    expected = sum(len(job.targets) * (9 if job.three else 4) for job in jobs)
    assert len(frame) == expected
    keys = ["dataset", "split", "three", "trial", "method", "variant", "configuration", "kind",
            "alpha", "threshold", "part"]  # fmt: skip
    # (a goal-blind training has a row for every goal, a seeing one for its own)
    assert not frame.duplicated(keys).any()
    kinds = {field.name: str(field.type) for field in pq.read_schema(path)}
    for name in ("trial", "configuration", "tp", "fp", "fn", "tn"):
        assert kinds[name] == "int64"
    for name in ("alpha", "precision", "recall", "f1", "objective", "violation", "seconds"):
        assert kinds[name] == "double"
    assert kinds["three"] == "bool"
    assert all(kinds[name].endswith("string") for name in ("dataset", "method", "label", "solver"))
    assert not frame.drop(columns="alpha").isna().to_numpy().any()
    assert set(frame["threshold"]) == {"own", "train", "validation"}
    assert set(frame["part"]) == {"train", "validation", "test"}
    assert (frame["tp"] + frame["fn"] > 0).all()
    assert frame.loc[frame["kind"] == "ofos", "alpha"].isna().all()
    constrained = frame[frame["kind"] != "ofos"]
    assert set(constrained["alpha"]) == {0.9, 0.95, 0.99}
    empty = frame["tp"] + frame["fp"] == 0
    share = frame["tp"] / (frame["tp"] + frame["fp"])
    assert frame["precision"].to_numpy() == pytest.approx(share.where(~empty, 1.0).to_numpy())
    assert frame["recall"].to_numpy() == pytest.approx(
        (frame["tp"] / (frame["tp"] + frame["fn"])).to_numpy()
    )


def test_a_table_says_how_it_was_made_and_holds_what_the_jobs_hold(tmp_path):
    written = smoke(["fpor"], tmp_path, methods=("projected",), trials=2, split="paper")
    assert relative(written, tmp_path) == [
        "about-paper.md", "results-paper.parquet", "tables/fpor-paper.md", "tables/fpor-paper.tex",
    ]  # fmt: skip
    text = (tmp_path / "tables" / "fpor-paper.md").read_text(encoding="utf-8")
    tex = (tmp_path / "tables" / "fpor-paper.tex").read_text(encoding="utf-8")
    assert "smoke scale, 2 trials, paper split" in text.splitlines()[0]
    assert tex.startswith("% FPOR: max recall s.t. precision >= 0.9. smoke scale, 2 trials")
    about = (tmp_path / "about-paper.md").read_text(encoding="utf-8")
    assert about.startswith("2 trainings, smoke scale, paper split.")
    recalls = [
        row["tp"] / (row["tp"] + row["fn"])
        for path in (tmp_path / "jobs").glob("*_projected_*")
        for row in json.loads(path.read_text())["counts"]
        if (row["threshold"], row["part"]) == ("own", "test")
    ]
    assert len(recalls) == 2
    assert f"{sum(recalls) / 2:.3f} ± {abs(recalls[0] - recalls[1]) / 2:.3f}" in text


def test_running_twice_trains_nothing_the_second_time_and_writes_the_same(tmp_path):
    first = smoke(["frop"], tmp_path)
    texts = [p.read_bytes() for p in first if p.suffix in (".md", ".tex")]
    before = times(tmp_path)
    assert smoke(["frop"], tmp_path) == first
    assert times(tmp_path) == before
    assert [p.read_bytes() for p in first if p.suffix in (".md", ".tex")] == texts


def test_only_train_writes_no_tables_and_they_can_be_made_later(tmp_path):
    assert smoke(["fpor", "surrogates"], tmp_path, only_train=True) == []
    assert sorted(p.name for p in tmp_path.iterdir()) == ["data", "jobs", "scale"]
    before = times(tmp_path)
    assert len(smoke(["fpor"], tmp_path)) == 4
    assert times(tmp_path) == before


def test_figures_that_need_no_results_train_nothing(tmp_path):
    written = smoke(["heat-maps", "regulariser"], tmp_path, methods=())
    assert relative(written, tmp_path) == [
        "figures/heat-maps.png", "figures/heat-maps.svg", "figures/regulariser.png",
        "figures/regulariser.svg",
    ]  # fmt: skip
    assert [p.name for p in tmp_path.iterdir()] == ["figures"]


def test_the_stress_test_trains_its_levels_and_shows_every_method_once(tmp_path, monkeypatch):
    shown = []
    draw = figures.stress_test.figure
    monkeypatch.setattr(
        figures.stress_test, "figure", lambda frame, kind: shown.append(frame) or draw(frame, kind)
    )
    written = smoke(["stress-test", "three-split-fpor"], tmp_path, split="paper")
    assert relative([p for p in written if p.suffix == ".png"], tmp_path) == [
        "figures/stress-test-fpor-paper.png", "figures/stress-test-frop-paper.png",
    ]  # fmt: skip
    frame = shown[0]
    assert set(frame["alpha"]) == {0.95, 0.99}
    assert not frame["three"].any()
    assert set(map(tuple, frame[["method", "variant"]].drop_duplicates().to_numpy())) == {
        ("wce", "converged"), ("tfco", "converged"), ("projected", "paper"),
    }  # fmt: skip
    # One point per method, trial, part, goal, before and after.
    assert not frame.duplicated(
        ["dataset", "kind", "alpha", "method", "trial", "part", "adjusted"]
    ).any()
    assert frame["adjusted"].equals(frame["threshold"] == "train")


def test_names_of_groups(tmp_path, monkeypatch):
    trained, drawn = [], []
    monkeypatch.setattr(
        "setpoint.experiments.reproduce._train", lambda jobs, *_: trained.append(jobs)
    )
    monkeypatch.setattr("setpoint.experiments.reproduce.figures.FIGURES", {})
    monkeypatch.setattr(
        "setpoint.experiments.reproduce._draw_histograms", lambda *_: drawn.append(1) or []
    )

    def jobs(names):
        trained.clear()
        reproduce(names, tmp_path, scale="smoke", only_train=True)
        return {job.name for job in trained[0]}

    every = {j.name for j in all_jobs(tuple(TABLES.values()), "smoke", "honest")}
    assert jobs(["all"]) == jobs(["tables"]) == every
    assert jobs(["figures"]) == jobs(["fpor-alpha", "frop-alpha"])  # for the stress test
    assert jobs(["fpor", "fpor", "all"]) == every
    assert set(NAMES) == {*TABLES, *figures.NAMES}


# --- asked for something else ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"names": ["fprr"]}, "unknown table or figure 'fprr'; known: all, .*three-split-frop"),
        ({"datasets": ["ade", "mnist"]}, "unknown dataset 'mnist'; known: creditcard, ade"),
        ({"methods": ["wce", "xgboost"]}, "unknown method 'xgboost'; known: wce, .*default"),
        ({"scale": "huge"}, "unknown scale 'huge'; known: smoke, small, full"),
        ({"split": "leaky"}, "unknown split 'leaky'; known: honest, paper"),
        ({"trials": 0}, "trials must be at least 1, not 0"),
        ({"trials": -2}, "trials must be at least 1, not -2"),
        ({"workers": -1}, "workers must be at least 1, not -1"),
        (
            {"names": ["fpor-alpha", "ablation-frop"], "datasets": ["creditcard"]},
            "nothing to train: fpor-alpha, ablation-frop and creditcard, wce have nothing",
        ),
        (
            {"names": ["fpor"], "methods": ["ssa-lifted"]},
            "nothing to train: fpor and ade, ssa",
        ),
    ],
)
def test_what_is_not_there_is_refused_before_anything_is_made(changes, message, tmp_path):
    given = {"names": ["fpor"], "datasets": ["ade"], "methods": ["wce"], **changes}
    with pytest.raises(SetpointError, match=message):
        smoke(out=tmp_path / "out", **given)
    assert not (tmp_path / "out").exists()


def test_a_table_that_is_not_about_the_data_is_left_out_where_others_are(tmp_path):
    """And so is the stress test."""
    asked = ["fpor", "fpor-alpha", "stress-test"]
    written = smoke(asked, tmp_path, methods=("wce",), datasets=("creditcard",))
    assert relative(written, tmp_path) == [
        "about-honest.md", "results-honest.parquet", "tables/fpor-honest.md",
        "tables/fpor-honest.tex",
    ]  # fmt: skip


def test_missing_data_are_named_and_the_next_step_too(tmp_path, capsys):
    out = tmp_path / "out"
    code = main(["fpor", "--datasets", "creditcard", "--workers", "1", "--out", str(out)])
    assert code == 1
    message = capsys.readouterr().err
    assert message.startswith("error: creditcard.csv not found in ")
    assert "https://www.kaggle.com/datasets/mlg-ulb/creditcardfraud" in message
    assert "Traceback" not in message


# --- the command line -----------------------------------------------------------------------------


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
            "results-honest.parquet", "about-honest.md", "tables/fpor-honest.md",
            "tables/fpor-honest.tex",
        )
    ]  # fmt: skip
    assert errors.splitlines()[-1].startswith("4 of 4 jobs done, the last ade_honest_2_trial0_")
    code, _, errors = run_main(["fpor", *ARGUMENTS, "--out", str(out), "--quiet"], capsys)
    assert (code, errors) == (0, "")


@pytest.mark.parametrize(
    "wrong",
    [
        ["fprr"],
        ["fpor", "--datasets", "mnist"],
        ["fpor", "--methods", "xgboost"],
        ["fpor", "--trials", "0"],
        ["fpor", "--workers", "-1"],
    ],
)
def test_a_mistake_is_one_line_and_exit_code_1(wrong, tmp_path, capsys):
    code, printed, errors = run_main([*wrong, "--out", str(tmp_path / "out")], capsys)
    assert (code, printed) == (1, "")
    assert re.fullmatch(r"error: [^\n]+\n", errors)


@pytest.mark.parametrize(
    "wrong",
    [[], ["fpor", "--scale", "huge"], ["fpor", "--split", "x"], ["fpor", "--trials", "two"]],
)
def test_what_argparse_knows_it_refuses(wrong, capsys):
    with pytest.raises(SystemExit) as caught:
        main(wrong)
    assert caught.value.code == 2
    assert "usage: python -m setpoint.experiments" in capsys.readouterr().err


def test_help_names_tables_figures_and_data(capsys):
    with pytest.raises(SystemExit) as caught:
        main(["--help"])
    assert caught.value.code == 0
    told = "".join(capsys.readouterr().out.split())  # long names are broken at their hyphens
    for name in (*TABLES, *figures.NAMES, *LOADERS, *SCALES):
        assert name in told


@pytest.mark.parametrize("names", [["fpor"], ["regulariser"]])
def test_a_folder_that_cannot_be_written_is_one_line(names, tmp_path, capsys):
    (tmp_path / "out").write_text("a file already")
    code, _, errors = run_main([*names, *ARGUMENTS, "--out", str(tmp_path / "out")], capsys)
    assert code == 1
    assert re.fullmatch(r"error: [^\n]+--out[^\n]*\n", errors)
    assert str(tmp_path / "out") in errors


@pytest.mark.parametrize("what", ["data", "tables", "results-honest.parquet"])
def test_a_place_that_is_taken_is_named_and_what_is_trained_is_kept(what, tmp_path, capsys):
    """Whatever the system refuses to write: a full disk, no rights, a file in the way."""
    (tmp_path / what).mkdir() if "." in what else (tmp_path / what).write_text("a file already")
    code, _, errors = run_main(["fpor", *ARGUMENTS, "--quiet", "--out", str(tmp_path)], capsys)
    assert code == 1
    assert re.fullmatch(r"error: [^\n]+\n", errors)
    assert what in errors
    assert "the same command goes on" in errors
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
    assert "the same command tries these again" in errors
    assert errors.count("Traceback") == 3
    failed = re.findall(r"^ade_honest_2_trial\d_wce_(?:paper|converged)_\d_any$", errors, re.M)
    assert len(failed) == 3
    assert not {f"{name}.json" for name in failed} & set(done)
    assert "has no positives" in errors
    assert not (tmp_path / "tables").exists()
    assert run_main(arguments, capsys)[0] == 1
    assert times(tmp_path) == done


def test_a_stopped_command_says_so(tmp_path, capsys, monkeypatch):
    def stop(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("setpoint.experiments.reproduce.run", stop)
    code, _, errors = run_main(["fpor", *ARGUMENTS, "--out", str(tmp_path)], capsys)
    assert (code, errors.strip()) == (130, "stopped; the same command goes on from here.")


def test_progress_is_told_every_few_seconds_and_at_the_end(tmp_path, capsys, monkeypatch):
    clock = iter(range(1000))
    monkeypatch.setattr(time, "monotonic", lambda: 3.0 * next(clock))
    smoke(["fpor"], tmp_path, quiet=False)
    told = [int(line.split()[0]) for line in capsys.readouterr().err.splitlines()]
    assert told == sorted(told)
    assert told[-1] == len(times(tmp_path))
    assert 2 < len(told) < told[-1]


def test_every_target_and_method_is_in_some_table():
    assert {t for table in TABLES.values() for t in table.targets} == set(TARGETS)
    used = {m.name for table in TABLES.values() for m in table.methods}
    assert used == set(METHODS)

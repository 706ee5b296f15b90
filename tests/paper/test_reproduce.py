"""reproduce: which jobs it trains, which files it writes, and its errors."""

import json
import shutil
import time
from dataclasses import dataclass, replace

import pandas as pd
import pyarrow.parquet as pq
import pytest
from matplotlib.figure import Figure

from setpoint.errors import SetpointError
from setpoint.paper import figures, methods, render, trial
from setpoint.paper.code import digest
from setpoint.paper.competitors import Lagrangian
from setpoint.paper.datasets import LOADERS
from setpoint.paper.jobs import TARGETS
from setpoint.paper.methods import METHODS, SCALES
from setpoint.paper.reproduce import NAMES, reproduce
from setpoint.paper.tables import TABLES, all_jobs
from setpoint.training import ordinary


@dataclass(frozen=True)
class FewEvaluations(Lagrangian):
    """The same, with fewer evaluations of the operating point."""

    outer_iterations: int = 5


@pytest.fixture(autouse=True)
def short_trainings(short_ordinary, monkeypatch):
    """Shorten what takes most of the time: the start of each job, and evaluations."""
    monkeypatch.setattr(ordinary, "RIDGES", ordinary.RIDGES[::3])
    monkeypatch.setattr(methods, "Lagrangian", FewEvaluations)
    monkeypatch.setitem(SCALES, "smoke", replace(SCALES["smoke"], lagrangian_steps=5))


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


def test_all_tables_and_figures_from_nothing(tmp_path, monkeypatch):
    """End to end, with every method, table and figure.

    Nothing is done twice: each grid has one point, tables of stricter goals and of ablations have
    one data set, and one of the two stress tests is drawn. Figures that need no results are drawn
    in their own tests.
    """
    monkeypatch.setitem(SCALES, "smoke", replace(SCALES["smoke"], configurations=1))
    for name, table in TABLES.items():
        if len(table.datasets) == 2:
            monkeypatch.setitem(TABLES, name, replace(table, datasets=("ade",)))
    for name in figures.FIGURES:
        monkeypatch.setitem(figures.FIGURES, name, Figure)
    draw = figures.stress_test.figure
    monkeypatch.setattr(
        figures.stress_test, "figure", lambda *a: draw(*a) if a[1] == "fpor" else Figure()
    )
    written = reproduce(["all"], tmp_path, scale="smoke", workers=1, quiet=True)
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
            "alpha", "rule", "part"]  # fmt: skip
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
    assert set(frame["rule"]) == {"own", "train", "validation"}
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


def test_a_table_has_a_caption_and_the_values_of_its_jobs(tmp_path):
    written = smoke(["fpor"], tmp_path, methods=("projected",), trials=2, split="paper")
    assert relative(written, tmp_path) == [
        "about-paper.md", "results-paper.parquet",
        "tables/fpor-paper_ade_projected_2-trials.md",
        "tables/fpor-paper_ade_projected_2-trials.tex",
    ]  # fmt: skip
    text, tex = (p.read_text(encoding="utf-8") for p in written[2:])
    assert "Scale smoke, 2 trials, paper split" in text.splitlines()[0]
    assert tex.startswith("% FPOR: max recall s.t. precision >= 0.9. Scale smoke, 2 trials")
    about = (tmp_path / "about-paper.md").read_text(encoding="utf-8")
    assert about.startswith("2 trainings, scale smoke, paper split.")
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
    shown = []  # and not drawn, which takes its time
    monkeypatch.setattr(
        figures.stress_test, "figure", lambda frame, kind: shown.append(frame) or Figure()
    )
    written = smoke(["stress-test", "three-split-fpor"], tmp_path, split="paper")
    assert relative([p for p in written if p.suffix == ".png"], tmp_path) == [
        "figures/stress-test-fpor-paper_ade_wce_tfco_projected.png",
        "figures/stress-test-frop-paper_ade_wce_tfco_projected.png",
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
    assert frame["adjusted"].equals(frame["rule"] == "train")


def test_names_of_groups(tmp_path, monkeypatch):
    trained = []
    monkeypatch.setattr("setpoint.paper.reproduce._train", lambda jobs, *_: trained.append(jobs))

    def jobs(names):
        trained.clear()
        reproduce(names, tmp_path, scale="smoke", only_train=True)
        return {job.name for job in trained[0]}

    every = {j.name for j in all_jobs(tuple(TABLES.values()), "smoke", "honest")}
    assert jobs(["all"]) == jobs(["tables"]) == every
    assert jobs(["figures"]) == jobs(["fpor-alpha", "frop-alpha"])  # for the stress test
    assert jobs(["fpor", "fpor", "all"]) == every
    assert set(NAMES) == {*TABLES, *figures.NAMES}


def test_workers_and_devices_are_handed_on(tmp_path, monkeypatch):
    given = []
    monkeypatch.setattr(
        "setpoint.paper.reproduce.run", lambda *_, **named: given.append(named) or []
    )
    smoke(["fpor"], tmp_path, workers=2, only_train=True)
    smoke(["fpor"], tmp_path, workers=None, devices=["cpu", "cpu"], only_train=True)
    handed = [(g["workers"], list(g["devices"])) for g in given]
    assert handed == [(2, ["cpu"]), (None, ["cpu", "cpu"])]


# --- less than before -----------------------------------------------------------------------------


MUCH = {
    "names": ["fpor-alpha"], "datasets": ("ade", "eyepacs"), "methods": ("wce", "projected"),
    "trials": 2,
}  # fmt: skip


@pytest.fixture(scope="module")
def much(tmp_path_factory):
    """What an earlier command left: another one's trainings, too."""
    out = tmp_path_factory.mktemp("much")
    smoke(["frop-alpha"], out, methods=("wce", "projected"), trials=2, only_train=True)
    smoke(["frop-alpha"], out, methods=("wce", "projected"), datasets=("eyepacs",), trials=2,
          only_train=True)  # fmt: skip
    smoke(out=out, **MUCH)
    return out


def contents(out):
    return {p.name: p.read_bytes() for p in (out / "tables").iterdir()}


@pytest.mark.parametrize(
    "less",
    [
        {},
        {"names": ["frop-alpha"]},
        {"datasets": ("eyepacs",)},
        {"methods": ("wce",)},
        {"trials": 1},
    ],
)
def test_a_restricted_table_never_overwrites_a_complete_one(less, much, tmp_path):
    shutil.copytree(much, tmp_path, dirs_exist_ok=True)
    first, before = contents(tmp_path), times(tmp_path)
    written = smoke(out=tmp_path, **(MUCH | less))
    assert relative(written[:2], tmp_path) == ["about-honest.md", "results-honest.parquet"]
    now = contents(tmp_path)
    assert first.items() <= now.items()
    assert len(now) == len(first) + (2 if less else 0)
    assert times(tmp_path) == before
    old, new = (pd.read_parquet(f / "results-honest.parquet") for f in (much, tmp_path))
    pd.testing.assert_frame_equal(new, old)
    about = [(f / "about-honest.md").read_text() for f in (much, tmp_path)]
    assert about[0] == about[1]


def test_the_name_of_a_table_contains_its_restrictions():
    fpor, stressed = TABLES["fpor"], TABLES["fpor-alpha"]
    usual = SCALES["small"].trials
    every = tuple(METHODS)

    def name(table, datasets=(), methods=(), trials=usual):
        return render.restriction_suffix(table, "small", datasets, methods, trials)

    assert name(fpor) == ""
    assert name(fpor, ("eyepacs", "ade", "creditcard"), every) == ""
    assert name(fpor, ("ade", "creditcard")) == "_ade_creditcard"
    assert name(stressed, ("ade", "creditcard")) == "_ade"  # it has only that
    assert name(fpor, ("ade-bert",), ("rus", "wce", "eq-lifted"), 1) == "_ade-bert_wce_rus_1-trials"
    assert name(fpor, trials=usual + 1) == f"_{usual + 1}-trials"
    for table in TABLES.values():  # systems allow 255 bytes
        longest = name(table, tuple(LOADERS), tuple(m.name for m in table.methods[1:]), 1000)
        assert len(f"stress-test-{table.name}-honest{longest}.tex") < 250


def test_all_that_is_kept_is_in_the_parquet_file_and_nothing_that_no_longer_counts(tmp_path):
    smoke(["fpor"], tmp_path, methods=("wce",))
    smoke(["frop"], tmp_path, methods=("projected",))
    frame = pd.read_parquet(tmp_path / "results-honest.parquet")
    assert set(frame["method"]) == {"wce", "projected"}
    for path in (tmp_path / "jobs").glob("*_wce_*"):
        path.write_text(json.dumps(json.loads(path.read_text()) | {"code": "0123456789ab"}))
    smoke(["frop"], tmp_path, methods=("projected",))
    frame = pd.read_parquet(tmp_path / "results-honest.parquet")
    assert set(frame["method"]) == {"projected"}
    smoke(["frop"], tmp_path, methods=("projected",), split="paper")
    assert set(pd.read_parquet(tmp_path / "results-paper.parquet")["split"]) == {"paper"}


# --- trained by other code, diverged --------------------------------------------------------------


def test_trainings_of_other_code_are_done_again_or_counted(tmp_path):
    smoke(["fpor"], tmp_path, methods=("projected", "wce"))
    old = sorted((tmp_path / "jobs").glob("*_wce_*"))
    for path in old:
        path.write_text(json.dumps(json.loads(path.read_text()) | {"code": "0123456789ab"}))
    before = times(tmp_path)
    smoke(["fpor"], tmp_path, methods=("projected", "wce"), keep_old=True)
    assert times(tmp_path) == before
    about = (tmp_path / "about-honest.md").read_text().splitlines()
    assert about[0] == f"{len(before)} trainings, scale smoke, honest split."
    assert about[1] == f"{len(old)} of them were trained by code other than this version's."
    smoke(["fpor"], tmp_path, methods=("projected", "wce"))
    assert {name for name, t in times(tmp_path).items() if t != before[name]} == {
        path.name for path in old
    }
    assert all(json.loads(path.read_text())["code"] == digest() for path in old)
    assert "other than" not in (tmp_path / "about-honest.md").read_text()


@pytest.mark.parametrize(("count", "only_train"), [(1, False), (5, False), (5, True)])
def test_trainings_that_diverged_are_named_and_block_no_table(
    count, only_train, tmp_path, capsys, monkeypatch
):
    jobs = all_jobs((TABLES["ofos"],), "smoke", "honest", ("ade",), 3, ("wce", "projected"))
    gone = {job.name for job in jobs if job.method == "wce"}
    gone = set(sorted(gone)[:count])
    real = trial.run_job

    def do(job, *rest):
        result = real(job, *rest)
        return result | {"diverged": True, "counts": []} if job.name in gone else result

    monkeypatch.setattr(trial, "run_job", do)
    given = {"methods": ("wce", "projected"), "trials": 3, "only_train": only_train}
    written = smoke(["ofos"], tmp_path, **given)
    (line,) = capsys.readouterr().err.splitlines()
    message, _, names = line.partition(": ")
    assert message == f"{count} of {len(jobs)} trainings diverged and rank last"
    shown = names.split(", ")
    assert set(shown) <= {*gone, "..."}
    assert len(shown) == (1 if count == 1 else 4)
    assert shown[-1] == "..." or count == 1
    if only_train:
        return
    assert len(written) == 4
    about = (tmp_path / "about-honest.md").read_text().splitlines()
    assert about[0] == f"{len(jobs)} trainings, scale smoke, honest split."
    assert about[1] == f"{count} of them diverged and rank last."
    assert "nan" not in written[2].read_text(encoding="utf-8")


# --- asked for something else ---------------------------------------------------------------------


def test_unknown_names_raise_before_anything_is_written(tmp_path):
    for changes, message in (
        ({"names": ["fprr"]}, "unknown table or figure 'fprr'; known: all, .*three-split-frop"),
        ({"datasets": ["ade", "mnist"]}, "unknown dataset 'mnist'; known: creditcard, ade"),
        ({"methods": ["wce", "xgboost"]}, "unknown method 'xgboost'; known: wce, .*default"),
        ({"scale": "huge"}, "unknown scale 'huge'; known: smoke, small, full"),
        ({"split": "leaky"}, "unknown split 'leaky'; known: honest, paper"),
        ({"trials": 0}, "trials must be at least 1, not 0"),
        ({"trials": -2}, "trials must be at least 1, not -2"),
        ({"workers": -1}, "workers must be at least 1, not -1"),
        ({"devices": ["cpu", "cuda:77"]}, "device 'cuda:77' is not available"),
        ({"devices": []}, "name at least one device"),
        (
            {"names": ["fpor-alpha", "ablation-frop"], "datasets": ["creditcard"]},
            "nothing to train: there are no rows for creditcard, wce in fpor-alpha, ablation-frop",
        ),
        (
            {"names": ["fpor"], "methods": ["ssa-lifted"]},
            "nothing to train: there are no rows for ade, ssa-lifted in fpor",
        ),
    ):
        given = {"names": ["fpor"], "datasets": ["ade"], "methods": ["wce"], **changes}
        with pytest.raises(SetpointError, match=message):
            smoke(out=tmp_path / "out", **given)
        assert not (tmp_path / "out").exists()


def test_a_table_that_is_not_about_the_data_is_left_out_where_others_are(tmp_path):
    """And so is the stress test."""
    asked = ["fpor", "fpor-alpha", "stress-test"]
    written = smoke(asked, tmp_path, methods=("wce",), datasets=("creditcard",))
    assert relative(written, tmp_path) == [
        "about-honest.md", "results-honest.parquet", "tables/fpor-honest_creditcard_wce.md",
        "tables/fpor-honest_creditcard_wce.tex",
    ]  # fmt: skip


def test_progress_is_reported_every_few_seconds_and_at_the_end(tmp_path, capsys, monkeypatch):
    clock = iter(range(1000))
    monkeypatch.setattr(time, "monotonic", lambda: 3.0 * next(clock))
    smoke(["fpor"], tmp_path, quiet=False)
    reported = [int(line.split()[0]) for line in capsys.readouterr().err.splitlines()]
    assert reported == sorted(reported)
    assert reported[-1] == len(times(tmp_path))
    assert 2 < len(reported) < reported[-1]


def test_every_target_and_method_is_in_some_table():
    assert {t for table in TABLES.values() for t in table.targets} == set(TARGETS)
    used = {m.name for table in TABLES.values() for m in table.methods}
    assert used == set(METHODS)

"""Run what a table or figure needs, then write it."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from setpoint._standardize import Standardizer
from setpoint.errors import SetpointError
from setpoint.experiments import figures
from setpoint.experiments.data import LOADERS, obtain
from setpoint.experiments.jobs import Job, Target
from setpoint.experiments.methods import METHODS
from setpoint.experiments.render import latex, markdown
from setpoint.experiments.results import JOB, selected, tidy
from setpoint.experiments.runner import run
from setpoint.experiments.scale import SCALES
from setpoint.experiments.store import Store
from setpoint.experiments.tables import TABLES, Table, all_jobs, lines_of

NAMES = (*TABLES, *figures.NAMES)
STRESS_TABLES = ("fpor-alpha", "frop-alpha")
HISTOGRAM_TARGET = Target("fpor", 0.9)
HISTOGRAM_DATA = "eyepacs"
MOST_TRACEBACKS = 3
BETWEEN_REPORTS = 5.0  # seconds


def reproduce(
    names: Sequence[str],
    out: str | Path,
    *,
    scale: str = "small",
    split: str = "honest",
    datasets: Sequence[str] = (),
    methods: Sequence[str] = (),
    trials: int | None = None,
    workers: int | None = None,
    devices: Sequence[str] = ("cpu",),
    only_train: bool = False,
    quiet: bool = False,
) -> list[Path]:
    """Train what is missing, then write tables and figures; return their files.

    Parameters
    ----------
    names : sequence of str
        Tables and figures by name, or ``"all"``, ``"tables"``, ``"figures"``.
    out : path
        A folder: ``jobs/`` holds what is finished, ``data/`` the data sets as they were used.
    scale : {"smoke", "small", "full"}
        How much work; see :class:`setpoint.experiments.scale.Scale`.
    split : {"honest", "paper"}
        Whether rows that belong together may be parted, as in the paper.
    datasets, methods : sequence of str
        To do with fewer or other ones.
    trials, workers, devices
        As many trials as the scale has, one worker per core, on the CPU.
    only_train : bool
        Whether to leave tables and figures for later, or for another machine.
    quiet : bool
        Whether to print no progress.
    """
    tables, drawn = _chosen(names)
    _check(scale=(scale, SCALES), split=(split, ("honest", "paper")))
    for dataset in datasets:
        _check(dataset=(dataset, LOADERS))
    for method in methods:
        _check(method=(method, METHODS))
    for what, number in {"trials": trials, "workers": workers}.items():
        if number is not None and number < 1:
            raise SetpointError(f"{what} must be at least 1, not {number}.")
    trained = (*tables, *(TABLES[name] for name in STRESS_TABLES if "stress-test" in drawn))
    jobs = all_jobs(trained, scale, split, tuple(datasets), trials, tuple(methods))
    if trained and not jobs:
        raise SetpointError(
            f"nothing to train: {', '.join(table.name for table in trained)} and "
            f"{', '.join((*datasets, *methods))} have nothing in common."
        )
    folder = Path(out)
    if jobs:
        _train(jobs, folder, workers, devices, quiet)
    if only_train:
        return []
    written = []
    if jobs:
        frame = tidy(Store(folder).results(jobs))
        written.append(_made(folder) / f"results-{split}.parquet")
        published = frame.assign(alpha=frame["alpha"].where(frame["kind"] != "ofos"))
        published.to_parquet(written[-1], index=False)
        written.append(_write_about(frame, folder, scale, split))
        best = selected(frame)
        for table in tables:
            written += _write_table(table, best, folder / "tables", split, tuple(datasets), scale)
        if "stress-test" in drawn:
            stressed = TABLES[STRESS_TABLES[0]].chosen(tuple(datasets))
            shown = best[best["dataset"].isin(stressed)]
            written += _draw_stress_test(shown, folder / "figures", split)
    for name in drawn:
        if name in figures.FIGURES:
            written += figures.save(figures.FIGURES[name](), folder / "figures", name)
    if "logit-histograms" in drawn:
        written += _draw_histograms(folder, scale)
    return written


def _chosen(names: Sequence[str]) -> tuple[tuple[Table, ...], tuple[str, ...]]:
    groups = {"all": NAMES, "tables": tuple(TABLES), "figures": figures.NAMES}
    wanted = [single for name in names for single in groups.get(name, (name,))]
    for name in wanted:
        _check(**{"table or figure": (name, (*groups, *NAMES))})
    tables = tuple(TABLES[name] for name in dict.fromkeys(wanted) if name in TABLES)
    return tables, tuple(name for name in dict.fromkeys(wanted) if name in figures.NAMES)


def _check(**given: tuple[str, Any]) -> None:
    for what, (name, known) in given.items():
        if name not in known:
            raise SetpointError(f"unknown {what} {name!r}; known: {', '.join(known)}.")


def _train(
    jobs: list[Job],
    folder: Path,
    workers: int | None,
    devices: Sequence[str],
    quiet: bool,
) -> None:
    told = 0.0

    def report(done: int, total: int, job: Job) -> None:
        nonlocal told
        if quiet or (done < total and time.monotonic() - told < BETWEEN_REPORTS):
            return
        told = time.monotonic()
        print(f"{done:,} of {total:,} jobs done, the last {job.name}", file=sys.stderr, flush=True)

    failures = run(jobs, folder, workers=workers, devices=devices, report=report)
    if failures:
        errors = "\n".join(f"{f.job.name}\n{f.error}" for f in failures[:MOST_TRACEBACKS])
        raise SetpointError(
            f"{len(failures):,} of {len(jobs):,} jobs failed; the others are kept in {folder}, and "
            f"the same command tries these again. The first:\n{errors}"
        )


def _write_about(frame: Any, folder: Path, scale: str, split: str) -> Path:
    """Write what was run, when and on which machines."""
    each = frame.drop_duplicates(JOB)
    lines = [
        f"{len(each):,} trainings, {scale} scale, {split} split.",
        "",
        "| trainings | dates | machine |",
        "|---|---|---|",
    ]
    for name, rows in each.groupby("machine"):
        first, last = rows["date"].min(), rows["date"].max()
        dates = first if first == last else f"{first} to {last}"
        lines.append(f"| {len(rows):,} | {dates} | {name} |")
    path = folder / f"about-{split}.md"
    path.write_text("\n".join(lines) + "\n", "utf-8")
    return path


def _write_table(
    table: Table, best: Any, folder: Path, split: str, datasets: tuple[str, ...], scale: str
) -> list[Path]:
    blocks = lines_of(table, best, datasets, split)
    if not blocks:
        return []
    own = best[best["three"] == table.three]
    note = (
        f"{table.title}. {scale} scale, {own['trial'].nunique()} trials, {split} split. Mean and "
        "deviation; in parentheses after the threshold is adjusted; underlined: the floor is held; "
        "bold: best of those."
    )
    stem = _made(folder) / f"{table.name}-{split}"
    stem.with_suffix(".md").write_text(f"{note}\n\n{markdown(table, blocks)}", "utf-8")
    stem.with_suffix(".tex").write_text(f"% {note}\n{latex(table, blocks)}", "utf-8")
    return [stem.with_suffix(".md"), stem.with_suffix(".tex")]


def _draw_stress_test(best: Any, folder: Path, split: str) -> list[Path]:
    """Draw every method once: competitors at their best, which is trained to convergence."""
    converged = best["method"].map(lambda name: "converged" in METHODS[name].variants)
    once = best[(best["variant"] == "converged") == converged]
    shown = once[(once["alpha"] > 0.9) & ~once["three"] & once["threshold"].isin(["own", "train"])]
    shown = shown.assign(adjusted=shown["threshold"] == "train")
    selects = shown["method"].map(lambda name: METHODS[name].selects).astype(bool)
    shown = shown[~(selects & shown["adjusted"])]  # its threshold is set on rows of its own
    written = []
    for kind in shown["kind"].unique():
        drawn = figures.stress_test.figure(shown, kind)
        written += figures.save(drawn, folder, f"stress-test-{kind}-{split}")
    return written


def _draw_histograms(folder: Path, scale: str) -> list[Path]:
    size = SCALES[scale]
    dataset = obtain(HISTOGRAM_DATA, folder / "data", stand_ins=size.stand_ins)
    # As printed: from ordinary training, at exact thresholds, logits keep away from them anyway.
    changes: dict[str, Any] = {"start": "random", "threshold": "fixed"}
    changes["outer_iterations"] = size.outer
    if size.inner is not None:
        changes["inner_iterations"] = size.inner
    X = Standardizer.fit(dataset.X, np.ones(len(dataset))).transform(dataset.X)
    trained = figures.logit_histograms.train_for_histograms(
        X, dataset.y, HISTOGRAM_TARGET.goal, seed=0, **changes
    )
    drawn = figures.logit_histograms.figure(
        trained.with_psi, trained.without_psi, dataset.y, f"{dataset.name}, {HISTOGRAM_TARGET.goal}"
    )
    return figures.save(drawn, folder / "figures", "logit-histograms")


def _made(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return its exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m setpoint.experiments",
        description="The paper's tables and figures. Data are read from SETPOINT_DATA.",
        epilog=f"Tables: {', '.join(TABLES)}. Figures: {', '.join(figures.NAMES)}.",
    )
    parser.add_argument("names", nargs="+", metavar="NAME", help="tables, figures, or 'all'")
    parser.add_argument("--scale", choices=tuple(SCALES), default="small")
    parser.add_argument("--split", choices=("honest", "paper"), default="honest")
    parser.add_argument("--out", default="results", type=Path, help="folder (default: results)")
    parser.add_argument("--datasets", nargs="+", default=(), metavar="D", help=", ".join(LOADERS))
    parser.add_argument("--methods", nargs="+", default=(), metavar="M")
    parser.add_argument("--trials", type=int)
    parser.add_argument("--workers", type=int, help="processes (default: one per core)")
    parser.add_argument("--devices", nargs="+", default=("cpu",), help="e.g. cuda:0 cuda:1")
    parser.add_argument("--only-train", action="store_true", help="no tables, no figures yet")
    parser.add_argument("--quiet", action="store_true")
    given = parser.parse_args(arguments)
    try:
        written = reproduce(
            given.names,
            given.out,
            scale=given.scale,
            split=given.split,
            datasets=given.datasets,
            methods=given.methods,
            trials=given.trials,
            workers=given.workers,
            devices=given.devices,
            only_train=given.only_train,
            quiet=given.quiet,
        )
    except SetpointError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except OSError as error:  # a full disk, a folder that may not be written
        print(
            f"error: {error}. What is trained is kept. Put that right, or choose another folder "
            "with --out; the same command goes on from here.",
            file=sys.stderr,
        )
        return 1
    except KeyboardInterrupt:
        print("\nstopped; the same command goes on from here.", file=sys.stderr)
        return 130
    for path in written:
        print(path)
    return 0

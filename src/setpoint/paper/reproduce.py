"""Reproduce the paper's tables and figures: the function and its command line."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from setpoint.errors import SetpointError
from setpoint.paper import figures, render
from setpoint.paper.datasets import LOADERS, sources
from setpoint.paper.jobs import Job
from setpoint.paper.methods import METHODS, SCALES
from setpoint.paper.results import Store, selected, tidy
from setpoint.paper.runner import check_devices, run
from setpoint.paper.tables import TABLES, Table, all_jobs, lines_of

NAMES = (*TABLES, *figures.NAMES)
STRESS_TABLES = ("fpor-alpha", "frop-alpha")
MOST_TRACEBACKS = 3
MOST_NAMES = 3
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
    keep_old: bool = False,
    quiet: bool = False,
) -> list[Path]:
    """Run the missing trainings, write tables and figures, and return their files.

    Tables restricted to fewer data sets, methods or trials have names that say so. The Parquet
    file contains all stored trainings of the split, whichever command ran them.

    Parameters
    ----------
    names : sequence of str
        Tables and figures by name, or ``"all"``, ``"tables"``, ``"figures"``.
    out : path
        A folder: ``jobs/`` holds finished trainings, ``data/`` the data sets as they were used.
    scale : {"smoke", "small", "full"}
        How much work to do; see :class:`setpoint.paper.methods.Scale`.
    split : {"honest", "paper"}
        Whether to keep the rows of a group in the same split, or split rows as in the paper.
    datasets, methods : sequence of str
        Restrict to these data sets and methods, or use other data sets.
    trials, workers : int, optional
        By default the trials of the scale, and one worker per core.
    devices : sequence of str
        Torch devices, e.g. ``("cuda:0", "cuda:1")``.
    only_train : bool
        Whether to stop before writing tables and figures.
    keep_old : bool
        Whether to accept trainings of other code instead of repeating them.
    quiet : bool
        Whether to suppress progress messages.
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
    check_devices(devices)
    trials = trials or SCALES[scale].trials
    asked = (tuple(datasets), tuple(methods), trials)
    trained = (*tables, *(TABLES[name] for name in STRESS_TABLES if "stress-test" in drawn))
    jobs = all_jobs(trained, scale, split, asked[0], trials, asked[1])
    if trained and not jobs:
        raise SetpointError(
            f"nothing to train: there are no rows for {', '.join((*datasets, *methods))} in "
            f"{', '.join(table.name for table in trained)}."
        )
    folder = Path(out)
    results: dict[str, dict[str, Any]] = {}
    if jobs:
        _train(jobs, folder, workers, devices, keep_old, quiet)
        results = Store(folder, keep_old).results_of_split(split, sources(folder / "data"))
        _report_diverged(jobs, results)
    if only_train:
        return []
    written: list[Path] = []
    if jobs:
        everything = tidy(results.values())
        same = len(results) == len(jobs)
        best = selected(everything if same else tidy(results[job.name] for job in jobs))
        parquet, about = folder / f"results-{split}.parquet", folder / f"about-{split}.md"
        written.append(render.write_parquet(everything, parquet))
        written.append(render.write_about(results.values(), about, scale, split))
        for table in tables:
            blocks = lines_of(table, best, asked[0], split)
            if blocks:
                ending = f"{split}{render.restriction_suffix(table, scale, *asked)}"
                stem = folder / "tables" / f"{table.name}-{ending}"
                caption = render.note(table, scale, split, trials)
                written += render.write_table(table, blocks, stem, caption)
        if "stress-test" in drawn:
            stressed = TABLES[STRESS_TABLES[0]]
            shown = best[best["dataset"].isin(stressed.chosen(asked[0]))]
            ending = f"{split}{render.restriction_suffix(stressed, scale, *asked)}"
            written += render.draw_stress_test(shown, folder / "figures", ending)
    for name in drawn:
        if name in figures.FIGURES:
            written += figures.save(figures.FIGURES[name](), folder / "figures", name)
    if "logit-histograms" in drawn:
        written += render.draw_histograms(folder, scale)
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
    keep_old: bool,
    quiet: bool,
) -> None:
    reported = 0.0

    def report(done: int, total: int, job: Job) -> None:
        nonlocal reported
        if quiet or (done < total and time.monotonic() - reported < BETWEEN_REPORTS):
            return
        reported = time.monotonic()
        print(
            f"{done:,} of {total:,} jobs finished, the last {job.name}", file=sys.stderr, flush=True
        )

    failures = run(jobs, folder, workers=workers, devices=devices, report=report, keep_old=keep_old)
    if failures:
        errors = "\n".join(f"{f.job.name}\n{f.error}" for f in failures[:MOST_TRACEBACKS])
        raise SetpointError(
            f"{len(failures):,} of {len(jobs):,} jobs failed; the others are stored in {folder}, "
            f"and the same command repeats only these. The first:\n{errors}"
        )


def _report_diverged(jobs: list[Job], results: dict[str, dict[str, Any]]) -> None:
    names = [job.name for job in jobs if results.get(job.name, {}).get("diverged") is True]
    if names:
        more = ", ..." if len(names) > MOST_NAMES else ""
        print(
            f"{len(names):,} of {len(jobs):,} trainings diverged and rank last: "
            f"{', '.join(names[:MOST_NAMES])}{more}",
            file=sys.stderr,
        )


def main(arguments: Sequence[str] | None = None, prog: str = "python -m setpoint.paper") -> int:
    """Run the command line; return its exit code."""
    given = vars(_parser(prog).parse_args(arguments))
    try:
        written = reproduce(given.pop("names"), given.pop("out"), **given)
    except SetpointError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except OSError as error:  # a full disk, a folder without write permission
        print(
            f"error: {error}. Finished trainings are stored. Correct this, or choose another "
            "folder with --out; the same command continues from here.",
            file=sys.stderr,
        )
        return 1
    except KeyboardInterrupt:
        print("\nstopped; the same command continues from here.", file=sys.stderr)
        return 130
    for path in written:
        print(path)
    return 0


def _parser(prog: str) -> argparse.ArgumentParser:
    """Return the parser, whose options are the parameters of :func:`reproduce`."""
    parser = argparse.ArgumentParser(
        prog=prog,
        description="Reproduce the paper's tables and figures. Data are read from SETPOINT_DATA.",
        epilog=f"Tables: {', '.join(TABLES)}. Figures: {', '.join(figures.NAMES)}.",
    )
    add = parser.add_argument
    add("names", nargs="+", metavar="NAME", help="tables and figures by name, or 'all'")
    add("--scale", choices=tuple(SCALES), default="small", help="how much work (default: small)")
    add(
        "--split",
        choices=("honest", "paper"),
        default="honest",
        help="honest: keep the rows of a group together (default); paper: as in the paper",
    )
    add("--out", default="results", type=Path, help="output folder (default: results)")
    add("--datasets", nargs="+", default=(), metavar="D", help=f"of {', '.join(LOADERS)}")
    add("--methods", nargs="+", default=(), metavar="M", help="only these methods")
    add("--trials", type=int, help="number of trials (default: that of the scale)")
    add("--workers", type=int, help="number of processes (default: one per core)")
    add(
        "--devices",
        nargs="+",
        default=("cpu",),
        help="torch devices, e.g. cuda:0 cuda:1 (default: cpu)",
    )
    add("--only-train", action="store_true", help="stop before tables and figures")
    add(
        "--keep-old",
        action="store_true",
        help="accept trainings of other code instead of repeating them",
    )
    add("--quiet", action="store_true", help="no progress messages")
    return parser

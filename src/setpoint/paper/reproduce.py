"""Run what a table or figure needs, then write it."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from setpoint.errors import SetpointError
from setpoint.paper import figures
from setpoint.paper import render as outputs
from setpoint.paper.data import LOADERS, sources
from setpoint.paper.jobs import Job
from setpoint.paper.methods import METHODS, SCALES
from setpoint.paper.render import note
from setpoint.paper.results import selected, tidy
from setpoint.paper.runner import check_devices, run
from setpoint.paper.store import Store
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
    """Train what is missing, then write tables and figures; return their files.

    Tables of fewer data sets, methods or trials than usual have names that tell. The Parquet file
    holds every training of the split that is kept, whichever command asked for it.

    Parameters
    ----------
    names : sequence of str
        Tables and figures by name, or ``"all"``, ``"tables"``, ``"figures"``.
    out : path
        A folder: ``jobs/`` holds what is finished, ``data/`` the data sets as they were used.
    scale : {"smoke", "small", "full"}
        How much work; see :class:`setpoint.paper.methods.Scale`.
    split : {"honest", "paper"}
        Whether rows that belong together may be parted, as in the paper.
    datasets, methods : sequence of str
        To do with fewer or other ones.
    trials, workers, devices
        As many trials as the scale has, one worker per core, on the CPU.
    only_train : bool
        Whether to leave tables and figures for later, or for another machine.
    keep_old : bool
        Whether to take trainings as they are that were made by other code; else they are done
        again.
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
    check_devices(devices)
    trials = trials or SCALES[scale].trials
    asked = (tuple(datasets), tuple(methods), trials)
    trained = (*tables, *(TABLES[name] for name in STRESS_TABLES if "stress-test" in drawn))
    jobs = all_jobs(trained, scale, split, asked[0], trials, asked[1])
    if trained and not jobs:
        raise SetpointError(
            f"nothing to train: {', '.join(table.name for table in trained)} and "
            f"{', '.join((*datasets, *methods))} have nothing in common."
        )
    folder = Path(out)
    kept: dict[str, dict[str, Any]] = {}
    if jobs:
        _train(jobs, folder, workers, devices, keep_old, quiet)
        kept = Store(folder, keep_old).kept(split, sources(folder / "data"))
        _tell_diverged(jobs, kept)
    if only_train:
        return []
    written: list[Path] = []
    if jobs:
        everything = tidy(kept.values())
        same = len(kept) == len(jobs)
        best = selected(everything if same else tidy(kept[job.name] for job in jobs))
        parquet, about = folder / f"results-{split}.parquet", folder / f"about-{split}.md"
        written.append(outputs.write_parquet(everything, parquet))
        written.append(outputs.write_about(kept.values(), about, scale, split))
        for table in tables:
            blocks = lines_of(table, best, asked[0], split)
            if blocks:
                ending = f"{split}{outputs.narrowed(table, scale, *asked)}"
                stem = folder / "tables" / f"{table.name}-{ending}"
                how = note(table, scale, split, trials)
                written += outputs.write_table(table, blocks, stem, how)
        if "stress-test" in drawn:
            stressed = TABLES[STRESS_TABLES[0]]
            shown = best[best["dataset"].isin(stressed.chosen(asked[0]))]
            ending = f"{split}{outputs.narrowed(stressed, scale, *asked)}"
            written += outputs.draw_stress_test(shown, folder / "figures", ending)
    for name in drawn:
        if name in figures.FIGURES:
            written += figures.save(figures.FIGURES[name](), folder / "figures", name)
    if "logit-histograms" in drawn:
        written += outputs.draw_histograms(folder, scale)
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
    told = 0.0

    def report(done: int, total: int, job: Job) -> None:
        nonlocal told
        if quiet or (done < total and time.monotonic() - told < BETWEEN_REPORTS):
            return
        told = time.monotonic()
        print(f"{done:,} of {total:,} jobs done, the last {job.name}", file=sys.stderr, flush=True)

    failures = run(jobs, folder, workers=workers, devices=devices, report=report, keep_old=keep_old)
    if failures:
        errors = "\n".join(f"{f.job.name}\n{f.error}" for f in failures[:MOST_TRACEBACKS])
        raise SetpointError(
            f"{len(failures):,} of {len(jobs):,} jobs failed; the others are kept in {folder}, and "
            f"the same command tries these again. The first:\n{errors}"
        )


def _tell_diverged(jobs: list[Job], kept: dict[str, dict[str, Any]]) -> None:
    names = [job.name for job in jobs if kept.get(job.name, {}).get("diverged") is True]
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


def _parser(prog: str) -> argparse.ArgumentParser:
    """Return the parser; its options are the parameters of ``reproduce``."""
    parser = argparse.ArgumentParser(
        prog=prog,
        description="The paper's tables and figures. Data are read from SETPOINT_DATA.",
        epilog=f"Tables: {', '.join(TABLES)}. Figures: {', '.join(figures.NAMES)}.",
    )
    add = parser.add_argument
    add("names", nargs="+", metavar="NAME", help="tables, figures, or 'all'")
    add("--scale", choices=tuple(SCALES), default="small")
    add("--split", choices=("honest", "paper"), default="honest")
    add("--out", default="results", type=Path, help="folder (default: results)")
    add("--datasets", nargs="+", default=(), metavar="D", help=", ".join(LOADERS))
    add("--methods", nargs="+", default=(), metavar="M")
    add("--trials", type=int)
    add("--workers", type=int, help="processes (default: one per core)")
    add("--devices", nargs="+", default=("cpu",), help="e.g. cuda:0 cuda:1")
    add("--only-train", action="store_true", help="no tables, no figures yet")
    add("--keep-old", action="store_true", help="train nothing again because the code changed")
    add("--quiet", action="store_true")
    return parser


# DOC of experiments.command: The command line of the experiments.

"""Decisions other than one floor and one objective, compared with the peer that does each best.

Six parts, each in a module of ``decisions/`` that says what is measured and how the peers are used:

- ``money``: the threshold with the least cost, where each row has its own costs;
- ``training``: models trained for the cost of the rows;
- ``budgets``: at most 100 alarms a day, on the days after;
- ``groups``: a precision floor in every group;
- ``band``: two thresholds with a review band between them;
- ``labels``: one threshold for each of several labels.

All methods of a part get the same rows and, but for ``training``, the same scores. Scores and
finished splits are stored in files, from which an interrupted run continues; those of the peers
remain valid when setpoint changes.
"""

from __future__ import annotations

import argparse
import importlib
import warnings
from functools import partial
from pathlib import Path
from typing import Any

import torch
from threadpoolctl import threadpool_limits

from _stored import PACKAGE, digest, run_missing
from setpoint._internal.provenance import machine

PARTS = ("money", "training", "budgets", "groups", "band", "labels")
HERE = Path(__file__).parent / "decisions"


def run(part: str, ours: bool, name: str, kind: str, seed: int) -> list[dict[str, Any]]:
    """Return the results of our or all other methods of a part on one split."""
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    with threadpool_limits(limits=1):  # processes share the cores
        rows = importlib.import_module(f"decisions.{part}").run(name, kind, seed, ours)
    return [
        {"part": part, "ours": ours, "data": name, "model": kind, "seed": seed, **r} for r in rows
    ]


def key(row: dict[str, Any]) -> tuple[Any, ...]:
    return row["part"], row["ours"], row["data"], row["model"], row["seed"]


def results_of(part: str, splits: int, who: list[bool], keep: Path, workers: int) -> Any:
    """Return the stored and the missing results of a part."""
    module = importlib.import_module(f"decisions.{part}")
    own = [HERE / f"{name}.py" for name in (part, "data", "scores")]
    own += [HERE.parent / "_data.py", *([HERE / "money.py"] if part == "training" else [])]
    results = []
    for ours in who:
        code = digest(*own, *([HERE / "ours.py", PACKAGE] if ours else []))
        file = keep / f"decisions.{part}{'' if ours else '.others'}.jsonl"
        jobs = [(part, ours, *job) for job in module.jobs(splits)]
        wanted = set(jobs)
        rows = run_missing(file, jobs, run, key, workers, code)
        results += [r for r in rows if key(r) in wanted]
    return results


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--part", nargs="*", default=PARTS, choices=PARTS, metavar="PART")
    parser.add_argument("--splits", type=int, default=20)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--keep", type=Path, default=Path("build"), help="folder of the results")
    parser.add_argument("--peers", action="store_true", help="only the methods of other packages")
    parser.add_argument("--ours", action="store_true", help="only the methods of setpoint")
    parser.add_argument("--facts", action="store_true", help="only describe the data with costs")
    given = parser.parse_args()
    if given.facts:
        from decisions.data import facts

        facts()
        return
    who = [True] if given.ours else [False] if given.peers else [True, False]
    print(machine(), f"; {given.splits} splits\n")
    of = partial(results_of, splits=given.splits, who=who, keep=given.keep, workers=given.jobs)
    for part in given.part:
        print(f"## {part}\n", flush=True)
        importlib.import_module(f"decisions.{part}").tables(of(part))


if __name__ == "__main__":
    main()

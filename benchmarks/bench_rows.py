"""How time and memory grow with the rows, which are in memory: 10^4 to 10^7 rows of 8 features.

    python benchmarks/bench_rows.py [--rows 10000 100000 ...]

Every number of rows is a process of its own. The stochastic solver trains a linear model for three
looks, without a validation part. Timed are the survey (one pass: scores of all models, histograms,
a sample), the exact threshold (which takes several passes; the time is that of all) and a whole
look (steps and the survey; of the projected solver as well); of the looks the fastest counts. The
exponent is that of a line through the logarithms, from 10^5 rows on: below, what every look costs
anyway rules.

Memory is what the process has resident at its peak beyond what it had with the rows, X and y, in
memory, and after a small fit that loads the libraries. The sample of the stochastic solver has a
size of its own, which is no matter of the rows once they are more than it holds; so its memory is
given with the default sample and with one of 100,000 rows, and beside the bytes over all rows is
the slope from the last but one number of rows to the last.
"""

from __future__ import annotations

import argparse
import os
import time
import warnings
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import _fresh

GOAL = "max recall s.t. precision >= 0.8"
FEATURES = 8
LOOKS = 3
SMALL_SAMPLE = 100_000
LINEAR_ENOUGH, BYTES_WANTED = 1.05, 16
SOLVERS = ("stochastic", "small sample", "projected")
STAGES = ("survey", "exact threshold", "look")


def rows_of(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Return rows of which a linear model cannot have all positives, without passing arrays."""
    rng = np.random.default_rng(0)
    y = np.empty(n, dtype=bool)
    X = np.empty((n, FEATURES), dtype=np.float32)
    for start in range(0, n, 10_000):
        part = slice(start, min(n, start + 10_000))
        own = X[part]
        rng.standard_normal(out=own, dtype=np.float32)
        y[part] = rng.random(len(own)) < 0.1
        far = y[part] & (rng.random(len(own)) < 1 / 3)
        own[y[part] & ~far, :3] += 1.5
        own[far, 0] -= 4.0
    return X, y


def one(solver: str, n: int) -> None:
    """Train on n rows and tell times and memory."""
    import torch

    from setpoint.training import Projected, Stochastic, make_problem, projected, solve
    from setpoint.training import stochastic as stochastic_run
    from setpoint.training.models import build

    made = {
        "stochastic": Stochastic(outer_iterations=LOOKS),
        "small sample": Stochastic(outer_iterations=LOOKS, rows=SMALL_SAMPLE),
        "projected": Projected(outer_iterations=LOOKS),
    }
    seconds: dict[str, list[float]] = defaultdict(list)

    def timed(home: Any, name: str, stage: str) -> None:
        inner: Callable[..., Any] = getattr(home, name)

        def outer(*args: Any, **kwargs: Any) -> Any:
            started = time.perf_counter()
            found = inner(*args, **kwargs)
            seconds[stage].append(time.perf_counter() - started)
            return found

        setattr(home, name, outer)

    def train(X: np.ndarray, y: np.ndarray) -> float:
        problem = make_problem(torch.from_numpy(X), torch.from_numpy(y), GOAL)
        module = build("linear", FEATURES)
        return solve(problem, module, made[solver], seed=0).operating_point.objective

    train(*rows_of(2_000))
    timed(stochastic_run.StochasticRun, "_survey", "survey")
    timed(stochastic_run.StochasticRun, "exact_point", "exact threshold")
    timed(stochastic_run.StochasticRun, "advance", "look")
    timed(projected.ProjectedRun, "advance", "look")
    X, y = rows_of(n)
    Path("/proc/self/clear_refs").write_text("5")  # the peak starts anew
    before = _fresh.resident_bytes()
    started = time.perf_counter()
    objective = train(X, y)
    total = time.perf_counter() - started
    _fresh.tell(
        seconds={stage: min(found) for stage, found in seconds.items()},
        total=total,
        bytes=_fresh.peak_bytes() - before,
        objective=objective,
    )


def exponent(rows: list[int], seconds: list[float]) -> float:
    return float(np.polyfit(np.log(rows), np.log(seconds), 1)[0])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, nargs="*", default=[10**4, 10**5, 10**6, 10**7])
    parser.add_argument("--quick", action="store_true", help="10^4 to 10^6 rows")
    parser.add_argument("--solver", nargs="*", default=SOLVERS, choices=SOLVERS)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--one", nargs=2, metavar=("SOLVER", "ROWS"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    if given.one:
        one(given.one[0], int(given.one[1]))
        return
    from setpoint._internal.provenance import machine

    print(machine(), f"; {given.threads} threads\n")
    sizes = sorted(n for n in given.rows if not given.quick or n <= 10**6)
    print("| solver | rows | survey, s | exact threshold, s | look, s | whole, s "
          "| extra memory, MB | bytes/row |")  # fmt: skip
    print("|---" * 8 + "|")
    sums = []
    for solver in given.solver:
        found = []
        for n in sizes:
            told = _fresh.run(__file__, "--one", solver, n, threads=given.threads)
            found.append(told)
            times = [f"{told['seconds'][s]:.3f}" if s in told["seconds"] else "" for s in STAGES]
            print(
                f"| {solver} | {n:,} | {' | '.join(times)} | {told['total']:.1f} "
                f"| {told['bytes'] / 1e6:.0f} | {told['bytes'] / n:.1f} |",
                flush=True,
            )
        large = [i for i, n in enumerate(sizes) if n >= 10**5]
        if len(large) < 2:
            continue
        told = []
        for stage in STAGES:
            if stage in found[0]["seconds"]:
                times = [found[i]["seconds"][stage] for i in large]
                power = exponent([sizes[i] for i in large], times)
                told.append(f"{stage} rows^{power:.2f}")
        a, b = large[-2:]
        slope = (found[b]["bytes"] - found[a]["bytes"]) / (sizes[b] - sizes[a])
        grows = (
            f"time grows as {', '.join(told)} (at most {LINEAR_ENOUGH} wanted); " if told else ""
        )
        sums.append(
            f"{solver}: {grows}memory from {sizes[a]:,} to {sizes[b]:,} rows: {slope:.1f} bytes "
            f"a row (at most {BYTES_WANTED} wanted)"
        )
    print("", *sums, sep="\n\n")


if __name__ == "__main__":
    main()

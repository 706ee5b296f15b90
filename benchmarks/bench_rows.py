"""How time and memory grow with the number of rows in memory: 10^4 to 10^7 rows of 8 features.

    python benchmarks/bench_rows.py [--rows 10000 100000 ...]

Every number of rows runs in a separate process. A linear model is trained for three outer
iterations, without validation rows. Three times are measured: an evaluation pass (scores of all
models, histograms, a sample), the exact threshold (all of its passes together), and an outer
iteration (steps and evaluation pass; also for the projected solver). The fastest of the three
iterations counts. The exponent is the slope of a line through the logarithms, from 10^5 rows on;
below that, fixed costs dominate.

Memory is the peak resident memory beyond that of the process with the rows, X and y, in memory,
after a small fit that loads the libraries. The size of the stochastic solver's sample does not
depend on the number of rows once there are more rows than it holds. Its memory is therefore shown
for the default sample and for one of 100,000 rows, and in addition to the bytes per row there is
the slope between the two largest numbers of rows.
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
ITERATIONS = 3
SMALL_SAMPLE = 100_000
LINEAR_ENOUGH, BYTES_WANTED = 1.05, 16
SOLVERS = ("stochastic", "small sample", "projected")
STAGES = ("evaluation pass", "exact threshold", "outer iteration")


def rows_of(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Return rows that no linear model separates, generated without temporary arrays of size n."""
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
    """Train on n rows and print times and memory."""
    import torch

    from setpoint.training import Projected, Stochastic, make_problem, projected, solve
    from setpoint.training import stochastic as stochastic_run
    from setpoint.training.models import build

    made = {
        "stochastic": Stochastic(outer_iterations=ITERATIONS),
        "small sample": Stochastic(outer_iterations=ITERATIONS, rows=SMALL_SAMPLE),
        "projected": Projected(outer_iterations=ITERATIONS),
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
    timed(stochastic_run.StochasticRun, "_survey", "evaluation pass")
    timed(stochastic_run.StochasticRun, "exact_point", "exact threshold")
    timed(stochastic_run.StochasticRun, "advance", "outer iteration")
    timed(projected.ProjectedRun, "advance", "outer iteration")
    X, y = rows_of(n)
    Path("/proc/self/clear_refs").write_text("5")  # reset the peak
    before = _fresh.resident_bytes()
    started = time.perf_counter()
    objective = train(X, y)
    total = time.perf_counter() - started
    _fresh.print_result(
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
    print("| solver | rows | evaluation pass, s | exact threshold, s | outer iteration, s "
          "| total, s | extra memory, MB | bytes per row |")  # fmt: skip
    print("|---" * 8 + "|")
    sums = []
    for solver in given.solver:
        found = []
        for n in sizes:
            result = _fresh.run(__file__, "--one", solver, n, threads=given.threads)
            found.append(result)
            seconds = result["seconds"]
            times = [f"{seconds[s]:.3f}" if s in seconds else "" for s in STAGES]
            print(
                f"| {solver} | {n:,} | {' | '.join(times)} | {result['total']:.1f} "
                f"| {result['bytes'] / 1e6:.0f} | {result['bytes'] / n:.1f} |",
                flush=True,
            )
        large = [i for i, n in enumerate(sizes) if n >= 10**5]
        if len(large) < 2:
            continue
        growth = []
        for stage in STAGES:
            if stage in found[0]["seconds"]:
                times = [found[i]["seconds"][stage] for i in large]
                power = exponent([sizes[i] for i in large], times)
                growth.append(f"{stage} rows^{power:.2f}")
        a, b = large[-2:]
        slope = (found[b]["bytes"] - found[a]["bytes"]) / (sizes[b] - sizes[a])
        grows = (
            f"time grows as {', '.join(growth)} (target: at most {LINEAR_ENOUGH}); "
            if growth
            else ""
        )
        sums.append(
            f"{solver}: {grows}memory from {sizes[a]:,} to {sizes[b]:,} rows: {slope:.1f} bytes "
            f"per row (target: at most {BYTES_WANTED})"
        )
    print("", *sums, sep="\n\n")


if __name__ == "__main__":
    main()

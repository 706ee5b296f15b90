"""The stochastic solver compared with full batches: training objectives and passes.

    python benchmarks/bench_stochastic.py [--data celeba ...] [--model linear mlp] [--seeds 3]

Both solvers get the same standardised rows and the same goal. All rows are training and validation
rows at once: this measures optimisation, not generalisation. A pass is all rows forward and
backward; scoring all rows, forward only, counts as a third. Passes are counted per model, however
many models are trained at once. If steps use a working set, a step counts as the fraction of rows
that it uses. Ordinary training, from which both start, is not counted, because it is the same for
both.
"""

from __future__ import annotations

import argparse
import os
import time
import warnings
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from multiprocessing import get_context
from typing import NamedTuple

import numpy as np
import torch
from sklearn.preprocessing import StandardScaler

from _data import load_grouped
from setpoint import FPOR, FROP, OFOS, Goal
from setpoint._internal.provenance import machine
from setpoint.thresholds.operating_point import OperatingPoint
from setpoint.training import Projected, Stochastic, make_problem, solve
from setpoint.training.models import build

DATA = ("celeba", "creditcard", "campaign")
MODELS = ("linear", "mlp")
GOALS: dict[str, Goal] = {"FPOR 0.9": FPOR(0.9), "FROP 0.9": FROP(0.9), "F1": OFOS()}
NEAR_ENOUGH = 0.01
SCORING = 1 / 3  # of a pass


class Case(NamedTuple):
    """One training of both solvers, for one process."""

    data: str
    model: str
    goal: str
    seed: int
    device: str
    threads: int
    quick: bool


class Found(NamedTuple):
    """The results of both solvers: full batch, then stochastic."""

    points: tuple[OperatingPoint, OperatingPoint]
    passes: tuple[float, float]
    seconds: tuple[float, float]


@cache
def rows_of(name: str) -> tuple[np.ndarray, np.ndarray]:
    data = load_grouped(name)
    return StandardScaler().fit_transform(data.X).astype(np.float32), data.y


def projected_passes(solver: Projected, n: int) -> float:
    assert solver.inner_iterations is not None  # the solver is settled
    step = min(n, solver.rows) / n
    return solver.outer_iterations * (solver.inner_iterations * step + SCORING)


def stochastic_passes(solver: Stochastic, n: int) -> float:
    """Count the passes of the iterations, the first pass, and those of start and threshold.

    The first pass reads without a model; it is counted like the others.
    """
    assert solver.inner_iterations is not None  # the solver is settled
    assert solver.batch_size is not None
    step = min(n, solver.batch_size) / n
    iterations = solver.outer_iterations * (solver.inner_iterations * step + SCORING)
    return iterations + 4 * SCORING


def train(case: Case) -> Found:
    torch.set_num_threads(case.threads)
    warnings.simplefilter("ignore")
    X, y = (torch.from_numpy(a).to(case.device) for a in rows_of(case.data))
    few = {"outer_iterations": 3} if case.quick else {}
    full = Projected(**few).settle(make_problem(X, y, GOALS[case.goal]))
    batches = Stochastic(**few).settle_for(build(case.model, X.shape[1]))
    points, seconds = [], []
    for solver in (full, batches):
        problem = make_problem(X, y, GOALS[case.goal])
        torch.manual_seed(case.seed)
        module = build(case.model, X.shape[1]).to(case.device)
        started = time.perf_counter()
        points.append(solve(problem, module, solver, seed=case.seed).operating_point)
        seconds.append(time.perf_counter() - started)
    passes = projected_passes(full, len(y)), stochastic_passes(batches, len(y))
    return Found((points[0], points[1]), passes, (seconds[0], seconds[1]))


def cell(values: list[float]) -> str:
    mean = float(np.mean(values))
    return f"{mean:.4f}" if len(values) == 1 else f"{mean:.4f} ± {np.ptp(values) / 2:.4f}"


def row(case: Case, found: list[Found]) -> tuple[str, bool]:
    """Return a row of the table, and whether it meets the target."""
    full, batches = ([f.points[i].objective for f in found] for i in (0, 1))
    missed = [np.mean([f.points[i].violation for f in found]) for i in (0, 1)]
    apart = float(np.mean(batches) - np.mean(full))
    passes = found[0].passes
    seconds = [np.mean([f.seconds[i] for f in found]) for i in (0, 1)]
    broken = f" (missed by {missed[0]:.3f}, {missed[1]:.3f})" if max(missed) > 0 else ""
    good = apart >= -NEAR_ENOUGH and passes[1] <= passes[0] and missed[1] <= missed[0]
    line = (
        f"| {case.data} | {case.model} | {case.goal} | {cell(full)} | {cell(batches)} "
        f"| {apart:+.4f}{broken} | {passes[0]:.0f} | {passes[1]:.0f} "
        f"| {seconds[0]:.1f} | {seconds[1]:.1f} |"
    )
    return line, good


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", nargs="*", default=DATA, choices=DATA, metavar="NAME")
    parser.add_argument("--model", nargs="*", default=MODELS, choices=MODELS)
    parser.add_argument("--goal", nargs="*", default=list(GOALS), choices=GOALS)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--workers", type=int, default=1, help="number of processes")
    parser.add_argument("--threads", type=int, help="threads per process")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--quick", action="store_true", help="three iterations, one seed")
    given = parser.parse_args()
    print(machine(given.device), "\n")
    threads = given.threads or max(1, (os.cpu_count() or 1) // given.workers)
    # Threads that spin while waiting would take the cores from other processes.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    os.environ["OMP_NUM_THREADS"] = str(threads)  # for the child processes
    seeds = 1 if given.quick else given.seeds
    names = [(d, m, g) for d in given.data for m in given.model for g in given.goal]
    cases = [
        [Case(*name, seed, given.device, threads, given.quick) for seed in range(seeds)]
        for name in names
    ]
    shared = f"{given.workers} processes of {threads} threads"
    print(f"{seeds} seeds, means ± half of the range; {shared}\n")
    print(
        "| data | model | goal | full batch | stochastic | difference | passes, full "
        "| passes, stochastic | s, full | s, stochastic |"
    )
    print("|---" * 10 + "|", flush=True)
    context = get_context("spawn")  # CUDA does not work in forked processes
    every = []
    with ProcessPoolExecutor(given.workers, mp_context=context) as pool:
        running = [[pool.submit(train, case) for case in same] for same in cases]
        for same, futures in zip(cases, running, strict=True):
            line, good = row(same[0], [future.result() for future in futures])
            print(line, flush=True)
            every.append(good)
    print(f"\n{sum(every)} of {len(every)} within {NEAR_ENOUGH} or better, without more passes")


if __name__ == "__main__":
    main()

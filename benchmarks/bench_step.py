"""Time of a training step: plain cross-entropy, lifted and projected on the same model and rows.

    python benchmarks/bench_step.py [--device cuda] [--quick] [--networks]

Every step uses all rows. The time of a step is the difference between a long and a short run,
divided by the difference in steps, so that one-time costs do not count. The limit is the time to
read the rows twice (for a network also to write and read its activations) at the bandwidth that a
copy reaches on this machine, measured in the same run.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import replace

import torch

from setpoint._internal.provenance import machine
from setpoint.training import Lifted, LossTraining, Projected, Solver, make_problem
from setpoint.training.models import build

GOAL = "max recall s.t. precision >= 0.9"
CASES = (("linear", 12_537, 768), ("mlp", 10_000, 28), ("mlp", 227_845, 28))


def rows(n: int, d: int, device: str) -> tuple[torch.Tensor, torch.Tensor]:
    """Return features and labels; about a fifth of the rows are positive."""
    generator = torch.Generator().manual_seed(0)
    y = torch.rand(n, generator=generator) < 0.2
    X = torch.randn(n, d, generator=generator)
    X[:, 0] += 1.5 * y
    return X.to(device), y.to(device)


def solvers(n: int, candidates: int = 1) -> dict[str, Callable[[int], Solver]]:
    """Return each method as a function of its number of steps."""
    plain = LossTraining(optimizer="adam", batch_size=None, l2=0.0, outer_iterations=1)
    lifted = Lifted(start="given", outer_iterations=1)
    projected = Projected(
        start="given", outer_iterations=1, restarts=0, line_search=0, rows=max(n, 2),
        gamma=0.1, relaxed=False,
        proximity=tuple(float(i) for i in range(candidates)),
    )  # fmt: skip
    return {
        "cross-entropy": lambda steps: replace(plain, inner_iterations=steps),
        "lifted": lambda steps: replace(lifted, inner_iterations=steps),
        "projected": lambda steps: replace(projected, inner_iterations=steps),
    }


def seconds_of(make: Callable[[int], Solver], kind: str, X: torch.Tensor, y: torch.Tensor,
               steps: int) -> float:  # fmt: skip
    """Return the time of one step."""
    problem = make_problem(X, y, GOAL)
    times = []
    for count in (steps // 5, steps):
        best = float("inf")
        for _ in range(3):
            torch.manual_seed(0)
            run = make(count).prepare(problem, build(kind, X.shape[1]).to(X.device))
            run.start()
            _wait(X)
            began = time.perf_counter()
            run.advance(1)
            _wait(X)
            best = min(best, time.perf_counter() - began)
        times.append(best)
    return (times[1] - times[0]) / (steps - steps // 5)


def _wait(X: torch.Tensor) -> None:
    if X.is_cuda:
        torch.cuda.synchronize()


def bandwidth(device: str) -> float:
    """Return the bytes per second that a copy reads and writes in total."""
    numbers = 2**28 if device == "cuda" else 2**26
    a, b = torch.empty(numbers, device=device), torch.empty(numbers, device=device)
    best = float("inf")
    for _ in range(10):
        _wait(a)
        began = time.perf_counter()
        b.copy_(a)
        _wait(a)
        best = min(best, time.perf_counter() - began)
    return 8 * numbers / best


def limit(kind: str, n: int, d: int, speed: float) -> float:
    """Return the seconds that it takes to move the data of a step."""
    numbers = 2 * n * d  # forward, and for the gradient
    if kind == "mlp":  # each hidden value and its gradient are written and read
        numbers += 2 * n * 100 * 4
    return 4 * numbers / speed


def networks(device: str, steps: int) -> None:
    """Print the time of a step of one and of 16 networks, by number of rows."""
    for n in (500, 2_000, 5_000, 10_000, 40_000):
        X, y = rows(n, 28, device)
        one, many = (
            1e3 * seconds_of(solvers(n, count)["projected"], "mlp", X, y, steps)
            for count in (1, 16)
        )
        print(f"mlp, {n:,} x 28: one {one:.3f} ms, 16 {many:.3f} ms, {many / one:.1f} times one")


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--quick", action="store_true", help="fewer rows and steps")
    parser.add_argument("--tf32", action="store_true")
    parser.add_argument("--networks", action="store_true", help="one and 16 networks, by rows")
    given = parser.parse_args()
    name = torch.cuda.get_device_name() if given.device == "cuda" else machine()
    torch.backends.cuda.matmul.allow_tf32 = given.tf32
    speed = bandwidth(given.device)
    print(f"{name}, torch {torch.__version__}, {torch.get_num_threads()} threads, "
          f"copy {speed / 1e9:,.0f} GB/s{', tf32' if given.tf32 else ''}")  # fmt: skip
    if given.networks:
        return networks(given.device, 400 if given.device == "cuda" else 10)
    print(f"{'case':28s}{'limit':>9s}{'cross-entropy':>15s}{'lifted':>9s}{'projected':>11s}"
          f"{'16 at once':>12s}   ms per step; ratios to cross-entropy")  # fmt: skip
    for kind, n, d in CASES:
        if given.quick:
            n //= 10
        case = f"{kind}, {n:,} x {d}"
        X, y = rows(n, d, given.device)
        on_cpu = 400 if kind == "linear" else (15 if n > 100_000 else 90)
        steps = 4000 if given.device == "cuda" else on_cpu
        found = {m: seconds_of(make, kind, X, y, steps) for m, make in solvers(n).items()}
        fewer = steps if kind == "linear" else max(steps // 3, 5)  # of networks that take long
        many = seconds_of(solvers(n, 16)["projected"], kind, X, y, fewer)
        ms = [1e3 * limit(kind, n, d, speed), *(1e3 * s for s in found.values()), 1e3 * many]
        print(f"{case:28s}{ms[0]:9.4f}{ms[1]:15.4f}{ms[2]:9.4f}{ms[3]:11.4f}{ms[4]:12.4f}   "
              f"lifted {ms[2] / ms[1]:.2f}, projected {ms[3] / ms[1]:.2f}, "
              f"16 at once: {ms[4] / ms[3]:.1f} times one")  # fmt: skip


if __name__ == "__main__":
    main()

"""Time of a certified threshold of one million scores, compared with numpy.sort of the same array.

Times are the best of seven, measured alternately. The limit for threshold and certificate together
is 3 times the sort.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import numpy as np

from setpoint import certify
from setpoint._internal.provenance import machine

GOALS = (
    "max recall s.t. precision >= 0.8",
    "max precision s.t. recall >= 0.9",
    "max recall s.t. fpr <= 0.01, precision >= 0.5",
    "max f1",
)


def seconds(call: Callable[..., object], *arguments: object) -> float:
    start = time.perf_counter()
    call(*arguments)
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    n = parser.parse_args().rows
    print(machine(), f"\n{n:,} scores\n")
    print("| positives | goal | certified | numpy.sort, ms | certificate, ms | ratio |")
    print("|---" * 6 + "|")
    rng = np.random.default_rng(0)
    worst = 0.0
    for prevalence in (0.005, 0.1, 0.5):
        y = rng.random(n) < prevalence
        scores = rng.normal(size=n) + 3.0 * y
        for goal in GOALS:
            pairs = [
                (seconds(np.sort, scores), seconds(certify, y, scores, goal)) for _ in "1234567"
            ]
            sort, ours = (min(column) for column in zip(*pairs, strict=True))
            worst = max(worst, ours / sort)
            issued = "yes" if certify(y, scores, goal).certified else "no"
            print(
                f"| {prevalence:.1%} | {goal} | {issued} | {1e3 * sort:.1f} | {1e3 * ours:.1f} "
                f"| {ours / sort:.2f} |",
                flush=True,
            )
    print(f"\nworst: {worst:.2f} times numpy.sort")


if __name__ == "__main__":
    main()

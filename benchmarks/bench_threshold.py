"""The exact threshold of 10 million scores, compared with numpy.argsort of the same array.

Times are the best of three, measured alternately. Memory is the peak that numpy allocates during
the call, according to tracemalloc, without the input; it is measured in a separate call, because
tracing slows the code down. Limits: 3 times the time of argsort, 5 times the memory of the scores.
"""

from __future__ import annotations

import argparse
import time
import tracemalloc
from collections.abc import Callable

import numpy as np

from setpoint import choose_threshold
from setpoint._internal.provenance import machine

GOALS = (
    "max recall s.t. precision >= 0.9",
    "max f1",
    "max recall s.t. fpr <= 0.01, precision >= 0.5",
    "max recall s.t. alarm_rate <= 0.05",
)


def seconds(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def peak_bytes(call: Callable[[], object]) -> int:
    tracemalloc.start()
    call()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000_000)
    n = parser.parse_args().rows
    print(machine(), f"\n{n:,} scores\n")
    print("| positives | scores | weights | goal | time / argsort | memory / scores |")
    print("|---|---|---|---|---|---|")
    rng = np.random.default_rng(0)
    worst_time = worst_memory = 0.0
    for prevalence in (0.005, 0.5):
        y = rng.random(n) < prevalence
        distinct = rng.normal(size=n) + 2.0 * y
        for name, scores in (("distinct", distinct), ("ties", distinct.round(2))):
            for weights in (None, rng.random(n)):
                for goal in GOALS:

                    def ours(s=scores, w=weights, g=goal, y=y):  # type: ignore[no-untyped-def]
                        return choose_threshold(y, s, g, sample_weight=w)

                    def sort(s=scores):  # type: ignore[no-untyped-def]
                        return np.argsort(s)

                    pairs = [(seconds(ours), seconds(sort)) for _ in range(3)]
                    mine, reference = (min(column) for column in zip(*pairs, strict=True))
                    memory = peak_bytes(ours) / scores.nbytes
                    worst_time = max(worst_time, mine / reference)
                    worst_memory = max(worst_memory, memory)
                    print(
                        f"| {prevalence:.1%} | {name} | {'no' if weights is None else 'yes'} "
                        f"| {goal} | {mine:.2f} s / {reference:.2f} s = {mine / reference:.2f} "
                        f"| {memory:.2f} |",
                        flush=True,
                    )
    print(f"\nworst: {worst_time:.2f} times argsort, {worst_memory:.2f} times the scores' memory")


if __name__ == "__main__":
    main()

"""The exact threshold from a stream of scores, compared with one sort of all scores.

`stream_threshold` gets float32 scores in blocks of 65,536 rows, which are slices of one array;
`choose_threshold` gets the array. Their results must be equal. Times are the best of three,
measured alternately. Memory is the peak that numpy allocates during the call, according to
tracemalloc, without the scores and labels; it is measured in a separate call. The cost of reading
rows and computing scores is not included; it would be paid once per pass.
"""

from __future__ import annotations

import argparse
import time
import tracemalloc
from collections.abc import Callable, Iterator

import numpy as np

from setpoint import OperatingPoint, choose_threshold
from setpoint._internal.provenance import machine
from setpoint.thresholds.stream import stream_threshold

GOALS = (
    "max recall s.t. precision >= 0.9",
    "max f1",
    "max recall s.t. alarm_rate <= 0.05",
)
BLOCK = 1 << 16


class Blocks:
    """Passes over arrays in memory."""

    def __init__(self, y: np.ndarray, scores: np.ndarray, weight: np.ndarray | None) -> None:
        self.columns = y, scores, weight
        self.passes = 0

    def __call__(self) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray | None]]:
        """Yield the blocks of one pass."""
        self.passes += 1
        y, scores, weight = self.columns
        for start in range(0, len(y), BLOCK):
            rows = slice(start, start + BLOCK)
            yield y[rows], scores[rows], None if weight is None else weight[rows]


def seconds(call: Callable[[], OperatingPoint]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def peak_bytes(call: Callable[[], OperatingPoint]) -> int:
    tracemalloc.start()
    call()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak


def compare(y: np.ndarray, scores: np.ndarray, weight: np.ndarray | None, goal: str) -> list[str]:
    blocks = Blocks(y, scores, weight)

    def streamed() -> OperatingPoint:
        return stream_threshold(blocks, goal)

    def sorted_() -> OperatingPoint:
        return choose_threshold(y, scores, goal, sample_weight=weight)

    if streamed() != sorted_():
        raise SystemExit(f"{goal}: the results differ")
    passes = blocks.passes
    pairs = [(seconds(streamed), seconds(sorted_)) for _ in range(3)]
    ours, reference = (min(column) for column in zip(*pairs, strict=True))
    memory = [peak_bytes(call) / len(y) for call in (streamed, sorted_)]
    return [
        str(passes),
        f"{ours:.3f}",
        f"{reference:.3f}",
        f"{ours / reference:.2f}",
        f"{memory[0]:.2f}",
        f"{memory[1]:.2f}",
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, nargs="*", default=[1_000_000, 10_000_000])
    sizes = parser.parse_args().rows
    print(machine(), "\n")
    print(
        "| rows | scores | weights | goal | passes | streamed, s | sorted, s | ratio "
        "| streamed, bytes per row | sorted, bytes per row |"
    )
    print("|---" * 10 + "|")
    for n in sizes:
        rng = np.random.default_rng(0)
        y = rng.random(n) < 0.01
        distinct = (rng.normal(size=n) + 2.0 * y).astype(np.float32)
        for name, scores in (("distinct", distinct), ("ties", distinct.round(2))):
            # Whole numbers, so that both results are equal to the last bit.
            for weight in (None, rng.integers(1, 10, size=n).astype(np.float64)):
                for goal in GOALS:
                    cells = compare(y, scores, weight, goal)
                    weights = "no" if weight is None else "yes"
                    print(
                        f"| {n:,} | {name} | {weights} | {goal} | {' | '.join(cells)} |", flush=True
                    )


if __name__ == "__main__":
    main()

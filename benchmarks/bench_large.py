"""A fit of more rows than memory is meant to hold, beside one in memory on a sample of them.

    python benchmarks/bench_large.py [--rows 10000000] [--folder /tmp]

Rows of 40 float32 features are generated to Parquet, in row groups of 100,000. One in a hundred is
positive, and a third of the positives is hopeless: they lie where cross-entropy is drawn to and
where no alarm can be precise. `fit_stream` reads the files in a process of its own with as many
threads as cores. In another, `fit` gets 500,000 rows of them, drawn at random, in memory. Both have
the same goal and defaults, and are evaluated on the same million fresh rows.

Memory is the most that a process has had resident, with what its imports take. A pass is all rows
once; its time is set beside that of reading the files, without a model.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import _fresh

GOAL = "max recall s.t. precision >= 0.8"
FEATURES = 40
GROUP = 100_000
GROUPS_IN_FILE = 10
FRESH_ROWS = 1_000_000
SAMPLE = 500_000
MEMORY_LIMIT, NEAR_ENOUGH = 1.5e9, 0.01


def rows_of(n: int, *seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return n rows of the mixture."""
    rng = np.random.default_rng(seed)
    y = rng.random(n) < 0.01
    X = rng.normal(size=(n, FEATURES)).astype(np.float32)
    hopeless = y & (rng.random(n) < 1 / 3)
    clear = y & ~hopeless
    X[clear, 0] += 1.5
    X[clear, 1:11] += 1.0
    X[hopeless, 0] -= 3.0  # the other way, and not far enough to be told from the negatives
    return X, y


def write_rows(folder: Path, n: int) -> None:
    """Write files of row groups."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    groups = [(i, min(GROUP, n - i * GROUP)) for i in range(-(-n // GROUP))]
    for first in range(0, len(groups), GROUPS_IN_FILE):
        writer = None
        for i, rows in groups[first : first + GROUPS_IN_FILE]:
            X, y = rows_of(rows, 0, i)
            columns = {f"x{k}": X[:, k] for k in range(FEATURES)}
            table = pa.table({**columns, "positive": y})
            path = folder / f"rows{first // GROUPS_IN_FILE:04d}.parquet"
            writer = writer or pq.ParquetWriter(path, table.schema, use_dictionary=False)
            writer.write_table(table, row_group_size=GROUP)
        assert writer is not None
        writer.close()


# --- what runs in processes of its own ---------------------------------------------------------


def nothing(folder: Path, looks: int) -> None:
    """Import what a fit imports."""
    import pyarrow.parquet  # noqa: F401
    import setpoint.streams.fitting  # noqa: F401

    _fresh.tell(peak=_fresh.peak_bytes())


def reading(folder: Path, looks: int) -> None:
    """Read all rows once, as blocks and as bare record batches."""
    import pyarrow.parquet as pq

    from setpoint.data import ParquetRows

    started = time.perf_counter()
    for file in sorted(folder.iterdir()):
        for _ in pq.ParquetFile(file).iter_batches(GROUP // 2):
            pass
    bare = time.perf_counter() - started
    source = ParquetRows(folder, "positive")
    started = time.perf_counter()
    rows = sum(len(block) for block in source.blocks())
    seconds = time.perf_counter() - started
    _fresh.tell(rows=rows, bare=bare, seconds=seconds, peak=_fresh.peak_bytes())


class Counted:
    """A source that counts the rows it has given."""

    def __init__(self, source: Any) -> None:
        self._source, self.given = source, 0

    def blocks(self, shard: int = 0, shards: int = 1) -> Iterator[Any]:
        """Yield what the source does."""
        for block in self._source.blocks(shard, shards):
            self.given += len(block)
            yield block

    def __getattr__(self, name: str) -> Any:
        return getattr(self._source, name)


def streaming(folder: Path, looks: int) -> None:
    """Fit a stream."""
    from setpoint import SetpointClassifier
    from setpoint.data import ParquetRows
    from setpoint.estimators import stream_fitting as fitting
    from setpoint.training import Stochastic
    from setpoint.training import stochastic as stochastic_run

    seconds: Counter[str] = Counter()
    calls: Counter[str] = Counter()

    def timed(home: Any, name: str, stage: str) -> None:
        inner: Callable[..., Any] = getattr(home, name)

        def outer(*args: Any, **kwargs: Any) -> Any:
            started = time.perf_counter()
            try:
                return inner(*args, **kwargs)
            finally:
                seconds[stage] += time.perf_counter() - started
                calls[stage] += 1

        setattr(home, name, outer)

    timed(fitting, "standardizer_of", "means and deviations")
    timed(stochastic_run, "first_pass", "counts and a first sample")
    timed(stochastic_run.StochasticRun, "_ordinary_models", "ordinary training on the sample")
    timed(stochastic_run, "survey", "passes")
    timed(stochastic_run.StochasticRun, "_take_steps", "steps on batches")
    timed(stochastic_run.StochasticRun, "exact_point", "the exact threshold")
    source = Counted(ParquetRows(folder, "positive"))
    started = time.perf_counter()

    def note(record: Any, total: int) -> None:
        peak, now = _fresh.peak_bytes() / 1e6, time.perf_counter() - started
        done = f"look {record.iteration} of {total}: {record.objective:.4f}, "
        print(f"{done}{now:.0f} s, {peak:.0f} MB", file=sys.stderr, flush=True)

    solver = Stochastic(outer_iterations=looks)
    classifier = SetpointClassifier(GOAL, solver=solver, random_state=0, callback=note)
    classifier.fit_stream(source)
    total = time.perf_counter() - started
    seconds["the rest"] = total - sum(seconds.values())
    _fresh.tell(
        seconds=total,
        peak=_fresh.peak_bytes(),
        passes=source.given / source.rows,
        stages=dict(seconds),
        calls=dict(calls),
        **judged(classifier),
    )


def in_memory(folder: Path, looks: int) -> None:
    """Fit a sample in memory."""
    import pyarrow.parquet as pq

    from setpoint import SetpointClassifier

    rng = np.random.default_rng(1)
    files = [pq.ParquetFile(path) for path in sorted(folder.iterdir())]
    n = sum(file.metadata.num_rows for file in files)
    taken = np.zeros(n, dtype=bool)
    taken[rng.choice(n, min(n, SAMPLE), replace=False)] = True
    parts, labels, first = [], [], 0
    for file in files:
        for batch in file.iter_batches(GROUP):
            own = taken[first : first + batch.num_rows]
            first += batch.num_rows
            columns = [batch.column(f"x{k}").to_numpy()[own] for k in range(FEATURES)]
            parts.append(np.column_stack(columns))
            labels.append(batch.column("positive").to_numpy(zero_copy_only=False)[own])
    X, y = np.concatenate(parts), np.concatenate(labels)
    started = time.perf_counter()
    classifier = SetpointClassifier(GOAL, random_state=0).fit(X, y)
    total = time.perf_counter() - started
    _fresh.tell(rows=len(y), seconds=total, peak=_fresh.peak_bytes(), **judged(classifier))


def judged(classifier: Any) -> dict[str, Any]:
    """Return what a classifier says of itself, and what it does on fresh rows."""
    from setpoint import Goal
    from setpoint.thresholds.operating_point import OperatingPoint

    counts = np.zeros((2, 2))
    for i in range(FRESH_ROWS // GROUP):
        X, y = rows_of(GROUP, 1, i)
        alarm = classifier.positive_scores(X) > 0
        counts += np.histogram2d(alarm, y, bins=(2, 2), range=((-0.5, 1.5), (-0.5, 1.5)))[0]
    (tn, fn), (fp, tp) = counts.tolist()
    point = OperatingPoint(0.0, tp, fp, fn, tn, Goal.parse(GOAL), "fresh rows")
    own, start = classifier.operating_point_, classifier.history_[0]
    return {
        "ordinary": start.objective,
        "own": own.objective,
        "objective": point.objective,
        "violation": point.violation,
    }


PARTS = {f.__name__: f for f in (nothing, reading, streaming, in_memory)}


# --- the table ---------------------------------------------------------------------------------


def report(folder: Path, n: int, looks: int, threads: int) -> None:
    def part(name: str) -> dict[str, Any]:
        options = ("--part", name, "--folder", folder, "--looks", looks)
        return _fresh.run(__file__, *options, threads=threads)

    started = time.perf_counter()
    write_rows(folder, n)
    size = sum(file.stat().st_size for file in folder.iterdir())
    print(
        f"{n:,} rows x {FEATURES} features, {size / 1e9:.2f} GB of Parquet in "
        f"{len(list(folder.iterdir()))} files, written in {time.perf_counter() - started:.0f} s; "
        f"{threads} threads\n",
        flush=True,
    )
    bare, read = part("nothing"), part("reading")
    print(f"imports alone: {bare['peak'] / 1e6:.0f} MB")
    print(
        f"reading all rows once: {read['bare']:.1f} s as record batches, {read['seconds']:.1f} s "
        f"as blocks, {read['peak'] / 1e6:.0f} MB\n",
        flush=True,
    )
    stream = part("streaming")
    print("| stage | times | s | s each |\n|---|---|---|---|")
    for stage, seconds in stream["stages"].items():
        times = stream["calls"].get(stage, 1)
        print(f"| {stage} | {times} | {seconds:.1f} | {seconds / times:.2f} |")
    print(f"\n{stream['passes']:.1f} passes over the files\n", flush=True)
    sample = part("in_memory")
    print("| fit | rows | s | peak, MB | ordinary, judged | judged | fresh rows | missed by |")
    print("|---" * 8 + "|")
    for name, rows, found in (("stream", n, stream), ("in memory", sample["rows"], sample)):
        print(
            f"| {name} | {rows:,} | {found['seconds']:.0f} | {found['peak'] / 1e6:.0f} "
            f"| {found['ordinary']:.4f} | {found['own']:.4f} | {found['objective']:.4f} "
            f"| {found['violation']:.4f} |"
        )
    apart = stream["objective"] - sample["objective"]
    print(f"\nstream - in memory, on fresh rows: {apart:+.4f} (at least -{NEAR_ENOUGH} wanted)")
    print(f"peak: {stream['peak'] / 1e9:.2f} GB (at most {MEMORY_LIMIT / 1e9} wanted)")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--quick", action="store_true", help="a million rows")
    parser.add_argument("--looks", type=int, default=15, help="of the stream; 15 is its default")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--folder", type=Path, help="where the files go, for as long as it runs")
    parser.add_argument("--part", choices=PARTS, help=argparse.SUPPRESS)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    if given.part:
        PARTS[given.part](given.folder, given.looks)
        return
    from setpoint._internal.provenance import machine

    print(machine(), "\n")
    with tempfile.TemporaryDirectory(dir=given.folder) as name:
        report(Path(name), 1_000_000 if given.quick else given.rows, given.looks, given.threads)


if __name__ == "__main__":
    main()

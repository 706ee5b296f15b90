"""One and several processes on the same Parquet files: time, bytes sent, equality of the results.

    python benchmarks/bench_processes.py [--rows 1000000] [--processes 1 2]

The rows are those of `bench_large.py`. `torchrun` starts each number of processes, with one thread
each, on the cores of one machine. Bytes are those that one process passes to `torch.distributed`:
to all_reduce, counted at the call and by formula, and to all_gather of objects without a fixed
size, which are mostly the priorities of the sampled rows. A single process sends nothing. Weights
must be equal to the last bit.
"""

from __future__ import annotations

import argparse
import hashlib
import pickle
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import _fresh
from bench_large import FEATURES, GOAL, write_rows

ITERATIONS, STEPS = 3, 120
BUCKETS = 1 << 16


def run_rank(folder: Path) -> None:
    """Run one process; the first one prints the result."""
    import torch.distributed as dist

    from setpoint import SetpointClassifier
    from setpoint._internal.processes import is_distributed, is_main_process, join_process_group
    from setpoint.data import ParquetRows
    from setpoint.training import Stochastic
    from setpoint.training import stochastic as stochastic_run

    join_process_group()
    reduced: Counter[str] = Counter()
    messages: Counter[str] = Counter()
    gathered: Counter[str] = Counter()
    seconds: Counter[str] = Counter()
    stage, models = "start", 0
    all_reduce, all_gather_object = dist.all_reduce, dist.all_gather_object

    def counted_reduce(tensor: Any, *args: Any, **kwargs: Any) -> Any:
        reduced[stage] += tensor.numel() * tensor.element_size()
        messages[stage] += 1
        return all_reduce(tensor, *args, **kwargs)

    def counted_gather(objects: Any, value: Any, *args: Any, **kwargs: Any) -> Any:
        gathered[stage] += len(pickle.dumps(value))
        messages[stage] += 1
        return all_gather_object(objects, value, *args, **kwargs)

    dist.all_reduce, dist.all_gather_object = counted_reduce, counted_gather

    def staged(name: str, own: str, after: str) -> None:
        inner: Callable[..., Any] = getattr(stochastic_run.StochasticRun, name)

        def outer(self: Any, *args: Any) -> Any:
            nonlocal stage, models
            stage, started = own, time.perf_counter()
            found = inner(self, *args)
            seconds[name] += time.perf_counter() - started
            stage = after
            if hasattr(self, "_descent"):
                models = len(self._descent.bundle.origins)
            return found

        setattr(stochastic_run.StochasticRun, name, outer)

    staged("start", "start", "start")
    staged("_take_steps", "steps", "pass")
    staged("advance", "pass", "pass")
    staged("exact_point", "end", "end")
    solver = Stochastic(outer_iterations=ITERATIONS, inner_iterations=STEPS)
    classifier = SetpointClassifier(GOAL, solver=solver, random_state=0)
    started = time.perf_counter()
    classifier.fit_stream(ParquetRows(folder, "positive"))
    total = time.perf_counter() - started
    peaks = [_fresh.peak_bytes()]
    if is_distributed():
        peaks = [0] * dist.get_world_size()
        all_gather_object(peaks, _fresh.peak_bytes())
    if is_main_process():
        weights = b"".join(p.detach().numpy().tobytes() for p in classifier.module_.parameters())
        found = repr((classifier.logit_threshold_, classifier.operating_point_))
        _fresh.print_result(
            result=hashlib.sha256(weights + found.encode()).hexdigest()[:12],
            objective=classifier.operating_point_.objective,
            models=models,
            shards=4,
            seconds=dict(seconds),
            total=total,
            peak=max(peaks),
            reduced=dict(reduced),
            gathered=dict(gathered),
            messages=dict(messages),
        )
    if is_distributed():
        dist.destroy_process_group()


def of_step(k: int, shards: int) -> int:
    """Return the bytes per step: gradients in float32, and changes of TP and FP, by shard."""
    return shards * (k * (FEATURES + 1) * 4 + k * 2 * 8)


def of_pass(k: int, shards: int) -> int:
    """Return the bytes per evaluation pass, which do not depend on the number of rows.

    They are five histograms in float64 (of the training rows, of the validation rows, and three of
    the sample), which models are still trained, and their losses by shard.
    """
    return 5 * k * (2 * BUCKETS + 1) * 8 + k * 8 + shards * k * 8


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--quick", action="store_true", help="400,000 rows")
    parser.add_argument("--processes", type=int, nargs="*", default=[1, 2])
    parser.add_argument("--folder", type=Path, help="folder for the temporary files")
    parser.add_argument("--part", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    if given.part:
        run_rank(given.folder)
        return
    from setpoint._internal.provenance import machine

    n = 400_000 if given.quick else given.rows
    print(machine(), "\n")
    with tempfile.TemporaryDirectory(dir=given.folder) as name:
        write_rows(Path(name), n)
        print(f"{n:,} rows x {FEATURES} features; {ITERATIONS} iterations of {STEPS} steps\n")
        print("| processes | start, s | iteration, s | of which steps, s | threshold, s | fit, s "
              "| peak per process, MB | objective | result |")  # fmt: skip
        print("|---" * 9 + "|")
        every = {}
        for count in given.processes:
            launcher = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={count}"]
            result = _fresh.run(__file__, "--part", "--folder", name, threads=1, launcher=launcher)
            every[count] = result
            s = result["seconds"]
            print(
                f"| {count} | {s['start']:.1f} | {s['advance'] / ITERATIONS:.2f} "
                f"| {s['_take_steps'] / ITERATIONS:.2f} | {s['exact_point']:.2f} "
                f"| {result['total']:.1f} | {result['peak'] / 1e6:.0f} "
                f"| {result['objective']:.4f} | {result['result']} |",
                flush=True,
            )
    same = len({result["result"] for result in every.values()}) == 1
    print(f"\nThe results are {'equal to the last bit' if same else 'NOT equal'}.\n")
    print("| processes | models | messages per step | bytes per step | by formula | bytes per pass "
          "| by formula | gathered per pass | at the start | gathered at the start |")  # fmt: skip
    print("|---" * 10 + "|")
    for count, result in every.items():
        k, shards = result["models"], -(-result["shards"] // count) * count
        reduced, gathered = (Counter(result[key]) for key in ("reduced", "gathered"))
        cells = [
            result["messages"].get("steps", 0) / ITERATIONS / STEPS,
            reduced["steps"] / ITERATIONS / STEPS,
            of_step(k, shards) if count > 1 else 0,
            reduced["pass"] / ITERATIONS,
            of_pass(k, shards) if count > 1 else 0,
            gathered["pass"] / ITERATIONS,
            reduced["start"],
            gathered["start"],
        ]
        print(f"| {count} | {k} | {' | '.join(f'{cell:,.0f}' for cell in cells)} |")


if __name__ == "__main__":
    main()

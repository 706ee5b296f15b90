"""Memory and time of `setpoint predict` on a Parquet file of five million rows.

    python benchmarks/bench_predict.py [--rows 5000000]

The reference reads the whole file and scores it in one piece, in a separate process, and writes
nothing. Both times include the imports.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from setpoint._internal.provenance import machine
from setpoint.model_files import save
from setpoint.tables.fitting import fit_table

_GROUP = 250_000  # rows generated at a time
_ONE_PIECE = """
import sys
from setpoint import load
model = load(sys.argv[1])
frame = model.read(sys.argv[2])
print(int(model.predict(frame)["alarm"].sum()))
"""
# On Linux the peak memory of a child starts from that of its parent, so each command runs under a
# small parent process, which reports the peak.
_MEASURED = """
import resource, subprocess, sys, time
started = time.perf_counter()
code = subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL).returncode
peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
print(code, time.perf_counter() - started, peak)
"""


def rows_of(n: int, seed: int) -> pd.DataFrame:
    """Return n rows with columns of mixed types."""
    rng = np.random.default_rng(seed)
    bad = rng.random(n) < 0.05
    frame = pd.DataFrame(
        rng.normal(size=(n, 12)) + 0.8 * bad[:, None], columns=[f"x{k}" for k in range(12)]
    )
    frame["amount"] = rng.integers(1, 10_000, n)
    frame["night"] = rng.random(n) < 0.3
    frame["country"] = rng.choice(["DE", "FR", "NL", "PL", "ES"], n)
    frame["shop"] = rng.choice([f"shop {k}" for k in range(200)], n)
    frame["bad"] = bad
    return frame


def measure(*command: str) -> tuple[float, float]:
    """Return the seconds and the peak resident memory, in MB, of a command."""
    found = subprocess.run(
        [sys.executable, "-c", _MEASURED, *command], capture_output=True, text=True, check=True
    )
    code, seconds, peak = found.stdout.split()
    if code != "0":
        sys.exit(f"{' '.join(command)}: exit code {code}\n{found.stderr}")
    return float(seconds), float(peak)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=5_000_000)
    n = parser.parse_args().rows
    print(machine(), "\n")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        data, out = folder / "rows.parquet", folder / "scored.parquet"
        writer = None
        for start in range(0, n, _GROUP):
            table = pa.Table.from_pandas(
                rows_of(min(_GROUP, n - start), seed=1 + start).drop(columns="bad"),
                preserve_index=False,
            )
            writer = writer or pq.ParquetWriter(data, table.schema)
            writer.write_table(table)
        assert writer is not None
        writer.close()
        print(f"{n:,} rows, {data.stat().st_size / 1e6:.0f} MB of Parquet\n")
        print("| model | setpoint predict, s | peak, MB | in one piece, s | peak, MB | speed |")
        print("|---|---|---|---|---|---|")
        for model in ("linear", "hgb"):
            fitted = fit_table(
                rows_of(20_000, seed=0), "bad", "max recall s.t. precision >= 0.5", model=model
            )
            save(fitted.model, folder / model)
            ours = measure(
                sys.executable, "-m", "setpoint.cli", "predict", str(folder / model), str(data),
                "--out", str(out),
            )  # fmt: skip
            whole = measure(sys.executable, "-c", _ONE_PIECE, str(folder / model), str(data))
            print(f"| {model} | {ours[0]:.1f} | {ours[1]:.0f} | {whole[0]:.1f} | {whole[1]:.0f} | "
                  f"{whole[0] / ours[0]:.2f} |", flush=True)  # fmt: skip


if __name__ == "__main__":
    main()

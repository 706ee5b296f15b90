"""Run the commands of the tutorials on real tables: fit, predict, evaluate, report.

    SETPOINT_DATA=/path/to/data python benchmarks/bench_end_to_end.py [--keep FOLDER]

For each table a model is fitted, saved and loaded, and scores the whole file again. The scores must
equal those before saving, bit for bit, in Python and in the file that `setpoint predict` writes.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import shlex
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from _data import path
from setpoint import load
from setpoint._internal.provenance import machine
from setpoint.cli import main
from setpoint.data.table_reader import read_table
from setpoint.tables.fitting import fit_table


@dataclass(frozen=True)
class Case:
    """A table, a goal, and further options."""

    file: str
    target: str
    goal: str
    model: str = "linear"
    drop: tuple[str, ...] = ()


CASES = (
    Case(
        "bank_marketing_full.parquet",
        "label",
        "max recall s.t. precision >= 0.5",
        drop=("duration",),
    ),
    Case(
        "bank_marketing_full.parquet",
        "label",
        "max recall s.t. precision >= 0.5",
        "hgb",
        ("duration",),
    ),
    Case("caravan.parquet", "label", "max precision s.t. recall >= 0.5"),
    Case("sms_spam.parquet", "label", "max recall s.t. precision >= 0.98"),
    Case("creditcard.csv", "Class", "max recall s.t. precision >= 0.9", "hgb", ("Time",)),
    Case("creditcard.csv", "Class", "max recall s.t. precision >= 0.9", "linear", ("Time",)),
)


def command(line: str) -> dict[str, object]:
    """Run a command with --json and return its output."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        code = main([*shlex.split(line), "--json"])
    if code != 0:
        sys.exit(f"setpoint {line}: exit code {code}")
    return dict(json.loads(out.getvalue()))


def run(case: Case, folder: Path) -> str:
    """Return a row of the table."""
    data = path(case.file)
    name = f"{data.stem.split('.')[0]}-{case.model}"
    out, page, scored = folder / name, folder / f"{name}.html", folder / f"{name}.parquet"
    drop = " ".join(f"--drop {column}" for column in case.drop)
    started = time.perf_counter()
    fitted = command(
        f"fit {data} --target {case.target} --goal '{case.goal}' --model {case.model} {drop} "
        f"--confidence 0.9 --out {out} --report {page}"
    )
    seconds = time.perf_counter() - started
    command(f"predict {out} {data} --out {scored}")
    command(f"evaluate {out} {data}")
    frame = read_table(data)
    same = fit_table(
        frame, case.target, case.goal, model=case.model, drop=case.drop, confidence=0.9
    ).model
    before = same.scores(same.read(data))
    loaded = load(out)
    after = loaded.scores(loaded.read(data))
    written = read_table(scored)["score"].to_numpy()
    equal = before.tobytes() == after.tobytes() == written.astype(before.dtype).tobytes()
    if not equal:
        sys.exit(f"{name}: scores differ after saving")
    test, certificate = fitted["test"], fitted["certificate"]
    certified = "yes" if certificate["certified"] else "no"
    size = sum(p.stat().st_size for p in out.rglob("*")) / 1e6
    cells = [data.name, f"{len(frame):,}", case.model, case.goal, f"{test['precision']:.3f}",
             f"{test['recall']:.3f}", certified, f"{seconds:.0f}", f"{size:.2f}",
             f"{page.stat().st_size / 1e3:.0f}", "yes"]  # fmt: skip
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--keep", type=Path, help="folder that keeps the models and reports")
    folder = parser.parse_args().keep or Path(tempfile.mkdtemp())
    folder.mkdir(parents=True, exist_ok=True)
    print(machine(), "\n")
    print("| table | rows | model | goal | test precision | test recall | certified | fit, s | "
          "model, MB | report, kB | scores after saving equal |")  # fmt: skip
    print("|" + "---|" * 11)
    for case in CASES:
        print(run(case, folder), flush=True)

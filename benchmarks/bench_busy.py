"""CPU and wall time of a fit with one thread and with all, on an idle and on a busy machine.

Threads that wait for each other waste CPU time, most of all where other processes need the cores.
Each fit runs in a fresh process, with OMP_NUM_THREADS=1 or without a setting. "Busy" means that one
process per core spins beside it. Only `fit` is timed, without imports and data. Times are medians;
"inf" is a fit that did not end in five minutes.

The second table times the command `setpoint fit` on the bank marketing table from start to end,
compared with a script that reads the table with pandas and fits XGBoost with early stopping. Both
times contain the start of Python and all imports.
"""

from __future__ import annotations

import argparse
import math
import os
import resource
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median

import numpy as np

import _fresh
from _data import load, load_grouped, path

GOAL = "max recall s.t. precision >= 0.8"
CPU_LIMIT, WALL_LIMIT, COMMAND_LIMIT = 1.2, 1.3, 4.0
BANK, BANK_GOAL = "bank_marketing_full", "max recall s.t. precision >= 0.5"
LONGEST = (
    300  # seconds that a fit may take; spinning processes end soon after, whatever happens here
)
# Values of each categorical column, as many as one-hot columns: 94.
CATEGORIES = (9, 16, 7, 15, 6, 5, 2, 34)


def adult_like(n: int = 32_561, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Return a table like UCI's adult: 6 numeric and 94 one-hot columns, 24 % positives."""
    rng = np.random.default_rng(seed)
    age, hours = rng.gamma(8.0, 5.0, n) + 17, rng.normal(40, 12, n)
    gain = np.where(rng.random(n) < 0.08, rng.lognormal(8.5, 1.2, n), 0.0)
    loss = np.where(rng.random(n) < 0.05, rng.normal(1900, 350, n), 0.0)
    size, years = rng.lognormal(12, 0.5, n), rng.integers(1, 17, n)
    # Incomes rise with age up to about 50 and fall again: no linear model fits everything.
    latent = 0.35 * (years - 10) + 0.03 * (hours - 40) - ((age - 50) / 18) ** 2
    latent += 3.0 * (gain > 5000) + 0.8 * (loss > 0)
    columns = [age, hours, gain, loss, size, years]
    for count in CATEGORIES:
        frequency = 1 / np.arange(1, count + 1)
        chosen = rng.choice(count, size=n, p=frequency / frequency.sum())
        latent += rng.normal(0, 0.7, count)[chosen]
        columns += list(np.eye(count)[chosen].T)
    latent += rng.logistic(0, 1.3, n)
    return np.column_stack(columns), latent > np.quantile(latent, 0.76)


# --- what runs in separate processes --------------------------------------------------------------


def fit(data: str) -> None:
    """Fit one table and print CPU and wall seconds."""
    from setpoint import SetpointClassifier

    X, y = adult_like() if data == "adult-like" else load(data)
    clf = SetpointClassifier(GOAL, random_state=0)
    warnings.simplefilter("ignore")
    cpu, wall = time.process_time(), time.perf_counter()
    clf.fit(X, y)
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    _fresh.print_result(cpu=cpu, wall=wall, recall=clf.operating_point_.objective)


def boost() -> None:
    """Read the bank marketing table and fit XGBoost, with its defaults and early stopping."""
    from sklearn.model_selection import train_test_split
    from xgboost import XGBClassifier

    data = load_grouped(BANK)
    X_fit, X_stop, y_fit, y_stop = train_test_split(
        data.X, data.y, test_size=0.25, stratify=data.y, random_state=0
    )
    XGBClassifier(
        n_estimators=500, early_stopping_rounds=50, eval_metric="aucpr", tree_method="hist"
    ).fit(X_fit, y_fit, eval_set=[(X_stop, y_stop)], verbose=False)


# --- measurements ---------------------------------------------------------------------------------


def cores() -> int:
    return len(os.sched_getaffinity(0))


@contextmanager
def spinning(processes: int) -> Iterator[None]:
    """Keep this many processes busy beside the block."""
    loop = f"import time; end = time.monotonic() + {LONGEST + 60}\nwhile time.monotonic() < end: 0"
    started = [subprocess.Popen([sys.executable, "-c", loop]) for _ in range(processes)]
    try:
        yield
    finally:
        for process in started:
            process.kill()
            process.wait()


def threads_and_load(names: Sequence[str], repeats: int) -> None:
    print("| data | machine | CPU, one thread, s | all, s | ratio | limit "
          "| wall, one thread, s | all, s | ratio | limit |")  # fmt: skip
    print("|---" * 10 + "|")
    for name in names:
        for busy in (False, True):
            found = [
                {threads: measured(name, threads, busy) for threads in (1, None)}
                for _ in range(repeats)
            ]
            cells = [name, "busy" if busy else "idle"]
            for what, limit in ("cpu", str(CPU_LIMIT)), ("wall", str(WALL_LIMIT) if busy else ""):
                one, every = (median(f[threads][what] for f in found) for threads in (1, None))
                cells += [f"{one:.2f}", f"{every:.2f}", f"{every / one:.2f}", limit]
            print(f"| {' | '.join(cells)} |", flush=True)


def measured(name: str, threads: int | None, busy: bool) -> dict[str, float]:
    """Return the seconds of one fit in a fresh process."""
    with spinning(cores() if busy else 0):
        try:
            return _fresh.run(__file__, "--fit", name, threads=threads, timeout=LONGEST)
        except subprocess.TimeoutExpired:
            return {"cpu": math.inf, "wall": math.inf}


def command_line(repeats: int) -> None:
    scripts, commands = [], []
    with tempfile.TemporaryDirectory() as folder:
        for i in range(repeats):
            scripts.append(times([sys.executable, __file__, "--boost"]))
            command = [
                sys.executable, "-m", "setpoint", "fit", str(path(f"{BANK}.parquet")),
                "--target", "label", "--drop", "duration", "--goal", BANK_GOAL,
                "--out", str(Path(folder) / f"model{i}"), "--quiet",
            ]  # fmt: skip
            commands.append(times(command))
    print("\n| | XGBoost script, s | setpoint fit, s | ratio | limit |\n|---|---|---|---|---|")
    for what, limit in ("wall", f"{COMMAND_LIMIT:g}"), ("CPU", ""):
        base, ours = (median(t[what] for t in found) for found in (scripts, commands))
        print(f"| {what} | {base:.2f} | {ours:.2f} | {ours / base:.1f} | {limit} |")


def times(command: Sequence[str]) -> dict[str, float]:
    """Return wall and CPU seconds of a command."""
    cpu, wall = cpu_of_children(), time.perf_counter()
    subprocess.run(command, env=_fresh.environment(None), check=True)
    return {"wall": time.perf_counter() - wall, "CPU": cpu_of_children() - cpu}


def cpu_of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def have(file: str) -> bool:
    folders = os.environ.get("SETPOINT_DATA", "data").split(os.pathsep)
    return any((Path(folder) / file).exists() for folder in folders)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", nargs="*", choices=("adult-like", "annthyroid"), metavar="NAME")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--no-command", action="store_true", help="the first table only")
    parser.add_argument("--fit", help=argparse.SUPPRESS)
    parser.add_argument("--boost", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.fit:
        return fit(given.fit)
    if given.boost:
        return boost()

    from setpoint._internal.provenance import machine

    load_average = os.getloadavg()[0]
    print(machine(), f"; load average at the start {load_average:.1f}\n")
    if load_average > 0.5:
        print("Other processes are running: no figure is that of an idle machine.\n")
    names = given.data
    if names is None:
        names = ["adult-like", *(["annthyroid"] if have("annthyroid.npz") else [])]
    threads_and_load(names, given.repeats)
    if not given.no_command and have(f"{BANK}.parquet"):
        command_line(given.repeats)


if __name__ == "__main__":
    main()

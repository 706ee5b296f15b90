"""Run scripts in fresh processes and measure their memory."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any


def peak_bytes() -> int:
    """Return the peak resident memory of this process.

    Unlike ``ru_maxrss``, it does not start from the memory of the parent process, as on Linux.
    """
    return _status("VmHWM:")


def resident_bytes() -> int:
    """Return the resident memory of this process."""
    return _status("VmRSS:")


def _status(field: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field):
            return int(line.split()[1]) * 1024
    raise RuntimeError("this system does not report the memory of a process")


_THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "OMP_WAIT_POLICY")


def environment(threads: int | None) -> dict[str, str]:
    """Return the environment for so many threads; None: without a setting, as users have it."""
    env = {name: value for name, value in os.environ.items() if name not in _THREADS}
    if threads is not None:
        # Threads that spin while waiting would take the cores from other processes.
        env |= {"OMP_NUM_THREADS": str(threads), "OMP_WAIT_POLICY": "PASSIVE"}
    return env


def run(
    script: str | Path,
    *arguments: Any,
    threads: int | None = 2,
    launcher: Sequence[str] = (),
    timeout: float | None = None,
) -> dict[str, Any]:
    """Run a script in a separate process and return its result; exit if it fails.

    ``launcher`` is put before the script, e.g. ``torchrun``. After ``timeout`` seconds the process
    is killed and subprocess.TimeoutExpired raised.
    """
    command = [sys.executable, *launcher, str(script), *map(str, arguments)]
    found = subprocess.run(
        command, env=environment(threads), stdout=subprocess.PIPE, text=True, timeout=timeout
    )
    if found.returncode != 0:
        sys.exit(f"{' '.join(command)}: exit code {found.returncode}")
    return dict(json.loads(found.stdout.splitlines()[-1]))


def print_result(**values: Any) -> None:
    """Print the values that ``run`` returns in the parent process, as the last line."""
    print(json.dumps(values), flush=True)

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


def run(
    script: str | Path, *arguments: Any, threads: int = 2, launcher: Sequence[str] = ()
) -> dict[str, Any]:
    """Run a script in a separate process and return its result; exit if it fails.

    ``launcher`` is put before the script, e.g. ``torchrun``.
    """
    command = [sys.executable, *launcher, str(script), *map(str, arguments)]
    # Threads that spin while waiting would take the cores from other processes.
    env = {**os.environ, "OMP_NUM_THREADS": str(threads), "OMP_WAIT_POLICY": "PASSIVE"}
    found = subprocess.run(command, env=env, stdout=subprocess.PIPE, text=True)
    if found.returncode != 0:
        sys.exit(f"{' '.join(command)}: exit code {found.returncode}")
    return dict(json.loads(found.stdout.splitlines()[-1]))


def print_result(**values: Any) -> None:
    """Print the values that ``run`` returns in the parent process, as the last line."""
    print(json.dumps(values), flush=True)

"""Work in fresh processes, whose memory can be told."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any


def peak_bytes() -> int:
    """Return the most memory that this process has had resident.

    It is what ``ru_maxrss`` is, but for the memory of the process that started this one, from which
    Linux lets ``ru_maxrss`` begin.
    """
    return _status("VmHWM:")


def resident_bytes() -> int:
    """Return the memory that this process has resident now."""
    return _status("VmRSS:")


def _status(field: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field):
            return int(line.split()[1]) * 1024
    raise RuntimeError("this system does not tell how much memory a process has")


def run(
    script: str | Path, *arguments: Any, threads: int = 2, launcher: Sequence[str] = ()
) -> dict[str, Any]:
    """Run a script in a process of its own; return what it told, or end as it did.

    ``launcher`` comes before it, ``torchrun`` for example.
    """
    command = [sys.executable, *launcher, str(script), *map(str, arguments)]
    # Threads that wait by spinning take the cores from all others, where these are busy too.
    env = {**os.environ, "OMP_NUM_THREADS": str(threads), "OMP_WAIT_POLICY": "PASSIVE"}
    found = subprocess.run(command, env=env, stdout=subprocess.PIPE, text=True)
    if found.returncode != 0:
        sys.exit(f"{' '.join(command)}: exit code {found.returncode}")
    return dict(json.loads(found.stdout.splitlines()[-1]))


def tell(**what: Any) -> None:
    """Print, as the last line, what ``run`` returns."""
    print(json.dumps(what), flush=True)

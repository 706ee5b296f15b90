"""Which machine and versions a table comes from."""

from __future__ import annotations

import os
import platform
from pathlib import Path

import numpy
import sklearn
import torch

import setpoint


def machine() -> str:
    """Return one line that names processor, cores and versions."""
    cpuinfo = Path("/proc/cpuinfo")
    model = platform.processor() or platform.machine()
    if cpuinfo.exists():
        lines = [line for line in cpuinfo.read_text().splitlines() if line.startswith("model name")]
        model = lines[0].split(":")[1].strip() if lines else model
    return (
        f"{model}, {os.cpu_count()} cores; Python {platform.python_version()}, "
        f"numpy {numpy.__version__}, scikit-learn {sklearn.__version__}, "
        f"torch {torch.__version__}, setpoint {setpoint.__version__}"
    )

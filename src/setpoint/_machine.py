"""Which machine and versions a figure comes from."""

from __future__ import annotations

import os
import platform
from pathlib import Path

import numpy
import sklearn
import torch


def machine(device: str = "cpu") -> str:
    """Return one line that names processor, cores, the device and versions."""
    from setpoint import __version__

    cpuinfo = Path("/proc/cpuinfo")
    model = platform.processor() or platform.machine()
    if cpuinfo.exists():
        lines = [line for line in cpuinfo.read_text().splitlines() if line.startswith("model name")]
        model = lines[0].split(":")[1].strip() if lines else model
    accelerator = "" if device == "cpu" else f", {torch.cuda.get_device_name(device)}"
    return (
        f"{model}, {os.cpu_count()} cores{accelerator}; Python {platform.python_version()}, "
        f"numpy {numpy.__version__}, scikit-learn {sklearn.__version__}, "
        f"torch {torch.__version__}, setpoint {__version__}"
    )

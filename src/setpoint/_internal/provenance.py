"""The version, the machine, and the metadata by which files of setpoint are recognised."""

from __future__ import annotations

import os
import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

try:
    __version__ = version("setpoint")
except PackageNotFoundError:  # run from its sources, without being installed
    __version__ = "0+unknown"


def machine(device: str = "cpu") -> str:
    """Return one line with the processor, cores, device and versions."""
    import numpy
    import sklearn
    import torch

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


def made_by() -> str:
    """Return the generator named in pages and figures: "setpoint " and the version.

    A report may replace only files with this generator.
    """
    return f"setpoint {__version__}"


def picture_metadata(kind: str) -> dict[str, str | None]:
    """Return the metadata of a PNG, SVG or PDF: the generator, and no date.

    Without a date, equal content gives equal files.
    """
    undated: dict[str, dict[str, str | None]] = {
        "png": {"Software": made_by()},
        "svg": {"Creator": made_by(), "Date": None},
        "pdf": {"Creator": made_by(), "CreationDate": None},
    }
    return undated[kind]

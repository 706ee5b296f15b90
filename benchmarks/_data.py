"""Real data for the benchmarks, read from the folder that SETPOINT_DATA names."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import numpy as np
from numpy.typing import NDArray


def load(name: str) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Return features and labels of ``<SETPOINT_DATA>/<name>.npz``."""
    folder = Path(os.environ.get("SETPOINT_DATA", "data"))
    path = folder / f"{name}.npz"
    if not path.exists():
        sys.exit(
            f"{path} does not exist. Set SETPOINT_DATA to a folder with the data sets of "
            "benchmarks/README.md."
        )
    with np.load(path) as file:
        return file["X"].astype(np.float64), file["y"].astype(bool)

"""Features of texts and images, one byte each: ``X = q * scale + offset``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from setpoint.datasets._files import corrupt


def read_arrays(path: Path, names: Sequence[str], how: str) -> dict[str, NDArray[Any]]:
    """Return those of the named arrays that an npz file holds.

    Nothing in the file is executed, and a file that is cut off is refused: each array carries a
    checksum, which the reader compares.
    """
    with path.open("rb") as file:
        try:
            content = np.load(file, allow_pickle=False)
            if not isinstance(content, np.lib.npyio.NpzFile):
                raise ValueError("it is a single array")
            return {name: content[name] for name in names if name in content.files}
        except Exception as error:  # damage shows itself in many ways
            raise corrupt(path, f"is not a whole npz file ({error})", how) from error


def read_quantized(path: Path, names: Sequence[str], how: str) -> dict[str, NDArray[Any]]:
    """Return ``X`` as float32, and the arrays named besides it, which have one entry per row."""
    wanted = ("q", "scale", "offset", *names)
    held = read_arrays(path, wanted, how)
    missing = [name for name in wanted if name not in held]
    if missing:
        raise corrupt(path, f"has no array {', '.join(missing)}", how)
    q, scale, offset = (held.pop(name) for name in wanted[:3])
    if q.ndim != 2 or q.dtype != np.uint8:
        raise corrupt(path, f"has a q of {q.dtype} and shape {q.shape}, not bytes in rows", how)
    for name, values in (("scale", scale), ("offset", offset)):
        if values.shape != q.shape[1:] or not np.isfinite(values).all():
            raise corrupt(path, f"has not one finite {name} for each column of q", how)
    for name, values in held.items():
        if values.shape != q.shape[:1] or values.dtype.kind not in "iu":
            raise corrupt(path, f"has not one whole number of {name} for each row of q", how)
    return {"X": q * scale.astype(np.float32) + offset.astype(np.float32), **held}

"""Arrays in mapped files, whose pages go back to the system once they have been read."""

from __future__ import annotations

import mmap
from typing import Any

import numpy as np


def release(array: Any) -> None:
    """Let go of what has been read of a mapped array; others are left alone.

    The system may keep the pages, but they no longer count as memory of this process. A mapping
    whose changes live in memory alone (mode ``"c"``) keeps its pages, for they would be lost.
    """
    mode = "c"
    while isinstance(array, np.ndarray):
        if isinstance(array, np.memmap):
            mode = array.mode
        array = array.base
    if isinstance(array, mmap.mmap) and mode != "c" and hasattr(mmap, "MADV_DONTNEED"):
        array.madvise(mmap.MADV_DONTNEED)


def is_mapped(array: Any) -> bool:
    """Whether an array is, or is a part of, a file."""
    while isinstance(array, np.ndarray):
        array = array.base
    return isinstance(array, mmap.mmap)

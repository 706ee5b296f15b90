"""Chance that hangs on a row's number alone.

The same row gets the same numbers in every pass, in whatever order blocks come and on whichever
process they are read. So a sample, a split or a batch does not depend on how the work is shared.
"""

from __future__ import annotations

import torch
from torch import Tensor

# The constants of SplitMix64 (Steele, Lea, Flood 2014), as signed 64-bit numbers.
_GOLDEN = 0x9E3779B97F4A7C15 - 2**64
_MIX_1 = 0xBF58476D1CE4E5B9 - 2**64
_MIX_2 = 0x94D049BB133111EB - 2**64


def mix(numbers: Tensor) -> Tensor:
    """Return 64 bits for each number that look like chance."""
    z = numbers + _GOLDEN  # integers wrap around
    z = (z ^ _shifted(z, 30)) * _MIX_1
    z = (z ^ _shifted(z, 27)) * _MIX_2
    return z ^ _shifted(z, 31)


def uniform(numbers: Tensor, *key: int) -> Tensor:
    """Return a float64 in (0, 1) for each int64; another key gives others.

    Examples
    --------
    >>> import torch
    >>> rows = torch.arange(3)
    >>> bool((uniform(rows, 1) == uniform(rows.flip(0), 1).flip(0)).all())
    True
    >>> bool((uniform(rows, 1) == uniform(rows, 2)).any())
    False
    """
    bits = numbers
    for part in key:
        bits = mix(bits) ^ mix(torch.tensor(part, device=numbers.device) + 1)
    return (_shifted(mix(bits), 12).double() + 0.5) * 2.0**-52


def _shifted(z: Tensor, by: int) -> Tensor:
    """Return z shifted to the right, with zeros from the left."""
    return (z >> by) & ((1 << (64 - by)) - 1)

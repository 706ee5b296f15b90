"""Numbers that come out the same however their sums were ordered.

Sums of many terms hang on their order in the last bits, and with several processes the order
changes. Where such a sum decides what is drawn next, a few bits of it are enough, and they agree.
"""

from __future__ import annotations

import torch
from torch import Tensor

_BITS = 16


def coarse(x: Tensor) -> Tensor:
    """Return x to 16 significant bits.

    Examples
    --------
    >>> import torch
    >>> a, b = torch.tensor(0.1 + 0.2 + 0.3).double(), torch.tensor(0.3 + 0.2 + 0.1).double()
    >>> bool(coarse(a) == coarse(b))
    True
    """
    mantissa, exponent = torch.frexp(x)
    return torch.ldexp((mantissa * 2.0**_BITS).round(), exponent - _BITS)

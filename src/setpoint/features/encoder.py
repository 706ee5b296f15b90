"""What turns items into vectors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

Features = NDArray[np.float32]


class Encoder(Protocol):
    """Turns items, such as texts or image files, into vectors of one length.

    The vector of an item must not depend on the items beside it in a batch, beyond rounding.

    An encoder may also have a method ``length(item) -> int``. Items of like length then share
    batches, the longest first: less padding, and a batch too large for the device shows at once.
    """

    @property
    def dimension(self) -> int:
        """The length of a vector."""
        ...

    @property
    def fingerprint(self) -> str:
        """A digest of all that decides the vectors: weights, configuration, preprocessing.

        It names a folder of the cache: letters, digits, dots, underscores and hyphens.
        """
        ...

    def digest(self, item: Any) -> str:
        """Return a digest of the item's content, never of its name."""
        ...

    def encode(self, items: Sequence[Any]) -> Features:
        """Return one vector per item, shape (k, dimension)."""
        ...

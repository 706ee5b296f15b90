"""What a loss is given, and what it returns."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Protocol

import torch
from torch import Tensor


@dataclass(frozen=True)
class LabelledRows:
    """The rows of one step.

    Attributes
    ----------
    positive : Tensor of bool, shape (k,)
        Their labels.
    share : Tensor of shape (k,)
        The rows' weights as shares of the whole: they add up to 1 over all rows, and to 1 on
        average over batches.
    P, N : float
        The sums of weights of positives and of negatives, over all rows.
    elapsed : float
        The share of the training that is done. A loss that changes with it has a method
        ``phase(elapsed)``, an integer, and changes only where that does.
    """

    positive: Tensor
    share: Tensor
    P: float
    N: float
    elapsed: float = 0.0

    def margins(self, logits: Tensor) -> Tensor:
        """Return z~, the logits signed by the class: > 0 is right."""
        return torch.where(self.positive, logits, -logits)

    def by_class(self, of_positives: float, of_negatives: float) -> Tensor:
        """Return one of two numbers per row."""
        # In the precision of the shares: of two floats torch.where makes float32.
        number = partial(self.share.new_full, ())
        return torch.where(self.positive, number(of_positives), number(of_negatives))


class Loss(Protocol):
    """A frozen set of parameters; ``repr`` names them all."""

    def __call__(self, logits: Tensor, rows: LabelledRows) -> Tensor:
        """Return one number, to be minimised; of a batch, its estimate."""
        ...

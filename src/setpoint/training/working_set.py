"""The rows of the next steps: those near a threshold, and a sample of the rest.

Late in training most rows have almost no gradient: they are right and far from the threshold, or
given up. A working set holds, of each class, all rows nearest to the threshold of any model, and a
sample that represents the rest. The decisions on the rest are taken as fixed until the next working
set.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

_BLOCK = 2**18  # rows that are indexed at a time


@dataclass(frozen=True)
class WorkingSet:
    """Rows of a problem.

    Attributes
    ----------
    rows : Tensor of int64
        Indices: the near rows, then the sampled ones.
    weight : Tensor of shape (len(rows),)
        Sample weights; those of the sampled rows are raised to the weight of what they represent.
    sign : Tensor of shape (len(rows),)
        +1 for positives, -1 for negatives.
    counted : Tensor of shape (len(rows),)
        The weight of a row in the counts: 0 for sampled rows.
    whole : bool
        Whether it holds all rows of the problem.
    """

    rows: Tensor
    weight: Tensor
    sign: Tensor
    counted: Tensor
    whole: bool = False


def whole(positive: Tensor, weight: Tensor) -> WorkingSet:
    """Return the set of all rows."""
    rows = torch.arange(len(weight), device=weight.device)
    return WorkingSet(rows, weight, _sign(positive, weight), weight, whole=True)


def near(positive: Tensor, weight: Tensor, distance: Tensor, size: int) -> WorkingSet:
    """Return a set of ``size`` >= 2 rows, half of them for each class where there are enough.

    ``distance`` is that of each row from the nearest threshold of any model. Temporary memory is
    four bytes a row of a class and two for masks.
    """
    n = len(distance)
    if n <= size:
        return whole(positive, weight)
    near_rows, far_rows, raised = [], [], []
    for own, count, budget in _room(positive, size):
        if count <= budget:
            near_rows.append(torch.nonzero(own).squeeze(1))
            continue
        kept = budget * 3 // 4
        nearest = _nearest(own, distance, kept)
        near_rows.append(nearest)
        rest = own.clone()
        rest[nearest] = False
        drawn = _drawn(rest, count - kept, budget - kept)
        far_rows.append(drawn)
        raised.append(_raised(weight, drawn, rest))
    chosen = torch.cat(near_rows + far_rows)
    near_count = sum(map(len, near_rows))
    weights = torch.cat([weight[chosen[:near_count]], *raised])
    counted = torch.cat([weight[chosen[:near_count]], *(r * 0 for r in raised)])
    return WorkingSet(chosen, weights, _sign(positive[chosen], weight), counted)


def sample(positive: Tensor, weight: Tensor, size: int) -> WorkingSet:
    """Return ``size`` random rows, half of them for each class where there are enough.

    The weights of a class are raised to the weight of all of its rows.
    """
    if len(weight) <= size:
        return whole(positive, weight)
    rows, weights = [], []
    for own, count, budget in _room(positive, size):
        rows.append(_drawn(own, count, min(count, budget)))
        weights.append(_raised(weight, rows[-1], own))
    chosen, raised = torch.cat(rows), torch.cat(weights)
    return WorkingSet(chosen, raised, _sign(positive[chosen], weight), raised)


def _room(positive: Tensor, size: int) -> list[tuple[Tensor, int, int]]:
    """Return a mask of each class, the number of its rows, and that of those to choose."""
    n, P = len(positive), int(positive.count_nonzero())  # a sum would first convert to integers
    budget = min(P, max(size // 2, size - (n - P)))
    return [(positive, P, budget), (~positive, n - P, size - budget)]


def _raised(weight: Tensor, drawn: Tensor, own: Tensor) -> Tensor:
    """Return the weights of drawn rows, raised to the weight of the rows of a mask."""
    represented = sum(part.double().sum() for part in _parts(own, weight))
    return weight[drawn] * (represented / weight[drawn].sum()).to(weight)


def _sign(positive: Tensor, like: Tensor) -> Tensor:
    return torch.where(positive, 1.0, -1.0).to(like.dtype)


def _nearest(own: Tensor, distance: Tensor, count: int) -> Tensor:
    """Return the ``count`` nearest rows of a class, the nearest first."""
    if not count:
        return own.new_zeros(0, dtype=torch.int64)
    of_class = _of(own, distance)
    if of_class.is_cuda:
        last = of_class.kthvalue(count).values
    else:
        numbers = of_class.numpy()
        numbers.partition(count - 1)  # in place, where torch would make copies
        last = of_class[count - 1].clone()
    del of_class
    rows = torch.nonzero(own & (distance <= last)).squeeze(1)  # more if distances are equal
    return rows[torch.argsort(distance[rows], stable=True)[:count]]


def _of(own: Tensor, values: Tensor) -> Tensor:
    """Return the values of a class."""
    found = values.new_empty(int(own.count_nonzero()))
    begin = 0
    for part in _parts(own, values):
        found[begin : begin + len(part)] = part
        begin += len(part)
    return found


def _parts(own: Tensor, values: Tensor) -> Iterator[Tensor]:
    """Yield the values of a class block by block: indexing by a mask makes a list of indices."""
    for start in range(0, len(values), _BLOCK):
        yield values[start : start + _BLOCK][own[start : start + _BLOCK]]


def _drawn(rest: Tensor, count: int, wanted: int) -> Tensor:
    """Return ``wanted`` random rows of a mask that holds ``count``."""
    rng = np.random.default_rng(int(torch.randint(2**31, (1,))))
    places = np.sort(rng.choice(count, wanted, replace=False, shuffle=False))
    return torch.cat(list(_rows_at(rest, torch.from_numpy(places).to(rest.device))))


def _rows_at(mask: Tensor, places: Tensor) -> Iterator[Tensor]:
    """Yield the rows at these ascending places among those of a mask."""
    seen = 0
    for start in range(0, len(mask), _BLOCK):
        rows = torch.nonzero(mask[start : start + _BLOCK]).squeeze(1)
        here = places[(places >= seen) & (places < seen + len(rows))]
        yield rows[here - seen] + start
        seen += len(rows)

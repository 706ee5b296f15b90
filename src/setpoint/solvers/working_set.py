"""The rows that a subproblem needs: those near a threshold, and a sample of the rest.

Late in training most rows have next to no gradient: they are right and far from the threshold, or
given up. A working set keeps, of each class, the rows nearest to the threshold of any model, whole,
and draws from the rest a sample that stands for all of it. What the rest counts, TP and FP, is
remembered and taken as fixed until the next working set.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class WorkingSet:
    """Rows of a problem.

    Attributes
    ----------
    rows : Tensor of int64
        Indices: rows that are near, then sampled ones that only pull.
    weight : Tensor of shape (len(rows),)
        Sample weights; those of the sampled rows are raised to the weight of what they stand for.
    sign : Tensor of shape (len(rows),)
        +1 for positives, -1 for negatives.
    counted : Tensor of shape (len(rows),)
        The weight with which a row enters the counts: 0 for sampled rows.
    rest_tp, rest_fp : Tensor of shape (k,)
        What all the rows that are not near count.
    """

    rows: Tensor
    weight: Tensor
    sign: Tensor
    counted: Tensor
    rest_tp: Tensor
    rest_fp: Tensor


def whole(positive: Tensor, weight: Tensor, k: int) -> WorkingSet:
    """Return the set of all rows."""
    sign = torch.where(positive, 1.0, -1.0).to(weight.dtype)
    nothing = weight.new_zeros(k)
    return WorkingSet(
        torch.arange(len(sign), device=sign.device), weight, sign, weight, nothing, nothing
    )


def near(positive: Tensor, weight: Tensor, logits: Tensor, size: int) -> WorkingSet:
    """Return a set of ``size`` >= 2 rows, half of them for each class where there are enough.

    ``logits`` are measured from the origins of k models, shape (k, n).
    """
    k, n = logits.shape
    if n <= size:
        return whole(positive, weight, k)
    distance = logits[0].abs()
    for own in logits[1:]:  # one at a time, as below
        torch.minimum(distance, own.abs(), out=distance)
    P = int(positive.sum())
    room = {True: min(P, max(size // 2, size - (n - P)))}
    room[False] = size - room[True]
    near_rows, far_rows, raised = [], [], []
    for label, budget in room.items():
        rows = torch.nonzero(positive == label).squeeze(1)
        if len(rows) <= budget:
            near_rows.append(rows)
            continue
        kept = budget * 3 // 4
        order = torch.argsort(distance[rows])
        near_rows.append(rows[order[:kept]])
        rest = rows[order[kept:]]
        drawn = rest[torch.randperm(len(rest), device=rest.device)[: budget - kept]]
        far_rows.append(drawn)
        raised.append(weight[drawn] * (weight[rest].sum() / weight[drawn].sum()))
    chosen = torch.cat(near_rows + far_rows)
    near_count = sum(map(len, near_rows))
    weights = torch.cat([weight[chosen[:near_count]], *raised])
    counted = torch.cat([weight[chosen[:near_count]], *(r * 0 for r in raised)])
    sign = torch.where(positive[chosen], 1.0, -1.0).to(weight.dtype)
    outside = torch.ones(n, dtype=torch.bool, device=weight.device)
    outside[chosen[:near_count]] = False
    classes = (torch.stack([positive, ~positive]) & outside) * weight.double()
    # One model at a time: the alarms of all at once would be the largest array by far.
    rest_of = torch.stack([classes @ (own > 0).double() for own in logits])
    return WorkingSet(chosen, weights, sign, counted, rest_of[:, 0], rest_of[:, 1])

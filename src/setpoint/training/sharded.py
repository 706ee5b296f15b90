"""A step in shards, whose sums are the same however many processes share them.

Floating-point sums hang on their order. Here each shard is summed by itself, where it lies, and
the shards are added in their order: the result is the same to the last bit on one process that has
all shards, and on several that have some each.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from setpoint._internal.processes import all_reduce_sum, rank_and_world_size
from setpoint.training.bundle import Bundle


class ShardedWork:
    """Gradients and counts of one step.

    Parameters
    ----------
    bundle : Bundle
        The models.
    shards : int
        Of all processes together; shard s is on the process s modulo their number.
    """

    def __init__(self, bundle: Bundle, shards: int) -> None:
        self._bundle, self._shards = bundle, shards
        rank, world = rank_and_world_size()
        self._own = range(rank, shards, world)
        self._kept: dict[int, list[Tensor]] = {}

    def split(self, shard: Tensor) -> dict[int, Tensor]:
        """Return where the rows of each of this process's shards are, shards without rows aside."""
        if self._shards == 1:
            return {0: torch.arange(len(shard), device=shard.device)} if len(shard) else {}
        found = {s: (shard == s).nonzero().squeeze(1) for s in self._own}
        return {s: rows for s, rows in found.items() if len(rows)}

    def total(self, of_shard: Mapping[int, Tensor], columns: int = 2) -> Tensor:
        """Return the sum over all shards of tensors of shape (k, columns)."""
        origins = self._bundle.origins
        table = torch.zeros(
            self._shards, len(origins), columns, dtype=torch.float64, device=origins.device
        )
        for shard, value in of_shard.items():
            table[shard] = value
        all_reduce_sum(table)
        return _in_order(table)

    def keep_gradients(self, shard: int) -> None:
        """Keep the gradients that a shard's rows have left."""
        self._kept[shard] = [
            torch.zeros_like(p) if p.grad is None else p.grad for p in self._bundle.parameters
        ]

    def set_gradients(self) -> None:
        """Make the sum over all shards the gradients."""
        kept, self._kept = self._kept, {}
        if self._shards == 1 and 0 in kept:
            return  # they are there
        sizes = [p.numel() for p in self._bundle.parameters]
        like = self._bundle.origins  # weights may be in half precision, origins never are
        table = torch.zeros(self._shards, sum(sizes), dtype=like.dtype, device=like.device)
        for shard, gradients in kept.items():
            table[shard] = torch.cat([g.reshape(-1) for g in gradients])
        all_reduce_sum(table)
        total, start = _in_order(table), 0
        for parameter, size in zip(self._bundle.parameters, sizes, strict=True):
            parameter.grad = total[start : start + size].view_as(parameter).to(parameter.dtype)
            start += size


def _in_order(table: Tensor) -> Tensor:
    """Return the sum over the first axis, one after the other."""
    total = table[0].clone()
    for row in table[1:]:
        total += row
    return total

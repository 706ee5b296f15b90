"""Small blocks, put together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import torch

from setpoint.streams.block import Block


def joined(blocks: Iterable[Block], most: int) -> Iterator[Block]:
    """Yield the same rows in fewer blocks, none of which grows beyond so many rows."""
    held: list[Block] = []
    count = 0
    for block in blocks:
        if held and count + len(block) > most:
            yield _together(held)
            held, count = [], 0
        held.append(block)
        count += len(block)
    if held:
        yield _together(held)


def _together(blocks: list[Block]) -> Block:
    if len(blocks) == 1:
        return blocks[0]
    times = [block.time for block in blocks if block.time is not None]
    return Block(
        torch.cat([block.X for block in blocks]),
        torch.cat([block.positive for block in blocks]),
        torch.cat([block.weight for block in blocks]),
        torch.cat([block.number for block in blocks]),
        torch.cat([block.unit for block in blocks]),
        torch.cat(times) if times else None,
    )

"""Several processes, played one after the other."""

import torch


def blocks_of_ranks(source, world):
    """Return the blocks of each of so many shards."""
    return [list(source.blocks(shard, world)) for shard in range(world)]


def all_rows(ranks):
    """Return the fields of all blocks of all shards, in the order of the rows' numbers."""
    blocks = [block for rank in ranks for block in rank]
    order = torch.cat([block.number for block in blocks]).argsort(stable=True)
    return {
        name: torch.cat([getattr(block, name) for block in blocks])[order]
        for name, first in vars(blocks[0]).items()
        if isinstance(first, torch.Tensor)
    }

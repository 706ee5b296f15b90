"""What two processes of a test do."""

import os
from pathlib import Path

import torch

from setpoint import MiniBatchPenalty
from setpoint._internal.processes import join_process_group, rank_and_world_size


def observe_in_turn(environment, folder):
    """Show each process a half of every batch, and save what it then knows."""
    os.environ.update(environment)
    join_process_group()
    rank, world = rank_and_world_size()
    generator = torch.Generator().manual_seed(0)
    y = torch.rand(64, generator=generator) < 0.3
    z = 2.0 * y + torch.randn(64, generator=generator).double() - 0.5
    penalty = MiniBatchPenalty("max recall s.t. precision >= 0.9")
    for first in range(0, 64, 8 * world):
        own = slice(first + 8 * rank, first + 8 * rank + 8)
        penalty(z[own], y[own])
    torch.save(penalty.state_dict()["_extra_state"], Path(folder) / f"{rank}.pt")
    torch.distributed.destroy_process_group()

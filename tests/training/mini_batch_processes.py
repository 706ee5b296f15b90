"""What two processes of a test do."""

import os
from pathlib import Path

import torch

from setpoint import MiniBatchPenalty
from setpoint._internal.processes import join_process_group, rank_and_world_size
from setpoint.streams import train


def work_together(environment, folder):
    """Show each process a half of every batch, train a module together, and save both."""
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
    found = {"state": penalty.state_dict()["_extra_state"]}
    module = torch.nn.Linear(1, 1)
    batches = [(z[i : i + 8, None].float(), y[i : i + 8]) for i in range(0, 64, 8)]
    own = batches[: 3 + 2 * rank]  # one process has more batches than the other
    solution = train(module, own, "max f1", epochs=4, warm_up=2)
    found["weight"], found["counts"] = (
        module.weight.detach(),
        [float(count) for count in solution.operating_point.counts],
    )
    torch.save(found, Path(folder) / f"{rank}.pt")
    torch.distributed.destroy_process_group()

"""A module with BatchNorm for several processes; ``batch_norm_processes.py FOLDER``.

What BatchNorm has seen is left in the folder: by each process's own steps, and at the end.
"""

import os
import sys
from pathlib import Path

import numpy as np
import torch

from setpoint.data import ArrayRows
from setpoint.training import Stochastic, train
from setpoint.training.stochastic import StochasticRun

SMALL = Stochastic(
    outer_iterations=1, inner_iterations=4, batch_size=100, rows=400, restarts=0, proximity=(0.0,),
    start="given",
)  # fmt: skip


def main(folder):
    """Train, and leave the buffers where a test finds them."""
    rng = np.random.default_rng(0)
    y = rng.random(1000) < 0.2
    X = (rng.normal(size=(1000, 3)) + y[:, None]).astype(np.float32)
    steps, bundles, seen = StochasticRun._take_steps, [], []

    def kept(run, iteration):
        steps(run, iteration)
        bundles.append(run._descent.bundle)
        seen.extend(b.clone() for b in run._descent.bundle.buffers)

    StochasticRun._take_steps = kept
    torch.manual_seed(0)
    module = torch.nn.Sequential(
        torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4), torch.nn.ReLU(), torch.nn.Linear(4, 1)
    )
    train(module, ArrayRows(X, y, block_rows=100), "max f1", solver=SMALL)
    torch.save((seen, bundles[-1].buffers), folder / f"buffers.{os.environ['RANK']}")


if __name__ == "__main__":
    torch.set_num_threads(1)
    main(Path(sys.argv[1]))

"""Trainings for ``torchrun``, and for one process; ``several_processes.py FOLDER``.

In the first of them the second process is killed, as by a lack of memory, in the middle of its
work. The same command then goes on from there. Results are left in the folder.
"""

import os
import signal
import sys
from pathlib import Path

import numpy as np
import torch

from setpoint import SetpointClassifier
from setpoint.data import ArrayRows, ByChance
from setpoint.training import Stochastic, train
from setpoint.training.models import build

SMALL = Stochastic(
    outer_iterations=3,
    inner_iterations=5,
    batch_size=200,
    rows=600,
    proximity=(0.1,),
    restarts=0,
)
GOAL = "max recall s.t. precision >= 0.5"
RANK = os.environ.get("RANK", "0")


def source(n=2000):
    """Return rows of a rare class, on very different scales, in more blocks than shards."""
    rng = np.random.default_rng(0)
    y = rng.random(n) < 0.1
    X = rng.normal(size=(n, 4)) * [1.0, 2.0, 100.0, 1.0] + 1.5 * y[:, None] + [0.0, 0.0, 7.0, 1e4]
    groups, weight = np.arange(n) // 2, 1 + np.arange(n) % 2
    return ArrayRows(X.astype(np.float32), y, groups=groups, sample_weight=weight, block_rows=200)


def summary(module, point, history, candidates):
    """Return all that must be the same, in a form that a file keeps."""
    return {
        "module": dict(module.state_dict()),
        "point": [float(v) for v in (point.threshold, *point.counts)],
        "history": history.to_dict(),
        "candidates": [
            (c.name, *(float(v) for v in (c.point.threshold, *c.point.counts)), c.iteration)
            for c in candidates
        ],
    }


def classifier(callback=None, checkpoint=None):
    """Train a classifier."""
    clf = SetpointClassifier(
        GOAL, solver=SMALL, random_state=5, callback=callback, checkpoint=checkpoint
    ).fit_stream(source())
    return {
        **summary(clf.module_, clf.operating_point_, clf.history_, clf.candidates_),
        "threshold": clf.logit_threshold_,
        "centre": torch.from_numpy(clf.standardizer_.centre),
        "scale": torch.from_numpy(clf.standardizer_.scale),
    }


def module():
    """Train a module, of which each process has its own idea at first."""
    torch.manual_seed(int(RANK))

    def narrow(n_features):
        return torch.nn.Sequential(
            torch.nn.Linear(n_features, 5), torch.nn.Tanh(), torch.nn.Linear(5, 1)
        )

    solution = train(
        build(narrow, 4),
        source(),
        GOAL,
        split=ByChance(validation=0.25),
        solver=Stochastic(**{**vars(SMALL), "start": "given", "outer_iterations": 2}),
    )
    parts = solution.operating_point, solution.history, solution.candidates
    return summary(solution.module, *parts)


def prices():
    """Train on rows in memory for their amounts, with floors in regions of different sizes."""
    n = 2000
    rng = np.random.default_rng(1)
    y = rng.random(n) < 0.2
    X = rng.normal(size=(n, 4)) + y[:, None]
    clf = SetpointClassifier(
        "min cost(fp=5, fn=amount) s.t. recall >= 0.5 for each region", solver=SMALL, random_state=5
    ).fit(
        X,
        y,
        amounts={"amount": rng.lognormal(3, 1, n)},
        segments={"region": rng.choice(["north", "south"], n, p=[0.9, 0.1])},
    )
    return summary(clf.module_, clf.operating_point_, clf.history_, clf.candidates_)


def main(folder):
    """Train, and leave the results where a test finds them."""
    was_killed = folder / "killed"

    def killer(record, total):
        with (folder / f"looks.{RANK}").open("a") as file:
            file.write(f"{record.iteration} ")
        if RANK == "1" and record.iteration == 2 and not was_killed.exists():
            was_killed.touch()
            os.kill(os.getpid(), signal.SIGKILL)

    found = {
        "resumed": classifier(killer, folder / "checkpoint"),
        "straight": classifier(),
        "module": module(),
        "prices": prices(),
    }
    torch.save(found, folder / f"result.{RANK}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))

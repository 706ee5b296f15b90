"""What Ray's workers run."""

import runpy

import ray
import torch

from setpoint import SetpointClassifier, load
from setpoint.data import ParquetRows
from setpoint.training import Stochastic

SMALL = Stochastic(outer_iterations=2, inner_iterations=5, batch_size=200, rows=600)


def train_script(config):
    """Train what a script of the tests trains, and store each worker's result."""
    torch.set_num_threads(1)
    found = runpy.run_path(config["script"])["classifier"]()
    torch.save(found, f"{config['out']}/result.{ray.train.get_context().get_world_rank()}")


def train_files(config):
    """Train on Parquet files; the first worker saves the model."""
    torch.set_num_threads(1)
    clf = fitted(config["rows"])
    if ray.train.get_context().get_world_rank() == 0:
        clf.save(config["out"])


def fitted(path):
    """Return a certified classifier of the rows of some files."""
    clf = SetpointClassifier(
        "max recall s.t. precision >= 0.5", solver=SMALL, confidence=0.8, random_state=0
    )
    return clf.fit_stream(ParquetRows(path, target="y"))


class Scorer:
    """A model that scores batches."""

    def __init__(self, path):
        self.model = load(path)

    def __call__(self, batch):
        return batch[["id"]].join(self.model.predict(batch, ignore_extra=True))

"""Training on data loaders and on rows that come in blocks: the names that users need for it."""

from setpoint.data import ArrayRows, Block, ByChance, ByTime, LoaderRows, ParquetRows, RowSource
from setpoint.errors import SourceError
from setpoint.thresholds import stream_evaluate, stream_threshold
from setpoint.training import Epochs, MiniBatchPenalty, Stochastic, StreamProblem, train

__all__ = [
    "ArrayRows",
    "Block",
    "ByChance",
    "ByTime",
    "Epochs",
    "LoaderRows",
    "MiniBatchPenalty",
    "ParquetRows",
    "RowSource",
    "SourceError",
    "Stochastic",
    "StreamProblem",
    "stream_evaluate",
    "stream_threshold",
    "train",
]

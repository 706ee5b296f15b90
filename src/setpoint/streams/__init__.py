"""Training on rows that come in blocks: more than fit into memory, or into one machine.

    source ──► a pass: counts, thresholds, a sample ──► steps on batches of it ──► a pass ──► ...

A source is a :class:`ParquetRows`, :class:`ArrayRows` or :class:`LoaderRows`;
``SetpointClassifier.fit_stream`` takes one, and :func:`train` trains any torch module on one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from setpoint._lazy import lazy

if TYPE_CHECKING:
    from setpoint.streams.arrays import ArrayRows
    from setpoint.streams.block import Block, RowSource
    from setpoint.streams.errors import SourceError
    from setpoint.streams.loaders import LoaderRows
    from setpoint.streams.parquet import ParquetRows
    from setpoint.streams.parts import ByChance, ByTime
    from setpoint.streams.problem import StreamProblem
    from setpoint.streams.threshold import stream_evaluate, stream_threshold
    from setpoint.streams.training import train

_HOMES = {
    "arrays": ("ArrayRows",),
    "block": ("Block", "RowSource"),
    "errors": ("SourceError",),
    "loaders": ("LoaderRows",),
    "parquet": ("ParquetRows",),
    "parts": ("ByChance", "ByTime"),
    "problem": ("StreamProblem",),
    "threshold": ("stream_evaluate", "stream_threshold"),
    "training": ("train",),
}
_HOME = {name: f"{__name__}.{module}" for module, names in _HOMES.items() for name in names}

__all__ = [
    "ArrayRows",
    "Block",
    "ByChance",
    "ByTime",
    "LoaderRows",
    "ParquetRows",
    "RowSource",
    "SourceError",
    "StreamProblem",
    "stream_evaluate",
    "stream_threshold",
    "train",
]

__getattr__, __dir__ = lazy(globals(), _HOME)

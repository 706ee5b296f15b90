"""Input of training: tables, labels, splits, standardisation, and rows in blocks.

:class:`TableFile` reads tables; a file format is added in :mod:`setpoint.data.file_formats`.
A row source is an :class:`ArrayRows`, a :class:`ParquetRows` or a :class:`LoaderRows`;
``SetpointClassifier.fit_stream`` takes one, and :func:`setpoint.training.train` trains any torch
module on one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from setpoint._internal.imports import lazy

if TYPE_CHECKING:
    from setpoint.data.arrays import ArrayRows
    from setpoint.data.label_columns import Target, read_target
    from setpoint.data.loaders import LoaderRows
    from setpoint.data.parquet import ParquetRows
    from setpoint.data.rows import Block, RowSource
    from setpoint.data.splits import ByChance, ByTime, Split, SplitRule, split_rows
    from setpoint.data.table_reader import TableFile, count_rows, read_table, table_batches
    from setpoint.data.table_writer import TableWriter

_HOMES = {
    "arrays": ("ArrayRows",),
    "label_columns": ("Target", "read_target"),
    "loaders": ("LoaderRows",),
    "parquet": ("ParquetRows",),
    "rows": (
        "Block",
        "RowSource",
    ),
    "splits": (
        "ByChance",
        "ByTime",
        "Split",
        "SplitRule",
        "split_rows",
    ),
    "table_reader": (
        "TableFile",
        "count_rows",
        "read_table",
        "table_batches",
    ),
    "table_writer": ("TableWriter",),
}

__all__ = [
    "ArrayRows",
    "Block",
    "ByChance",
    "ByTime",
    "LoaderRows",
    "ParquetRows",
    "RowSource",
    "Split",
    "SplitRule",
    "TableFile",
    "TableWriter",
    "Target",
    "count_rows",
    "read_table",
    "read_target",
    "split_rows",
    "table_batches",
]

__getattr__, __dir__ = lazy(globals(), _HOMES)

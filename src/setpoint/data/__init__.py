"""Input of training: tables, labels, splits, standardization, and rows in blocks.

:class:`TableFile` reads tables; a file format is added in :mod:`setpoint.data.file_formats`.
A row source is an :class:`ArrayRows`, a :class:`ParquetRows` or a :class:`LoaderRows`;
``SetpointClassifier.fit_stream`` takes one, and :func:`setpoint.training.train` trains any torch
module on one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from setpoint._internal.imports import lazy

if TYPE_CHECKING:
    from setpoint.data.arrays import ArrayRows as ArrayRows
    from setpoint.data.label_columns import Target as Target
    from setpoint.data.label_columns import read_target as read_target
    from setpoint.data.loaders import LoaderRows as LoaderRows
    from setpoint.data.parquet import ParquetRows as ParquetRows
    from setpoint.data.rows import Block as Block
    from setpoint.data.rows import RowSource as RowSource
    from setpoint.data.splits import ByChance as ByChance
    from setpoint.data.splits import ByTime as ByTime
    from setpoint.data.splits import Split as Split
    from setpoint.data.splits import SplitRule as SplitRule
    from setpoint.data.splits import split_rows as split_rows
    from setpoint.data.table_reader import TableFile as TableFile
    from setpoint.data.table_reader import count_rows as count_rows
    from setpoint.data.table_reader import read_table as read_table
    from setpoint.data.table_reader import table_batches as table_batches
    from setpoint.data.table_writer import TableWriter as TableWriter

_NAMES = {
    "arrays": "ArrayRows",
    "label_columns": "Target read_target",
    "loaders": "LoaderRows",
    "parquet": "ParquetRows",
    "rows": "Block RowSource",
    "splits": "ByChance ByTime Split SplitRule split_rows",
    "table_reader": "TableFile count_rows read_table table_batches",
    "table_writer": "TableWriter",
}
__all__, __getattr__, __dir__ = lazy(globals(), _NAMES)

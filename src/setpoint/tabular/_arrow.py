"""Arrow batches to data frames, with types that do not depend on the batch."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

from setpoint._extras import need

# The row numbers that pandas writes into Parquet and Arrow files say nothing about a row.
_PANDAS_INDEX = re.compile(r"__index_level_\d+__")


def is_pandas_index(name: str) -> bool:
    """Whether a column holds the row numbers of a data frame that was saved."""
    return _PANDAS_INDEX.fullmatch(name) is not None


def plain_type(arrow_type: Any) -> Any:
    """Return the Arrow type in which a column is handed on.

    Dictionaries become what they stand for, since each batch may have one of its own.
    """
    pa = need("pyarrow", "cli", "reading tables")
    types = pa.types
    if types.is_dictionary(arrow_type):
        return plain_type(arrow_type.value_type)
    if types.is_null(arrow_type) or types.is_decimal(arrow_type):
        return pa.float64()
    if types.is_date(arrow_type):
        return pa.timestamp("ms")
    if types.is_large_string(arrow_type) or types.is_string_view(arrow_type):
        return pa.string()
    return arrow_type


def plain_batch(batch: Any) -> Any:
    """Return a record batch whose columns have plain types."""
    pa = need("pyarrow", "cli", "reading tables")
    columns = [c.cast(plain_type(c.type)) for c in batch.columns]
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)


def of_rows(batches: Iterable[Any], rows: int) -> Iterator[Any]:
    """Yield tables of exactly so many rows, but for the last."""
    pa = need("pyarrow", "cli", "reading tables")
    held: list[Any] = []
    count = 0
    for batch in batches:
        held.append(batch)
        count += batch.num_rows
        while count >= rows:
            table = pa.Table.from_batches(held)
            yield table.slice(0, rows)
            # The rest is copied, lest a few rows keep a large block of memory alive.
            held = table.slice(rows).combine_chunks().to_batches()
            count -= rows
    if count:
        yield pa.Table.from_batches(held)


def to_frame(table: Any) -> Any:
    """Return a data frame; whole numbers and booleans stay such where some are missing."""
    return table.to_pandas(types_mapper=_pandas_types().get, ignore_metadata=True)


def _pandas_types() -> dict[Any, Any]:
    pa = need("pyarrow", "cli", "reading tables")
    pd = need("pandas", "cli", "reading tables")
    bits = (8, 16, 32, 64)
    whole = {getattr(pa, f"int{b}")(): getattr(pd, f"Int{b}Dtype")() for b in bits}
    unsigned = {getattr(pa, f"uint{b}")(): getattr(pd, f"UInt{b}Dtype")() for b in bits}
    return {**whole, **unsigned, pa.bool_(): pd.BooleanDtype()}

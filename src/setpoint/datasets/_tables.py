"""Tables in CSV and Parquet files, read with every cell checked."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from setpoint._extras import need
from setpoint.datasets._files import corrupt

Columns = dict[str, NDArray[Any]]


def read_csv(path: Path, numbers: Sequence[str], texts: Sequence[str], how: str) -> Columns:
    """Return the named columns: finite numbers as float64, texts as they stand.

    Other columns are ignored. Rows are counted from 1, after the header.
    """
    pandas = _needed("pandas")
    with warnings.catch_warnings():
        # Of lines that are too long, and lose their end, pandas only warns.
        warnings.simplefilter("error", pandas.errors.ParserWarning)
        try:
            frame = pandas.read_csv(
                path,
                index_col=False,
                dtype=dict.fromkeys(texts, str),
                encoding="utf-8-sig",
                low_memory=False,
            )
        except pandas.errors.EmptyDataError as error:
            raise corrupt(path, "is empty", how) from error
        except (ValueError, pandas.errors.ParserWarning) as error:
            raise corrupt(path, f"is not a whole CSV file ({str(error).strip()})", how) from error
    return _checked(path, frame, numbers, texts, how)


def read_parquet(path: Path, numbers: Sequence[str], texts: Sequence[str], how: str) -> Columns:
    """Return the named columns of a Parquet file, as :func:`read_csv` does."""
    _needed("pyarrow")
    pandas = _needed("pandas")
    try:
        frame = pandas.read_parquet(path)
    except (ValueError, OSError) as error:
        raise corrupt(path, f"is not a whole Parquet file ({error})", how) from error
    return _checked(path, frame, numbers, texts, how)


def _needed(module: str) -> Any:
    return need(module, "experiments", "reading this data set")


def _checked(
    path: Path, frame: Any, numbers: Sequence[str], texts: Sequence[str], how: str
) -> Columns:
    missing = [name for name in (*texts, *numbers) if name not in frame.columns]
    if missing:
        held = ", ".join(map(str, frame.columns[:5])) + (", ..." if len(frame.columns) > 5 else "")
        raise corrupt(
            path, f"has no column {', '.join(missing)}; its columns are {held[:200]}", how
        )
    if not len(frame):
        raise corrupt(path, "has a header but no rows", how)
    found: Columns = {}
    for name in numbers:
        values = _needed("pandas").to_numeric(frame[name], errors="coerce").to_numpy(np.float64)
        _check_cells(path, frame[name], name, np.isfinite(values), "a number", how)
        found[name] = values
    for name in texts:
        cells = frame[name].to_numpy(object)
        is_text = np.array([isinstance(cell, str) for cell in cells])
        _check_cells(path, frame[name], name, is_text, "a text", how)
        found[name] = cells
    return found


def _check_cells(
    path: Path, column: Any, name: str, good: NDArray[np.bool_], kind: str, how: str
) -> None:
    """Refuse a column with cells that are empty or of the wrong kind, and name the first."""
    if good.all():
        return
    row = int(np.flatnonzero(~good)[0])
    cell = column.iloc[row]
    shown = "is empty" if cell != cell or cell is None else f"holds {str(cell)[:40]!r}, not {kind}"
    cut = " (the last row: the file was cut off)" if row == len(good) - 1 else ""
    raise corrupt(
        path,
        f"has {int((~good).sum()):,} bad cells in the column {name}: row {row + 1:,} {shown}{cut}",
        how,
    )


def check_labels(
    path: Path, name: str, labels: NDArray[Any], allowed: Sequence[int], how: str
) -> None:
    """Refuse labels other than the published ones."""
    good = np.isin(labels, allowed)
    if good.all():
        return
    row = int(np.flatnonzero(~good)[0])
    others = ", ".join(f"{value:g}" for value in np.unique(labels[~good])[:5])
    raise corrupt(
        path,
        f"has labels other than {', '.join(map(str, allowed))} in the column {name}: {others}, "
        f"first in row {row + 1:,}",
        how,
    )

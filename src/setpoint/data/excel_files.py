"""Excel workbooks with one table: the first row that is not empty names the columns.

A workbook is read into memory as a whole. What would be lost without a word is an error: merged
cells, columns without a name, several sheets with data, and formulas that were never computed.
"""

from __future__ import annotations

import warnings
import zipfile
from collections.abc import Collection, Iterator, Sequence
from datetime import date, datetime
from pathlib import Path
from typing import Any

from setpoint._internal.imports import OptionalModule
from setpoint._internal.validation import as_text, listed
from setpoint.data.values import MISSING
from setpoint.errors import TableFileError

pa = OptionalModule("pyarrow", "cli", "Excel files")
openpyxl = OptionalModule("openpyxl", "excel", "an Excel file")

_FORMULA = "f"


class ExcelFile:
    """A workbook that ends in ``.xlsx`` or ``.xlsm``, with one sheet that holds data.

    Attributes
    ----------
    names : list of str
        The columns.
    rows : int
        The number of rows.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        sheet = self._sheet(self._open(data_only=False))
        cells = [row for row in sheet.iter_rows() if any(cell.value is not None for cell in row)]
        self._check_merged(sheet, cells)
        values = self._values(sheet, cells)
        used = [i for i in range(len(values[0])) if any(row[i] is not None for row in values)]
        header, *body = ([row[i] for i in used] for row in values)
        for cell, name in zip((cells[0][i] for i in used), header, strict=True):
            if name is None:
                raise TableFileError(
                    f"{path}: the column {cell.column_letter} of sheet {sheet.title!r} has values "
                    f"and no name in row {cell.row}; the first row must name the columns."
                )
        if not body:
            raise TableFileError(f"{path} has a header and no rows; nothing to read.")
        self.names = [_as_name(name) for name in header]
        self.rows: int | None = len(body)
        self._columns = list(zip(*body, strict=True))

    def batches(self, columns: Sequence[str], texts: Collection[str]) -> Iterator[Any]:
        """Yield one record batch; ``texts`` are columns that stay text whatever they look like."""
        found = [
            _array(self._columns[self.names.index(name)], as_texts=name in texts)
            for name in columns
        ]
        yield pa.RecordBatch.from_arrays(found, names=list(columns))

    @staticmethod
    def writer(path: Path, sink: Any, schema: Any) -> Any:
        """Raise NotImplementedError: tables are not written as workbooks."""
        raise NotImplementedError

    def _open(self, data_only: bool) -> Any:
        load = openpyxl.load_workbook
        try:
            with warnings.catch_warnings():  # of styles and the like
                warnings.simplefilter("ignore")
                return load(self.path, data_only=data_only)
        except (zipfile.BadZipFile, KeyError, ValueError, OSError) as error:
            raise TableFileError(
                f"{self.path} cannot be read as a workbook: {error}. It is damaged, protected by a "
                "password or something else; save it again, or save the table in it as CSV."
            ) from error

    def _sheet(self, workbook: Any) -> Any:
        """Return the only sheet with values."""
        filled = [s for s in workbook.worksheets if any(c is not None for r in s.values for c in r)]
        if not filled:
            raise TableFileError(f"{self.path} is empty; its first row must name the columns.")
        if len(filled) > 1:
            raise TableFileError(
                f"{self.path} has several sheets with data: {listed(s.title for s in filled)}. "
                "Save the one with the table as a file of its own."
            )
        return filled[0]

    def _check_merged(self, sheet: Any, cells: list[Any]) -> None:
        """Raise TableFileError for merged cells in the table, all but one of which are empty."""
        first, last = cells[0][0].row, cells[-1][0].row
        for merged in sheet.merged_cells.ranges:
            if first <= merged.max_row and merged.min_row <= last:
                raise TableFileError(
                    f"{self.path}: the cells {merged.coord} of sheet {sheet.title!r} are merged; "
                    "unmerge them, and write the value into each row."
                )

    def _values(self, sheet: Any, cells: list[Any]) -> list[list[Any]]:
        """Return the values of cells, with the stored results of formulas."""
        values = [[_plain(cell.value) for cell in row] for row in cells]
        formulas = [
            (i, j)
            for i, row in enumerate(cells)
            for j, cell in enumerate(row)
            if cell.data_type == _FORMULA
        ]
        if not formulas:
            return values
        results = self._open(data_only=True)[sheet.title]
        for i, j in formulas:
            values[i][j] = _plain(results[cells[i][j].coordinate].value)
        if all(values[i][j] is None for i, j in formulas):
            first = cells[formulas[0][0]][formulas[0][1]].coordinate
            raise TableFileError(
                f"{self.path}: the formulas of sheet {sheet.title!r} (the first in {first}) have "
                "no stored results; open the file in a spreadsheet program and save it there."
            )
        return values


def _plain(value: Any) -> Any:
    """Return the value of a cell; texts that stand for a missing value are None."""
    if isinstance(value, str):
        return None if value.strip() in MISSING else value
    if isinstance(value, date) and not isinstance(value, datetime):
        return datetime(value.year, value.month, value.day)
    return value if isinstance(value, bool | int | float | datetime | None) else str(value)


def _as_name(value: Any) -> str:
    return value.date().isoformat() if isinstance(value, datetime) else as_text(value)


def _array(values: Sequence[Any], as_texts: bool) -> Any:
    """Return a column in the narrowest type that holds all of its values."""
    kinds = {type(value) for value in values if value is not None}
    if not kinds:
        return pa.nulls(len(values), pa.string() if as_texts else pa.float64())
    if not as_texts:
        if kinds == {bool}:
            return pa.array(values, pa.bool_())
        if kinds == {datetime}:
            return pa.array(values, pa.timestamp("us"))
        if kinds <= {int, float}:
            # Spreadsheets know one kind of number.
            whole = all(v is None or (float(v).is_integer() and abs(v) < 2**53) for v in values)
            if whole:
                return pa.array([None if v is None else int(v) for v in values], pa.int64())
            return pa.array([None if v is None else float(v) for v in values], pa.float64())
    return pa.array([None if v is None else as_text(v) for v in values], pa.string())

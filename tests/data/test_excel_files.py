"""Workbooks: types, and what cannot be read as a table."""

import sys
from datetime import date, datetime

import pandas as pd
import pytest

from setpoint.data.table_reader import TableFile, read_table
from setpoint.data.table_writer import TableWriter
from setpoint.errors import MissingExtraError, TableFileError

openpyxl = pytest.importorskip("openpyxl")

HEADER = ["amount", "count", "where", 2023, "paid", "when", "mixed", "empty"]
ROWS = [
    [12.5, 1, "home", 7, True, datetime(2024, 1, 31, 8, 30), 1, None],
    [None, 2, "NA", 8, False, date(2024, 2, 1), "two", None],
    [990, None, "away", 9, None, None, 2.0, None],
]


def workbook(path, rows, **sheets):
    book = openpyxl.Workbook()
    for name, content in {"Sheet": rows, **sheets}.items():
        sheet = book[name] if name in book.sheetnames else book.create_sheet(name)
        for row in content:
            sheet.append(row)
    book.save(path)
    return book, path


def test_values_and_types(tmp_path):
    _, path = workbook(tmp_path / "t.xlsx", [[], HEADER, *ROWS, [None] * 8], Notes=[])
    frame = read_table(path)
    assert frame.columns.tolist() == [*map(str, HEADER)]
    assert [str(t) for t in frame.dtypes] == [
        "float64", "Int64", "str", "Int64", "boolean", "datetime64[us]", "str", "float64",
    ]  # fmt: skip
    assert frame["where"].isna().tolist() == [False, True, False]
    assert frame["mixed"].tolist() == ["1", "two", "2"]
    assert frame["when"].tolist()[:2] == [
        pd.Timestamp("2024-01-31 08:30"),
        pd.Timestamp("2024-02-01"),
    ]
    assert TableFile(path).read(["2023", "count"], texts=["2023"])["2023"].tolist() == [
        "7",
        "8",
        "9",
    ]
    assert TableFile(path).rows == 3


@pytest.mark.parametrize(
    ("rows", "sheets", "message"),
    [
        ([], {}, "is empty; its first row"),
        ([[None, None], [None]], {}, "is empty"),
        ([["a", "b"]], {}, "a header and no rows"),
        (
            [["a", None], [1, 2]],
            {},
            "the column B of sheet 'Sheet' has values and no name in row 1",
        ),
        ([["a", "a"], [1, 2]], {}, "several columns of one name: 'a'"),
        ([["a"], [1]], {"More": [["b"], [2]]}, "several sheets with data: 'Sheet', 'More'"),
        ([["a", "b"], [1, "=A2*2"]], {}, "formulas of sheet 'Sheet' .the first in B2"),
    ],
)
def test_what_is_not_a_table(tmp_path, rows, sheets, message):
    _, path = workbook(tmp_path / "t.xlsx", rows, **sheets)
    with pytest.raises(TableFileError, match=message):
        read_table(path)


def test_merged_cells_are_an_error_where_they_hide_rows(tmp_path):
    book, path = workbook(tmp_path / "t.xlsx", [["a", "b"], ["x", 1], [None, 2], ["y", 3]])
    book["Sheet"].merge_cells("A2:A3")
    book.save(path)
    with pytest.raises(TableFileError, match="A2:A3 of sheet 'Sheet' are merged"):
        read_table(path)


def test_other_files_are_not_workbooks(tmp_path):
    path = tmp_path / "t.xlsx"
    for content in (b"a,b\n1,2\n", b"PK\x03\x04 and so on"):
        path.write_bytes(content)
        with pytest.raises(TableFileError, match="cannot be read as a workbook"):
            read_table(path)
    with pytest.raises(TableFileError, match="can be read in pieces|cannot be read in pieces"):
        TableFile(path, streamed=True)
    with (
        pytest.raises(TableFileError, match="not written as workbooks"),
        TableWriter(tmp_path / "out.xlsx") as out,
    ):
        out.write(pd.DataFrame({"a": [1]}))
    assert not (tmp_path / "out.xlsx").exists()


def test_the_extra_is_named_if_it_is_missing(tmp_path, monkeypatch):
    _, path = workbook(tmp_path / "t.xlsx", [["a"], [1]])
    monkeypatch.setitem(sys.modules, "openpyxl", None)
    with pytest.raises(MissingExtraError, match=r"setpoint\[excel\]"):
        read_table(path)

import sys

import numpy as np
import pandas as pd
import pytest

from setpoint import SetpointError
from setpoint.paper.datasets import CorruptDataError
from setpoint.paper.datasets.files import check_labels, read_csv, read_parquet

HOW = "get it from the page"


def write(path, text):
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def read(path, numbers=("a", "b"), texts=()):
    return read_csv(path, numbers, texts, HOW)


@pytest.mark.parametrize(
    "text",
    [
        "a,b\n1,2\n3,4.5\n",
        '"a","b"\n1,"2"\n3,"4.5"',  # quotes, and no line feed at the end
        "\ufeffa,b\r\n1,2\r\n3,4.5\r\n",  # as Excel writes it
        "b,other,a\n2,x,1\n4.5,,3\n",  # order and other columns do not matter
        "a,b\n1e0,2\n\n3,4.5\n\n",
    ],
)
def test_numbers(tmp_path, text):
    table = read(write(tmp_path / "x.csv", text))
    assert table["a"].tolist() == [1, 3]
    assert table["b"].tolist() == [2, 4.5]
    assert table["b"].dtype == np.float64


def test_texts_stay_as_they_are(tmp_path):
    path = write(tmp_path / "x.csv", 'a,t\n1,007\n2,"x, ""y"""\n')
    assert read(path, ("a",), ("t",))["t"].tolist() == ["007", 'x, "y"']


@pytest.mark.filterwarnings("ignore")  # damage is an error whatever a user does with warnings
@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "is empty"),
        ("a,b\n", "has a header but no rows"),
        ("a,c\n1,2\n", "has no column b; its columns are a, c"),
        ("<!DOCTYPE html>\n<html>\n", "has no column a, b"),  # a login page
        ("a,b\n1,2\nx,2\n", "1 bad cells in the column a: row 2 holds 'x', not a number (the last"),
        ("a,b\n1,2\n1,y\n1,z\n1,1\n", "2 bad cells in the column b: row 2 holds 'y', not a number"),
        ("a,b\n1,\n1,2\n", "1 bad cells in the column b: row 1 is empty."),
        ("a,b\n1,2\n1,inf\n1,2\n", "row 2 holds 'inf', not a number."),
        ("a,b\n1,2\n3", "column b: row 2 is empty (the last row: the file was cut off)"),
        ('a,b\n1,2\n3,"4', "is not a whole CSV file"),
        ("a,b\n1,2\n1,2,3\n", "is not a whole CSV file"),
        ("a,b\n1,2,3\n1,2,3\n", "is not a whole CSV file"),  # not a column of row names
        (b"a,b\n1,\xff\xfe\n", "is not a whole CSV file"),
        (b"PK\x03\x04\x00\x00\x80\xff", "is not a whole CSV file"),  # still packed
    ],
)
def test_damage_is_named(tmp_path, text, said):
    path = write(tmp_path / "x.csv", text)
    with pytest.raises(CorruptDataError) as caught:
        read(path)
    assert str(caught.value).startswith(f"{path} ")
    assert said in str(caught.value)
    assert str(caught.value).endswith(f"Replace it: {HOW}.")


def test_an_empty_text_cell(tmp_path):
    path = write(tmp_path / "x.csv", "a,t\n1,x\n2,\n3,z\n")
    with pytest.raises(CorruptDataError, match="1 bad cells in the column t: row 2 is empty"):
        read(path, ("a",), ("t",))


def test_a_wrong_cell_late_in_a_large_file(tmp_path):
    """In large files pandas reads in chunks, and would warn of columns of two kinds."""
    rows = ["1,2"] * 300_000
    rows[250_000] = "1,oops"
    path = write(tmp_path / "x.csv", "a,b\n" + "\n".join(rows) + "\n")
    with pytest.raises(CorruptDataError, match="column b: row 250,001 holds 'oops', not a number"):
        read(path)


def test_parquet(tmp_path):
    path = tmp_path / "x.parquet"
    pd.DataFrame({"a": ["1", "2"], "t": ["x", "y"]}).to_parquet(path)
    table = read_parquet(path, ("a",), ("t",), HOW)
    assert table["a"].tolist() == [1, 2]
    assert table["t"].tolist() == ["x", "y"]
    with pytest.raises(CorruptDataError, match="has no column b"):
        read_parquet(path, ("b",), (), HOW)
    with pytest.raises(CorruptDataError, match="column t: row 1 holds 'x', not a number"):
        read_parquet(path, ("t",), (), HOW)
    pd.DataFrame({"t": [1, 2]}).to_parquet(path)
    with pytest.raises(CorruptDataError, match="column t: row 1 holds '1', not a text"):
        read_parquet(path, (), ("t",), HOW)
    whole = path.read_bytes()
    for part in (b"", whole[:-20], whole[: len(whole) // 2]):
        path.write_bytes(part)
        with pytest.raises(CorruptDataError, match="is not a whole Parquet file"):
            read_parquet(path, (), ("t",), HOW)


def test_labels(tmp_path):
    check_labels(tmp_path, "y", np.array([0.0, 1.0]), (0, 1), HOW)
    with pytest.raises(CorruptDataError) as caught:
        check_labels(tmp_path, "y", np.array([0, 1, 2, 0.5, 2]), (0, 1), HOW)
    assert "labels other than 0, 1 in the column y: 0.5, 2, first in row 3" in str(caught.value)


@pytest.mark.parametrize(("module", "reader"), [("pandas", read_csv), ("pyarrow", read_parquet)])
def test_a_missing_extra(module, reader, monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(SetpointError, match=rf'{module}: pip install "setpoint\[experiments\]"'):
        reader(tmp_path / "x", ("a",), (), HOW)

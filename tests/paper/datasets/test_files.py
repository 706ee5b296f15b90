"""Finding and reading the files of data sets."""

import hashlib
import os
import sys

import numpy as np
import pandas as pd
import pytest

from setpoint import SetpointError
from setpoint.paper.datasets import CorruptDataError, MissingDataError
from setpoint.paper.datasets.files import (
    Expected,
    check_counts,
    check_labels,
    check_md5,
    digest,
    find,
    folders,
    lines,
    named,
    read_arrays,
    read_csv,
    read_parquet,
    read_quantized,
)

# --- files ----------------------------------------------------------------------------------------


HOW = "download it from https://example.org/page"


def test_folders_come_from_the_environment(monkeypatch, tmp_path):
    monkeypatch.delenv("SETPOINT_DATA", raising=False)
    assert [str(f) for f in folders()] == ["data"]
    monkeypatch.setenv("SETPOINT_DATA", "")
    assert [str(f) for f in folders()] == ["data"]
    monkeypatch.setenv("SETPOINT_DATA", os.pathsep.join(["/a b", "", "c"]))
    assert [str(f) for f in folders()] == ["/a b", "c"]
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("SETPOINT_DATA", "~/x")
    assert folders() == [tmp_path / "x"]


def test_the_first_folder_with_all_files_of_a_form_wins(monkeypatch, tmp_path):
    for name in ("one/a", "two/a", "two/b", "three/c"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.touch()
    names = ("one", "two", "three")
    monkeypatch.setenv("SETPOINT_DATA", os.pathsep.join(str(tmp_path / n) for n in names))
    assert find(("a",), how=HOW) == (tmp_path / "one/a",)
    assert find(("a", "b"), how=HOW) == (tmp_path / "two/a", tmp_path / "two/b")
    assert find(("b", "c"), ("c",), how=HOW) == (tmp_path / "three/c",)


def test_the_error_for_a_missing_file_has_instructions(monkeypatch, tmp_path):
    absent = tmp_path / "absent"
    monkeypatch.setenv("SETPOINT_DATA", os.pathsep.join([str(tmp_path), str(absent)]))
    with pytest.raises(MissingDataError) as caught:
        find(("a.csv", "b.csv"), ("c.csv",), how=HOW)
    message = str(caught.value)
    assert message.startswith("a.csv and b.csv, or c.csv not found in")
    assert f"{absent} (no such folder)" in message
    assert f"{tmp_path} (" not in message
    assert f"{HOW}; put it into {tmp_path}," in message
    assert "SETPOINT_DATA" in message
    assert isinstance(caught.value, SetpointError)


def test_an_incomplete_form_is_reported(folder):
    (folder / "a.csv").touch()
    (folder / "b.csv").mkdir()  # an archive unpacked into a folder of its own name
    with pytest.raises(MissingDataError, match=r"a\.csv exists, but b\.csv beside it does not"):
        find(("a.csv", "b.csv"), how=HOW)


def test_digests(tmp_path):
    path = tmp_path / "large.bin"
    content = bytes(range(256)) * 5000  # more than one buffer
    path.write_bytes(content)
    md5 = hashlib.md5(content).hexdigest()
    assert digest(path) == md5
    assert named(path, path) == f"large.bin (md5 {md5}), large.bin (md5 {md5})"
    check_md5(path, md5, Expected(1, md5=md5), HOW)
    check_md5(path, md5, Expected(1), HOW)
    with pytest.raises(CorruptDataError, match=f"md5 {md5} instead of the published abc.*{HOW}"):
        check_md5(path, md5, Expected(1, md5="abc"), HOW)


def test_counts(tmp_path):
    path = tmp_path / "x.csv"
    check_counts(path, 1000, 10, Expected(1000, 10), HOW)
    check_counts(path, 1000, 10, Expected(1000), HOW)
    with pytest.raises(CorruptDataError, match=f"999 rows instead of 1,000: it is trunc.*{HOW}"):
        check_counts(path, 999, 10, Expected(1000, 10), HOW)
    with pytest.raises(
        CorruptDataError, match="1,001 rows instead of 1,000: it is another version"
    ):
        check_counts(path, 1001, 10, Expected(1000, 10), HOW)
    with pytest.raises(CorruptDataError, match="has 11 positives instead of 10: its labels"):
        check_counts(path, 1000, 11, Expected(1000, 10), HOW)


def test_lines_end_at_line_feeds_only(tmp_path):
    path = tmp_path / "x.txt"
    path.write_bytes("\ufeffone\u2028still\x85 one\x0b\r\n\n  \ntwo\rstill two".encode())
    assert list(lines(path, HOW)) == [(1, "one\u2028still\x85 one\x0b"), (4, "two\rstill two")]


def test_an_empty_text_file(tmp_path):
    path = tmp_path / "x.txt"
    for content in (b"", b"\n\n \r\n"):
        path.write_bytes(content)
        with pytest.raises(CorruptDataError, match=f"x.txt is empty. Replace it: {HOW}"):
            list(lines(path, HOW))


def test_a_text_file_in_another_encoding(tmp_path):
    path = tmp_path / "x.txt"
    path.write_bytes("naïve".encode("latin-1"))
    with pytest.raises(CorruptDataError, match="x.txt is not UTF-8 text"):
        list(lines(path, HOW))


# --- tables ---------------------------------------------------------------------------------------


TABLES_HOW = "get it from the page"


def write(path, text):
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def read(path, numbers=("a", "b"), texts=()):
    return read_csv(path, numbers, texts, TABLES_HOW)


def test_numbers(tmp_path):
    for text in (
        "a,b\n1,2\n3,4.5\n",
        '"a","b"\n1,"2"\n3,"4.5"',  # quotes, and no line feed at the end
        "\ufeffa,b\r\n1,2\r\n3,4.5\r\n",  # as Excel writes it
        "b,other,a\n2,x,1\n4.5,,3\n",  # order and other columns do not matter
        "a,b\n1e0,2\n\n3,4.5\n\n",
    ):
        table = read(write(tmp_path / "x.csv", text))
        assert table["a"].tolist() == [1, 3]
        assert table["b"].tolist() == [2, 4.5]
        assert table["b"].dtype == np.float64


def test_texts_stay_as_they_are(tmp_path):
    path = write(tmp_path / "x.csv", 'a,t\n1,007\n2,"x, ""y"""\n')
    assert read(path, ("a",), ("t",))["t"].tolist() == ["007", 'x, "y"']


@pytest.mark.filterwarnings("ignore")  # damage is an error whatever a user does with warnings
def test_damage_is_named(tmp_path):
    for text, message in (
        ("", "is empty"),
        ("a,b\n", "has a header but no rows"),
        ("a,c\n1,2\n", "has no column b; its columns are a, c"),
        ("<!DOCTYPE html>\n<html>\n", "has no column a, b"),  # a login page
        ("a,b\n1,2\nx,2\n", "1 bad cells in the column a: row 2 holds 'x', not a number (the last"),
        ("a,b\n1,2\n1,y\n1,z\n1,1\n", "2 bad cells in the column b: row 2 holds 'y', not a number"),
        ("a,b\n1,\n1,2\n", "1 bad cells in the column b: row 1 is empty."),
        ("a,b\n1,2\n1,inf\n1,2\n", "row 2 holds 'inf', not a number."),
        ("a,b\n1,2\n3", "column b: row 2 is empty (the last row: the file is truncated)"),
        ('a,b\n1,2\n3,"4', "is not a complete CSV file"),
        ("a,b\n1,2\n1,2,3\n", "is not a complete CSV file"),
        ("a,b\n1,2,3\n1,2,3\n", "is not a complete CSV file"),  # not a column of row names
        (b"a,b\n1,\xff\xfe\n", "is not a complete CSV file"),
        (b"PK\x03\x04\x00\x00\x80\xff", "is not a complete CSV file"),  # still packed
    ):
        path = write(tmp_path / "x.csv", text)
        with pytest.raises(CorruptDataError) as caught:
            read(path)
        assert str(caught.value).startswith(f"{path} ")
        assert message in str(caught.value)
        assert str(caught.value).endswith(f"Replace it: {TABLES_HOW}.")


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
    table = read_parquet(path, ("a",), ("t",), TABLES_HOW)
    assert table["a"].tolist() == [1, 2]
    assert table["t"].tolist() == ["x", "y"]
    with pytest.raises(CorruptDataError, match="has no column b"):
        read_parquet(path, ("b",), (), TABLES_HOW)
    with pytest.raises(CorruptDataError, match="column t: row 1 holds 'x', not a number"):
        read_parquet(path, ("t",), (), TABLES_HOW)
    pd.DataFrame({"t": [1, 2]}).to_parquet(path)
    with pytest.raises(CorruptDataError, match="column t: row 1 holds '1', not a text"):
        read_parquet(path, (), ("t",), TABLES_HOW)
    whole = path.read_bytes()
    for part in (b"", whole[:-20], whole[: len(whole) // 2]):
        path.write_bytes(part)
        with pytest.raises(CorruptDataError, match="is not a complete Parquet file"):
            read_parquet(path, (), ("t",), TABLES_HOW)


def test_labels(tmp_path):
    check_labels(tmp_path, "y", np.array([0.0, 1.0]), (0, 1), TABLES_HOW)
    with pytest.raises(CorruptDataError) as caught:
        check_labels(tmp_path, "y", np.array([0, 1, 2, 0.5, 2]), (0, 1), TABLES_HOW)
    assert "labels other than 0, 1 in the column y: 0.5, 2, first in row 3" in str(caught.value)


@pytest.mark.parametrize(("module", "reader"), [("pandas", read_csv), ("pyarrow", read_parquet)])
def test_a_missing_extra(module, reader, monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(SetpointError, match=rf'{module}: pip install "setpoint\[paper\]"'):
        reader(tmp_path / "x", ("a",), (), TABLES_HOW)


# --- quantized ------------------------------------------------------------------------------------


QUANTIZED_HOW = "make it again"


def arrays(n=6, d=3):
    rng = np.random.default_rng(0)
    return {
        "q": rng.integers(0, 256, (n, d), dtype=np.uint8),
        "scale": rng.random(d, dtype=np.float32),
        "offset": rng.normal(size=d).astype(np.float32),
        "level": rng.integers(0, 5, n, dtype=np.int8),
    }


def test_features_are_scaled_back(tmp_path):
    held = arrays()
    np.savez_compressed(tmp_path / "x.npz", **held)
    found = read_quantized(tmp_path / "x.npz", ("level",), QUANTIZED_HOW)
    expected = held["q"].astype(float) * held["scale"] + held["offset"]
    assert found["X"].dtype == np.float32
    np.testing.assert_allclose(found["X"], expected, rtol=1e-6)
    assert (found["level"] == held["level"]).all()


def test_other_arrays_raise(tmp_path):
    for change, message in (
        ({"q": None}, "has no array q"),
        ({"level": None, "scale": None}, "has no array scale, level"),
        ({"q": np.zeros((6, 3))}, "has a q of float64"),
        ({"q": np.zeros(6, np.uint8)}, "has a q of uint8 and shape (6,)"),
        ({"scale": np.ones(2)}, "does not have one finite scale per column of q"),
        ({"scale": np.array([1, np.nan, 1])}, "does not have one finite scale per column of q"),
        ({"offset": np.float32(1)}, "does not have one finite offset per column of q"),
        ({"level": np.zeros(5, int)}, "does not have one integer level per row of q"),
        ({"level": np.zeros(6)}, "does not have one integer level per row of q"),
    ):
        held = {k: v for k, v in (arrays() | change).items() if v is not None}
        np.savez(tmp_path / "x.npz", **held)
        with pytest.raises(CorruptDataError) as caught:
            read_quantized(tmp_path / "x.npz", ("level",), QUANTIZED_HOW)
        assert message in str(caught.value)
        assert str(caught.value).endswith(f"Replace it: {QUANTIZED_HOW}.")


def test_incomplete_files_raise(tmp_path):
    path = tmp_path / "x.npz"
    np.savez_compressed(path, **arrays(200, 20))
    whole = path.read_bytes()
    turned = bytearray(whole)
    turned[300] ^= 255  # within an array: its checksum fails
    for content in (b"", b"no arrays", whole[:-1], whole[: len(whole) // 2], bytes(turned)):
        path.write_bytes(content)
        with pytest.raises(CorruptDataError, match="is not a complete npz file"):
            read_quantized(path, (), QUANTIZED_HOW)


def test_nothing_in_a_file_is_executed(tmp_path):
    path = tmp_path / "x.npz"
    np.savez(path, X=np.array([{"any": "object"}], dtype=object))
    with pytest.raises(CorruptDataError, match="is not a complete npz file"):
        read_arrays(path, ("X",), QUANTIZED_HOW)
    assert read_arrays(path, ("y",), QUANTIZED_HOW) == {}
    np.save(tmp_path / "x.npy", np.zeros(3))
    with pytest.raises(CorruptDataError, match="it is a single array"):
        read_arrays(tmp_path / "x.npy", ("X",), QUANTIZED_HOW)

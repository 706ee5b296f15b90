"""Tables in files and folders: the same at once and in batches, and errors for broken ones."""

import errno
import gzip
import re
import subprocess
import sys

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from setpoint._internal import files as writing
from setpoint.data import table_reader as files
from setpoint.data.table_reader import TableFile, read_table, table_batches
from setpoint.data.table_writer import TableWriter
from setpoint.errors import SchemaError, TableFileError
from table_folders import plain, without_values
from table_folders import write as write_folder

ENDINGS = [".csv", ".csv.gz", ".tsv", ".tsv.gz", ".parquet", ".arrow", ".feather"]


def messy(n=1_000):
    rows = np.arange(n)
    return pd.DataFrame(
        {
            "größe (m²)": np.where(rows % 7, rows / 8, np.nan),
            "id": pd.array(2**60 + rows, dtype="Int64"),
            "count": pd.array([None if i % 5 else i for i in range(n)], dtype="Int64"),
            "flag": pd.array([None if i % 4 == 0 else i % 2 == 0 for i in range(n)], "boolean"),
            "code": pd.Series([f"{i:06d}" for i in range(n)], dtype="str"),
            "text, quoted": pd.Series([f'a "b"\nline {i}; x,y' for i in range(n)], dtype="str"),
            "none": np.full(n, np.nan),
            "late": pd.Series([None] * (n - 1) + ["at last"], dtype="str"),
        }
    )


def write(path, frame, pieces=3):
    with TableWriter(path) as out:
        for part in np.array_split(np.arange(len(frame)), pieces):
            out.write(frame.iloc[part])
    return path


@pytest.mark.parametrize("ending", ENDINGS)
def test_round_trip_at_once_and_in_batches(tmp_path, ending):
    frame = messy()
    path = write(tmp_path / f"table{ending}", frame)
    pd.testing.assert_frame_equal(read_table(path), frame)
    for rows in (1_000_000, 1_000, 7):
        batches = list(table_batches(path, rows))
        assert {len(b) for b in batches[:-1]} <= {rows}
        assert all(list(b.dtypes) == list(frame.dtypes) for b in batches)
        pd.testing.assert_frame_equal(pd.concat(batches, ignore_index=True), frame)
    assert [p.name for p in tmp_path.iterdir()] == [path.name]
    assert list(read_table(path, ["late", "id"])) == ["late", "id"]
    with pytest.raises(TableFileError, match="no column 'cont'.*Did you mean 'count'"):
        read_table(path, ["cont"])


def test_csv_types_come_from_all_rows(tmp_path, monkeypatch):
    monkeypatch.setattr("setpoint.data.csv_files._BLOCK", 256)
    path = tmp_path / "late.csv"
    lines = [f"{i},{i},{i}" for i in range(500)] + ["500,0.5,x"]
    path.write_text("a,b,c\n" + "\n".join(lines))
    whole = read_table(path)
    assert [str(t) for t in whole.dtypes] == ["Int64", "float64", "str"]
    first = next(table_batches(path, rows=3))
    assert list(first.dtypes) == list(whole.dtypes)
    assert first["c"].tolist() == ["0", "1", "2"]


@pytest.mark.parametrize(
    ("values", "dtype"),
    [
        (["1", " 2", ""], "Int64"),
        (["1", "2.5", "NA"], "float64"),
        (["1e3", "inf", "null"], "float64"),
        (["True", "false", ""], "boolean"),
        (["true", "1"], "str"),
        (["007", "12"], "str"),
        (["0x1f", "0x20"], "str"),
        (["12345678901234567890", "1"], "str"),
        (["1.5", "12345678901234567890"], "str"),
        (["2024-01-01", "2024-02-01"], "str"),
        (["", "NA"], "float64"),
        (["yes", ""], "str"),
    ],
)
def test_types_of_csv_values(tmp_path, values, dtype):
    path = tmp_path / "values.csv"
    path.write_text("x,y\n" + "".join(f"{value},1\n" for value in values))
    found = read_table(path)["x"]
    assert str(found.dtype) == dtype
    if dtype == "str":
        assert found.dropna().tolist() == [v for v in values if v]


def test_columns_that_stay_text(tmp_path):
    path = tmp_path / "codes.csv"
    path.write_text("code,n\n12,1\n13,2\n")
    (frame,) = TableFile(path).frames(texts={"code"})
    assert frame["code"].tolist() == ["12", "13"]
    assert frame["n"].tolist() == [1, 2]


def test_semicolons_and_decimal_commas(tmp_path):
    path = tmp_path / "europe.csv"
    path.write_bytes("\ufeffname;preis\nä;3,5\nb;4\n".encode())
    frame = read_table(path)
    assert frame["name"].tolist() == ["ä", "b"]
    assert frame["preis"].tolist() == [3.5, 4.0]


def test_types_that_only_some_formats_have(tmp_path):
    path = tmp_path / "typed.parquet"
    table = pa.table(
        {
            "category": pa.array(["a", "b", "a"]).dictionary_encode(),
            "day": pa.array([0, 1, None], pa.date32()),
            "zoned": pa.array([0, 1, 2], pa.timestamp("us", "Europe/Paris")),
            "price": pa.array([1, 2, 3], pa.int64()).cast(pa.decimal128(22, 2)),
            "nothing": pa.nulls(3),
            "a.b": pa.array([1, 2, 3], pa.int8()),
            "a": pa.array([4, 5, 6], pa.uint64()),
            "__index_level_0__": pa.array([7, 8, 9]),
        }
    )
    pq.write_table(table, path)
    frame = read_table(path)
    kinds = ["str", "datetime64[ms]", "datetime64[us, Europe/Paris]", "float64", "float64"]
    assert [str(t) for t in frame.dtypes] == [*kinds, "Int8", "UInt64"]
    assert list(read_table(path, ["a"])) == ["a"]
    assert TableFile(path).rows == 3


def test_arrow_streams_are_read_too(tmp_path):
    path = tmp_path / "stream.arrow"
    table = pa.table({"a": [1, 2, 3]})
    with pa.ipc.new_stream(path, table.schema) as out:
        out.write_table(table)
    assert read_table(path)["a"].tolist() == [1, 2, 3]


def test_memory_of_batches_does_not_grow_with_the_file(tmp_path):
    # Each batch must own its rows: a view of a few rows would keep a whole block alive.
    path = write(tmp_path / "t.arrow", pd.DataFrame({"a": np.arange(200_000)}), pieces=1)
    pool = pa.default_memory_pool()
    before, most = pool.bytes_allocated(), 0
    for _ in table_batches(path, rows=1_000):
        most = max(most, pool.bytes_allocated() - before)
    assert most < 3 * 65_536 * 8


@pytest.mark.parametrize("compression", [None, "lz4"])
def test_large_and_small_record_batches_are_read_alike(tmp_path, compression):
    table = pa.table({"a": np.arange(150_000), "b": np.arange(150_000) % 7, "c": ["x"] * 150_000})
    options = pa.ipc.IpcWriteOptions(compression=compression)
    frames = []
    for rows in (1_000, 150_000):
        path = tmp_path / f"{rows}.arrow"
        with pa.ipc.new_file(path, table.schema, options=options) as out:
            out.write_table(table, max_chunksize=rows)
        frames.append(TableFile(path).read(["c", "a"]))
        assert sum(map(len, TableFile(path).pieces(["b"], 40_000))) == 150_000
    pd.testing.assert_frame_equal(*frames)
    assert frames[0]["a"].tolist() == list(range(150_000))


def test_several_files_are_one_table(tmp_path):
    paths = [tmp_path / "b.parquet", tmp_path / "a.arrow"]
    for path, values in zip(paths, ([1, 2], [3]), strict=True):
        write(path, pd.DataFrame({"a": values}), pieces=1)
    table = TableFile(paths)
    assert table.read()["a"].tolist() == [1, 2, 3]
    assert f"row 3 is row 1 of {paths[1]}" in table.where(2)
    assert TableFile(tmp_path).where(0) != TableFile(paths[0]).where(0) == ""
    assert TableFile([tmp_path]).folder_columns == []
    (tmp_path / "c.csv").write_text("a\n4\n")
    for given, streamed in (([*paths, tmp_path / "c.csv"], False), (tmp_path / "c.csv", True)):
        with pytest.raises(TableFileError, match="c.csv cannot be read in pieces"):
            TableFile(given, streamed=streamed)


# --- what is broken -----------------------------------------------------------------------------


def broken(tmp_path, name, content, match):
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(TableFileError, match=match) as caught:
        read_table(path)
    assert name in str(caught.value)
    with pytest.raises(TableFileError, match=match):
        list(table_batches(path))


def test_no_such_file(tmp_path):
    (tmp_path / "data.csv").write_text("a\n1\n")
    with pytest.raises(TableFileError, match="there is no file.*Did you mean 'data.csv'"):
        read_table(tmp_path / "dat.csv")
    with pytest.raises(TableFileError, match="no folder"):
        read_table(tmp_path / "nowhere" / "data.csv")


def test_empty_folder_and_unknown_ending(tmp_path):
    (tmp_path / "data.csv").mkdir()
    with pytest.raises(TableFileError, match="data.csv contains no file that ends in .parquet"):
        read_table(tmp_path / "data.csv")
    with pytest.raises(TableFileError, match="the ending of its name, which must be one of .csv"):
        read_table(tmp_path / "data.xls")


@pytest.mark.parametrize("ending", ENDINGS)
def test_empty_file(tmp_path, ending):
    broken(tmp_path, f"empty{ending}", b"", "is empty")


def test_blank_lines_only(tmp_path):
    broken(tmp_path, "blank.csv", b"\n\r\n", "is empty")


@pytest.mark.parametrize("content", [b"a,b\n", b"a,b", b"a,b\n\n\n"])
def test_header_only(tmp_path, content):
    broken(tmp_path, "header.csv", content, "header and no rows|columns and no rows")


def test_parquet_without_rows(tmp_path):
    path = tmp_path / "none.parquet"
    pq.write_table(pa.table({"a": pa.array([], pa.int64())}), path)
    with pytest.raises(TableFileError, match="no rows"):
        read_table(path)


def test_broken_row_names_its_line(tmp_path):
    content = b'a,b\n1,2\n"x\ny",3\n4\n5,6\n'
    broken(tmp_path, "row.csv", content, "line 5: 2 fields were expected.*there are 1: '4'")


def test_broken_row_late_in_a_gzipped_file(tmp_path):
    content = gzip.compress(b"a,b\n" + b"1,2\n" * 50_000 + b"1,2,3\n" + b"1,2\n" * 9)
    broken(tmp_path, "row.csv.gz", content, "line 50002: 2 fields.*there are 3")


def test_duplicate_names(tmp_path):
    broken(tmp_path, "twice.csv", b"a,b,a\n1,2,3\n", r"'a' \(columns 1, 3\)")
    path = tmp_path / "twice.parquet"
    pq.write_table(pa.table([[1], [2]], names=["a", "a"]), path)
    with pytest.raises(TableFileError, match="several columns of one name"):
        read_table(path)


def test_bytes_that_are_not_text(tmp_path):
    broken(tmp_path, "latin.csv", "a,b\n1,ä\n".encode("latin1"), "not UTF-8.*iconv")
    broken(tmp_path, "head.csv", "ä,b\n1,2\n".encode("latin1"), "not UTF-8")


@pytest.mark.parametrize(
    ("content", "advice"),
    [
        ("a,b\n1,2\n".encode("utf-16"), "in UTF-16; .*iconv -f utf-16"),
        ("a,b\n1,2\n".encode("utf-16-be"), "not a text file"),
        (gzip.compress(b"a,b\n1,2\n", mtime=0), "gzipped; its name must end in .gz"),
        (b"\x89PNG\r\n\x1a\n" + bytes(range(256)), "an image, not a table"),
        (b"PK\x03\x04" + bytes(range(256)), "workbook; the name of a workbook must end in .xlsx"),
        (b"PAR1" + bytes(range(256)), "Parquet file; its name must end in .parquet"),
        (b"\x08\x09\x12\x08model:\x87\x04", "not a text file"),
        (b"a,b\n1,2\n\0\0,3\n", "not a text file"),
    ],
)
def test_files_of_another_kind(tmp_path, content, advice):
    broken(tmp_path, "other.csv", content, advice)
    with pytest.raises(TableFileError) as caught:
        read_table(tmp_path / "other.csv")
    assert "latin1" not in str(caught.value)


def test_cut_off_files(tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.normal(size=20_000)})
    for ending in (".parquet", ".arrow", ".csv.gz"):
        path = write(tmp_path / f"whole{ending}", frame)
        half = path.read_bytes()[: path.stat().st_size // 2]
        broken(tmp_path, f"half{ending}", half, "cut off")
        broken(tmp_path, f"other{ending}", b"no such thing at all", "cut off")


def test_parquet_damaged_in_the_middle(tmp_path):
    rng = np.random.default_rng(0)
    path = write(tmp_path / "t.parquet", pd.DataFrame({"a": rng.normal(size=20_000)}))
    content = bytearray(path.read_bytes())
    content[4:4_000] = bytes(3_996)
    broken(tmp_path, "bad.parquet", bytes(content), "damaged")


# --- folders --------------------------------------------------------------------------------------


def test_pieces_are_all_rows_once_for_any_number_of_shards(tmp_path):
    frame = plain(600)
    folder = write_folder(frame, tmp_path, endings=("parquet", "arrow", "parquet"))
    files = TableFile(folder)
    assert files.rows == len(frame)
    assert files.row_groups == 5 + 1 + 6  # with rows from 0.3 and 0.45 on
    for shards in (1, 3, 4):
        found = {}
        for shard in range(shards):
            for piece in files.pieces(["customer"], 50, shard, shards):
                assert len(piece) <= 50
                values = piece.frame()["customer"]
                found |= dict(enumerate(values, piece.number))
        assert [found[i] for i in range(len(frame))] == frame["customer"].tolist()


def test_row_groups_without_rows_are_not_counted(tmp_path):
    frame = plain(300)
    for i in range(3):
        part = frame[100 * i : 100 * i + 100]
        part.to_parquet(tmp_path / f"{i}a.parquet", index=False)
        part[:0].to_parquet(tmp_path / f"{i}b.parquet", index=False)
    files = TableFile(tmp_path)
    assert (files.rows, files.row_groups) == (300, 3)
    for row, expected in ((0, "1 of .*0a"), (99, "100 of .*0a"), (100, "1 of .*1a"), (299, "2a")):
        assert re.search(f"row {row + 1} is row .*{expected}.parquet", files.where(row))
    for shards in (2, 3):
        found = [list(files.pieces(["bad"], 1000, shard, shards)) for shard in range(shards)]
        assert all(found)
        assert sorted(piece.number for own in found for piece in own) == [0, 100, 200]


def test_types_of_a_file_without_rows_do_not_matter(tmp_path):
    """Pandas writes columns of texts without a type where there are no rows."""
    frame = plain(100)
    frame[:0].astype({"code": object}).to_parquet(tmp_path / "0.parquet", index=False)
    assert pq.read_schema(tmp_path / "0.parquet").field("code").type == pa.null()
    frame.to_parquet(tmp_path / "1.parquet", index=False)
    files = TableFile(tmp_path)
    assert files.types["code"] == pa.string()
    (piece,) = files.pieces(files.names, 1000)
    assert piece.frame()["code"].tolist() == frame["code"].tolist()
    frame[:0].drop(columns="code").to_parquet(tmp_path / "2.parquet", index=False)
    with pytest.raises(SchemaError, match="2.parquet has no column 'code'"):
        TableFile(tmp_path)


def test_a_coded_column_without_values_has_the_type_of_the_others(tmp_path):
    rows = pa.table({"code": ["a", "b"], "when": pa.array([1, 2], pa.timestamp("s"))})
    none = pa.nulls(2).dictionary_encode()
    for name, part in (("0", pa.table({"code": none, "when": none})), ("1", rows)):
        with pa.ipc.new_file(tmp_path / f"{name}.arrow", part.schema) as writer:
            writer.write_table(part)
    files = TableFile(tmp_path)
    frames = [piece.frame() for piece in files.pieces(files.names, 10)]
    assert pd.concat(frames)["code"].isna().tolist() == [True, True, False, False]
    assert [str(frame["when"].dtype) for frame in frames] == ["datetime64[s]"] * 2


def test_a_column_without_values_does_not_hide_other_types(tmp_path):
    frame = plain(90)
    for name, part in (
        ("0", without_values(frame, "code", range(90))),
        ("1", frame),
        ("2", frame.assign(code=frame["code"].astype(int))),
    ):
        part.to_parquet(tmp_path / f"{name}.parquet", index=False)
    with pytest.raises(SchemaError, match=r"int64 in .*2.parquet and of type .*1.parquet"):
        TableFile(tmp_path)


def test_columns_in_names_of_folders_are_known(tmp_path):
    """Whole folders may have them and others not; columns that the files have too do not count."""
    frame = plain(90)
    for inner in ("code=1/a=b=c", "code=2", "=x", "_day=5", "other"):
        (tmp_path / "year=9" / inner).mkdir(parents=True)
        frame.to_parquet(tmp_path / "year=9" / inner / "x=1.parquet", index=False)
    assert TableFile(tmp_path).folder_columns == ["year", "a"]
    assert TableFile(tmp_path / "year=9" / "other").folder_columns == []
    assert TableFile(tmp_path / "year=9" / "other" / "x=1.parquet").folder_columns == []


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda f: f.rename(columns={"amount": "amuont"}), "Did you mean 'amuont'"),
        (lambda f: f.assign(extra=1), "has 'extra', and"),
        (lambda f: f.assign(code=f["code"].astype(int)), "'code' is of type int64 in"),
        (lambda f: f.assign(bad=f["bad"].astype(int)), "'bad' is of type int64 in"),
        (lambda f: f.assign(when=f["when"].dt.tz_localize("UTC")), "'when' is of type timestamp"),
    ],
)
def test_a_file_of_another_schema_is_named(tmp_path, change, message):
    folder = write_folder(plain(), tmp_path)
    change(plain(50)).to_parquet(folder / "9.parquet", index=False)
    with pytest.raises(SchemaError, match=message) as caught:
        TableFile(folder)
    assert "9.parquet" in str(caught.value)


def test_no_tables_and_no_rows(tmp_path):
    with pytest.raises(TableFileError, match="contains no file"):
        TableFile(tmp_path)
    plain(5).head(0).to_parquet(tmp_path / "a.parquet")
    with pytest.raises(TableFileError, match="no rows"):
        TableFile(tmp_path)


def test_decoded_bytes_are_about_those_of_a_data_frame(tmp_path):
    folder = write_folder(plain(), tmp_path)
    known = plain().memory_usage(deep=True).sum()
    assert known / 3 < TableFile(folder).decoded_bytes < 3 * known


# --- writing ------------------------------------------------------------------------------------


class FullDisk:
    """A file on a disk that has room for a few bytes."""

    def __init__(self, file, room):
        self._file, self._room = file, room

    def write(self, data):
        self._room -= len(data)
        if self._room < 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        return self._file.write(data)

    def __getattr__(self, name):
        return getattr(self._file, name)


@pytest.mark.parametrize(
    ("ending", "old"),
    [(".csv", True), (".csv.gz", False), (".csv.gz", True), (".parquet", False), (".arrow", True)],
)
def test_full_disk_leaves_the_old_file(tmp_path, monkeypatch, ending, old):
    path = tmp_path / f"out{ending}"
    if old:
        path.write_bytes(b"old")
    real = open
    monkeypatch.setattr(
        writing, "open", lambda p, mode: FullDisk(real(p, mode), 1_000), raising=False
    )
    rng = np.random.default_rng(0)
    match = "disk is full.*" + ("untouched" if old else "another disk")
    with pytest.raises(TableFileError, match=match):
        write(path, pd.DataFrame({"a": rng.normal(size=150_000)}))
    assert [p.name for p in tmp_path.iterdir()] == ([path.name] if old else [])
    assert not old or path.read_bytes() == b"old"


def test_read_only_folder(tmp_path, monkeypatch):
    def refuse(*_):
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(writing, "open", refuse, raising=False)
    with pytest.raises(TableFileError, match="read-only"), TableWriter(tmp_path / "out.csv"):
        pass


@pytest.mark.parametrize("failure", [RuntimeError, KeyboardInterrupt])
def test_failure_within_the_block_leaves_nothing(tmp_path, failure):
    path = tmp_path / "out.parquet"
    path.write_bytes(b"old")

    def interrupted():
        with TableWriter(path) as out:
            out.write(pd.DataFrame({"a": [1]}))
            raise failure

    with pytest.raises(failure):
        interrupted()
    assert path.read_bytes() == b"old"
    assert [p.name for p in tmp_path.iterdir()] == ["out.parquet"]


def test_wrong_places_to_write(tmp_path):
    with pytest.raises(TableFileError, match="no folder"), TableWriter(tmp_path / "x" / "a.csv"):
        pass
    (tmp_path / "b.csv").mkdir()
    with pytest.raises(TableFileError, match="is a folder"), TableWriter(tmp_path / "b.csv"):
        pass
    with pytest.raises(TableFileError, match="no rows were written"):  # noqa: SIM117
        with TableWriter(tmp_path / "c.csv"):
            pass
    with pytest.raises(TableFileError, match="ending"):
        TableWriter(tmp_path / "d.xls")
    assert [p.name for p in tmp_path.iterdir()] == ["b.csv"]


def test_frames_that_do_not_agree(tmp_path):
    def disagree():
        with TableWriter(tmp_path / "a.parquet") as out:
            out.write(pd.DataFrame({"a": [1]}))
            out.write(pd.DataFrame({"a": ["x"]}))

    with pytest.raises(TableFileError, match="cannot be written"):
        disagree()


def test_missing_extra_is_named(tmp_path, monkeypatch):
    (tmp_path / "a.csv").write_text("a\n1\n")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ImportError, match=r"setpoint\[cli\]"):
        files.read_table(tmp_path / "a.csv")


def test_reading_a_file_does_not_import_torch():
    code = "import sys; from setpoint.data import read_table; print('torch' in sys.modules)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "False"

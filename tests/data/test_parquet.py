"""Rows in Parquet and Arrow files: all of them once, in bounded memory, with clear errors."""

import datetime
import gc
import os
import shutil

import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.ipc
import pyarrow.parquet
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from many_ranks import all_rows, blocks_of_ranks
from setpoint.data import file_formats
from setpoint.data.parquet import ParquetRows
from setpoint.errors import SchemaError, SetpointError, SourceError, TableFileError, TargetError

COLUMNS = {"weight": "w", "group": "who", "time": "when"}


def table(n=60, seed=0):
    rng = np.random.default_rng(seed)
    moments = np.datetime64("2024-01-01", "us") + rng.permutation(n) * np.timedelta64(1, "h")
    return pa.table(
        {
            "a": rng.normal(size=n),
            "who": pa.array([f"customer {i}" for i in rng.integers(0, 9, n)]),
            "count": pa.array(rng.integers(-9, 9, n), pa.int8()),
            "y": rng.random(n) < 0.3,
            "when": moments,
            "größe (m²)": rng.normal(size=n).astype(np.float32),
            "flag": rng.random(n) < 0.5,
            "w": rng.random(n),
            "__index_level_0__": np.arange(n),
        }
    )


def write(path, rows, group=7):
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".parquet":
        pa.parquet.write_table(rows, path, row_group_size=group)
    elif path.suffix == ".feather":
        pa.feather.write_feather(rows, path, chunksize=group, compression="lz4")
    else:
        with pa.ipc.new_stream(path, rows.schema) as stream:
            stream.write_table(rows, max_chunksize=group)
    return path


def only_block(path, target="y", **given):
    (block,) = ParquetRows(path, target, **given).blocks()
    return block


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Three files of one table: one in an inner folder, one without rows, each of its own kind."""
    root = tmp_path_factory.mktemp("table")
    whole = table(60)
    write(root / "a.parquet", whole.slice(0, 30))
    write(root / "b" / "inner.feather", whole.slice(30, 20))
    write(root / "c.parquet", whole.slice(0, 0))
    write(root / "d.arrow", whole.slice(50).select(whole.column_names[::-1]), group=4)
    (root / "_SUCCESS").touch()
    (root / ".a.parquet.crc").touch()
    (root / "_temporary").mkdir()
    shutil.copy(root / "a.parquet", root / "_temporary" / "a.parquet")
    (root / "notes.txt").write_text("not a table")
    return root


@settings(max_examples=40)
@given(block_rows=st.integers(1, 70), world=st.integers(1, 6))
def test_all_blocks_together_are_exactly_the_rows(folder, block_rows, world):
    source = ParquetRows(folder, "y", **COLUMNS, block_rows=block_rows)
    ranks = blocks_of_ranks(source, world)
    assert all(len(block) <= block_rows for rank in ranks for block in rank)
    rows, whole = all_rows(ranks), table(60)
    assert rows["number"].tolist() == list(range(60)) == list(range(source.rows))
    assert source.features == ["a", "count", "größe (m²)", "flag"]
    expected = [whole[name].to_numpy().astype(np.float32) for name in source.features]
    np.testing.assert_array_equal(rows["X"], np.stack(expected, axis=1))
    np.testing.assert_array_equal(rows["positive"], whole["y"].to_numpy())
    np.testing.assert_array_equal(rows["weight"], whole["w"].to_numpy())
    np.testing.assert_array_equal(rows["time"], whole["when"].to_numpy().astype(np.int64))
    of = dict(zip(whole["who"].to_pylist(), rows["unit"].tolist(), strict=True))
    assert [of[who] for who in whole["who"].to_pylist()] == rows["unit"].tolist()
    assert len(set(of.values())) == len(of)


def test_a_rank_takes_whole_row_groups(folder):
    owners = {}
    for rank, blocks in enumerate(blocks_of_ranks(ParquetRows(folder, "y", **COLUMNS), 4)):
        (block,) = blocks  # small row groups come together
        owners |= dict.fromkeys(block.number.tolist(), rank)
    sizes = [7, 7, 7, 7, 2, 7, 7, 6, 4, 4, 2]  # and one without rows, which belongs to no rank
    assert [owners[i] for i in range(60)] == np.repeat(np.arange(11) % 4, sizes).tolist()


def test_row_groups_without_rows_leave_no_rank_without_work(tmp_path):
    whole = table(40)
    for i in range(4):  # every second row group of all is empty
        write(tmp_path / f"{i}a.parquet", whole.slice(10 * i, 10), group=10)
        write(tmp_path / f"{i}b.parquet", whole.slice(0, 0))
    ranks = blocks_of_ranks(ParquetRows(tmp_path, "y", **COLUMNS), 2)
    assert [sum(map(len, blocks)) for blocks in ranks] == [20, 20]


def test_more_ranks_than_row_groups(tmp_path):
    source = ParquetRows(write(tmp_path / "a.parquet", table(10)), "y", **COLUMNS)
    ranks = blocks_of_ranks(source, 5)
    assert [sum(map(len, blocks)) for blocks in ranks] == [7, 3, 0, 0, 0]


def test_a_list_of_files_is_read_in_its_order(folder):
    files = [str(folder / "d.arrow"), folder / "b"]
    (block,) = ParquetRows(files, "y", features=["w", "a"]).blocks()
    expected = pa.concat_tables([table(60).slice(50), table(60).slice(30, 20)])
    np.testing.assert_array_equal(block.X[:, 1], expected["a"].to_numpy().astype(np.float32))
    assert block.number.tolist() == block.unit.tolist() == list(range(30))
    assert block.time is None


def test_only_what_is_needed_is_read(tmp_path):
    n = 50_000
    wide = pa.table({f"f{i}": np.random.default_rng(i).normal(size=n) for i in range(20)})
    wide = wide.append_column("y", pa.array(np.arange(n) % 2 == 0))
    for name in ("a.parquet", "a.feather"):
        source = ParquetRows(write(tmp_path / name, wide, group=n), "y", features=["f3"])
        assert peak(source) < 4 * n * 8  # all would be 20 * n * 8


POOLS = []  # buffers, and threads that read ahead, may outlive the function that watches them


def peak(source):
    """Return how much memory Arrow holds at most during a pass."""
    usual = pa.default_memory_pool()
    watched = pa.proxy_memory_pool(usual)
    POOLS.append(watched)
    pa.set_memory_pool(watched)
    gc.collect()  # tables of other tests
    before, most = usual.bytes_allocated(), 0
    try:
        for _ in source.blocks():
            # What is read from the disk does not come from the pool that is watched.
            most = max(most, usual.bytes_allocated() - before)
    finally:
        pa.set_memory_pool(usual)
    assert usual.bytes_allocated() - before < 1_000
    return max(most, watched.max_memory())


def tall(n, columns):
    rng = np.random.default_rng(0)
    numbers = {f"f{i}": rng.normal(size=n) for i in range(columns)}
    return pa.table(numbers | {"y": np.arange(n) % 9 == 0})


@pytest.mark.parametrize("ending", [".parquet", ".feather", ".arrow"])
def test_one_row_group_at_a_time_is_in_memory(tmp_path, ending):
    group, columns = 10_000, 10
    few, many = (
        peak(ParquetRows(write(tmp_path / f"{n}{ending}", rows, group), "y", block_rows=group))
        for n, rows in ((n, tall(n, columns)) for n in (3 * group, 24 * group))
    )
    assert few > group * columns * 8 / 2
    assert many < 1.1 * few
    assert many < 5 * group * columns * 8  # as coded, unpacked and decoded


def test_a_huge_row_group_is_read_in_batches(tmp_path):
    rows = tall(400_000, 4)
    path = tmp_path / "a.parquet"
    pa.parquet.write_table(
        rows, path, row_group_size=400_000, use_dictionary=False, data_page_size=2**16
    )
    source = ParquetRows(path, "y", block_rows=30_000)
    assert peak(source) < rows.nbytes / 4
    assert {len(block) for block in source.blocks()} == {28_572, 28_564}  # none is tiny


@pytest.mark.parametrize(
    ("labels", "positive", "expected"),
    [
        ([True, False, True], None, [1, 0, 1]),
        ([True, False, True], "false", [0, 1, 0]),
        ([1, 0, 0], None, [1, 0, 0]),
        ([0.0, 0.0, 0.0], None, [0, 0, 0]),
        (["0", "1", "0"], None, [0, 1, 0]),
        ([1, 2, 1], 2, [0, 1, 0]),
        ([1, 2, 1], "1", [1, 0, 1]),
        ([-1, 1, -1], 1, [0, 1, 0]),
        (["ok", "fraud ", " ok"], "fraud", [0, 1, 0]),
        (["fraud", "fraud", "fraud"], "fraud", [1, 1, 1]),
        (pa.array(["ok", "fraud", "ok"]).dictionary_encode(), "ok", [1, 0, 1]),
    ],
)
def test_labels(tmp_path, labels, positive, expected):
    path = write(tmp_path / "a.parquet", pa.table({"x": [1.0, 2.0, 3.0], "y": labels}), group=1)
    for block_rows in (1, 3):
        source = ParquetRows(path, "y", positive=positive, block_rows=block_rows)
        found = torch.cat([block.positive for block in source.blocks()])
        assert found.tolist() == [bool(e) for e in expected]


@pytest.mark.parametrize(
    ("labels", "positive", "message"),
    [
        ([0, 1, 2], None, "'y' in row 3 of .*a.parquet is 2; labels are 0 and 1.*positive="),
        (["no", "yes", "no"], None, "row 1 of .* is 'no'; labels are 0 and 1"),
        ([0, None, 1], None, "'y' in row 2 of .*a.parquet is missing"),
        (["a", "b", " "], "a", "'y' in row 3 of .*a.parquet is missing"),
        ([0.0, 1.0, np.nan], None, "'y' in row 3 of .*a.parquet is missing"),
        (["a", "b", "c"], "d", "'d' does not occur in 'y'; 'a', 'b', 'c' do"),
        (["no", "yes", "no"], "yess", "'yess' does not occur in 'y'; 'no', 'yes' do. Did you mean"),
        ([True, False, True], "yes", "'yes' does not occur in 'y'; False, True do"),
        ([datetime.date(2024, 1, 1)] * 3, None, "timestamp.*cannot be a label"),
    ],
)
def test_invalid_labels(tmp_path, labels, positive, message):
    path = write(tmp_path / "a.parquet", pa.table({"x": [1.0, 2.0, 3.0], "y": labels}), group=2)
    with pytest.raises((TargetError, SourceError), match=message):
        list(ParquetRows(path, "y", positive=positive).blocks())


@pytest.mark.parametrize("positive", ["a,c", ["a", "c"], {"c", "a"}])
def test_several_positive_labels(tmp_path, positive):
    rows = pa.table({"x": [1.0] * 5, "y": ["a", "b", "a", "c", "d"]})
    source = ParquetRows(write(tmp_path / "a.parquet", rows, group=2), "y", positive=positive)
    assert source.classes == ("other", "a or c")
    found = torch.cat([block.positive for block in source.blocks()])
    assert found.tolist() == [True, False, True, True, False]


def test_one_of_many_labels_in_files(tmp_path):
    rows = pa.table({"x": [1.0] * 5, "y": [3, 1, 2, 3, 1]})
    source = ParquetRows(write(tmp_path / "a.parquet", rows, group=2), "y", positive="2")
    assert source.classes == ("other", "2")
    found = torch.cat([block.positive for block in source.blocks()])
    assert found.tolist() == [False, False, True, False, False]
    many = pa.table({"x": [1.0] * 1200, "y": list(range(1200))})
    with pytest.raises(TargetError, match="more than 1,000 different values"):
        ParquetRows(write(tmp_path / "b.parquet", many), "y", positive=2)


@pytest.mark.parametrize(
    ("ending", "column", "message"),
    [
        (".parquet", pa.array([1, 2, 3, 4, None]), "'x' in row 5 of .* is missing"),
        (".feather", [1.0, 2.0, 3.0, 4.0, np.nan], "'x' in row 5 of .* is nan"),
        (".arrow", [1.0, 2.0, 3.0, 4.0, 1e300], "'x' in row 5 of .* is inf.*too large for float32"),
        (".parquet", pa.nulls(5), "'x' in row 1 of .* is missing"),
        (".arrow", pa.nulls(5), "'x' in row 1 of .* is missing"),
        (".parquet", pa.array([1, None]).dictionary_encode().take([0, 0, 0, 0, 1]), "'x' in row 5"),
        (".feather", pa.array([1, None]).dictionary_encode().take([0, 0, 0, 0, 1]), "'x' in row 5"),
    ],
)
def test_missing_values_are_named_with_column_file_and_row(tmp_path, ending, column, message):
    rows = pa.table({"first": np.zeros(5), "x": column, "y": [0, 1, 0, 1, 0]})
    good = rows.set_column(1, "x", pa.array(np.zeros(5)))
    if pa.types.is_dictionary(rows["x"].type):
        good = good.set_column(1, "x", pa.array([1] * 5).dictionary_encode())
    write(tmp_path / f"a{ending}", good, group=2)
    write(tmp_path / f"b{ending}", rows, group=2)
    with pytest.raises(SourceError, match=message) as caught:
        list(ParquetRows(tmp_path, "y").blocks())
    assert f"b{ending}" in str(caught.value)


def test_an_error_names_columns_that_are_not_numbers(tmp_path):
    path = write(tmp_path / "a.parquet", table(9))
    with pytest.raises(SchemaError, match=r"'who' \(string\), 'when' \(timestamp.*`setpoint fit`"):
        ParquetRows(path, "y")
    with pytest.raises(SchemaError, match=r"'who' \(string\)"):
        ParquetRows(path, "y", features=["a", "who"], group="who")


def test_numbers_of_many_types(tmp_path):
    bits = pa.array([1.0, 0.0, 1.0])
    types = [pa.int8(), pa.uint64(), pa.float16(), pa.float64(), pa.decimal128(9, 2)]
    columns = {str(t): bits.cast(t) for t in types}
    columns["bool"] = pa.array([True, False, True])
    columns["coded"] = pa.array([1, 0, 1]).dictionary_encode()
    block = only_block(write(tmp_path / "a.parquet", pa.table(columns | {"y": [0, 1, 0]})))
    assert block.X.tolist() == [[1.0] * 7, [0.0] * 7, [1.0] * 7]
    assert block.X.dtype == torch.float32
    assert block.X.is_contiguous()


def test_equal_groups_are_one_unit_whatever_their_type(tmp_path):
    texts = ["ab", "", "Zoë", "ab", "x" * 5_000]
    kinds = [pa.array(texts, pa.string()), pa.array(texts, pa.large_string())]
    kinds += [pa.array(texts).dictionary_encode(), pa.array(["?", *texts])[1:]]
    found = []
    for i, kind in enumerate(kinds):
        rows = pa.table({"x": np.zeros(5), "y": [0, 1, 0, 1, 0], "g": kind})
        found.append(only_block(write(tmp_path / f"{i}.feather", rows), group="g").unit.tolist())
    assert all(units == found[0] for units in found)
    assert len(set(found[0])) == 4
    for kind in (pa.int8(), pa.uint32(), pa.int64(), pa.float64()):
        rows = pa.table({"x": np.zeros(2), "y": [0, 1], "g": pa.array([3, 7]).cast(kind)})
        path = write(tmp_path / f"{kind}.parquet", rows)
        assert only_block(path, group="g").unit.tolist() == [3, 7]


@pytest.mark.parametrize(
    ("times", "expected"),
    [
        (pa.array([1, 2], pa.timestamp("s")), [1e6, 2e6]),
        (pa.array([1_999, 2_000], pa.timestamp("ns", "Europe/Berlin")), [1.0, 2.0]),
        (pa.array([datetime.date(1970, 1, 2), datetime.date(1970, 1, 1)]), [86_400e6, 0.0]),
        (pa.array([1.5, -2.0]), [1.5, -2.0]),
        (pa.array([5, 7], pa.int16()), [5.0, 7.0]),
    ],
)
def test_times_are_numbers(tmp_path, times, expected):
    rows = pa.table({"x": [0.0, 1.0], "y": [0, 1], "t": times})
    block = only_block(write(tmp_path / "a.feather", rows), time="t")
    assert block.time.dtype == torch.float64
    assert block.time.tolist() == expected


@pytest.mark.parametrize(
    ("column", "role", "message"),
    [
        (pa.array([1.0, -2.0]), "weight", "'c' in row 2 of .* is -2.0; a weight"),
        (pa.array([1.0, None]), "weight", "'c' in row 2 of .* is missing"),
        (pa.array(["1", "2"]), "weight", "'c' cannot be the weight: it is of type string"),
        (pa.array(["a", None]), "group", "'c' in row 2 of .* is missing"),
        (pa.array([1.0, 2.5]), "group", "'c' in row 2 of .* is 2.5; groups are"),
        (pa.array([[1], [2]]), "group", "'c' cannot be the group: it is of type list"),
        (pa.array([1.0, np.inf]), "time", "'c' in row 2 of .* is inf; every row needs a time"),
        (pa.array(["2024", "2025"]), "time", "'c' cannot be the time: it is of type string"),
    ],
)
def test_invalid_weights_groups_and_times(tmp_path, column, role, message):
    path = write(tmp_path / "a.parquet", pa.table({"x": [0.0, 1.0], "y": [0, 1], "c": column}))
    with pytest.raises(SetpointError, match=message):
        only_block(path, **{role: "c"})


def plain(**columns):
    return pa.table({"x": [0.0, 1.0], "y": [0, 1], **columns})


@pytest.mark.parametrize(
    ("second", "message"),
    [
        (pa.table({"y": [0, 1]}), "b.parquet has no column 'x'; it has 'y'"),
        (pa.table({"x": ["a", "b"], "y": [0, 1]}), "'x' is of type string in .*b.parquet and of"),
        (plain(z=[1, 2]), "b.parquet has 'z', and .*a.parquet has not"),
    ],
)
def test_files_of_different_schemas(tmp_path, second, message):
    write(tmp_path / "a.parquet", plain())
    write(tmp_path / "b.parquet", second)
    with pytest.raises(SchemaError, match=message):
        ParquetRows(tmp_path, "y")


def test_duplicate_columns_matter_only_if_they_are_used(tmp_path):
    write(tmp_path / "a.parquet", plain(z=[0.0, 1.0]))
    write(tmp_path / "b.parquet", pa.table([[0.0], [1.0], [2.0], [1]], ["x", "x", "z", "y"]))
    with pytest.raises(
        TableFileError, match=r"b.parquet has several .* name: 'x' \(columns 1, 2\)"
    ):
        ParquetRows(tmp_path, "y")
    assert only_block(tmp_path, features=["z"]).X.tolist() == [[0.0], [1.0], [2.0]]


def test_differences_in_unused_columns_do_not_matter(tmp_path):
    write(tmp_path / "a.parquet", plain())
    write(tmp_path / "b.parquet", pa.table({"y": [1, 0], "more": ["a", "b"], "x": [7, 9]}))
    assert only_block(tmp_path, features=["x"]).X.tolist() == [[0.0], [1.0], [7.0], [9.0]]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"target": "Y"}, "no column 'Y'.*Did you mean 'y'"),
        ({"features": ["x", "xx"]}, "no column 'xx'"),
        ({"features": ["x", "y"]}, "target 'y' is among the features"),
        ({"features": ["x", "x"]}, "'x' more than once"),
        ({"features": []}, "no columns besides 'y'"),
        ({"group": "day"}, "no column 'day': it is part of the folder's name"),
        ({"block_rows": 0}, "block_rows"),
    ],
)
def test_columns_that_are_not_there(tmp_path, given, message):
    write(tmp_path / "day=5" / "a.parquet", plain())
    with pytest.raises(SetpointError, match=message):
        ParquetRows(tmp_path, **{"target": "y", **given})


def test_files_that_cannot_be_used(tmp_path):
    with pytest.raises(TableFileError, match="no files"):
        ParquetRows([], "y")
    path = write(tmp_path / "a.parquet", plain())
    with pytest.raises(TableFileError, match="given twice"):
        ParquetRows([path, tmp_path], "y")
    (tmp_path / "b.csv").write_text("x,y\n1,0\n")
    with pytest.raises(TableFileError, match=r"b.csv cannot be read in pieces.*Convert"):
        ParquetRows(tmp_path, "y")


def test_a_file_that_changes_or_goes_during_training(tmp_path):
    path = write(tmp_path / "a.parquet", plain())
    source = ParquetRows(path, "y")
    write(path, table(50))
    with pytest.raises(TableFileError, match="was changed while in use"):
        list(source.blocks())
    path.unlink()
    with pytest.raises(TableFileError, match="a.parquet has been removed") as caught:
        list(source.blocks())
    assert "damaged" not in str(caught.value)
    with pytest.raises(TableFileError, match="a.parquet has been removed"):
        source.fingerprint()


def test_types_of_a_file_without_rows_do_not_matter(tmp_path):
    """Pandas writes columns of texts without a type where there are no rows."""
    rows = table(30)
    untyped = pa.table({name: pa.nulls(0) for name in rows.column_names})
    write(tmp_path / "0.parquet", untyped)
    write(tmp_path / "1.parquet", rows)
    source = ParquetRows(tmp_path, "y", **COLUMNS, positive="true")
    assert source.classes == (False, True)
    assert sum(map(len, source.blocks())) == 30
    write(tmp_path / "0.parquet", untyped.append_column("more", pa.nulls(0)))
    with pytest.raises(SchemaError, match="1.parquet has no column 'more'"):
        ParquetRows(tmp_path, "y", features=["more"])


@pytest.mark.parametrize("name", ["who", "when", "flag", "y"])
def test_a_column_without_values_has_the_type_of_the_other_files(tmp_path, name):
    rows = table(30)
    place = rows.schema.get_field_index(name)
    untyped = rows.set_column(place, name, pa.nulls(30))
    for first, second in ((untyped, rows), (rows, untyped)):
        write(tmp_path / "0.parquet", first)
        write(tmp_path / "1.parquet", second)
        with pytest.raises(SourceError, match=rf"'{name}' in row 1 of .* is missing"):
            list(ParquetRows(tmp_path, "y", **COLUMNS).blocks())
    features = ["a", "count"]  # without it all rows can be used
    if name != "y":
        source = ParquetRows(tmp_path, "y", features=features)
        assert sum(map(len, source.blocks())) == 60


def test_a_column_without_values_does_not_hide_texts(tmp_path):
    write(tmp_path / "0.parquet", plain(z=pa.nulls(2)))
    write(tmp_path / "1.parquet", plain(z=["a", "b"]))
    with pytest.raises(SchemaError, match=r"not numbers: 'z' \(string\)"):
        ParquetRows(tmp_path, "y")
    write(tmp_path / "2.parquet", plain(z=[1, 2]))
    with pytest.raises(SchemaError, match=r"int64 in .*2.parquet and of type string in .*1.parq"):
        ParquetRows(tmp_path, "y")


@pytest.mark.parametrize("ending", [".parquet", ".feather", ".arrow"])
def test_a_file_that_is_rewritten_with_the_same_size(tmp_path, ending):
    path, rows = tmp_path / f"a{ending}", table(60)
    write(path, rows)
    os.utime(path, ns=(0, 0))  # a clock may tick slower than a file is written
    source = ParquetRows(path, "y", features=["a"])
    passing = source.blocks()
    flipped = pa.array(~rows["y"].to_numpy())
    size, known = path.stat().st_size, source.fingerprint()
    write(path, rows.set_column(rows.schema.get_field_index("y"), "y", flipped))
    assert path.stat().st_size == size
    for _ in range(2):
        with pytest.raises(TableFileError, match="was changed while in use"):
            list(passing)
        passing = source.blocks()
    # A source that is made later takes the file as it then is; the date of a file does not matter.
    write(path, rows)
    again = ParquetRows(path, "y", features=["a"])
    assert sum(map(len, again.blocks())) == 60
    assert again.fingerprint() == known


def test_a_file_that_changes_while_it_is_read(tmp_path):
    path = write(tmp_path / "a.parquet", table(60))
    passing = ParquetRows(path, "y", features=["a"], block_rows=7).blocks()
    next(passing)
    os.utime(path, ns=(0, 0))
    with pytest.raises(TableFileError, match="was changed while in use"):
        list(passing)


def test_the_fingerprint_depends_on_content_and_not_on_names(tmp_path):
    def fingerprint(name, rows=None, **given):
        path = write(tmp_path / name, rows or table(40))
        return ParquetRows(path, **{"target": "y", **COLUMNS, **given}).fingerprint()

    for ending in (".parquet", ".feather"):
        known = fingerprint(f"a{ending}")
        assert fingerprint(f"elsewhere/b{ending}", block_rows=3) == known
        changed = table(40)
        values = changed["a"].to_numpy().copy()
        values[20] = 77.0
        changed = changed.set_column(0, "a", pa.array(values))
        others = [
            fingerprint(f"c{ending}", changed),
            fingerprint(f"d{ending}", table(39)),
            fingerprint(f"e{ending}", weight=None, features=["a", "count"]),
            fingerprint(f"f{ending}", features=["a"]),
            fingerprint(f"g{ending}", positive="false"),
        ]
        assert len({known, *others}) == 6


@pytest.mark.parametrize("kind", ["parquet", "arrow"])
def test_other_labels_in_a_file_of_the_same_size_change_the_fingerprint(tmp_path, kind):
    path, rng = tmp_path / f"a.{kind}", np.random.default_rng(0)
    y, before, after = np.arange(60_000) % 2, *rng.normal(size=(2, 60_000))
    found = []
    for labels in (y, rng.permutation(y)):
        rows = pa.table({"a": before, "y": labels, "b": after})
        if kind == "parquet":
            pa.parquet.write_table(rows, path, use_dictionary=False, compression="none")
        else:
            with pa.ipc.new_file(path, rows.schema) as file:
                file.write_table(rows)
        found.append((path.stat().st_size, ParquetRows(path, "y").fingerprint()))
    (size, first), (same_size, second) = found
    assert size == same_size > 2**20
    assert first != second


def test_statistics_of_unread_values_change_the_fingerprint(tmp_path, monkeypatch):
    monkeypatch.setattr(file_formats, "_SAMPLES", 1)  # as if the file were larger by far
    path = tmp_path / "a.parquet"
    columns = np.random.default_rng(0).normal(size=(40, 1_200))
    found = []
    for largest in (5.5, 6.5):
        columns[20, 600] = largest  # in the midst of the file, and of a footer of 200 KiB
        rows = pa.table({f"f{i}": c for i, c in enumerate(columns)} | {"y": np.arange(1_200) % 2})
        pa.parquet.write_table(
            rows, path, row_group_size=20, use_dictionary=False, compression="none"
        )
        found.append((path.stat().st_size, ParquetRows(path, "y").fingerprint()))
    assert found[0][0] == found[1][0]
    assert found[0][1] != found[1][1]


def test_a_source_can_be_sent_to_another_process(folder):
    import pickle

    source = ParquetRows(folder, "y", **COLUMNS)
    again = pickle.loads(pickle.dumps(source))
    assert again.fingerprint() == source.fingerprint()
    assert sum(map(len, again.blocks())) == 60

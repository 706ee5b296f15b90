"""Rows in arrays: all of them once, in bounded memory, with clear errors."""

import sys

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from many_ranks import all_rows, blocks_of_ranks
from setpoint.data.arrays import ArrayRows
from setpoint.data.rows import units_of
from setpoint.errors import SourceError


def made(n=50, d=3):
    rng = np.random.default_rng(0)
    y = rng.random(n) < 0.3
    return {
        "X": rng.normal(size=(n, d)),
        "y": y,
        "sample_weight": rng.random(n),
        "groups": rng.integers(0, 7, n),
    }


@given(n=st.integers(1, 40), block_rows=st.integers(1, 45), world=st.integers(1, 5))
def test_all_blocks_together_are_exactly_the_rows(n, block_rows, world):
    data = made(n)
    ranks = blocks_of_ranks(ArrayRows(**data, block_rows=block_rows), world)
    assert all(len(block) <= block_rows for rank in ranks for block in rank)
    rows = all_rows(ranks)
    assert rows["number"].tolist() == list(range(n))
    np.testing.assert_array_equal(rows["X"], data["X"].astype(np.float32))
    np.testing.assert_array_equal(rows["positive"], data["y"])
    np.testing.assert_array_equal(rows["weight"], data["sample_weight"])
    np.testing.assert_array_equal(rows["unit"], data["groups"])
    assert rows["X"].dtype == torch.float32
    assert rows["weight"].dtype == torch.float64
    assert rows["unit"].dtype == rows["number"].dtype == torch.int64


def test_a_rank_takes_whole_blocks():
    ranks = blocks_of_ranks(ArrayRows(np.zeros((7, 1)), [0, 1] * 3 + [0], block_rows=2), 2)
    numbers = [[block.number.tolist() for block in rank] for rank in ranks]
    assert numbers == [[[0, 1], [4, 5]], [[2, 3], [6]]]


def test_passes_are_alike_and_rows_without_groups_are_separate_units():
    source = ArrayRows(np.arange(5.0)[:, None], [0, 1, 0, 0, 0], block_rows=3)
    for _ in range(2):
        first, second = source.blocks()
        assert second.X.tolist() == [[3.0], [4.0]]
        assert second.unit.tolist() == second.number.tolist() == [3, 4]
        assert first.weight.tolist() == [1.0] * 3
        assert first.time is None


@pytest.mark.parametrize("dtype", ["float16", ">f8", "int64", "uint8", "bool", "<f4"])
def test_numbers_of_an_array_become_float32(dtype):
    for order in "CF":
        X = np.array([[0, 1], [1, 1], [0, 0]]).astype(dtype, order=order)
        X.flags.writeable = False
        (block,) = ArrayRows(X, [0, 1, 0]).blocks()
        assert block.X.dtype == torch.float32
        assert block.X.is_contiguous()
        assert block.X.tolist() == [[0, 1], [1, 1], [0, 0]]


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.int64, torch.uint8])
def test_tensors_of_any_shape_stay_as_they_are(dtype):
    X = torch.arange(24).reshape(4, 3, 2).to(dtype)
    source = ArrayRows(X, torch.tensor([0.0, 1.0, 0.0, 1.0]).reshape(4, 1), block_rows=3)
    first, second = source.blocks()
    assert first.X.dtype == dtype
    assert torch.equal(torch.cat([first.X, second.X]), X)
    assert torch.cat([first.positive, second.positive]).tolist() == [False, True, False, True]
    assert source.fingerprint() != ArrayRows(X + 1, [0, 1, 0, 1]).fingerprint()


def test_a_tensor_that_is_being_trained_is_detached():
    (block,) = ArrayRows(torch.ones(2, 2, requires_grad=True), [0, 1]).blocks()
    assert not block.X.requires_grad


def mapped(tmp_path, rows, columns, mode="r"):
    path = tmp_path / "X.npy"
    X = np.lib.format.open_memmap(path, "w+", np.float64, (rows, columns))
    X[:] = np.arange(columns)
    X.flush()
    return np.load(path, mmap_mode=mode)


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_only_blocks_of_a_mapped_file_are_in_memory(tmp_path):
    def resident():
        with open("/proc/self/status") as status:
            (line,) = (line for line in status if line.startswith("RssFile"))
        return int(line.split()[1]) * 1024

    X = mapped(tmp_path, 2**18, 16)  # 32 MiB
    source = ArrayRows(X[1:], np.arange(2**18 - 1) % 2, block_rows=2**13)
    list(zip(source.blocks(), range(2), strict=False))  # whatever is loaded the first time
    before, most = resident(), 0
    for block in source.blocks():
        most = max(most, resident() - before)
        assert block.X[-1].tolist() == list(range(16))
    source.fingerprint()
    assert max(most, resident() - before) < 4 * 2**20


@pytest.mark.parametrize("mode", ["r", "r+", "c"])
def test_what_is_changed_in_a_mapped_file_stays(tmp_path, mode):
    X = mapped(tmp_path, 4_096, 2, mode)
    if mode != "r":
        X[5] = 7
    source = ArrayRows(X, np.arange(4_096) % 2, block_rows=1_000)
    for _ in range(2):
        first, *_ = [block.X for block in source.blocks()]
        assert first[5].tolist() == ([0.0, 1.0] if mode == "r" else [7.0, 7.0])
    first[:] = -1  # a block of a mapped file is a copy
    assert (X[0] == [0, 1]).all()


def test_the_fingerprint_depends_on_all_values_and_nothing_else(tmp_path):
    data = made()
    known = ArrayRows(**data).fingerprint()
    again = ArrayRows(**{**data, "X": np.asfortranarray(data["X"])}, block_rows=7)
    assert [again.fingerprint(), again.fingerprint()] == [known, known]
    np.save(tmp_path / "X.npy", data["X"])
    lazy = np.load(tmp_path / "X.npy", mmap_mode="r")
    assert ArrayRows(**{**data, "X": lazy}).fingerprint() == known
    labels = np.where(data["y"], "yes", "no").astype(object)
    named = ArrayRows(**{**data, "y": labels}, pos_label="yes")
    assert named.fingerprint() == known  # the same rows are positive
    others = [known]
    for name in data:
        changed = data[name].copy()
        changed[-1] = ~changed[-1] if name == "y" else changed[-1] + 1
        others.append(ArrayRows(**{**data, name: changed}).fingerprint())
    others += [ArrayRows(**{**data, name: None}).fingerprint() for name in list(data)[2:]]
    others.append(ArrayRows(**{**data, "X": data["X"].astype(np.float32)}).fingerprint())
    assert len(set(others)) == len(others)


@pytest.mark.parametrize(
    ("y", "pos_label", "expected"),
    [
        ([False, True, True], None, [0, 1, 1]),
        ([0.0, 0.0, 0.0], None, [0, 0, 0]),  # one class is enough where it is known which
        ([-1, -1, -1], None, [0, 0, 0]),
        ([-1, 1, -1], None, [0, 1, 0]),
        ([2, 3, 2], None, [0, 1, 0]),
        ([0, 1, 0], 0, [1, 0, 1]),
        ([0, 0, 0], 1, [0, 0, 0]),
        (["b", "a", "b"], "a", [0, 1, 0]),
        (np.array(["b", "a", "b"], dtype=object), "b", [1, 0, 1]),
    ],
)
def test_labels(y, pos_label, expected):
    for block_rows in (1, 3):
        source = ArrayRows(np.zeros((3, 1)), y, pos_label=pos_label, block_rows=block_rows)
        assert torch.cat([b.positive for b in source.blocks()]).tolist() == [
            bool(e) for e in expected
        ]


@pytest.mark.parametrize(
    ("y", "pos_label", "message"),
    [
        ([0, 1, 2], None, "more than two labels: 0, 1, 2.*all others are then negative"),
        ([0.0, np.nan, 1.0], None, "NaN; drop"),
        (np.array(["a", None, "b"], dtype=object), "a", "missing labels"),
        (np.array(["a", 1, None], dtype=object), "a", "missing labels|more than two"),
        (["a", "b", "a"], None, "'a', 'b'; pass pos_label"),
        ([3, 3, 3], None, "holds 3; pass pos_label"),
        (["no", "yes", "no"], "Yes", "pos_label 'Yes' is not in y.*'no', 'yes'"),
        ([0, 1], None, r"one entry per row of X, shape \(3,\); it has \(2,\)"),
    ],
)
def test_invalid_labels(y, pos_label, message):
    with pytest.raises(SourceError, match=message):
        ArrayRows(np.zeros((3, 1)), y, pos_label=pos_label, block_rows=2)


@pytest.mark.parametrize(
    ("kind", "value", "shown_as"),
    [
        (np.asarray, np.nan, "nan"),
        (np.asarray, 1e300, "inf.*too large for float32"),
        (torch.tensor, -np.inf, "-inf"),
        (lambda X: torch.tensor(X, dtype=torch.bfloat16), np.nan, "nan"),
    ],
)
def test_a_value_that_is_not_finite_is_found(kind, value, shown_as):
    X = np.zeros((9, 3))
    X[7, 2] = value
    blocks = ArrayRows(kind(X), np.arange(9) % 2, block_rows=4).blocks()
    next(blocks)
    with pytest.raises(SourceError, match=rf"X\[7, 2\] is {shown_as}"):
        next(blocks)


def test_large_numbers_whose_sum_overflows_are_fine():
    X = np.full((4, 2), 3e38, dtype=np.float32)
    (block,) = ArrayRows(X, [0, 1, 0, 1]).blocks()
    assert block.X.isfinite().all()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"X": np.zeros(3)}, r"shape \(3,\).*reshape\(-1, 1\)"),
        ({"X": np.zeros((3, 0))}, r"shape \(3, 0\)"),
        ({"X": np.zeros((0, 2)), "y": []}, "no rows"),
        ({"X": np.array([["a"], ["b"], ["c"]])}, "type <U1; features are numbers"),
        ({"X": np.zeros((3, 1), dtype=complex)}, "complex128"),
        ({"X": torch.zeros(3, 1, dtype=torch.complex64)}, "complex64"),
        ({"block_rows": 0}, "block_rows.*not 0"),
        ({"block_rows": 2.5}, "block_rows.*not 2.5"),
        ({"sample_weight": [1.0, 2.0]}, "sample_weight must hold one entry"),
        ({"groups": [1]}, "groups must hold one entry"),
    ],
)
def test_invalid_arrays(given, message):
    with pytest.raises(SourceError, match=message):
        ArrayRows(**{"X": np.zeros((3, 1)), "y": [0, 1, 0], **given})


def test_a_sparse_matrix_is_refused():
    from scipy.sparse import csr_array

    with pytest.raises(SourceError, match="sparse"):
        ArrayRows(csr_array(np.eye(3)), [0, 1, 0])


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"sample_weight": [1, 1, -0.5]}, r"sample_weight\[2\] is -0.5"),
        ({"sample_weight": [1, 1, np.nan]}, r"sample_weight\[2\] is nan"),
        ({"sample_weight": [1, 1, np.inf]}, r"sample_weight\[2\] is inf"),
        ({"sample_weight": ["1", "2", "x"]}, r"sample_weight\[0\] is '1'; a weight is a number"),
        ({"groups": np.array(["a", "b", None], dtype=object)}, r"groups\[2\] is missing"),
        ({"groups": [1.0, 2.0, np.nan]}, r"groups\[2\] is missing"),
        ({"groups": [1.0, 2.0, 2.5]}, r"groups\[2\] is 2.5; groups are texts or integers"),
        ({"groups": np.array(["2024-01-01"] * 2 + ["NaT"], dtype="M8[D]")}, r"groups\[2\] is miss"),
    ],
)
def test_errors_name_the_row_of_invalid_weights_and_groups(given, message):
    source = ArrayRows(np.zeros((3, 1)), [0, 1, 0], **given, block_rows=2)
    with pytest.raises(SourceError, match=message):
        list(source.blocks())


@given(st.lists(st.text(max_size=12), min_size=1, max_size=60))
def test_equal_texts_and_only_those_are_one_unit(texts):
    texts = [*texts, "\x00", "a", "aa", "b", "ä"]
    units = units_of(np.array(texts, dtype=object), str)
    assert len(set(units.tolist())) == len(set(texts))
    assert dict(zip(texts, units.tolist(), strict=True)) == {
        t: units_of(np.array([t], dtype=object), str)[0] for t in texts
    }


def test_units_do_not_change_from_one_version_to_the_next():
    # A checkpoint of today must find the same split tomorrow.
    units = units_of(np.array(["", "customer 17", "Zoë" * 1_000]), str)
    assert units.tolist() == [0, -7553066577331184243, -8520548711059403794]
    for same in (np.array([5, 6], dtype=np.uint8), np.array([5.0, 6.0]), np.array([5, 6], object)):
        assert units_of(same, str).tolist() == [5, 6]
    assert (
        units_of(np.array([b"a", b"b"]), str).tolist()
        == units_of(np.array(["a", "b"]), str).tolist()
    )


def test_many_like_texts_do_not_collide():
    texts = np.array([f"{i:06d}" for i in range(50_000)])
    assert len(np.unique(units_of(texts, str))) == len(texts)
    dashed = np.array([f"{i:x}-{(i * 7919) % 65_536:04x}" for i in range(50_000)])
    assert len(np.unique(units_of(dashed, str))) == len(dashed)

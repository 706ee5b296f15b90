"""Data sets in memory and their splits."""

import os

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from setpoint import SetpointError
from setpoint.paper.datasets import (
    CorruptDataError,
    Dataset,
    MissingDataError,
    Split,
    honest_split,
    leaks,
    paper_split,
)

# --- dataset --------------------------------------------------------------------------------------


X = np.arange(12, dtype=np.float64).reshape(6, 2)
Y = np.array([True, False, False, True, False, False])
GROUPS = np.array([0, 0, 1, 1, 2, 3], dtype=np.int32)
PART = np.array(["train", "train", "train", "test", "test", "test"])


def full(**changes):
    return Dataset(
        **({"name": "toy", "X": X, "y": Y, "groups": GROUPS, "part": PART, "source": "s"} | changes)
    )


def test_types():
    data = full()
    assert data.X.dtype == np.float32
    assert data.groups.dtype == np.int64
    assert (len(data), data.positives) == (6, 2)
    assert str(data) == "toy: 6 rows, 2 positives, 2 features, 4 groups"
    assert str(Dataset("toy", X, Y)) == "toy: 6 rows, 2 positives, 2 features"
    with pytest.raises(AttributeError):
        data.y = ~Y


def with_(row, value):
    changed = X.copy()
    changed[row, 1] = value
    return changed


def test_inconsistent_arrays_raise():
    for changes, message in (
        ({"X": X[:, 0]}, "X must be a matrix with columns, not of shape (6,)"),
        ({"X": X[:, :0]}, "X must be a matrix with columns, not of shape (6, 0)"),
        ({"X": [["a"]] * 6}, "X must be numeric"),
        (
            {"X": with_(3, np.nan)},
            "X has 1 values that are not finite, the first in row 3, column 1",
        ),
        ({"X": with_(2, 1e300)}, "the first in row 2, column 1"),  # too large for float32
        ({"y": Y[:5]}, "y must be 6 booleans, one per row"),
        ({"y": Y.astype(int)}, "y must be 6 booleans"),
        ({"y": None}, "y must be 6 booleans"),
        ({"y": np.zeros(6, bool)}, "'toy' has no positives; both classes are needed"),
        ({"y": np.ones(6, bool)}, "'toy' has no negatives"),
        ({"X": X[:0], "y": Y[:0], "groups": None, "part": None}, "'toy' has no rows"),
        ({"groups": GROUPS[:5]}, "groups must be 6 integers"),
        ({"groups": GROUPS.astype(float)}, "groups must be 6 integers"),
        ({"part": PART[:5]}, "part must be 6 strings"),
        ({"part": np.array(["train"] * 5 + ["valid"])}, "part must be 'train' or 'test'"),
    ):
        with pytest.raises(SetpointError) as caught:
            full(**changes)
        assert message in str(caught.value)


def test_saved_and_loaded_it_is_the_same(tmp_path):
    for changes in ({}, {"groups": None}, {"part": None}, {"name": "näme"}):
        data = full(**changes)
        path = tmp_path / "new folder" / "toy.npz"
        data.save(path)
        found = Dataset.load(str(path))
        assert (found.name, found.source) == (data.name, data.source)
        for name in ("X", "y", "groups", "part"):
            mine, read = getattr(data, name), getattr(found, name)
            if mine is None:
                assert read is None
            else:
                assert read.dtype.kind == mine.dtype.kind
                assert (read == mine).all()
        assert os.listdir(path.parent) == ["toy.npz"]


def test_a_failed_save_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "toy.npz"
    full(source="old").save(path)

    def fails(file, **arrays):
        file.write(b"half")
        raise KeyboardInterrupt

    monkeypatch.setattr(np, "savez_compressed", fails)
    with pytest.raises(KeyboardInterrupt):
        full(source="new").save(path)
    monkeypatch.undo()
    assert Dataset.load(path).source == "old"
    assert os.listdir(tmp_path) == ["toy.npz"]


def test_no_damage_passes(tmp_path):
    path = tmp_path / "toy.npz"
    data = full()
    data.save(path)
    whole = path.read_bytes()
    rng = np.random.default_rng(0)
    refused = 0
    for i in range(150):
        content = bytearray(whole)
        if i % 3:
            content[rng.integers(len(content))] ^= int(rng.integers(1, 256))
        else:
            content = content[: rng.integers(len(content))]
        path.write_bytes(content)
        try:
            found = Dataset.load(path)
        except CorruptDataError as error:
            refused += 1
            assert str(path) in str(error)
            assert "save the data set again" in str(error)
        else:  # a byte that says nothing, such as a date
            for name in ("X", "y", "groups", "part"):
                assert (getattr(found, name) == getattr(data, name)).all()
    assert refused > 100


def test_other_files_raise(tmp_path):
    path = tmp_path / "toy.npz"
    with pytest.raises(MissingDataError, match="toy.npz does not exist; write it with"):
        Dataset.load(path)
    with pytest.raises(MissingDataError):
        Dataset.load(tmp_path)
    np.savez(path, X=X, y=Y)
    with pytest.raises(CorruptDataError, match="was not written by this version of setpoint"):
        Dataset.load(path)
    parts = {"name": "toy", "source": "s", "groups": GROUPS, "part": PART}
    np.savez(path, format=2, X=X, y=Y, **parts)
    with pytest.raises(CorruptDataError, match="was not written by this version of setpoint"):
        Dataset.load(path)
    np.savez(path, format=1, X=X, y=Y[:3], **parts)
    with pytest.raises(CorruptDataError, match="toy.npz does not hold a data set: .* 6 booleans"):
        Dataset.load(path)


# --- splits ---------------------------------------------------------------------------------------


BOTH = pytest.mark.parametrize("split", [paper_split, honest_split])


def make(n=1000, share=0.3, groups=None, part=None, name="toy", seed=0):
    y = np.random.default_rng(seed).random(n) < share
    return Dataset(name, np.zeros((n, 1)), y, groups=groups, part=part)


def parts(split):
    return [p for p in (split.train, split.validation, split.test) if p is not None]


def same(one, other):
    return all(np.array_equal(a, b) for a, b in zip(parts(one), parts(other), strict=True))


@st.composite
def datasets(draw):
    n = draw(st.integers(30, 200))
    seed = draw(st.integers(0, 1000))
    rng = np.random.default_rng(seed)
    y = rng.random(n) < 0.5
    groups = rng.integers(-5, draw(st.integers(1, 2 * n)), n) if draw(st.booleans()) else None
    part = None
    if draw(st.booleans()):
        part = np.where(rng.random(n) < draw(st.floats(0.3, 0.8)), "train", "test")
    y[:2] = True, False
    return Dataset(draw(st.sampled_from(["a", "b", "ü"])), np.zeros((n, 1)), y, groups, part)


@given(datasets(), st.integers(0, 20), st.booleans(), st.sampled_from([paper_split, honest_split]))
def test_splits_are_disjoint_complete_and_have_both_classes(data, trial, three, split):
    try:
        found = split(data, trial, three)
    except SetpointError as error:
        assert "split of data set" in str(error)
        return
    assert len(parts(found)) == 2 + three
    assert sorted(np.concatenate(parts(found)).tolist()) == list(range(len(data)))
    for rows in parts(found):
        assert (np.diff(rows) > 0).all()
        assert 0 < data.y[rows].sum() < len(rows)
    if data.part is not None:
        assert found.test.tolist() == np.flatnonzero(data.part == "test").tolist()
    if split is honest_split and data.groups is not None:
        own = [set(data.groups[rows].tolist()) for rows in parts(found)]
        assert three is False or not own[0] & own[1]
        if data.part is None:
            assert leaks(data, found) == 0.0
            assert sum(map(len, own)) == len(set(data.groups.tolist()))
    fifth = -(-len(data) // 5)
    if data.part is None:
        for rows in parts(found)[1:]:
            assert len(rows) == fifth or (split is honest_split and len(rows) < fifth)
    np.random.seed(trial)  # noqa: NPY002 (the global state must not matter)
    assert same(found, split(data, trial, three))


@BOTH
def test_sizes_are_those_of_the_paper(split):
    """18,812 and 4,704 rows of ADE: the test part is rounded up."""
    found = split(make(23_516), 0)
    assert (len(found.train), len(found.test), found.validation) == (18_812, 4_704, None)
    found = split(make(284_807, share=0.01), 0, three=True)
    assert [len(p) for p in parts(found)] == [170_883, 56_962, 56_962]


@BOTH
def test_a_split_depends_on_name_and_trial_only(split):
    groups = np.arange(1000) // 3
    data = make(groups=groups)
    first = split(data, 0)
    assert not same(first, split(data, 1))
    assert not same(first, split(make(groups=groups, name="other"), 0))
    changed = Dataset("toy", np.ones((1000, 5)), ~data.y, groups=groups)
    assert same(first, split(changed, 0))
    assert same(first, split(data, np.int64(0)))


@BOTH
def test_the_test_rows_do_not_depend_on_validation_rows(split):
    data = make(groups=np.arange(1000) // 3)
    two, three = split(data, 4), split(data, 4, three=True)
    assert np.array_equal(two.test, three.test)
    assert np.array_equal(two.train, np.union1d(three.train, three.validation))


def test_a_split_is_the_same_everywhere():
    """A change of these rows changes all results that were ever published with them."""
    data = make(20, share=0.5, groups=np.arange(20) // 2)
    assert paper_split(data, 0).test.tolist() == [0, 2, 6, 17]
    assert honest_split(data, 0).test.tolist() == [0, 1, 2, 3]


def test_it_is_not_stratified():
    """The paper's creditcard parts have 386 and 106 positives, not 394 and 98."""
    data = make(2000, share=0.05)
    counts = {int(data.y[paper_split(data, trial).test].sum()) for trial in range(10)}
    assert len(counts) > 3


def test_without_groups_the_honest_split_is_the_papers():
    for part in (None, np.array(["train", "train", "test"] * 100)):
        data = make(300, part=part)
        for three in (False, True):
            assert same(paper_split(data, 2, three), honest_split(data, 2, three))


def test_leaks():
    groups = np.arange(1000) // 2  # pairs: the twin of a test row is in training 4 times in 5
    data = make(groups=groups)
    found = np.mean([leaks(data, paper_split(data, trial)) for trial in range(20)])
    assert found == pytest.approx(0.8, abs=0.02)
    assert leaks(data, honest_split(data, 0)) == 0.0
    assert leaks(make(), paper_split(make(), 0)) == 0.0
    assert leaks(data, Split(np.array([0, 2]), np.array([4]), np.array([1, 3, 5, 6]))) == 0.5


def test_official_splits_are_kept_even_where_they_leak():
    part = np.array(["train", "test"] * 50)
    data = make(100, groups=np.arange(100) // 2, part=part)
    for split in (paper_split, honest_split):
        assert split(data, 0).test.tolist() == list(range(1, 100, 2))
        assert leaks(data, split(data, 0)) == 1.0
        three = split(data, 0, three=True)
        assert len(three.validation) == 13  # a quarter of 50, rounded up
    assert not same(paper_split(data, 0, True), paper_split(data, 1, True))
    assert same(paper_split(data, 0), paper_split(data, 1))


def test_a_group_larger_than_a_split_stays_in_training():
    groups = np.where(np.arange(1000) < 600, 0, np.arange(1000))
    data = make(groups=groups)
    for trial in range(10):
        found = honest_split(data, trial, three=True)
        assert set(range(600)) <= set(found.train.tolist())
        assert [len(p) for p in parts(found)] == [600, 200, 200]


def test_positives_of_few_groups_are_shared_out_by_chance():
    """Large groups are as likely to be tested as small ones."""
    sizes = np.repeat([5, 1], [40, 200])
    groups = np.repeat(np.arange(240), sizes)
    data = make(400, groups=groups)
    large = [np.mean(groups[honest_split(data, trial).test] < 40) for trial in range(200)]
    assert np.mean(large) == pytest.approx(0.5, abs=0.03)


@BOTH
def test_a_split_without_a_class_raises(split):
    y = np.zeros(50, dtype=bool)
    y[7] = True
    data = Dataset("rare", np.zeros((50, 1)), y)
    with pytest.raises(SetpointError, match="split of data set 'rare' has no positives: there are"):
        split(data, 0)
    with pytest.raises(SetpointError, match="split of data set 'rare' has no negatives"):
        split(Dataset("rare", np.zeros((50, 1)), ~y), 0)
    with pytest.raises(SetpointError, match="the test split of data set 'rare' has no rows"):
        split(Dataset("rare", np.zeros((50, 1)), y, part=np.array(["train"] * 50)), 0)


def test_groups_too_large_for_any_split():
    data = make(40, share=0.5, groups=np.arange(40) // 20)
    with pytest.raises(SetpointError, match="the test split .* has no rows.* groups are too"):
        honest_split(data, 0)


@BOTH
def test_trials_are_numbers(split):
    for trial in (-1, 0.5, "0", None, True):
        with pytest.raises(SetpointError, match="trial must be a non-negative integer"):
            split(make(), trial)

import os

import numpy as np
import pytest

from setpoint import SetpointError
from setpoint.paper.datasets import CorruptDataError, Dataset, MissingDataError

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


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"X": X[:, 0]}, "X must have rows and columns, not the shape (6,)"),
        ({"X": X[:, :0]}, "X must have rows and columns, not the shape (6, 0)"),
        ({"X": [["a"]] * 6}, "X must be numbers"),
        (
            {"X": with_(3, np.nan)},
            "X has 1 entries that are not finite, the first in row 3, column 1",
        ),
        ({"X": with_(2, 1e300)}, "the first in row 2, column 1"),  # too large for float32
        ({"y": Y[:5]}, "y must be 6 booleans, one a row"),
        ({"y": Y.astype(int)}, "y must be 6 booleans"),
        ({"y": None}, "y must be 6 booleans"),
        ({"y": np.zeros(6, bool)}, "'toy' has no positives; both classes are needed"),
        ({"y": np.ones(6, bool)}, "'toy' has no negatives"),
        ({"X": X[:0], "y": Y[:0], "groups": None, "part": None}, "'toy' has no rows"),
        ({"groups": GROUPS[:5]}, "groups must be 6 integers"),
        ({"groups": GROUPS.astype(float)}, "groups must be 6 integers"),
        ({"part": PART[:5]}, "part must be 6 strings"),
        ({"part": np.array(["train"] * 5 + ["valid"])}, "part must be 'train' or 'test'"),
    ],
)
def test_what_does_not_fit_is_refused(changes, said):
    with pytest.raises(SetpointError) as caught:
        full(**changes)
    assert said in str(caught.value)


@pytest.mark.parametrize("changes", [{}, {"groups": None}, {"part": None}, {"name": "näme"}])
def test_saved_and_loaded_it_is_the_same(tmp_path, changes):
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


def test_other_files_are_refused(tmp_path):
    path = tmp_path / "toy.npz"
    with pytest.raises(MissingDataError, match="toy.npz is not there; write it with Dataset.save"):
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

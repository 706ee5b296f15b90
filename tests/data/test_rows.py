"""Training and validation rows come from sources and must have the same features."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

from setpoint import SetpointClassifier, SetpointError
from setpoint.data import ArrayRows, LoaderRows, ParquetRows
from setpoint.data.rows import Block, concatenated
from setpoint.training import Stochastic, train

SMALL = Stochastic(
    outer_iterations=1, inner_iterations=3, batch_size=64, rows=200, restarts=0, proximity=(0.0,)
)


def table(n=300, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.random(n) < 0.3
    return (rng.normal(size=(n, 3)) + y[:, None]).astype(np.float32), y


def fit(source, validation=None):
    clf = SetpointClassifier("max f1", solver=SMALL, random_state=0)
    return clf.fit_stream(source, validation)


def fit_module(source, validation=None):
    return train(torch.nn.Linear(3, 1), source, "max f1", validation=validation, solver=SMALL)


@pytest.fixture(params=[fit, fit_module])
def trained(request):
    return request.param


@pytest.fixture
def parquet(tmp_path):
    def write(name, columns, seed=0, **given):
        X, y = table(seed=seed)
        fields = {f"V{i}": X[:, i] for i in range(3)} | {"fraud": y}
        renamed = dict(zip(columns, (fields[c] for c in ("V0", "V1", "V2")), strict=True))
        if set(columns) == {"V0", "V1", "V2"}:
            renamed = {c: fields[c] for c in columns}
        pq.write_table(pa.table({**renamed, "fraud": y}), tmp_path / f"{name}.parquet")
        return ParquetRows(tmp_path / f"{name}.parquet", target="fraud", **given)

    return write


def test_files_whose_columns_are_in_another_order(trained, parquet, tmp_path):
    rows, moved = parquet("a", ["V0", "V1", "V2"]), parquet("b", ["V2", "V0", "V1"], seed=1)
    with pytest.raises(SetpointError, match="features in another order than the training rows"):
        trained(rows, moved)
    trained(rows, ParquetRows(tmp_path / "b.parquet", target="fraud", features=rows.features))


def test_files_with_other_columns(trained, parquet):
    rows, other = parquet("a", ["V0", "V1", "V2"]), parquet("b", ["V0", "V1", "W"], seed=1)
    with pytest.raises(SetpointError, match="'V2', 'W' is in one of them only"):
        trained(rows, other)


def test_another_positive_label(trained, parquet):
    rows = parquet("a", ["V0", "V1", "V2"])
    other = parquet("b", ["V0", "V1", "V2"], seed=1, positive=False)
    with pytest.raises(SetpointError, match="positive label is False in the validation rows"):
        trained(rows, other)
    (X, y), (Xv, yv) = table(), table(seed=1)
    with pytest.raises(SetpointError, match="positive label is False in the validation rows"):
        trained(ArrayRows(X, y, pos_label=True), ArrayRows(Xv, yv, pos_label=False))


@pytest.mark.parametrize("width", [2, 4])
def test_validation_rows_of_another_width(trained, width):
    (X, y), (Xv, yv) = table(), table(seed=1)
    Xv = np.tile(Xv, 2)[:, :width]
    message = rf"validation row 0 has features of the shape \({width},\), and the first row of \(3,"
    with pytest.raises(SetpointError, match=message):
        trained(ArrayRows(X, y), ArrayRows(Xv, yv))


@pytest.mark.parametrize("width", [1, 2])
def test_a_batch_of_another_width(trained, width):
    X, y = map(torch.from_numpy, table())
    rows = LoaderRows([(X[:100], y[:100]), (X[100:, :width], y[100:])])
    with pytest.raises(SetpointError, match=rf"row 100 has features of the shape \({width},\)"):
        trained(rows, LoaderRows([(X, y)]))


@pytest.mark.parametrize("given", ["data", np.zeros((4, 3)), 1, None])
def test_other_objects_are_not_sources(trained, given):
    X, y = table()
    name = type(given).__name__
    with pytest.raises(SetpointError, match=f"not from a {name}: wrap arrays in"):
        trained(given)
    if given is not None:
        with pytest.raises(SetpointError, match=f"not from a {name}: wrap arrays in"):
            trained(ArrayRows(X, y), given)


def test_a_loader_is_not_a_source_of_an_estimator():
    X, y = table()
    loader = DataLoader(TensorDataset(torch.from_numpy(X), torch.from_numpy(y)))
    with pytest.raises(SetpointError, match="not from a DataLoader: wrap arrays in"):
        fit(loader)


def test_tables_in_memory_are_compared_by_their_columns(trained):
    (X, y), (Xv, yv) = table(), table(seed=1)
    frame, validation = (pd.DataFrame(rows, columns=["a", "b", "c"]) for rows in (X, Xv))
    with pytest.raises(SetpointError, match="features in another order"):
        trained(ArrayRows(frame, y), ArrayRows(validation[["c", "b", "a"]], yv))
    trained(ArrayRows(frame, y), ArrayRows(validation, yv))
    trained(ArrayRows(frame, y), ArrayRows(Xv, yv))  # nothing is known of these
    assert ArrayRows(pd.DataFrame(X), y).features is None  # numbers are no names


def test_a_classifier_knows_the_names_of_a_table_in_memory():
    X, y = table()
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    clf = fit(ArrayRows(frame, y))
    assert clf.feature_names_in_.tolist() == ["a", "b", "c"]
    clf.predict(frame)


def test_blocks_are_joined_with_their_times_and_factors():
    def block(first, n):
        number = torch.arange(first, first + n)
        column = number.double()
        return Block(
            column[:, None], number > 2, column, number, number, column / 2, factors=column[:, None]
        )

    both, whole = concatenated([block(0, 3), block(3, 2)]), block(0, 5)
    for name, value in vars(whole).items():
        assert name == "shard" or torch.equal(getattr(both, name), value)
    bare = replace(whole, time=None, factors=None)
    joined = concatenated([bare, bare])
    assert joined.time is None
    assert joined.factors is None
    assert torch.equal(whole.rows(whole.positive).factors, whole.factors[3:])

"""Rows that train and rows that test."""

import numpy as np
import pandas as pd
import pytest

from setpoint.errors import PartsError, SetpointError
from setpoint.tables.parts import newest, part_rows, times_of

N = 1_000
Y = np.random.default_rng(0).random(N) < 0.05


def check(parts, n=N):
    assert np.array_equal(np.sort(np.concatenate(parts)), np.arange(n))
    assert all((np.diff(rows) > 0).all() for rows in parts)


def test_random_parts_are_stratified_and_repeatable():
    parts = part_rows(N, Y, test=0.2)
    check(parts)
    assert len(parts.test) == 200
    assert abs(Y[parts.test].sum() - 0.2 * Y.sum()) <= 1
    assert np.array_equal(parts.test, part_rows(N, Y, test=0.2).test)
    assert not np.array_equal(parts.test, part_rows(N, Y, test=0.2, random_state=1).test)


def test_no_test_part():
    parts = part_rows(N, Y, test=0)
    assert len(parts.train) == N
    assert len(parts.test) == 0


def test_newest_rows_test_and_moments_stay_together():
    time = np.random.default_rng(1).integers(0, 20, N).astype(float)
    parts = part_rows(N, Y, test=0.2, time=time)
    check(parts)
    assert time[parts.train].max() < time[parts.test].min()
    assert 200 <= len(parts.test) <= 280


def test_groups_stay_together():
    group = np.random.default_rng(1).integers(0, 100, N).astype(str)
    parts = part_rows(N, Y, test=0.2, group=group)
    check(parts)
    assert not set(group[parts.train]) & set(group[parts.test])
    assert abs(len(parts.test) / N - 0.2) < 0.05
    assert abs(Y[parts.test].sum() / Y.sum() - 0.2) < 0.1


def test_groups_and_time():
    rng = np.random.default_rng(1)
    group, time = rng.integers(0, 300, N), rng.integers(0, 1_000, N).astype(float)
    parts = part_rows(N, Y, test=0.3, group=group, time=time)
    check(parts)
    assert not set(group[parts.train]) & set(group[parts.test])
    last = pd.Series(time).groupby(group).transform("max").to_numpy()
    assert last[parts.train].max() < last[parts.test].min()


def test_one_crowded_moment():
    time = np.r_[np.zeros(990), np.arange(1, 11)]
    y = np.arange(N) % 2 == 0
    parts = part_rows(N, y, test=0.2, time=time)
    assert len(parts.test) == 10  # the share begins in the crowd, which cannot be parted
    with pytest.raises(PartsError, match="of one moment"):
        part_rows(N, y, test=0.2, time=np.zeros(N))


def test_newest_of_some_rows():
    rows = np.array([1, 3, 5, 7])
    parts = newest(rows, np.array([0, 9.0, 0, 1, 0, 2, 0, 3]), None, 0.25)
    assert parts.train.tolist() == [3, 5, 7]
    assert parts.test.tolist() == [1]


def test_parts_that_cannot_be():
    with pytest.raises(PartsError, match="not 1.5"):
        part_rows(N, Y, test=1.5)
    with pytest.raises(PartsError, match="has 1 row, too few"):
        part_rows(10, np.arange(10) == 3)
    with pytest.raises(PartsError, match="4 rows cannot be parted: .* 1 to test and 3 to train"):
        part_rows(4, np.arange(4) % 2 == 0)
    with pytest.raises(PartsError, match="0 to train, .*Choose another share"):
        part_rows(N, Y, test=0.9999)
    with pytest.raises(PartsError, match="2 groups cannot be parted"):
        part_rows(N, Y, test=0.999, group=np.arange(N) % 2)
    for seed in (-1, 2**32, 0.5, None):
        with pytest.raises(PartsError, match="the seed must be a whole number"):
            part_rows(N, Y, random_state=seed)
    with pytest.raises(PartsError, match="one group"):
        part_rows(N, Y, group=np.zeros(N))
    with pytest.raises(SetpointError, match="missing entries"):
        part_rows(3, np.array([True, False, True]), group=["a", None, "b"])
    with pytest.raises(PartsError, match="test part has 200 rows and none of them is positive"):
        part_rows(N, np.arange(N) < 100, time=np.arange(N))


@pytest.mark.parametrize(
    "values",
    [
        [3, 1, 2],
        ["2024-03-01", "2024-01-01", "2024-02-01"],
        ["03/01/2024", "01/01/2024", "02/01/2024"],
        pd.to_datetime(["2024-03-01", "2024-01-01", "2024-02-01"]),
        pd.to_datetime(["2024-03-31 03:30", "2024-01-01 00:00", "2024-02-01 00:00"]).tz_localize(
            "UTC"
        ),
        ["2024-03-01T00:00:00+02:00", "2024-01-01T00:00:00Z", "2024-02-01T00:00:00Z"],
    ],
)
def test_times(values):
    assert np.argsort(times_of(pd.Series(values))).tolist() == [1, 2, 0]


def test_times_that_are_none():
    with pytest.raises(PartsError, match="neither dates nor numbers .*'soon'"):
        times_of(pd.Series(["soon", "later"], name="when"))
    with pytest.raises(PartsError, match="1 of 2 times in 'when' are missing, the first in row 2"):
        times_of(pd.Series(["2024-01-01", None], name="when"))

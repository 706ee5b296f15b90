"""Bounds on the mean cost at thresholds chosen on the same rows."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from setpoint import SetpointError
from setpoint.certificates.costs import (
    CostCells,
    CostEverywhere,
    CostRows,
    cost_bound,
)

SEEDS = st.integers(0, 100_000)


def rows(seed, n=300, ties=False):
    """Return rows with prices cost(fp=1, fn=amount)."""
    rng = np.random.default_rng(seed)
    y = rng.random(n) < 0.2
    scores = rng.normal(size=n) + 2 * y
    amount = np.minimum(np.exp(rng.normal(size=n)), 20)
    scores = np.round(scores, 1) if ties else scores
    return CostRows.of(scores, np.where(y, 0.0, 1.0), np.where(y, amount, 0.0), 0, 20)


@settings(max_examples=50)
@given(SEEDS, st.booleans())
def test_the_best_threshold_is_that_of_all_cuts(seed, ties):
    found = rows(seed, n=40, ties=ties)
    cuts = np.concatenate([[-math.inf], np.unique(found.scores)])
    best = found.best_threshold()
    assert found.mean(best) == pytest.approx(min(found.mean(t) for t in cuts))


@settings(max_examples=50)
@given(SEEDS, st.floats(-2, 3), st.floats(0, 2), st.floats(0, 1))
def test_no_threshold_of_a_cell_costs_more(seed, low, width, at):
    found = rows(seed, n=60, ties=True)
    low, high = round(low, 1), round(low + width + 0.1, 1)
    most = found.at_most(low, high)
    t = min(low + at * (high - low), np.nextafter(high, -math.inf))
    assert (found.at(t) <= most).all()
    assert (found.at(low) <= most).all()
    assert (found.at(math.inf) <= found.at_most(low, math.inf)).all()
    assert (found.at(-math.inf) <= found.at_most(-math.inf, high)).all()
    assert (found.at_most(-math.inf, math.inf) == np.maximum(found.alarm, found.clear)).all()


@settings(max_examples=50)
@given(SEEDS, st.integers(1, 100_000))
def test_cells_cover_all_thresholds_and_share_the_error(seed, test_rows):
    cells = CostCells.of(rows(seed), test_rows)
    assert (np.diff(cells.edges) > 0).all()
    assert len(cells) == len(cells.edges) + 1
    assert cells.shares.sum() <= 1
    for t in (-math.inf, -1.0, 0.3, math.inf, *cells.edges):
        low, high = cells.ends(cells.cell(t))
        assert low <= t
        assert t < high or high == math.inf
    best = rows(seed).best_threshold()
    assert cells.shares[cells.cell(best)] == cells.shares.max()


def test_a_bound_at_all_thresholds_is_wider_than_at_one():
    planning, testing = rows(1, 1000), rows(2, 3000)
    every = CostEverywhere(testing, CostCells.of(planning, 3000), 0.1, planning)
    best = planning.best_threshold()
    single = cost_bound(testing, best, 0.9, planning)
    assert testing.mean(best) < single < every.bound(best)
    assert every.bound(best) < cost_bound(testing, best, 1 - 0.1 / 2000, planning)
    assert every.bound(-3.0) > every.bound(best)


def test_certified_thresholds_have_bounds_below_the_level():
    planning, testing = rows(1, 1000), rows(2, 3000)
    every = CostEverywhere(testing, CostCells.of(planning, 3000), 0.1, planning)
    level = every.bound(planning.best_threshold()) + 0.01
    certified = every.certified(level)
    assert planning.best_threshold() in certified
    assert -3.0 not in certified
    assert not every.certified(0.01)
    assert every.certified(19.99).intervals == ((-math.inf, math.inf),)


def test_without_planning_rows_there_is_one_cell():
    none = CostRows.of([], [], [], 0, 1)
    cells = CostCells.of(none, 100)
    assert cells.ends(cells.cell(0.3)) == (-math.inf, math.inf)
    assert math.isnan(none.mean(0.5))
    assert CostEverywhere(rows(1), cells, 0.1, none).bound(0.3) <= 20


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (([0.1, 0.2], [1.0], [0.0, 0.0]), "one number per row"),
        (([0.1], [9.0], [0.0]), r"the cost of row 0 \(alarm\) is 9, outside .* \[0, 5\]"),
        (([0.1], [1.0], [-1.0]), r"\(clear\) is -1"),
        (([math.nan], [1.0], [0.0]), "scores is NaN in row 0"),
        (([0.1], [math.nan], [0.0]), "alarm is NaN in row 0"),
    ],
)
def test_bad_rows(columns, message):
    with pytest.raises(SetpointError, match=message):
        CostRows.of(*columns, 0, 5)

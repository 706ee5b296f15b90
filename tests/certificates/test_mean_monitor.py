"""Evidence against a bound on a mean cost, checked as often as one likes."""

import itertools
import json
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from setpoint import Constraint, SetpointError
from setpoint.certificates.mean_monitor import Costs, check_mean
from setpoint.goals.metrics import metric

COST = Constraint(metric("cost(fp=5, fn=100)"), 20.0)
PROFIT = Constraint(metric("profit(tp=80, fp=-20)"), 30.0)


def check(costs, after=None, guarantee=COST, span=(0.0, 100.0), level=0.05):
    paid = np.asarray(costs, float)
    given = Costs(np.clip(paid, *span), paid, (paid < span[0]) | (paid > span[1]))
    return check_mean(guarantee, span, given, after, level, ("a",), 0)


def test_the_expected_evidence_of_a_guarantee_that_holds_is_1():
    """All outcomes of three checks with ten rows each, at the guaranteed mean."""
    values, chances = np.array([0.0, 50.0]), np.array([0.6, 0.4])
    batches = [(k, float(_binomial(k, 10, chances[1]))) for k in range(11)]
    total = 0.0
    for some in itertools.product(batches, repeat=3):
        verdict = None
        for k, _ in some:
            verdict = check(np.repeat(values, [10 - k, k]), verdict)
            last = _now(verdict)
        total += np.prod([chance for _, chance in some]) * last
    assert total == pytest.approx(1.0, abs=1e-9)


def _binomial(k, n, p):
    from scipy.stats import binom

    return binom.pmf(k, n, p)


def _now(verdict):
    """Return the evidence at the last check, by definition."""
    m, bets = 0.2, 0.95 * 2.0 ** -np.arange(10) / 0.2
    assert len(bets) == len(verdict.logs)
    assert m == 0.2
    starts = [s for s in verdict.starts if s[0] < verdict.rows]
    since = [np.zeros(10), *(np.array(start[1:]) for start in starts)]
    evidence = [np.exp(np.array(verdict.logs) - before).mean() for before in since]
    j = np.arange(1, len(evidence))
    rest = 1 - (1 / (j * (j + 1))).sum()
    return evidence[0] / 2 + ((np.array(evidence[1:]) / (j * (j + 1))).sum() + rest) / 2


@given(st.lists(st.lists(st.sampled_from([0.0, 5.0, 60.0, 100.0]), max_size=30), min_size=1))
def test_the_evidence_is_that_of_its_definition(batches):
    verdict, largest = None, 0.0
    for batch in batches:
        verdict = check(batch, verdict)
        largest = max(largest, _now(verdict))
        assert verdict.evidence == pytest.approx(largest, rel=1e-9)
    every = np.concatenate(batches)
    assert verdict.rows == len(every)
    assert verdict.checks == len(batches)
    if len(every):
        assert verdict.value == pytest.approx(every.mean())
        direct = np.log1p(0.95 / 0.2 * (every / 100 - 0.2)).sum()
        assert verdict.logs[0] == pytest.approx(direct)


def test_a_mean_that_is_too_high_is_found_and_stays_found():
    rng = np.random.default_rng(0)
    good = check(rng.choice([0, 5, 100], 3000, p=[0.8, 0.1, 0.1]))
    assert not good.broken
    assert "with no evidence against it" in good.describe("cost", "cases")
    bad = good
    for _ in range(20):
        bad = check(rng.choice([0, 5, 100], 200, p=[0.5, 0.1, 0.4]), bad)
    assert bad.broken
    assert bad.since >= 2900  # a restart finds it
    assert "mostly because of those after the first" in bad.describe("cost", "cases")
    later = check(np.zeros(100_000), bad)
    assert later.broken
    assert not later.is_missed


def test_profits_are_negative_costs():
    verdict = check(-np.array([80.0, -20.0, 80.0]), guarantee=PROFIT, span=(-80.0, 20.0))
    assert verdict.value == pytest.approx(140 / 3)
    assert not verdict.is_missed
    assert "profit is 46.67 (3 cases; guaranteed: >= 30)" in verdict.describe("profit", "cases")
    worse = check(np.full(300, 20.0), verdict, PROFIT, (-80.0, 20.0))
    assert worse.broken


@pytest.mark.parametrize(("level", "broken"), [(100.0, False), (1000.0, False), (0.0, True)])
def test_levels_at_the_ends_of_the_span(level, broken):
    guarantee = Constraint(metric("cost(fp=5, fn=100)"), level)
    verdict = check([0.0, 100.0, 100.0], guarantee=guarantee)
    assert verdict.broken is broken
    assert check([0.0], verdict, guarantee).broken is broken
    assert not check([0.0, 0.0], guarantee=guarantee).broken


def test_amounts_above_the_cap_are_told():
    verdict = check([0.0] * 98 + [1e5, 100.0])
    assert verdict.mean == pytest.approx(0.02)
    assert verdict.capped == 1
    assert verdict.is_missed  # without the cap
    text = verdict.describe("cost", "cases")
    assert "cost is 2.00 (100 cases; guaranteed: <= 20; 1 of them have an amount above" in text
    assert "without which the mean is 1,001)" in text
    assert text.endswith("which is not enough evidence to contradict it")
    more = check([0.0] * 100, verdict)
    assert (more.capped, more.uncapped) == (1, pytest.approx(500.5))


def test_verdicts_of_other_guarantees_are_refused():
    verdict = check([1.0])
    for changed, message in (
        ({"guarantee": PROFIT}, "another certificate"),
        ({"span": (0.0, 50.0)}, "another certificate"),
        ({"level": 0.1}, "earlier checks had the level 0.05"),
    ):
        with pytest.raises(SetpointError, match=message):
            check([1.0], verdict, **changed)


def test_no_rows_and_plain_values():
    nothing = check([])
    assert np.isnan(nothing.value)
    assert nothing.describe("cost", "cases") == "'cost <= 20' has no observations yet"
    assert pickle.loads(pickle.dumps(nothing)) == nothing
    values = check([3.0], nothing).to_dict()
    assert json.loads(json.dumps(values)) == values


def test_one_look_bounds_the_p_value_of_the_rows_of_the_check():
    rng = np.random.default_rng(0)
    found = [check(100.0 * (rng.random(200) < 0.2)).p_value for _ in range(300)]
    assert np.mean(np.array(found) <= 0.1) <= 0.1
    bad = check(np.full(30, 100.0), check([0.0] * 5000))
    assert bad.p_value < 1e-6
    assert check([]).p_value is None

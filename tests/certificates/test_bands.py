"""Certificates of review bands: each side is a plain certificate, and pairs are valid together."""

import json
import math
import pickle
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

from certificate_rows import clopper_pearson, normal
from setpoint import BandGoal, Goal, certify, certify_band
from setpoint.certificates.band_bounds import most_reviewed, review_bound
from setpoint.certificates.certify import _draw_rows, _seed_from, certify_best
from setpoint.certificates.sequence import Rows
from setpoint.errors import GoalError, SetpointError
from setpoint.goals.metrics import format_threshold
from setpoint.thresholds.bands import evaluate_band

BOTH = "min review_rate s.t. precision(alarm) >= 0.85, npv(clear) >= 0.93"


def split(y, scores):
    """Return the planning and certification rows that certify_band draws."""
    chosen = _draw_rows(len(scores), 0.1, _seed_from(scores))
    return Rows.of(y, scores, chosen), Rows.of(y, scores, ~chosen)


def test_one_side_is_a_plain_certificate():
    """With the whole error; the other threshold is free."""
    y, scores = normal(0)
    band = certify_band(y, scores, "max recall(alarm) s.t. precision(alarm) >= 0.85")
    plain = certify(y, scores, "max recall s.t. precision >= 0.85")
    assert band.certified
    assert band.alarm_thresholds == plain.certified_thresholds
    assert band.low == band.high in plain.certified_thresholds
    assert band.operating_point.objective == plain.operating_point.objective
    assert [b.bound for b in band.bounds] == [b.bound for b in plain.bounds]
    assert band.clear_thresholds.intervals == ((-np.inf, np.inf),)
    band = certify_band(y, scores, "max clear_rate s.t. fnr(clear) <= 0.1")
    plain = certify(y, scores, "max specificity s.t. fnr <= 0.1")
    assert band.clear_thresholds == plain.certified_thresholds
    assert band.bounds[0].p_value <= 0.1
    # A floor on the cleared rows is a ceiling on those above the threshold.
    band = certify_band(y, scores, "min fnr(clear) s.t. clear_rate >= 0.3")
    plain = certify(y, scores, "min fnr s.t. alarm_rate <= 0.7")
    assert band.clear_thresholds == plain.certified_thresholds
    assert band.operating_point.value("clear_rate") > 0.3
    assert band.bounds[0].value == band.operating_point.value("clear_rate")
    assert band.bounds[0].bound == 0.3


def test_two_sides_share_the_error():
    y, scores = normal(1, n=2000)
    band = certify_band(y, scores, BOTH)
    alarm = certify_best(
        *split(y, scores), Goal.parse("max recall s.t. precision >= 0.85"), 0.95, on=""
    )
    clear = certify_best(
        *split(y, scores), Goal.parse("max specificity s.t. npv >= 0.93"), 0.95, on=""
    )
    assert band.certified
    assert band.alarm_thresholds == alarm.certified_thresholds
    assert band.clear_thresholds == clear.certified_thresholds
    assert band.message.startswith("Certified at 90 % confidence: precision(alarm) >= 0.85 and npv")


def brute_force(y, scores, band):
    """Return the best objective of all pairs of a fine grid of certified thresholds."""
    edges = np.unique(np.append(scores, [scores.min() - 1, band.low, band.high]))
    ends = [
        end for part in (band.alarm_thresholds, band.clear_thresholds) for i in part for end in i
    ]
    edges = np.unique(np.append(edges, [e for e in ends if np.isfinite(e)]))
    grid = np.unique(np.concatenate([edges, edges[:-1] + np.diff(edges) / 2]))
    found = [
        evaluate_band(y, scores, low, high, band.goal).objective
        for low in grid
        if low in band.clear_thresholds
        for high in grid
        if low <= high and high in band.alarm_thresholds
    ]
    return min(found, default=None)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize(
    "goal", [BOTH, "min cost(fp=1, fn=9, review=2) s.t. fnr(clear) <= 0.2, precision(alarm) >= 0.7"]
)
def test_the_best_pair_of_certified_thresholds_is_chosen(goal, seed):
    y, scores = normal(seed, n=160, gap=3)
    scores = np.round(scores, 1)
    band = certify_band(y, scores, goal, planning_rows=normal(seed + 50))
    best = brute_force(y, scores, band)
    if best is None:
        assert not band.certified
    else:
        assert band.certified
        assert band.allows(band.low, band.high)
        assert band.operating_point.objective == best


def test_bands_that_touch():
    """Where both sides are easy, the best band has no reviews."""
    y, scores = normal(3, n=1500, gap=4)
    goal = "min review_rate s.t. precision(alarm) >= 0.8, npv(clear) >= 0.8, review_rate <= 0"
    band = certify_band(y, scores, goal)
    assert band.certified
    assert band.low == band.high
    assert [b.bound for b in band.bounds[2:]] == [0, 0]
    assert band.allows(band.low, band.high)
    assert not band.allows(band.low, math.nextafter(band.high, np.inf))
    given = certify_band(y, scores, goal, low=2.0, high=2.0)
    assert given.certified


@pytest.mark.parametrize(("low", "high"), [(0.5, 2.5), (0.5, 1.0), (1.5, 2.5), (1.2, 1.2)])
def test_thresholds_given_beforehand_have_the_whole_error_each(low, high):
    y, scores = normal(4, n=400)
    goal = BandGoal.parse(f"{BOTH}, review_rate <= 0.4, recall(alarm) >= 0.5")
    band = certify_band(y, scores, goal, low, high)
    alarm, clear = scores > high, scores <= low
    review = ~alarm & ~clear
    p_values = [
        binom.sf((alarm & y).sum() - 1, alarm.sum(), 0.85),
        binom.sf((clear & ~y).sum() - 1, clear.sum(), 0.93),
        0 if low == high else binom.cdf(review.sum(), len(y), 0.4),
        binom.sf((alarm & y).sum() - 1, y.sum(), 0.5),
    ]
    assert band.certified == (max(p_values) <= 0.1)
    assert (band.low, band.high, band.chosen) == (low, high, ())
    assert band.bounds[0].p_value == pytest.approx(p_values[0])
    assert band.bounds[1].bound == pytest.approx(
        clopper_pearson((clear & ~y).sum(), clear.sum(), 0.9)
    )
    if not band.certified:
        assert not band.alarm_thresholds
        assert not band.clear_thresholds
        assert not band.allows(low, high)


def test_one_threshold_given_beforehand():
    """The other one then has the whole error, too."""
    y, scores = normal(5, n=2000)
    band = certify_band(y, scores, BOTH, high=2.2)
    clear = certify_best(
        *split(y, scores), Goal.parse("max specificity s.t. npv >= 0.93"), 0.9, on=""
    )
    assert band.certified
    assert band.high == 2.2
    assert band.chosen == ("low",)
    assert band.clear_thresholds == clear.certified_thresholds
    assert "high given beforehand; the best band" in str(band)
    failed = certify_band(y, scores, BOTH, high=-5.0)
    assert not failed.certified
    assert not failed.clear_thresholds  # only both sides together would be certified
    assert failed.high == -5.0
    assert "precision(alarm) is" in failed.refusal


# --- reviews --------------------------------------------------------------------------------------


@given(st.integers(1, 300), st.floats(0.01, 1), st.floats(1e-4, 0.5), st.booleans())
def test_the_number_of_reviews(n, rate, error, any_band):
    most = most_reviewed(n, rate, error, any_band=any_band)

    def chance(k):
        return (n + 1 - k if any_band else 1) * binom.cdf(k, n, rate)

    assert most == n if rate == 1 else most < n
    if 0 <= most < n:
        assert chance(most) <= error * (1 + 1e-9)
        assert chance(most + 1) > error * (1 - 1e-9)
    if most == -1:
        assert chance(0) > error * (1 - 1e-9)


def inside_and_mass(s, atoms):
    """Return rows inside, and the probability, of bands between all edges.

    Of continuous scores, an open interval between two of them has the largest probability for its
    number of rows; of atoms, bands begin and end at them.
    """
    if atoms is None:
        edges = np.sort(np.append(s, [0, 1]))
        at = np.arange(len(edges))
        inside = np.maximum(at[None] - at[:, None] - 1, 0)
    else:
        edges = np.arange(atoms + 1) / atoms
        above = (np.ceil(s * atoms)[None] > np.arange(atoms + 1)[:, None]).sum(1)
        inside = np.maximum(above[:, None] - above[None], 0)
    upper = np.triu_indices(len(edges))
    return inside[upper], (edges[None] - edges[:, None])[upper]


@pytest.mark.parametrize("atoms", [None, 12])
def test_no_band_with_few_reviews_has_a_larger_rate(atoms):
    """Over all bands at once, by simulation."""
    rng, n, rate, error, draws = np.random.default_rng(0), 60, 0.4, 0.2, 2000
    most = most_reviewed(n, rate, error, any_band=True)
    bounds = np.array([review_bound(k, n, 1 - error) for k in range(n + 1)])
    false = beyond = 0
    for _ in range(draws):
        inside, mass = inside_and_mass(rng.random(n), atoms)
        false += bool(((inside <= most) & (mass > rate + 1e-12)).any())
        beyond += bool((mass > bounds[inside] + 1e-12).any())
    allowed = error + 3 * math.sqrt(error * (1 - error) / draws)
    assert false / draws <= allowed
    assert beyond / draws <= allowed
    if atoms is None:
        assert false > 0


def test_limited_reviews():
    y, scores = normal(6, n=3000)
    band = certify_band(y, scores, f"{BOTH}, review_rate <= 0.3")
    most = most_reviewed(len(y), 0.3, 0.1 / 3, any_band=True)
    assert band.certified
    assert band.operating_point.counts.review <= most
    inner = band.low + 1e-9, band.high
    assert band.allows(*inner) == (inner[0] in band.clear_thresholds)
    wider = min(band.clear_thresholds)[0] + 1e-9
    assert wider in band.clear_thresholds
    assert not band.allows(wider, band.high)
    refused = certify_band(y, scores, f"{BOTH}, review_rate <= 0.02")
    assert not refused.certified
    assert "not together with 'review_rate <= 0.02'" in refused.refusal
    assert refused.alarm_thresholds  # these guarantees hold all the same
    assert refused.clear_thresholds


# --- refusals, special rows, errors ---------------------------------------------------------------


def test_refusals_say_what_would_help():
    y, scores = normal(7, n=150)
    band = certify_band(
        y, scores, "min review_rate s.t. precision(alarm) >= 0.99, npv(clear) >= 0.6"
    )
    assert not band.certified
    assert not band.guarantees
    assert re.search(r"precision\(alarm\) is 1\.000 .* more labelled positives", band.message)
    assert band.more_positives > 0
    assert band.clear_thresholds
    assert not band.alarm_thresholds
    assert not band.allows(-9, 9)
    both = certify_band(y[:30], scores[:30], BOTH)
    assert " Besides, npv(clear) is" in both.refusal
    assert band.bounds[0].bound is None
    apart = "min review_rate s.t. recall(alarm) >= 0.9, clear_rate >= 0.9"
    assert "each lower one is above all upper ones" in certify_band(y, scores, apart).refusal


def test_rows_of_one_class():
    scores = np.linspace(0, 1, 300)
    none = certify_band(np.zeros(300, bool), scores, BOTH)
    assert not none.certified
    assert "no row counts towards precision(alarm) at the threshold. Besides, all rows are" in (
        none.refusal
    )
    fpr = certify_band(np.zeros(300, bool), scores, "min review_rate s.t. fpr(alarm) <= 0.1")
    assert fpr.certified
    assert fpr.low == fpr.high


def test_infinite_scores_and_ties():
    rng = np.random.default_rng(8)
    y = rng.random(900) < 0.4
    scores = np.where(y, np.inf, -np.inf)
    scores[::9] = 0.0
    band = certify_band(y, scores, BOTH)
    assert band.certified
    assert band.operating_point.review_rate == pytest.approx(1 / 9, abs=0.02)
    beyond = certify_band(y, scores, "min review_rate s.t. npv(clear) >= 0.5", low=0.0, high=np.inf)
    assert beyond.certified
    assert beyond.high == np.inf
    assert beyond.operating_point.alarm_positives == 0
    one = certify_band(y, np.zeros(900), "min review_rate s.t. precision(alarm) >= 0.3")
    assert one.certified
    assert one.low == one.high < 0


def test_many_rows():
    """Above 40,000 rows, tests are made at some of the cuts."""
    y, scores = normal(9, n=60_000)
    band = certify_band(y, scores, BOTH)
    assert band.certified
    assert band.allows(band.low, band.high)
    assert band.operating_point.violation == 0


def test_groups_weights_and_labels():
    y, scores = normal(10, n=1200)
    groups = np.arange(1200) // 2
    goal = "min cost(fp=a, fn=9, review=1) s.t. fnr(clear) <= 0.1, fpr(alarm) <= 0.1"
    amounts = {"a": np.where(y, 0, 2.0)}
    band = certify_band(y, scores, goal, groups=groups, amounts=amounts)
    c = band.operating_point.counts
    assert c.P + c.N == 600
    assert band.one_per_group
    assert "nothing is guaranteed for all rows of large groups" in str(band)
    named = np.where(y, "bad", "good")
    weight = np.ones(1200)
    weight[::2] = 0
    half = certify_band(
        named, scores, goal, pos_label="bad", groups=groups, sample_weight=weight, amounts=amounts
    )
    assert half.pos_label == "bad"
    direct = certify_band(
        y[1::2], scores[1::2], goal, amounts={"a": amounts["a"][1::2]}, sample_weight=[2.0] * 600
    )
    assert (half.low, half.high) == (direct.low, direct.high)
    seeds = {certify_band(y, scores, BOTH, groups=groups, random_state=i).low for i in range(3)}
    assert len(seeds) == 3


def test_errors():
    y, scores = normal(11, n=100)
    for arguments, message in (
        ({"goal": "min review_rate"}, "has no constraint"),
        ({"goal": "max recall s.t. precision >= 0.9"}, "needs a side"),
        ({"confidence": 1.0}, "confidence must lie between 0 and 1"),
        ({"low": 2, "high": 1}, "low must not be above high"),
        ({"low": "a"}, "low must be a number"),
        ({"high": np.nan}, "high must be a number"),
        ({"planning": 2}, "planning must lie"),
        ({"planning_rows": 3}, "planning_rows are two arrays"),
        ({"sample_weight": np.arange(100)}, "different weights"),
        ({"groups": [1, 2]}, "groups must hold one entry per row"),
        ({"groups": np.arange(100), "sample_weight": [1.0]}, "give one weight per row"),
        ({"groups": np.arange(100), "scores": scores[:9]}, "one entry per sample"),
        ({"goal": "min cost(fp=a, fn=1, review=1) s.t. npv(clear) >= 0.9"}, "pass amounts="),
    ):
        with pytest.raises(SetpointError, match=message):
            certify_band(**{"y": y, "scores": scores, "goal": BOTH} | arguments)
    with pytest.raises(GoalError):
        certify_band(y, scores, "max f1")


def test_text_notebook_and_json():
    y, scores = normal(12, n=2000)
    band = certify_band(y, scores, BOTH)
    text = str(band)
    assert "certified lower thresholds: " in text
    assert "certified upper thresholds: " in text
    assert "review_rate <= 0." in text
    html = band._repr_html_()
    assert "Certified lower thresholds" in html
    assert "npv(clear)" in html
    values = band.to_dict()
    assert json.loads(json.dumps(values)) == values
    assert values["alarm_thresholds"] == [list(i) for i in band.alarm_thresholds]
    assert pickle.loads(pickle.dumps(band)) == band
    refused = certify_band(y[:20], scores[:20], BOTH)
    json.dumps(refused.to_dict())
    assert "unknown" in refused._repr_html_()
    cost = certify_band(y, scores, "min cost(fp=1, fn=5, review=1) s.t. npv(clear) >= 0.9")
    assert cost.bounds[-1].bound is None


def test_certified_thresholds_are_limited_by_the_reviews():
    found = certify_band(*normal(0, n=3000), "max recall(alarm) s.t. review_rate <= 40%")
    assert found.certified
    low, high = format_threshold(found.low), format_threshold(found.high)
    assert f"certified lower thresholds, within {low} to {high}: any" in str(found)
    assert not found.allows(-10, 10)

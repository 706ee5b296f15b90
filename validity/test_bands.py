"""The rate of false certificates of review bands, with known truth.

Scores are uniform on [0, 1], and the probability of a positive is a function of the score. A run is
false if *any* pair of thresholds that it certifies misses a constraint: a certified upper threshold
on alarms, a certified lower one on cleared rows, or a certified band on its rate of reviews. That
may happen in at most a fraction 1 - confidence of the runs. Levels are such that most thresholds
just miss them.
"""

import math
import zlib

import numpy as np
import pytest

from setpoint import BandGoal
from setpoint.certificates.bands import certify_best_band
from setpoint.certificates.sequence import Rows
from setpoint.goals.band_metrics import BandCounts
from setpoint.thresholds.band_search import BandRows

DRAWS, CONFIDENCE = 2000, 0.9
BINS = 1000
LOW = (np.arange(BINS) + 0.5) / BINS
FLAT = np.full(BINS, 0.5)
STEP = np.where(LOW < 0.7, 0.05, 0.9)
# name: chances of a positive by score, constraints, rows, atoms, given low, given high
SETTINGS = {
    "both sides just missed everywhere": (
        FLAT, "precision(alarm) >= 0.501, npv(clear) >= 0.501", 300, None, None, None,
    ),
    "both sides fall through their levels": (
        np.clip(1.4 * LOW - 0.2, 0, 1), "precision(alarm) >= 0.9, npv(clear) >= 0.92", 500, None,
        None, None,
    ),
    "bands that touch": (
        STEP, "precision(alarm) >= 0.84, npv(clear) >= 0.92, review_rate <= 0", 700, None, None,
        None,
    ),
    "bands that touch, no side holds at the step": (
        STEP, "precision(alarm) >= 0.901, npv(clear) >= 0.951, review_rate <= 0", 400, None, None,
        None,
    ),
    "few positives": (
        0.9 * LOW**60, "precision(alarm) >= 0.6, npv(clear) >= 0.992", 1200, None, None, None,
    ),
    "few positives, fnr": (
        0.9 * LOW**60, "precision(alarm) >= 0.6, fnr(clear) <= 0.2", 1200, None, None, None,
    ),
    "five atoms": (
        np.clip(LOW + 0.02, 0, 1), "precision(alarm) >= 0.822, npv(clear) >= 0.782", 250, 5, None,
        None,
    ),
    "npv that no threshold has": (
        np.maximum(0.02, LOW**4), "precision(alarm) >= 0.8, npv(clear) >= 0.981", 600, None, None,
        None,
    ),
    "limits of fpr, fnr and clear_rate": (
        LOW**2, "fpr(alarm) <= 0.1, fnr(clear) <= 0.1, clear_rate >= 0.47", 300, None, None, None,
    ),
    "reviews just above their limit": (
        np.clip(3 * LOW - 1, 0, 1), "precision(alarm) >= 0.9, npv(clear) >= 0.9, "
        "review_rate <= 0.145", 500, None, None, None,
    ),
    "a given upper threshold that just misses": (
        np.clip(1.4 * LOW - 0.2, 0, 1), "precision(alarm) >= 0.943, npv(clear) >= 0.9", 400, None,
        None, 0.7,
    ),
    "a given lower threshold, many reviews": (
        LOW**2, "npv(clear) >= 0.9, recall(alarm) >= 0.75, review_rate <= 0.3", 300, None, 0.3,
        None,
    ),
    "both given, reviews just missed": (
        LOW, "npv(clear) >= 0.7, review_rate <= 0.3999", 300, None, 0.3, 0.7,
    ),
}  # fmt: skip


def draw(rng, chances, n, atoms):
    """Return labels and scores."""
    at = rng.integers(0, BINS, n)
    scores = (at + rng.random(n)) / BINS
    if atoms is not None:
        scores = np.floor(scores * atoms) / atoms
    return rng.random(n) < chances[at], scores


def false_thresholds(goal, side, chances, atoms):
    """Return the thresholds of a fine grid that miss a constraint of one side."""
    edges = np.arange(BINS) / BINS
    scores = edges if atoms is None else np.floor((edges + 0.5 / BINS) * atoms) / atoms
    at = np.unique(np.append(scores, -1.0))
    alarm = scores >= at[:, None] if atoms is None else scores > at[:, None]  # of each bin
    tp, fp = alarm @ chances / BINS, alarm @ (1 - chances) / BINS
    P = chances.mean()
    counts = BandCounts(tp, fp, P - tp, 1 - P - fp, 0.0, P, 1 - P)
    some = tp + fp > 0 if side == "alarm" else tp + fp < 1
    missed = np.zeros(len(at), dtype=bool)
    for c in goal.of_side(side):
        missed |= c.shortfall(counts) > 1e-9
    return at[missed & some]


def contains_any(intervals, values):
    """Return whether an interval contains one of the values, which are in rising order."""
    return any(np.subtract(*np.searchsorted(values, [high, low])) > 0 for low, high in intervals)


def is_false(found, missed, goal, atoms):
    """Return whether something that is certified is not true."""
    sets = {"alarm": found.alarm_thresholds, "clear": found.clear_thresholds}
    for name, side in (("high", "alarm"), ("low", "clear")):
        if name not in found.chosen and found.certified:
            at = getattr(found, name)
            if goal.of_side(side) and missed[side].size and at in np.round(missed[side], 9):
                return True
        elif contains_any(sets[side], missed[side]):
            return True
    if not found.certified or goal.most_reviews is None:
        return False
    ends = np.clip([found.low, found.high], 0, 1)
    if atoms is not None:
        ends = np.floor(ends * atoms) / atoms
    return ends[1] - ends[0] > goal.most_reviews + 1e-9


@pytest.mark.parametrize("plans", ["as many", "few", "misleading"])
@pytest.mark.parametrize("name", sorted(SETTINGS))
def test_a_review_band(name, plans, record):
    """Plans on rows of the same population, on hardly any, and on another population."""
    chances, constraints, n, atoms, low, high = SETTINGS[name]
    goal = BandGoal.parse(f"min review_rate s.t. {constraints}")
    if plans != "as many" and (low is not None or "(alarm) >=" not in constraints):
        pytest.skip("needs no plan")
    rng = np.random.default_rng(zlib.crc32(f"{name} {plans}".encode()))
    missed = {side: false_thresholds(goal, side, chances, atoms) for side in ("alarm", "clear")}
    planned = chances[::-1] if plans == "misleading" else chances
    certified = false = 0
    for _ in range(DRAWS):
        planning = Rows.of(*draw(rng, planned, 12 if plans == "few" else 200, atoms))
        y, scores = draw(rng, chances, n, atoms)
        rows = BandRows.of(y, scores, None, None, goal)
        found = certify_best_band(planning, rows, goal, CONFIDENCE, low=low, high=high, on="rows")
        certified += found.certified
        false += is_false(found, missed, goal, atoms)
    record(f"{goal}, {plans}", name, DRAWS, certified / DRAWS, false / DRAWS, 1 - CONFIDENCE)
    assert false / DRAWS <= 1 - CONFIDENCE + 3 * math.sqrt(0.09 / DRAWS)
    if name == "both sides just missed everywhere" and plans == "as many":
        assert false / DRAWS > 0.05  # hardly any error is wasted


def test_the_truth_has_both_kinds_of_thresholds():
    """The levels are near the truth: few settings are trivially true."""
    for name, (chances, constraints, _, atoms, _, _) in SETTINGS.items():
        goal = BandGoal.parse(f"min review_rate s.t. {constraints}")
        found = [false_thresholds(goal, side, chances, atoms) for side in ("alarm", "clear")]
        assert any(map(len, found)) or goal.most_reviews is not None, name

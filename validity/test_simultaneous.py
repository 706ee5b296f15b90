"""The rate of false certificates where all thresholds are tested at once.

Scores are uniform on [0, 1], and the probability of a positive is a function of the score: flat
just below the level, with dips, a sawtooth, negatives on top, atoms at the cut, rare positives. A
run is false if *any* certified threshold misses a constraint. That may happen in at most a fraction
1 - confidence of the runs, for any population and any plan.
"""

import math
import zlib

import numpy as np
import pytest

from setpoint import Goal
from setpoint.certificates import certify_best
from setpoint.certificates.sequence import Rows

DRAWS, CONFIDENCE = 3000, 0.9
BINS = 1000
MIDDLE = (np.arange(BINS) + 0.5) / BINS


def flat(level):
    """Precision just misses the level everywhere."""
    return np.full(BINS, level - 1e-6)


def cumulative(precision):
    """Return chances of positives for which precision at the bins' lower edges is as given."""
    alarms = BINS - np.arange(BINS)
    tp = np.append(precision * alarms, 0.0)
    return np.clip(tp[:-1] - tp[1:], 0, 1)


LOW, WAVE = MIDDLE, np.sin(40 * MIDDLE)
# name: probability of a positive by score, level of precision, rows, round scores to
POPULATIONS = {
    "flat at the level, 50 rows": (flat(0.8), 0.8, 50, None),
    "flat at the level, 400 rows": (flat(0.8), 0.8, 400, None),
    "flat at a low level": (flat(0.1), 0.1, 600, None),
    "flat at a high level": (flat(0.98), 0.98, 400, None),
    "good above, flat below": (np.where(LOW > 0.9, 0.9, 0.78), 0.8, 400, None),
    "a dip on the way": (np.where((LOW > 0.6) & (LOW < 0.8), 0.5, 0.85), 0.75, 400, None),
    "two dips": (0.8 + 0.25 * np.sign(np.sin(14 * LOW)) * (LOW < 0.95) * 0.8, 0.8, 500, None),
    "a sawtooth around the level": (np.clip(0.7 + 0.28 * WAVE, 0, 1), 0.7, 500, None),
    "negatives on top": (np.where(LOW > 0.97, 0.05, 0.83), 0.8, 500, None),
    "only negatives on top": (np.where(LOW > 0.95, 0.0, 0.9), 0.85, 500, None),
    "five atoms": (np.clip(LOW + 0.18, 0, 1), 0.85, 200, 5),
    "two atoms, the cut between": (np.where(LOW > 0.5, 0.7, 0.9), 0.7001, 100, 2),
    "one atom": (flat(0.6), 0.6, 60, 1),
    "rare, precise on top": (np.where(LOW > 0.995, 0.79, 0.002), 0.8, 4000, None),
    "rare, falling": (0.9 * LOW**60, 0.75, 3000, None),
    "precision falls through the level": (np.clip(1.4 * LOW - 0.35, 0, 1), 0.85, 400, None),
}
EVERY = sorted(POPULATIONS)


def draw(rng, chances, n, atoms):
    """Return labels and scores."""
    at = rng.integers(0, BINS, n)
    scores = (at + rng.random(n)) / BINS
    if atoms is not None:
        scores = np.floor(scores * atoms) / atoms
    return rng.random(n) < chances[at], scores


def true_counts(chances, atoms):
    """Return thresholds, and true TP and FP as fractions of the rows at each."""
    edges = np.arange(BINS) / BINS
    scores = edges if atoms is None else np.floor((edges + 0.5 / BINS) * atoms) / atoms
    at = np.unique(np.append(scores, -1.0))
    alarm = scores >= at[:, None] if atoms is None else scores > at[:, None]  # of each bin
    return at, alarm @ chances / BINS, alarm @ (1 - chances) / BINS


def values(constraint, tp, fp, chances):
    """Return the true value of a metric; without alarms precision is 1."""
    P = chances.mean()
    with np.errstate(all="ignore"):
        return np.asarray(constraint.metric.value(tp, fp, P, 1 - P))


def false_thresholds(goal, chances, atoms):
    """Return the thresholds of the grid at which a constraint is missed."""
    at, tp, fp = true_counts(chances, atoms)
    missed = np.zeros(len(at), dtype=bool)
    for c in goal.constraints:
        missed |= c.metric.sign * (c.level - values(c, tp, fp, chances)) > 1e-9
    return at[missed & (tp + fp > 0)]


def measured(name, goal, planning, record, what):
    """Return how often something is certified, and how often anything false is."""
    chances, _, n, atoms = POPULATIONS[name]
    rng = np.random.default_rng(zlib.crc32(f"{name} {goal} {what}".encode()))
    missed = false_thresholds(goal, chances, atoms)
    certified = false = 0
    for _ in range(DRAWS):
        plans = planning(rng, chances, atoms)
        rows = Rows.of(*draw(rng, chances, n, atoms))
        found = certify_best(plans, rows, goal, CONFIDENCE, on="new rows")
        certified += found.certified
        for low, high in found.certified_thresholds:
            inside = np.searchsorted(missed, [low, high])
            if inside[0] < inside[1]:
                false += 1
                break
    record(f"{goal}, {what}", name, DRAWS, certified / DRAWS, false / DRAWS, 1 - CONFIDENCE)
    assert false / DRAWS <= 1 - CONFIDENCE + 3 * math.sqrt(0.09 / DRAWS)
    return certified / DRAWS, false / DRAWS


def as_many(rng, chances, atoms):
    """Plan on rows of the same population."""
    return Rows.of(*draw(rng, chances, 300, atoms))


def few(rng, chances, atoms):
    """Plan on hardly any rows."""
    return Rows.of(*draw(rng, chances, 12, atoms))


def misleading(rng, chances, atoms):
    """Plan on rows of another population, in which the lowest scores look best."""
    return Rows.of(*draw(rng, chances[::-1], 300, atoms))


@pytest.mark.parametrize("planning", [as_many, few, misleading])
@pytest.mark.parametrize("name", EVERY)
def test_a_floor_on_precision(name, planning, record):
    """Any certified threshold may be used, so all of them must hold."""
    goal = Goal.parse(f"max recall s.t. precision >= {POPULATIONS[name][1]}")
    _, false = measured(name, goal, planning, record, planning.__name__.replace("_", " "))
    if name.startswith("flat at the level") and planning is as_many:
        assert false > 0.05  # hardly any error is wasted


@pytest.mark.parametrize("name", EVERY)
def test_a_floor_on_precision_and_other_constraints(name, record):
    """A recall floor that is just missed below the median alarm, or a ceiling on fpr."""
    chances, level, _, atoms = POPULATIONS[name]
    _, tp, fp = true_counts(chances, atoms)
    half = len(tp) // 2
    recall = round(min(max(tp[half] / chances.mean(), 0.05), 0.9), 3)
    fpr = round(min(max(fp[half] / (1 - chances.mean()), 0.02), 0.9), 3)
    for text in (
        f"precision >= {level}, recall >= {recall}",
        f"precision >= {level}, fpr <= {fpr}",
    ):
        measured(name, Goal.parse(f"max f1 s.t. {text}"), as_many, record, "as many")


@pytest.mark.parametrize("name", EVERY)
def test_a_floor_on_npv(name, record):
    """The mirror image: negatives at low scores."""
    chances, level, n, atoms = POPULATIONS[name]
    mirrored = f"{name}, mirrored"
    POPULATIONS[mirrored] = 1 - chances[::-1], level, n, atoms
    measured(mirrored, Goal.parse(f"max f1 s.t. npv >= {level}"), as_many, record, "as many")

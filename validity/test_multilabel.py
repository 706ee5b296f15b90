"""The rate of false certificates of several labels, jointly and one by one.

The score of each label is uniform on [0, 1], and the probability of a positive is a function of the
score, as in test_simultaneous. Labels are independent, share latent factors, or are copies of each
other. A run is false if *any* certified threshold of *any* label misses a constraint. At a joint
confidence that may happen in at most a fraction 1 - confidence of the runs, however the labels
depend on each other.
"""

import math
import zlib

import numpy as np
import pytest
from scipy.special import ndtr

from setpoint import Goal, certify_labels

DRAWS, CONFIDENCE = 2000, 0.9
PRECISION = "max recall s.t. precision >= 0.8"
RECALL = "max precision s.t. recall >= 0.8"
BOTH = "max f1 s.t. precision >= 0.5, recall >= 0.5"

BINS = 1000
MIDDLE = (np.arange(BINS) + 0.5) / BINS


def flat(level):
    """Precision just misses the level everywhere."""
    return np.full(BINS, level - 1e-6)


def false_thresholds(goal, chances):
    """Return the thresholds, of a grid, at which a constraint is missed."""
    tp, fp = (np.cumsum(of[::-1])[::-1] / BINS for of in (chances, 1 - chances))
    P = chances.mean()
    missed = np.zeros(BINS, dtype=bool)
    for c in goal.constraints:
        missed |= c.metric.sign * (c.level - c.metric.value(tp, fp, P, 1 - P)) > 1e-9
    return np.flatnonzero(missed) / BINS


RARE = np.full(BINS, 0.03)  # 15 positives of 500 rows
RARE_ON_TOP = np.where(MIDDLE > 0.98, 0.79, 0.0146)
DIP = np.where((MIDDLE > 0.6) & (MIDDLE < 0.8), 0.5, 0.87)
RISING = np.clip(1.4 * MIDDLE - 0.35, 0, 1)
# name: probability of a positive by score for each label, goal of each, rows, dependence
SETTINGS = {
    "3 labels at the level": ([flat(0.8)] * 3, PRECISION, 300, 0.0),
    "10 labels at the level": ([flat(0.8)] * 10, PRECISION, 200, 0.0),
    "20 labels at the level": ([flat(0.8)] * 20, PRECISION, 120, 0.0),
    "10 copies of a label": ([flat(0.8)] * 10, PRECISION, 200, 1.0),
    "6 dependent labels with dips": ([DIP] * 6, PRECISION, 300, 0.8),
    "5 rare labels, 15 positives each": ([RARE] * 5, RECALL, 500, 0.0),
    "5 rare dependent labels": ([RARE_ON_TOP] * 5, PRECISION, 500, 0.7),
    "8 labels, recall": ([RISING] * 8, RECALL, 150, 0.5),
    "one hard label, 7 easy ones": ([np.full(BINS, 0.97)] * 7 + [flat(0.8)], PRECISION, 200, 0.0),
    "4 labels, a goal for each": ([RISING, flat(0.8), DIP, RARE],
                                  [RECALL, PRECISION, PRECISION, RECALL], 400, 0.3),
    "12 labels, two constraints": ([RISING] * 6 + [DIP] * 6, BOTH, 100, 0.5),
}  # fmt: skip


def draw(rng, chances, rows, dependence):
    """Return labels and scores; ``dependence`` is the correlation of the latent normal factors."""
    shape = (rows, len(chances))

    def uniform():
        shared, own = rng.standard_normal((rows, 1)), rng.standard_normal(shape)
        return ndtr(math.sqrt(dependence) * shared + math.sqrt(1 - dependence) * own)

    scores, chance = uniform(), uniform()
    bins = np.minimum((scores * BINS).astype(int), BINS - 1)
    return chance < np.stack(chances)[np.arange(shape[1]), bins], scores


def is_false(certificate, missed):
    """Return whether any certified threshold misses a constraint."""
    for low, high in certificate.certified_thresholds:
        first, last = np.searchsorted(missed, [low, high])
        if first < last:
            return True
    return False


ALONE = ("3 labels at the level", "5 rare labels, 15 positives each", "8 labels, recall")


@pytest.mark.parametrize(
    ("name", "joint"), [*((name, True) for name in SETTINGS), *((name, False) for name in ALONE)]
)
def test_false_certificates_of_several_labels(name, joint, record):
    """At most a fraction 1 - confidence of the runs is false, jointly or for the worst label."""
    chances, goal, rows, dependence = SETTINGS[name]
    goals = [goal] * len(chances) if isinstance(goal, str) else goal
    missed = [
        false_thresholds(Goal.parse(own), each) for own, each in zip(goals, chances, strict=True)
    ]
    rng = np.random.default_rng(zlib.crc32(f"{name} {joint}".encode()))
    any_false, of_each, certified = 0, np.zeros(len(chances)), 0
    for _ in range(DRAWS):
        found = certify_labels(
            *draw(rng, chances, rows, dependence), goals, confidence=CONFIDENCE, joint=joint
        )
        false = [is_false(c, m) for c, m in zip(found.certificates, missed, strict=True)]
        any_false += any(false)
        of_each += false
        certified += len(found.certified_labels)
    slack = 3 * math.sqrt(0.09 / DRAWS)
    issued = certified / DRAWS / len(chances)
    if joint:
        record("labels, jointly", name, DRAWS, issued, any_false / DRAWS, 1 - CONFIDENCE)
        assert any_false / DRAWS <= 1 - CONFIDENCE + slack
    else:
        worst = of_each.max() / DRAWS
        record("labels, one by one (worst)", name, DRAWS, issued, worst, 1 - CONFIDENCE)
        assert worst <= 1 - CONFIDENCE + slack

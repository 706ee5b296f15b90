"""The rate of false certificates of ``setpoint.labelling``, by simulation with known truth.

Scores are uniform on intervals, or atoms, each with its own chance of a positive, so that the true
precision and recall have a closed form at every threshold. A run is false if *any* threshold that
it certifies misses a floor, not only the chosen one. That may happen in at most a fraction
1 - confidence of the runs, for any population, any guess and any rule of when to stop.
"""

import zlib

import numpy as np
import pytest

from setpoint.goals.goal import Goal
from setpoint.labelling import LabellingSession
from setpoint.labelling.designed_sample import (
    JointTest,
    RecallTest,
    jointly_certified,
    lowest_alarm,
    passes_recall,
)
from setpoint.labelling.top_down import UNKNOWN, TopDownTest, certified_sizes

DRAWS = 3000
ALPHA = 0.1
ALLOWED = ALPHA + 3 * np.sqrt(ALPHA * (1 - ALPHA) / DRAWS)


class Population:
    """Intervals of scores from the highest, [m - 1, m), ..., [0, 1), or atoms at m - 1, ..., 0.

    Parameters
    ----------
    shares, chances : list of float
        The share of the rows, and the chance of a positive, in each.
    atoms : bool
        Whether the scores of an interval are all equal.
    """

    def __init__(self, shares, chances, atoms=False):
        self.shares = np.array(shares, dtype=float) / np.sum(shares)
        self.chances = np.array(chances, dtype=float)
        self.atoms = atoms

    def draw(self, rng, n):
        """Return scores in descending order, and labels."""
        of = np.searchsorted(np.cumsum(self.shares)[:-1], rng.random(n), side="right")
        scores = len(self.shares) - 1.0 - of
        if not self.atoms:
            scores += rng.random(n)
        y = rng.random(n) < self.chances[of]
        order = np.argsort(-scores, kind="stable")
        return scores[order], y[order].astype(np.int8)

    def masses(self, thresholds):
        """Return P(S > t) and P(S > t, Y = 1)."""
        t = np.atleast_1d(thresholds)[:, None]
        low = len(self.shares) - 1.0 - np.arange(len(self.shares))
        part = (low > t).astype(float) if self.atoms else np.clip(low + 1 - t, 0, 1)
        return part @ self.shares, part @ (self.shares * self.chances)

    def is_imprecise(self, thresholds, level):
        """Return where precision misses the level, up to rounding."""
        alarms, true = self.masses(thresholds)
        return true < level * alarms - 1e-12

    def is_missing(self, thresholds, level):
        """Return where recall misses the level, up to rounding."""
        _, true = self.masses(thresholds)
        return true < level * (self.shares @ self.chances) - 1e-12


def generator(name):
    """Return a random generator that depends on the name alone."""
    return np.random.default_rng(zlib.crc32(name.encode()))


# --- precision from the top -----------------------------------------------------------------------

FLAT = Population([1.0], [0.8 - 1e-9])
DIP = Population([3, 2, 6, 40], [0.95, 0.35, 0.79, 0.05])
SAWTOOTH = Population([2, 1] * 6 + [60], [0.97, 0.45] * 6 + [0.02])
ON_TOP = Population([0.5, 4, 4, 60], [0.0, 0.9, 0.7, 0.02])
EDGE = Population([4, 4, 60], [0.82, 0.7, 0.05])
RARE = Population([0.3, 0.3, 0.4, 99], [0.9, 0.65, 0.3, 0.001])
ATOMS = Population([2, 3, 3, 4, 60], [0.9, 0.72, 0.85, 0.5, 0.02], atoms=True)
ONE_ATOM = Population([1, 3], [0.79, 0.02], atoms=True)

# name: population, rows, start, planned
PRECISION = {
    "flat, no start": (FLAT, 200, None, 1),
    "flat, start in the middle": (FLAT, 200, 0.5, 100),
    "flat, start at the top": (FLAT, 200, 0.995, 10),
    "flat, planned for far too many": (FLAT, 200, 0.8, 2000),
    "dip, no start": (DIP, 400, None, 1),
    "dip, start above it": (DIP, 400, 3.1, 40),
    "dip, start in it": (DIP, 400, 2.0, 60),
    "sawtooth, no start": (SAWTOOTH, 500, None, 1),
    "sawtooth, start high": (SAWTOOTH, 500, 10.2, 60),
    "sawtooth, start low": (SAWTOOTH, 500, 5.1, 150),
    "negatives on top": (ON_TOP, 500, 2.4, 60),
    "just missed below the start": (EDGE, 600, 1.9, 80),
    "rare": (RARE, 8000, 2.5, 40),
    "rare, no start": (RARE, 8000, None, 1),
    "tied scores": (ATOMS, 500, 3.0, 60),
    "tied scores, no start": (ATOMS, 500, None, 1),
    "one tie, just missed": (ONE_ATOM, 150, 0.5, 40),
}


def is_false_precision(population, scores, sizes, level):
    """Return whether some threshold of a certified cut, between two scores, is false."""
    if len(sizes) == 0:
        return False
    low = np.append(scores, -1.0)[sizes]
    high = np.nextafter(scores[sizes - 1], -np.inf)
    return bool(population.is_imprecise(np.concatenate([low, high]), level).any())


@pytest.mark.parametrize("setting", PRECISION)
def test_precision_from_the_top(setting, record):
    """No threshold of any certified cut misses the floor on precision too often."""
    population, n, start, planned = PRECISION[setting]
    rng, level = generator(setting), 0.8
    test = TopDownTest(level, ALPHA, start, planned)
    false = certified = 0
    for _ in range(DRAWS):
        scores, y = population.draw(rng, n)
        sizes = certified_sizes(test, scores, y)
        # Whoever stops early, or answers in another order, certifies no other cuts.
        asked = rng.random(n) < rng.random()
        early = certified_sizes(test, scores, np.where(asked, y, UNKNOWN).astype(np.int8))
        assert np.isin(early, sizes).all()
        certified += len(sizes) > 0
        false += is_false_precision(population, scores, sizes, level)
    record("labelling: precision", setting, DRAWS, certified / DRAWS, false / DRAWS, ALPHA)
    assert false / DRAWS <= ALLOWED


# --- recall from a designed sample ----------------------------------------------------------------

SLOPE = Population([1, 1, 2, 4, 12], [0.8, 0.5, 0.25, 0.1, 0.02])
RARE_SLOPE = Population([0.4, 0.6, 1, 98], [0.8, 0.4, 0.1, 0.0005])
TIED_SLOPE = Population([1, 1, 2, 4, 12], [0.8, 0.5, 0.25, 0.1, 0.02], atoms=True)
UPSIDE_DOWN = Population([10, 3, 1], [0.02, 0.3, 0.7])

# name: population, rows, the edge (a threshold whose recall is the floor), probabilities, bets as
# fractions of the largest
RECALL = {
    "likely positives first": (SLOPE, 600, 2.5, [1, 0.9, 0.6, 0.4, 0.2], (0.6,)),
    "a guess upside down": (SLOPE, 600, 2.5, [0.1, 0.2, 0.5, 0.9, 1], (0.6,)),
    "everything is bet": (SLOPE, 600, 2.5, [1, 1, 0.8, 0.6, 0.4], (1.0,)),
    "several bets": (SLOPE, 600, 2.5, [1, 0.9, 0.6, 0.4, 0.2], (0.1, 0.3, 0.6, 0.9)),
    "rare": (RARE_SLOPE, 5000, 2.5, [1, 0.9, 0.7, 0.5], (0.6,)),
    "tied scores": (TIED_SLOPE, 600, 2.0, [1, 0.9, 0.6, 0.4, 0.2], (0.6,)),
    "scores upside down": (UPSIDE_DOWN, 600, 1.0, [0.3, 0.6, 1], (0.6,)),
}


@pytest.mark.parametrize("setting", RECALL)
def test_recall_from_a_designed_sample(setting, record):
    """The highest certified threshold misses the floor on recall seldom enough."""
    population, n, edge, probabilities, parts = RECALL[setting]
    rng = generator(setting)
    _, true = population.masses(edge)
    level = float(true[0] / (population.shares @ population.chances))
    least = min(probabilities)
    test = RecallTest(level, ALPHA, tuple(part * least / level for part in parts))
    false = certified = 0
    for _ in range(DRAWS):
        scores, y = population.draw(rng, n)
        order = rng.permutation(n)
        scores, y = scores[order], y[order]
        where = len(probabilities) - 1 - np.floor(scores).astype(int)
        pi = np.array(probabilities, dtype=float)[where]
        selected = rng.random(n) < pi
        scores, y, pi = scores[selected], y[selected], pi[selected]
        lowest = lowest_alarm(test, scores, pi, y)
        certified += lowest is not None
        if lowest is not None:
            false += bool(population.is_missing(np.nextafter(lowest, -np.inf), level)[0])
        unknown = np.where(rng.random(len(y)) < 0.1, UNKNOWN, y).astype(np.int8)
        early = lowest_alarm(test, scores, pi, unknown)
        assert early is None or (lowest is not None and early <= lowest)
    record("labelling: recall", setting, DRAWS, certified / DRAWS, false / DRAWS, ALPHA)
    assert false / DRAWS <= ALLOWED


# --- both -----------------------------------------------------------------------------------------

# name: population, rows, floors on precision and recall (of the truth at the last threshold that
# holds, or just above it), thresholds in their order, probability above the lowest, and below
BOTH = {
    "precision just missed": (SLOPE, 800, (1e-9, -0.2), (3.0,), 0.7, 0.3),
    "recall just missed": (SLOPE, 800, (-0.2, 1e-9), (3.0,), 1.0, 0.3),
    "both just missed": (SLOPE, 800, (1e-9, 1e-9), (3.0,), 0.8, 0.4),
    "precision missed at the second": (SLOPE, 800, (1e-9, -0.3), (3.6, 3.0, 2.4), 0.9, 0.3),
    "recall missed at the second": (SLOPE, 800, (-0.3, 1e-9), (2.4, 3.0, 3.5), 0.9, 0.3),
    "tied scores": (TIED_SLOPE, 800, (1e-9, -0.2), (2.5,), 0.7, 0.3),
    "rare, recall just missed": (RARE_SLOPE, 5000, (-0.2, 1e-9), (2.5,), 1.0, 0.6),
}


@pytest.mark.parametrize("setting", BOTH)
def test_precision_and_recall_together(setting, record):
    """No certified threshold misses either floor too often."""
    population, n, (more_precise, more), thresholds, high, low = BOTH[setting]
    rng = generator(setting)
    decisive = thresholds[min(1, len(thresholds) - 1)]
    alarms, true = population.masses(decisive)
    precision = float(true[0] / alarms[0]) + more_precise
    recall = float(true[0] / (population.shares @ population.chances)) + more
    test = JointTest(precision, RecallTest(recall, ALPHA, (0.7 * low / recall,)), thresholds)
    false = certified = 0
    for _ in range(DRAWS):
        scores, y = population.draw(rng, n)
        order = rng.permutation(n)
        scores, y = scores[order], y[order]
        pi = np.where(scores > min(thresholds), high, low)
        selected = rng.random(n) < pi
        scores, y, pi = scores[selected], y[selected], pi[selected]
        passed = np.array(jointly_certified(test, scores, pi, y))
        certified += len(passed) > 0
        if len(passed):
            false += bool(
                (
                    population.is_imprecise(passed, precision)
                    | population.is_missing(passed, recall)
                ).any()
            )
    record("labelling: both", setting, DRAWS, certified / DRAWS, false / DRAWS, ALPHA)
    assert false / DRAWS <= ALLOWED


# --- whole sessions -------------------------------------------------------------------------------

SESSIONS = 1000
# name: population, rows, goal, planning population
WHOLE = {
    "precision, planned well": (EDGE, 600, "max recall s.t. precision >= 0.8", EDGE),
    "precision, planned on another world": (DIP, 600, "max recall s.t. precision >= 0.8", ON_TOP),
    "recall, planned upside down": (SLOPE, 500, "max precision s.t. recall >= 0.6", UPSIDE_DOWN),
    "both, planned on a better model": (
        SLOPE, 500, "max recall s.t. precision >= 0.4, recall >= 0.62",
        Population([1, 1, 2, 4, 12], [0.95, 0.7, 0.1, 0.02, 0.001]),
    ),
}  # fmt: skip


@pytest.mark.parametrize("setting", WHOLE)
def test_sessions_that_stop_as_soon_as_something_is_certified(setting, record):
    """Answers come in batches, and the first certificate is taken."""
    population, n, goal, other = WHOLE[setting]
    rng = generator(setting)
    floors = {c.metric.name: c.level for c in Goal.parse(goal).constraints}
    false = certified = 0
    for draw in range(SESSIONS):
        scores, y = population.draw(rng, n)
        planning = other.draw(rng, 400)[::-1]
        session = LabellingSession.start(scores, goal, planning=planning, seed=draw)
        while len(rows := session.next(40)) and not session.certificate.certified:
            session.add(rows, y[rows])
        thresholds = session.certificate.certified_thresholds
        found = np.array([t for t in np.unique(scores) if t in thresholds])
        certified += len(found) > 0
        if len(found):
            wrong = np.zeros(len(found), dtype=bool)
            if "precision" in floors:
                wrong |= population.is_imprecise(found, floors["precision"])
            if "recall" in floors:
                wrong |= population.is_missing(found, floors["recall"])
            false += bool(wrong.any())
    record("labelling: sessions", setting, SESSIONS, certified / SESSIONS, false / SESSIONS, ALPHA)
    assert false / SESSIONS <= ALPHA + 3 * np.sqrt(ALPHA * (1 - ALPHA) / SESSIONS)


def test_the_wealth_falls_in_the_threshold():
    """The argument for all thresholds at once needs this."""
    rng = generator("nested")
    test = RecallTest(0.8, ALPHA, (0.1, 0.2))
    for _ in range(200):
        scores, y = SLOPE.draw(rng, 100)
        order = rng.permutation(100)
        scores, y, pi = scores[order], y[order], rng.uniform(0.2, 1, 100)
        passes = [passes_recall(test, t, scores, pi, y) for t in np.linspace(-1, 5, 13)]
        assert passes == sorted(passes, reverse=True)

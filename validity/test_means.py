"""The rate of false bounds on a mean cost, at fixed thresholds and at chosen ones."""

import math
import zlib

import numpy as np
import pytest
from scipy.stats import lognorm, norm

from setpoint.certificates import costs
from setpoint.certificates.costs import CostCells, CostEverywhere, CostRows
from setpoint.certificates.means import Sample

DRAWS, ERROR = 2000, 0.1
ALLOWED = ERROR + 3 * math.sqrt(ERROR * (1 - ERROR) / DRAWS)


def generator(name):
    """Return a generator that depends on the test alone."""
    return np.random.default_rng(zlib.crc32(name.encode()))


# --- one threshold --------------------------------------------------------------------------------


def rare(chance, amounts):
    """Return a sampler of amounts that are 0 but with a small chance."""
    return lambda rng, n: amounts(rng, n) * (rng.random(n) < chance)


def log_normal(sigma, cap):
    """Return a sampler of log-normal amounts, and the mean, both as fractions of the cap."""
    grid = (np.arange(200_000) + 0.5) / 200_000
    mean = float(np.minimum(lognorm.ppf(grid, sigma), cap).mean())
    return lambda rng, n: np.minimum(np.exp(sigma * rng.normal(size=n)), cap) / cap, mean / cap


def pareto(exponent, cap):
    """Return a sampler of Pareto amounts, and the mean, both as fractions of the cap."""
    mean = 1 + (1 - cap ** (1 - exponent)) / (exponent - 1)
    return lambda rng, n: np.minimum(rng.random(n) ** (-1 / exponent), cap) / cap, mean / cap


LOG_NORMAL, LOG_NORMAL_MEAN = log_normal(1.5, 50)
PARETO, PARETO_MEAN = pareto(1.2, 100)
PRICES = np.array([0.0, 0.05, 1.0])
# name: sampler, mean, rows
VALUES = {
    "0 or 1, mean 0.3": (lambda rng, n: (rng.random(n) < 0.3) * 1.0, 0.3, 200),
    "0 or 1, mean 0.01": (lambda rng, n: (rng.random(n) < 0.01) * 1.0, 0.01, 1500),
    "0 or 1, mean 0.002, mostly none": (lambda rng, n: (rng.random(n) < 0.002) * 1.0, 0.002, 1000),
    "log-normal, capped": (LOG_NORMAL, LOG_NORMAL_MEAN, 300),
    "log-normal, capped, 2 % of rows": (rare(0.02, LOG_NORMAL), 0.02 * LOG_NORMAL_MEAN, 3000),
    "Pareto, capped": (PARETO, PARETO_MEAN, 300),
    "Pareto, capped, 5 % of rows": (rare(0.05, PARETO), 0.05 * PARETO_MEAN, 2000),
    "two prices": (lambda rng, n: rng.choice(PRICES, n, p=[0.93, 0.06, 0.01]), 0.013, 1000),
    "uniform": (lambda rng, n: rng.random(n), 0.5, 100),
    "narrow": (lambda rng, n: 0.6 + 0.02 * (rng.random(n) - 0.5), 0.6, 100),
    "five rows": (lambda rng, n: (rng.random(n) < 0.5) * 1.0, 0.5, 5),
    "0 or 1, 15 rows": (lambda rng, n: (rng.random(n) < 0.2) * 1.0, 0.2, 15),
    "a profit near its best": (lambda rng, n: (rng.random(n) < 0.97) * 1.0, 0.97, 400),
}


def elsewhere(rng, n):
    """Return planning rows whose costs are always low."""
    return np.full(n, 1e-4)


MISLED = ["0 or 1, mean 0.3", "log-normal, capped", "Pareto, capped, 5 % of rows"]


@pytest.mark.parametrize(
    ("name", "plan"),
    [(name, plan) for name in sorted(VALUES) for plan in ("none", "as many")]
    + [(name, "misleading") for name in MISLED],
)
def test_the_mean_is_rarely_rejected(name, plan, record):
    """The hypothesis that the mean is as high as it is, for any plan."""
    draw, mean, n = VALUES[name]
    rng = generator(f"{name} {plan}")
    false = 0
    for _ in range(DRAWS):
        planned = {"none": None, "as many": draw(rng, n), "misleading": elsewhere(rng, n)}[plan]
        sample = Sample.of(draw(rng, n), 0.0, 1.0, planned=planned)
        false += sample.p_value(mean, ERROR) <= ERROR
    record(f"mean, plan: {plan}", name, DRAWS, None, false / DRAWS, ERROR)
    assert false / DRAWS <= ALLOWED


@pytest.mark.parametrize("name", ["0 or 1, mean 0.3", "log-normal, capped", "five rows"])
def test_upper_bounds_rarely_lie_below_the_mean(name, record):
    """By all three searches."""
    draw, mean, n = VALUES[name]
    rng = generator(f"bound {name}")
    bounds = np.array([Sample.of(draw(rng, n), 0.0, 1.0).upper_bound(ERROR) for _ in range(DRAWS)])
    false = (bounds < mean).mean()
    record("mean, upper bound", name, DRAWS, None, false, ERROR)
    assert false <= ALLOWED
    if name == "0 or 1, mean 0.3":
        assert false > 0.03  # not all of the error is wasted


def test_sorted_rows_are_shuffled(record):
    """In the order of rising values, bets would know what comes next.

    Only rows that were not sorted have a proof; this shows that a sorted table does little harm.
    """
    rng = generator("sorted")
    false = sum(
        Sample.of(np.sort(rng.random(100)), 0.0, 1.0).p_value(0.5, ERROR) <= ERROR
        for _ in range(DRAWS)
    )
    record("mean, sorted rows", "uniform", DRAWS, None, false / DRAWS, ERROR)
    assert false / DRAWS <= ALLOWED


# --- chosen thresholds ----------------------------------------------------------------------------

# name: fraction of positives, distance of scores, price of an alarm, sigma of amounts, cap, rows
POPULATIONS = {
    "log-normal amounts": (0.1, 2.0, 0.5, 1.0, 20.0, 600),
    "rare positives": (0.02, 2.5, 0.5, 1.5, 50.0, 1500),
    "heavy tails": (0.1, 1.5, 1.0, 2.0, 100.0, 800),
    "equal amounts": (0.2, 2.0, 0.2, 0.0, 1.0, 400),
    "useless scores": (0.3, 0.0, 1.0, 1.0, 10.0, 400),
    "ties": (0.2, 1.5, 0.5, 1.0, 10.0, 500),
}


class Population:
    """Scores from two normal distributions, with amounts of positives that may be missed."""

    def __init__(self, name):
        self.p, self.gap, self.price, self.sigma, self.cap, self.n = POPULATIONS[name]
        self.round = name == "ties"
        grid = (np.arange(200_000) + 0.5) / 200_000
        amounts = np.exp(self.sigma * norm.ppf(grid))
        self.amount = float(np.minimum(amounts, self.cap).mean())
        self.high = max(self.cap, self.price)

    def draw(self, rng, n):
        """Return n rows with their costs."""
        y = rng.random(n) < self.p
        scores = rng.normal(size=n) + self.gap * y
        if self.round:
            scores = np.round(scores)
        amount = np.minimum(np.exp(self.sigma * rng.normal(size=n)), self.cap)
        return CostRows.of(
            scores, np.where(y, 0.0, self.price), np.where(y, amount, 0.0), 0.0, self.high
        )

    def cost(self, t):
        """Return the true mean cost at thresholds."""
        t = np.asarray(t, dtype=float)
        if self.round:
            t = np.floor(t) + 0.5
        missed, alarms = norm.cdf(t - self.gap), norm.sf(t)
        return self.p * self.amount * missed + (1 - self.p) * self.price * alarms


@pytest.mark.parametrize("name", sorted(POPULATIONS))
def test_a_bound_for_all_thresholds(name, record, monkeypatch):
    """False if it fails anywhere: at the most expensive threshold of any cell."""
    monkeypatch.setattr(costs, "_MOST_CELLS", 3)  # on each side; more take longer to simulate
    population = Population(name)
    rng = generator(f"everywhere {name}")
    false = 0
    for _ in range(DRAWS):
        planning = population.draw(rng, population.n // 3)
        testing = population.draw(rng, population.n)
        every = CostEverywhere(testing, CostCells.of(planning, len(testing)), ERROR, planning)
        for i, share in enumerate(every.cells.shares):
            low, high = np.clip(every.cells.ends(i), -9, 9)
            # rounding, so that a lower end counts and an upper one does not
            t = np.append(np.linspace(low, high, 50)[:-1], high - 1e-9)
            most = float(population.cost(t).max())
            if every._sample(i).p_value(most, share * ERROR) <= share * ERROR:
                false += 1
                break
    record("cost, all thresholds", name, DRAWS, None, false / DRAWS, ERROR)
    assert false / DRAWS <= ALLOWED


# Where the ceiling is just missed, from the cheapest threshold on, and rows
CEILINGS = {
    "log-normal amounts": (1.2, 2000),
    "rare positives": (2.0, 8000),
    "heavy tails": (1.5, 2000),
    "equal amounts": (-0.6, 800),
    "useless scores": (-3.5, 800),
    "ties": (1.0, 2500),
}


@pytest.mark.parametrize(
    ("name", "plan"),
    [(name, "good") for name in sorted(CEILINGS)]
    + [(name, "misleading") for name in ("heavy tails", "useless scores")],
)
def test_a_ceiling_tested_in_a_planned_order(name, plan, record):
    """The ceiling is just missed at one threshold, and met between it and the cheapest one.

    A good plan leads from the threshold that is cheapest on planning rows to the one that misses; a
    misleading one begins there, so that every certificate is false.
    """
    population = Population(name)
    distance, n = CEILINGS[name]
    rng = generator(f"order {name} {plan}")
    grid = np.linspace(-4, 4, 801)
    cheapest = float(grid[np.argmin(population.cost(grid))])
    missed = cheapest + distance
    level = float(population.cost(missed)) * (1 - 1e-9)
    certified = false = 0
    for _ in range(DRAWS):
        planning, testing = population.draw(rng, n // 3), population.draw(rng, n)
        start = min(planning.best_threshold(), 9.0)
        thresholds = np.linspace(start, missed, 3)
        if plan == "misleading":
            thresholds = thresholds[::-1]
        samples = [testing.sample(testing.at(t), planning.at(t)) for t in thresholds]
        p = np.array([sample.p_value(level, ERROR) for sample in samples])
        passed = len(p) if (p <= ERROR).all() else int(np.argmin(p <= ERROR))
        certified += passed > 0
        false += bool((population.cost(thresholds[:passed]) > level).any())
    what = f"cost <= level, {plan} plan"
    record(what, name, DRAWS, certified / DRAWS, false / DRAWS, ERROR)
    assert false / DRAWS <= ALLOWED
    if plan == "good":
        assert certified / DRAWS >= 0.2

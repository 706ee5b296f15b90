"""The rate of false statements on the share of future days over a budget of alarms.

A day has a kind, drawn independently for each day; its volume is Poisson, and its scores are drawn
from a distribution of the kind, so that rows of one day depend on each other. The true share of
days over budget at a threshold follows from the Poisson distribution.
"""

import math
import zlib
from dataclasses import dataclass

import numpy as np
import pytest
from scipy.stats import poisson

from setpoint.certificates.periods import (
    certified_budget_threshold,
    day_thresholds,
    every_day_bound,
    share_bound,
)

DRAWS, ERROR = 2000, 0.1
ALLOWED = ERROR + 3 * math.sqrt(ERROR * (1 - ERROR) / DRAWS)


@dataclass
class Setting:
    """Kinds of days: chances, mean volumes, and exponents of the scores; budget, days, share."""

    chances: list
    volumes: list
    exponents: list
    budget: int
    days: int
    share: float
    atoms: int | None = None
    trend: float = 0.0

    def draw(self, rng, days=None):
        """Return the lowest threshold of each day at which it keeps to the budget."""
        days = self.days if days is None else days
        kinds = rng.choice(len(self.chances), days, p=self.chances)
        growth = 1 + self.trend * np.arange(days) / days
        sizes = rng.poisson(np.asarray(self.volumes)[kinds] * growth)
        codes = np.repeat(np.arange(days), sizes)
        # P(score > t) = 1 - t^exponent
        scores = rng.random(len(codes)) ** (1 / np.asarray(self.exponents)[kinds][codes])
        if self.atoms is not None:
            scores = np.floor(scores * self.atoms) / self.atoms
        return day_thresholds(scores, codes, self.budget, total=days)

    def share_over(self, t):
        """Return the true share of days over budget, after the trend."""
        t = np.clip(t, 0, 1)
        if self.atoms is not None:
            t = np.minimum((np.floor(t * self.atoms) + 1) / self.atoms, 1)
        over = 0.0
        for chance, volume, exponent in zip(
            self.chances, self.volumes, self.exponents, strict=True
        ):
            alarms = volume * (1 + self.trend) * (1 - t**exponent)
            over = over + chance * poisson.sf(self.budget, alarms)
        return over


SETTINGS = {
    "equal days": Setting([1.0], [200], [1], 10, 60, 0.95),
    "few days": Setting([1.0], [100], [1], 5, 12, 0.8),
    "just enough days": Setting([0.5, 0.5], [50, 300], [1, 1], 10, 45, 0.95),
    "very different volumes": Setting([0.6, 0.3, 0.1], [10, 100, 800], [1, 1, 1], 10, 90, 0.95),
    "weekdays and weekends": Setting([5 / 7, 2 / 7], [300, 60], [1, 2], 8, 84, 0.9),
    "waves on some days": Setting([0.93, 0.07], [150, 150], [1, 20], 10, 120, 0.95),
    "ties": Setting([0.7, 0.3], [80, 160], [1, 1], 15, 60, 0.9, atoms=12),
    "days with few or no rows": Setting([0.5, 0.5], [1, 12], [1, 2], 3, 60, 0.9),
    "no alarm at all": Setting([1.0], [40], [1], 0, 60, 0.9),
    "a year": Setting([0.8, 0.2], [30, 75], [1, 3], 8, 365, 0.98),
}


def generator(name):
    """Return a generator that depends on the test alone."""
    return np.random.default_rng(zlib.crc32(name.encode()))


def measured(name, what, record, is_false):
    """Return how often something is certified, and how often it is false."""
    setting, rng = SETTINGS[name], generator(f"{what} {name}")
    results = [is_false(setting, rng) for _ in range(DRAWS)]
    issued = np.mean([r is not None for r in results])
    false = np.mean([r is True or r is np.True_ for r in results])
    record(what, name, DRAWS, issued, false, ERROR)
    return issued, false


@pytest.mark.parametrize("name", sorted(SETTINGS))
def test_the_lowest_certified_threshold(name, record):
    """The share of days over budget exceeds the allowed one."""

    def is_false(setting, rng):
        t = certified_budget_threshold(setting.draw(rng), setting.share, 1 - ERROR)
        return None if t is None else bool(setting.share_over(t) > 1 - setting.share)

    issued, false = measured(name, "share of days, lowest threshold", record, is_false)
    assert issued == 1
    assert false <= ALLOWED


@pytest.mark.parametrize("name", sorted(SETTINGS))
def test_a_threshold_given_beforehand(name, record):
    """The share exceeds Clopper and Pearson's bound."""
    setting = SETTINGS[name]
    fixed = float(np.median(setting.draw(generator(name), 2000)))

    def is_false(setting, rng):
        bound = share_bound(setting.draw(rng), fixed, 1 - ERROR, chosen=False)
        return bool(setting.share_over(fixed) > bound)

    assert measured(name, "share of days, fixed threshold", record, is_false)[1] <= ALLOWED


@pytest.mark.parametrize("name", sorted(SETTINGS))
def test_no_past_day_over_budget(name, record):
    """The share exceeds the bound at the lowest threshold of all past days."""

    def is_false(setting, rng):
        t = setting.draw(rng).max()
        return bool(setting.share_over(t) > every_day_bound(setting.days, 1 - ERROR))

    assert measured(name, "share of days, every past day", record, is_false)[1] <= ALLOWED


@pytest.mark.parametrize("name", sorted(SETTINGS))
def test_any_threshold(name, record):
    """False if the bound fails at any threshold: just at, and just below, each day's."""
    D = SETTINGS[name].days
    bounds = np.array(
        [share_bound(np.arange(D), D - 1 - over, 1 - ERROR, chosen=True) for over in range(D + 1)]
    )

    def is_false(setting, rng):
        days = setting.draw(rng)
        at = days[np.isfinite(days)]
        at = np.concatenate([at, at - 1e-9])
        over = D - np.searchsorted(np.sort(days), at, side="right")
        return bool((setting.share_over(at) > bounds[over]).any())

    assert measured(name, "share of days, any threshold", record, is_false)[1] <= ALLOWED


def test_a_trend_breaks_it(record):
    """Volumes that grow by half while they are observed: future days are not like past ones."""
    SETTINGS["trend: volumes grow by half"] = Setting([1.0], [200], [1], 10, 90, 0.95, trend=0.5)

    def is_false(setting, rng):
        t = certified_budget_threshold(setting.draw(rng), setting.share, 1 - ERROR)
        return bool(setting.share_over(t) > 1 - setting.share)

    name = "trend: volumes grow by half"
    _, false = measured(name, "share of days, lowest threshold (broken)", record, is_false)
    assert false > 3 * ERROR

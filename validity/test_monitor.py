"""How often repeated checks report a guarantee as broken, by simulation.

In the hardest case the later rows just meet the guarantee. There is a check after every batch, and
an alarm in any check of a run is false. At most a fraction ``level`` of the runs may have one.
"""

import math

import numpy as np
import pytest

from setpoint import certify

RUNS, CHECKS, LEVEL = 2000, 100, 0.05

# Of a thousand rows: true positives, false positives, false negatives, true negatives. Precision is
# 0.8, recall 0.8 and fpr 2/15.
JUST_MET = np.array([0.32, 0.08, 0.08, 0.52])
GUARANTEES = {
    "precision >= 0.8": "max recall s.t. precision >= 0.8",
    "recall >= 0.8": "max precision s.t. recall >= 0.8",
    "fpr <= 2/15": f"max recall s.t. fpr <= {2 / 15!r}",
    "precision >= 0.8 and fpr <= 2/15": f"max recall s.t. precision >= 0.8, fpr <= {2 / 15!r}",
}
LABELS, SCORES = np.array([True, False, True, False]), np.array([1.0, 1.0, 0.0, 0.0])


def rows(counts):
    """Return labels and scores with these counts at the threshold 0.5."""
    return np.repeat(LABELS, counts), np.repeat(SCORES, counts)


def alarms(goal, cells, runs, seed):
    """Return the number of the first check of each run that returned "broken", inf if none."""
    certificate = certify(*rows([950, 20, 50, 980]), goal, 0.5)
    assert certificate.certified
    rng = np.random.default_rng(seed)
    found = np.full(runs, np.inf)
    for run in range(runs):
        verdict = None
        for size in rng.integers(1, 21, size=CHECKS):
            batch = rows(rng.multinomial(size, cells))
            verdict = certificate.check(*batch, after=verdict, level=LEVEL)
            if verdict.broken:
                found[run] = verdict.checks
                break
    return found


@pytest.mark.parametrize("what", sorted(GUARANTEES))
def test_a_guarantee_that_just_holds_is_seldom_reported_as_broken(what, record):
    """Two thousand runs of a hundred checks each, with batches of one to twenty rows."""
    false = np.mean(np.isfinite(alarms(GUARANTEES[what], JUST_MET, RUNS, seed=len(what))))
    record(f"checks of {what}", f"just met, {CHECKS} checks", RUNS, None, false, LEVEL)
    assert 0 < false <= LEVEL + 3 * math.sqrt(LEVEL * (1 - LEVEL) / RUNS)


@pytest.mark.parametrize("what", sorted(GUARANTEES))
def test_a_clear_drop_is_found(what):
    """Precision falls to 0.65, recall to 0.65, fpr rises to 0.29."""
    dropped = np.array([0.26, 0.14, 0.14, 0.46])
    dropped = dropped if "precision" in what or "recall" in what else np.array([0.3, 0.2, 0.1, 0.4])
    checks = alarms(GUARANTEES[what], dropped, RUNS // 10, seed=1)
    assert np.isfinite(checks).mean() > 0.95
    assert np.median(checks) < CHECKS / 2


# --- a change after a long good time --------------------------------------------------------------


def first_alarm(seed, before, after=0.7, change=10**9, checks=1000, batch=20):
    """Return the number of alarms at which "precision >= 0.8" is broken, inf if it is not."""
    certificate = certify(*rows([950, 20, 50, 980]), "max recall s.t. precision >= 0.8", 0.5)
    rng = np.random.default_rng(seed)
    verdict = None
    for check in range(checks):
        tp = rng.binomial(batch, before if check * batch < change else after)
        verdict = certificate.check(*rows([tp, batch - tp, 0, 0]), after=verdict, level=LEVEL)
        if verdict.broken:
            return (check + 1) * batch
    return np.inf


@pytest.mark.parametrize(("change", "delay"), [(0, 250), (1000, 600), (3000, 600)])
def test_a_fall_of_precision_is_found_soon_however_late_it_comes(change, delay):
    """From 0.9 to 0.7. Without restarts it takes 4,350 alarms after the first 3,000."""
    found = [first_alarm(seed, 0.9, change=change, checks=400) - change for seed in range(200)]
    assert (np.array(found) > 0).mean() > 0.95
    assert np.median(found) <= delay


def test_a_hundred_thousand_checks_of_what_just_holds_seldom_alarm(record):
    """A hundred runs of a thousand checks each."""
    false = np.mean([np.isfinite(first_alarm(seed, 0.8)) for seed in range(100)])
    record("checks of precision >= 0.8", "just met, 1,000 checks", 100, None, false, LEVEL)
    assert false <= LEVEL


# --- segments, days and mean costs ----------------------------------------------------------------


LEAST = 0.04
HEAVY_MEAN = 3 * LEAST - 2 * LEAST**1.5


def heavy(rng, n):
    """Amounts with a heavy tail, P(amount > x) = (LEAST / x)^1.5, capped at 1."""
    return np.minimum(LEAST * (1 + rng.pareto(1.5, n)), 1.0)


def just_met(kind, rng, check):
    """Return rows that just meet the guarantee of one kind, as arguments of ``check``."""
    n = int(rng.integers(5, 41))
    y, alarm, amount = rng.random(n) < 0.5, rng.random(n) < 0.5, np.zeros(n)
    region, day = rng.choice(["n", "s", "w"], n, p=[0.8, 0.15, 0.05]), np.zeros(n)
    if kind == "segments":
        y = rng.random(n) < 0.8
    if kind == "days":  # three days, of which four alarms are one too many
        day = np.repeat([0.0, 1.0, 2.0], 6)
        over = np.repeat(rng.random(3) < 0.1, 6)
        alarm = np.tile(np.arange(6), 3) < np.where(over, 4, 3)
        y, region, amount = alarm, np.full(18, "n"), np.zeros(18)
    if kind in ("costs", "rare costs"):
        y, alarm, amount = np.ones(n, bool), np.zeros(n, bool), heavy(rng, n)
        if kind == "rare costs":
            amount = (rng.random(n) < 0.1).astype(float)
    times = day + 1000.0 * check
    return {
        "y": y, "scores": alarm.astype(float), "amounts": {"amount": amount},
        "segments": {"region": region}, "times": times,
    }  # fmt: skip


KINDS = {
    "segments": "max recall s.t. precision >= 0.8 for each region",
    "days": "max recall s.t. alarms <= 3 per day on 90% of days",
    "costs": f"max recall s.t. cost(fn=amount) <= {HEAVY_MEAN!r}",
    "rare costs": "max recall s.t. cost(fn=amount) <= 0.1",
}


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_segments_days_and_costs_that_just_hold_are_seldom_reported_as_broken(kind, record):
    """A thousand runs of sixty checks each."""
    rng = np.random.default_rng(len(kind))
    n, runs, checks = 3000, 1000, 60
    goal = KINDS[kind]
    certificate = certify(
        np.ones(n, bool) & (np.arange(n) % 100 > 0), np.arange(n) % 4 > 0, goal, 0.5,
        amounts={"amount": np.full(n, 0.01)}, times=np.arange(n) // 4.0,
        segments={"region": np.array(["n", "s", "w"])[np.arange(n) % 3]},
        caps={"amount": 1.0} if "cost" in goal else None,
    )  # fmt: skip
    assert certificate.certified, certificate
    broken = 0
    for _ in range(runs):
        verdict = None
        for check in range(checks):
            later = just_met(kind, rng, check)
            verdict = certificate.check(**later, after=verdict, level=LEVEL)
            if verdict.broken:
                broken += 1
                break
    record(f"checks of {kind}", f"just met, {checks} checks", runs, None, broken / runs, LEVEL)
    assert broken / runs <= LEVEL + 3 * math.sqrt(LEVEL * (1 - LEVEL) / runs)

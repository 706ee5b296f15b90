"""Objective that each method of planning a certified threshold keeps.

Rows are drawn from two normal distributions, so that the true precision and recall of a threshold
are known. A fraction of the rows is used for planning, or as many other rows; the rest test one
threshold ("split"), many in a planned order ("sequence") or all at once ("simultaneous"). The table
shows the true objective, which is 0 if nothing is certified, how often something is certified, and
how often that is false. "known" is the objective of the best threshold.
"""

from __future__ import annotations

import argparse
from concurrent.futures import ProcessPoolExecutor

import numpy as np
from scipy.optimize import brentq
from scipy.stats import norm

from setpoint import FPOR, FROP, Goal, certify
from setpoint._internal.provenance import machine

SETTINGS = {  # fraction of positives, distance between the classes, rows
    "5 % positive, 2,000 rows": (0.05, 2.5, 2000),
    "5 % positive, 20,000 rows": (0.05, 2.5, 20_000),
    "30 % positive, 1,000 rows": (0.3, 2.0, 1000),
    "0.5 % positive, 50,000 rows": (0.005, 3.5, 50_000),
}
GOALS = {"FPOR 0.8": FPOR(0.8), "FROP 0.9": FROP(0.9)}
OTHER = "other rows"
WAYS = [("split", 0.3), ("sequence", 0.3), ("simultaneous", 0.05), ("simultaneous", 0.1),
        ("simultaneous", 0.2), ("simultaneous", OTHER)]  # fmt: skip


def truth(threshold: float, prevalence: float, gap: float) -> tuple[float, float]:
    """Return the true precision and recall."""
    recall, fpr = norm.sf(threshold - gap), norm.sf(threshold)
    return prevalence * recall / (prevalence * recall + (1 - prevalence) * fpr), float(recall)


def known(goal: Goal, prevalence: float, gap: float) -> float:
    """Return the objective of the best threshold."""
    (constraint,) = goal.constraints
    floored, objective = (0, 1) if constraint.metric.name == "precision" else (1, 0)
    at = brentq(lambda t: truth(t, prevalence, gap)[floored] - constraint.level, -5, 8)
    return truth(at, prevalence, gap)[objective]


def trial(goal: Goal, setting: tuple[float, float, int], seed: int) -> list[tuple[float, ...]]:
    prevalence, gap, n = setting
    rng = np.random.default_rng(seed)
    drawn, others = [], []
    for rows in (drawn, others):
        y = rng.random(n) < prevalence
        rows[:] = y, rng.normal(size=n) + gap * y
    found = []
    for method, planning in WAYS:
        plan = {"planning_rows": others} if planning == OTHER else {"planning": planning}
        given = certify(*drawn, goal, method=method, random_state=seed, **plan)
        precision, recall = truth(given.threshold, prevalence, gap)
        by_precision = goal.constraints[0].metric.name == "precision"
        floored, objective = (precision, recall) if by_precision else (recall, precision)
        false = given.certified and floored < goal.constraints[0].level
        found.append((given.certified, false, objective * given.certified))
    return found


def many(label: str, name: str, draws: int) -> np.ndarray:
    return np.mean([trial(GOALS[label], SETTINGS[name], seed) for seed in range(draws)], axis=0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=500)
    parser.add_argument("--jobs", type=int, default=2)
    given = parser.parse_args()
    print(machine(), f"; {given.draws} draws, confidence 0.9\n")
    print("| setting | goal | known | " + " | ".join(f"{m} {p}" for m, p in WAYS) + " |")
    print("|---" * (3 + len(WAYS)) + "|")
    cells = [(label, name) for name in SETTINGS for label in GOALS]
    with ProcessPoolExecutor(given.jobs) as pool:
        found = pool.map(many, *zip(*cells, strict=True), [given.draws] * len(cells))
        for (label, name), means in zip(cells, found, strict=True):
            best = known(GOALS[label], *SETTINGS[name][:2])
            shown = " | ".join(f"{o:.3f} ({c:.0%}, {f:.1%})" for c, f, o in means)
            print(f"| {name} | {label} | {best:.3f} | {shown} |", flush=True)
    print("\nTrue objective (fraction of draws certified, fraction falsely certified).")


if __name__ == "__main__":
    main()

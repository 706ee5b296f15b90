"""Reports of goals with segments, periods and amounts, for the tests in a browser."""

import numpy as np

from setpoint import choose_threshold
from setpoint.report import Baseline, Costs, Report, Rows
from setpoint.thresholds.expected_value import compare_decisions

HOSTILE_SEGMENTS = (
    "<b>north</b>", "\"quo'ted\"", "🐟 Süd & West", "x" * 80, "</script><script>alert(1)</script>",
    "[a=b](c)", "Ω, ∑\tand a tab", "{{ 7 * 7 }}",
)  # fmt: skip


def scored(n, prevalence=0.1, gap=2.2, seed=0):
    """Return labels and scores."""
    rng = np.random.default_rng(seed)
    y = rng.random(n) < prevalence
    return y, np.round(1 / (1 + np.exp(-(rng.normal(size=n) + gap * y - gap))), 3)


def report_of_goal(goal, y, scores, named, **more):
    """Return a report at the best threshold for a goal, with a baseline."""
    point = choose_threshold(y, scores, goal, **named)
    rng = np.random.default_rng(9)
    other = Baseline("the old rules", np.round(scores + 0.2 * rng.normal(size=len(y)), 3), 0.5)
    rows = Rows(y, scores, "the test rows", named=named)
    return Report(
        goal, rows, point.threshold, baseline=other, positive="fraud", positives="frauds", **more
    )


def regions():
    """Return a report by segments with hostile names."""
    y, scores = scored(4000)
    rng = np.random.default_rng(1)
    region = np.array(HOSTILE_SEGMENTS, dtype=object)[rng.integers(0, 8, 4000)]
    region[:60] = "(none)"
    goal = 'max recall s.t. precision >= 0.6 for each "<i>re gion</i>"'
    return report_of_goal(goal, y, scores, {"segments": {"<i>re gion</i>": region}})


def shops():
    """Return a report by 200 segments."""
    y, scores = scored(20_000, seed=2)
    shop = np.array([f"shop {i}" for i in np.random.default_rng(2).integers(0, 200, 20_000)])
    goal = "max recall s.t. precision >= 0.5 for each shop, recall >= 0.2 for each shop"
    return report_of_goal(goal, y, scores, {"segments": {"shop": shop}})


def days():
    """Return a report on 400 days, some of which have no alarms."""
    y, scores = scored(12_000, 0.06, seed=3)
    rng = np.random.default_rng(3)
    day = np.datetime64("2023-11-20") + rng.integers(0, 400, 12_000)
    goal = "max recall s.t. alarms <= 4 per day on 95% of days"
    return report_of_goal(goal, y, scores, {"times": day})


def amounts():
    """Return a report on money, with amounts of 0, and with costs that the goal does not use."""
    y, scores = scored(3000, seed=4)
    rng = np.random.default_rng(44)
    amount = np.where(rng.random(3000) < 0.2, 0.0, np.round(rng.lognormal(3, 1.2, 3000), 2))
    goal = 'max profit(tp="net amount, €", fp=-12, fn=-9) s.t. recall["net amount, €"] >= 0.5'
    named = {"amounts": {"net amount, €": amount}}
    table = compare_decisions(y, scores, goal, **named)
    return report_of_goal(goal, y, scores, named, decisions=table, costs=Costs(3, 70))


GOAL_REPORTS = {f.__name__: f for f in (regions, shops, days, amounts)}

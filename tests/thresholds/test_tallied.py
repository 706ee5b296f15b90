"""Goals with amounts, segments and periods, compared with all cuts enumerated by definition."""

import os

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from setpoint import Goal, SetpointError, choose_threshold, evaluate_threshold
from setpoint.goals.columns import GoalColumns
from setpoint.thresholds.tallied import TalliedRows
from tallied_rows import busiest, cost, every_cut, in_segments, precision, recall, rows_of

CASES = int(os.environ.get("SETPOINT_CASES", "100"))  # of each kind; 1,000 before a release


# goal, then (objective to maximise, shortfalls) of a cut
KINDS = {
    "min cost(fp=5, fn=100)": lambda y, a, w, m, r, d: (-cost(y, a, w, fp=5, fn=100), []),
    "min cost(fp=5, fn=amount)": lambda y, a, w, m, r, d: (-cost(y, a, w, fp=5.0, fn=m), []),
    "min cost(tp=3, fp=3, fn=amount) s.t. recall >= 0.6": lambda y, a, w, m, r, d: (
        -cost(y, a, w, tp=3.0, fp=3.0, fn=m),
        [0.6 - recall(y, a, w)],
    ),
    "max profit(tp=2*amount, fp=-5, tn=0.5)": lambda y, a, w, m, r, d: (
        cost(y, a, w, tp=2 * m, fp=-5.0, tn=0.5),
        [],
    ),
    "max recall s.t. cost(fp=5, fn=amount) <= 4000 per 1000 rows": lambda y, a, w, m, r, d: (
        recall(y, a, w),
        [(cost(y, a, w, fp=5.0, fn=m) - 4) / 4],
    ),
    "max recall[amount] s.t. precision >= 0.7": lambda y, a, w, m, r, d: (
        recall(y, a, w * m),
        [0.7 - precision(y, a, w)],
    ),
    "max recall s.t. alarms <= 2 per day": lambda y, a, w, m, r, d: (
        recall(y, a, w),
        [(busiest(d, a, w) - 2) / 2],
    ),
    "max recall s.t. alarms <= 2 per day on 60% of days": lambda y, a, w, m, r, d: (
        recall(y, a, w),
        [(busiest(d, a, w, int(0.4 * len(np.unique(d)) + 1e-9)) - 2) / 2],
    ),
    "max recall s.t. alarms <= 1.5 per day on average": lambda y, a, w, m, r, d: (
        recall(y, a, w),
        [(w[a].sum() / len(np.unique(d)) - 1.5) / 1.5],
    ),
    "max recall s.t. alarms <= 2 per day, alarms <= 3 per week": lambda y, a, w, m, r, d: (
        recall(y, a, w),
        [(busiest(d, a, w) - 2) / 2, (busiest(d // 7, a, w) - 3) / 3],
    ),
    "max recall s.t. alarms <= 3 per day, alarms <= 2 per day on 60% of days": (
        lambda y, a, w, m, r, d: (
            recall(y, a, w),
            [
                (busiest(d, a, w) - 3) / 3,
                (busiest(d, a, w, int(0.4 * len(np.unique(d)) + 1e-9)) - 2) / 2,
            ],
        )
    ),
    "max precision@2 per day s.t. alarms <= 3 per week": lambda y, a, w, m, r, d: (
        w[a & y].sum() / (2 * len(np.unique(d))),
        [(busiest(d, a, w) - 2) / 2, (busiest(d // 7, a, w) - 3) / 3],
    ),
    "max precision@2 per day": lambda y, a, w, m, r, d: (
        w[a & y].sum() / (2 * len(np.unique(d))),
        [(busiest(d, a, w) - 2) / 2],
    ),
    "max recall@40%": lambda y, a, w, m, r, d: (
        recall(y, a, w),
        [w[a].sum() / w.sum() - 0.4],
    ),
    "max precision@3": lambda y, a, w, m, r, d: (w[a & y].sum() / 3, [(w[a].sum() - 3) / 3]),
    "max recall s.t. precision >= 0.6 for each region": lambda y, a, w, m, r, d: (
        recall(y, a, w),
        in_segments(precision, y, a, w, r, 0.6),
    ),
    "max precision s.t. recall >= 0.5 for each region": lambda y, a, w, m, r, d: (
        precision(y, a, w),
        in_segments(recall, y, a, w, r, 0.5),
    ),
    "max f1 s.t. precision[region=north] >= 0.6": lambda y, a, w, m, r, d: (
        2 * w[a & y].sum() / (w[y].sum() + w[a].sum()),
        [0.6 - precision(y[r == "north"], a[r == "north"], w[r == "north"])],
    ),
}  # fmt: skip


@pytest.mark.parametrize("goal", KINDS)
def test_the_best_of_all_cuts_by_definition(goal):
    parsed = Goal.parse(goal)
    for seed in range(CASES):
        y, scores, weight, amount, region, day = rows_of(seed)
        day = 4 * day  # of two weeks
        if "recall[amount]" in goal and not (weight * amount)[y].sum():
            continue
        if "region=north" in goal and "north" not in region:
            continue
        best = max(
            (-sum(s for s in shortfalls if s > 1e-9), gain)
            for alarm in every_cut(scores)
            for gain, shortfalls in [KINDS[goal](y, alarm, weight, amount, region, day)]
        )
        point = choose_threshold(
            y, scores, parsed, sample_weight=weight, amounts={"amount": amount},
            segments={"region": region}, times=day,
        )  # fmt: skip
        found = -point.violation, point.goal.objective.sign * point.objective
        assert found == pytest.approx(best, abs=1e-9), (goal, seed)
        if seed % 10:
            continue
        again = evaluate_threshold(
            y, scores, point.threshold, parsed, sample_weight=weight, amounts={"amount": amount},
            segments={"region": region}, times=day,
        )  # fmt: skip
        assert again.goal_counts[0] == pytest.approx(point.goal_counts[0])
        assert again.goal_counts[1] == pytest.approx(point.goal_counts[1])


@given(st.integers(0, 10**6), st.sampled_from(["max recall s.t. precision >= 0.6", "max f1"]))
@settings(max_examples=50)
def test_one_segment_is_the_same_as_none(seed, goal):
    y, scores, weight, *_ = rows_of(seed)
    plain = choose_threshold(y, scores, goal, sample_weight=weight)
    named = goal.replace("0.6", "0.6 for each region") if "s.t." in goal else goal
    one = choose_threshold(
        y, scores, named, sample_weight=weight, segments={"region": np.full(len(y), "all")}
    )
    assert (one.threshold, one.tp, one.fp) == (plain.threshold, plain.tp, plain.fp)


def test_amounts_of_one_are_plain_counts():
    y, scores, weight, *_ = rows_of(3)
    by_amount = choose_threshold(
        y, scores, "max recall[one] s.t. precision >= 0.5", sample_weight=weight,
        amounts={"one": np.ones(len(y))},
    )  # fmt: skip
    plain = choose_threshold(y, scores, "max recall s.t. precision >= 0.5", sample_weight=weight)
    assert by_amount.threshold == plain.threshold
    assert by_amount.value("recall[one]") == plain.recall


def test_blocks_give_the_same_counts(monkeypatch):
    y, scores, weight, amount, *_ = rows_of(5)
    goal = Goal.parse("min cost(fp=5, fn=amount)")
    columns = GoalColumns.of(goal, len(y), {"amount": amount})
    rows = TalliedRows.of(y, weight, columns, goal)
    whole = list(rows.cuts(scores))
    monkeypatch.setattr("setpoint.thresholds.tallied._BLOCK", 4)
    pieces = list(rows.cuts(scores))
    assert len(pieces) > 1
    for i in range(3):
        np.testing.assert_allclose(
            np.concatenate([w[i] for w in whole], axis=-1),
            np.concatenate([p[i] for p in pieces], axis=-1),
        )


def test_rows_of_weight_zero_do_not_count():
    y, scores, _, amount, *_ = rows_of(8)
    weight = np.ones(len(y))
    weight[2:4] = 0
    kept = weight > 0
    goal = "min cost(fp=5, fn=amount)"
    one = choose_threshold(y, scores, goal, sample_weight=weight, amounts={"amount": amount})
    other = choose_threshold(y[kept], scores[kept], goal, amounts={"amount": amount[kept]})
    assert one.objective == pytest.approx(other.objective)


@pytest.mark.parametrize(
    ("goal", "named", "message"),
    [
        ("min cost(fp=5, fn=amount)", {}, "names 'amount'; pass amounts="),
        ("min cost(fp=5, fn=amount)", {"amounts": {"amont": [1, 2]}}, "Did you mean 'amont'"),
        ("min cost(fp=5, fn=amount)", {"amounts": [1, 2]}, "must map names to arrays"),
        ("min cost(fp=5, fn=amount)", {"amounts": {"amount": [1, 2, 3]}}, "one entry per row"),
        ("min cost(fp=5, fn=amount)", {"amounts": {"amount": [1, np.nan]}}, "missing in 1 of 2"),
        ("min cost(fp=5, fn=amount)", {"amounts": {"amount": [1, np.inf]}}, "infinite"),
        ("min cost(fp=5, fn=amount)", {"amounts": {"amount": [-1, 2]}}, "negative.*position 0"),
        ("min cost(fp=5, fn=amount)", {"amounts": {"amount": ["x", "y"]}}, "must be numbers"),
        ("max recall s.t. precision >= 0.5 for each region", {}, "pass segments="),
        ("max recall s.t. precision >= 0.5 for each region",
         {"segments": {"region": ["a", None]}}, "missing in 1 of 2"),
        ("max recall s.t. alarms <= 2 per day", {}, "pass times="),
        ("max recall s.t. alarms <= 2 per day", {"times": ["monday", "tuesday"]},
         "'monday' at position 0 is not a date"),
        ("max recall s.t. alarms <= 2 per month", {"times": [1, 2]}, "have no months"),
        ("max recall s.t. alarms <= 2 per day", {"times": [1, np.nan]}, "missing or infinite"),
        ("max recall s.t. alarms <= 2 per day", {"times": [1, 2, 3]}, "has 3 for 2 rows"),
        ("max recall s.t. alarms <= 2 per day",
         {"times": np.array(["2024-01-01", "NaT"], "M8[D]")}, "missing in 1 of 2"),
    ],
)  # fmt: skip
def test_bad_columns(goal, named, message):
    with pytest.raises(SetpointError, match=message):
        choose_threshold([True, False], [1.0, 0.0], goal, **named)


@pytest.mark.parametrize(
    ("period", "names"),
    [
        ("hour", ("2024-02-26 23 h", "2024-03-03 0 h", "2024-03-04 5 h")),
        ("day", ("2024-02-26", "2024-03-03", "2024-03-04")),
        ("week", ("week of 2024-02-26", "week of 2024-03-04")),
        ("month", ("2024-02", "2024-03")),
    ],
)
def test_periods_are_those_of_the_calendar_and_weeks_begin_on_monday(period, names):
    times = np.array(["2024-02-26T23:59", "2024-03-03T00:00", "2024-03-04T05:30"], "M8[s]")
    goal = f"max recall s.t. alarms <= 1 per {period}"
    point = choose_threshold([True, False, True], [3.0, 2.0, 1.0], goal, times=times)
    assert dict(point.goal.found)[f"per {period}"] == names


def test_periods_are_in_the_order_of_time_and_named_once():
    goal = Goal.parse("max recall s.t. alarms <= 1 per day")
    columns = GoalColumns.of(goal, 3, times=[10, 2, 9])
    assert columns.periods["day"].values == ("day 2", "day 9", "day 10")
    bound = columns.bind(goal, np.array([True, False, True]))
    assert [str(tally) for tally in bound.tallies[1:]] == ["day 2", "day 9", "day 10"]
    dated = GoalColumns.of(goal, 2, times=["2024-03-01", "2024-02-29"])
    both = dated.followed_by(GoalColumns.of(goal, 2, times=["2024-03-02", "2024-03-01"]))
    assert both.periods["day"].texts.tolist() == [
        "2024-03-01", "2024-02-29", "2024-03-02", "2024-03-01",
    ]  # fmt: skip


def test_a_metric_that_the_rows_do_not_define():
    rows = ([True, False, True], [3.0, 2.0, 1.0])
    for goal in ("max recall[amount]", "max recall s.t. recall[amount] >= 0.5"):
        with pytest.raises(SetpointError, match="their amounts are all 0"):
            choose_threshold(*rows, goal, amounts={"amount": [0, 5, 0]})

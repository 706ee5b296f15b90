"""Operating points on rows of one class."""

import io
import json
import re

import numpy as np
from rich.console import Console

from setpoint import Goal, OperatingPoint, evaluate_threshold
from setpoint.cli.points import is_met, point_fields, point_table


def test_goals_on_rows_of_one_class():
    for goal, counts, expected in (
        ("max recall s.t. precision >= 0.5", (5, 0, 1, 0), None),
        ("max recall s.t. precision >= 0.5", (0, 5, 0, 90), None),
        ("max f1", (5, 0, 1, 0), None),
        ("max f1", (5, 1, 1, 9), True),
        ("max precision s.t. recall >= 0.9", (5, 0, 1, 0), False),
        ("max precision s.t. recall >= 0.5", (5, 0, 1, 0), True),
        ("max precision s.t. fnr <= 0.5", (5, 0, 1, 0), True),
        ("max precision s.t. recall >= 0.5", (0, 5, 0, 90), None),
        ("max recall s.t. fpr <= 0.1", (0, 5, 0, 95), True),
        ("max recall s.t. specificity >= 0.99", (0, 5, 0, 95), False),
        (
            "max recall s.t. fpr <= 0.1",
            (0, 0, 0, 95),
            False,
        ),  # only without alarms
        ("max recall s.t. alarm_rate <= 0.1", (0, 5, 0, 95), None),
        # a level missed on one class is missed, whatever the other class would show
        ("max f1 s.t. recall >= 0.9, precision >= 0.5", (5, 0, 5, 0), False),
        ("max f1 s.t. recall >= 0.3, precision >= 0.5", (5, 0, 5, 0), None),
        ("max f1 s.t. npv >= 0.9", (5, 2, 0, 0), True),  # 1 by convention, of both classes
    ):
        point = OperatingPoint(0.0, *map(float, counts), Goal.parse(goal), "the rows")
        assert is_met(point) is expected, goal
        fields = point_fields(point)
        assert (fields["feasible"] is None) == (expected is None)
        assert json.loads(json.dumps(fields, allow_nan=False)) == fields
        if expected is not None:
            assert "cannot be evaluated" not in fields["message"]


def shown(*points):
    console = Console(width=100, file=io.StringIO())
    console.print(point_table(*points))
    return [line.rstrip() for line in console.file.getvalue().splitlines()]


def test_a_table_with_many_segments_is_short():
    rng = np.random.default_rng(0)
    y, scores = rng.random(4000) < 0.3, rng.random(4000)
    shop = np.array([f"[red]s{i}" for i in rng.integers(0, 20, 4000)])
    goal = "max recall s.t. precision >= 0.3 for each shop"
    named = {"segments": {"shop": shop}}
    test = evaluate_threshold(y, scores, 0.5, goal, on="the test rows", **named)
    few = {"segments": {"shop": np.where(np.arange(4000) < 2000, "[red]s1", "x")}}
    chosen = evaluate_threshold(y, scores, 0.5, goal, on="validation rows", **few)
    lines = shown(chosen, test)
    assert len(lines) < 16
    assert any(line.startswith("… 16 more segments") for line in lines)
    segments = [line for line in lines if line.startswith("precision in [red]s")]
    assert len(segments) == 4
    assert any("–" in line for line in segments)  # a segment that the other rows lack


def test_money_and_alarms_in_a_table():
    y, scores = np.repeat([True, False], [400, 600]), np.arange(1000.0)
    goal = "min cost(fp=1.5, fn=amount) s.t. alarms <= 900 per day"
    point = evaluate_threshold(
        y, scores, -1.0, goal, amounts={"amount": y * 1.0}, times=np.zeros(1000)
    )
    lines = shown(point)
    assert any(re.fullmatch(r"cost per case +0.90", line) for line in lines)
    assert any(re.fullmatch(r"alarms on the busiest day +1,000", line) for line in lines)

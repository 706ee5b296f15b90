"""Operating points on rows of one class."""

import json

from setpoint import Goal, OperatingPoint
from setpoint.cli.points import is_met, point_fields


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

"""Goals: an objective, its constraints, the language that states them, and the metrics."""

from setpoint.goals.band_metrics import BandMetric
from setpoint.goals.bands import BandConstraint, BandGoal, is_band_goal
from setpoint.goals.custom_metrics import define_metric
from setpoint.goals.goal import FPOR, FROP, OFOS, Constraint, Goal
from setpoint.goals.metrics import Metric, metric_names
from setpoint.goals.money import money as _money  # noqa: F401 (adds cost and profit)

__all__ = [
    "FPOR",
    "FROP",
    "OFOS",
    "BandConstraint",
    "BandGoal",
    "BandMetric",
    "Constraint",
    "Goal",
    "Metric",
    "define_metric",
    "is_band_goal",
    "metric_names",
]

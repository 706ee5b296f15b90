"""setpoint: classifiers for a rare, important class that must keep a promise."""

from setpoint.certificates import Bound, Certificate, Verdict, certify
from setpoint.errors import (
    CheckpointError,
    GoalError,
    InfeasibleGoalWarning,
    SetpointError,
    UncertifiedWarning,
)
from setpoint.estimators import SetpointClassifier
from setpoint.goals import FPOR, FROP, OFOS, Constraint, Goal
from setpoint.metrics import Metric, metric_names
from setpoint.operating_point import OperatingPoint, choose_threshold, evaluate_threshold
from setpoint.own_metrics import define_metric
from setpoint.penalty import ExactPenalty
from setpoint.threshold import SetpointThreshold

__version__ = "0.1.0"

__all__ = [
    "FPOR",
    "FROP",
    "OFOS",
    "Bound",
    "Certificate",
    "CheckpointError",
    "Constraint",
    "ExactPenalty",
    "Goal",
    "GoalError",
    "InfeasibleGoalWarning",
    "Metric",
    "OperatingPoint",
    "SetpointClassifier",
    "SetpointError",
    "SetpointThreshold",
    "UncertifiedWarning",
    "Verdict",
    "certify",
    "choose_threshold",
    "define_metric",
    "evaluate_threshold",
    "metric_names",
]

"""setpoint: classifiers for a rare, important class that must keep a promise."""

from __future__ import annotations

from typing import TYPE_CHECKING

from setpoint._lazy import lazy

if TYPE_CHECKING:
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
    from setpoint.model_files import ModelFileError, ModelVersionWarning, load
    from setpoint.operating_point import OperatingPoint, choose_threshold, evaluate_threshold
    from setpoint.own_metrics import define_metric
    from setpoint.penalty import ExactPenalty
    from setpoint.several_goals import fit_goals
    from setpoint.threshold import SetpointThreshold

__version__ = "0.1.0"

# Names come from their modules when they are first asked for: torch and scikit-learn take seconds
# to import, and a command that only prints its help needs neither.
_HOMES = {
    "setpoint.certificates": ("Bound", "Certificate", "Verdict", "certify"),
    "setpoint.errors": (
        "CheckpointError",
        "GoalError",
        "InfeasibleGoalWarning",
        "SetpointError",
        "UncertifiedWarning",
    ),
    "setpoint.estimators": ("SetpointClassifier",),
    "setpoint.goals": ("FPOR", "FROP", "OFOS", "Constraint", "Goal"),
    "setpoint.metrics": ("Metric", "metric_names"),
    "setpoint.model_files": ("ModelFileError", "ModelVersionWarning", "load"),
    "setpoint.operating_point": ("OperatingPoint", "choose_threshold", "evaluate_threshold"),
    "setpoint.own_metrics": ("define_metric",),
    "setpoint.penalty": ("ExactPenalty",),
    "setpoint.several_goals": ("fit_goals",),
    "setpoint.threshold": ("SetpointThreshold",),
}
_HOME = {name: module for module, names in _HOMES.items() for name in names}

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
    "ModelFileError",
    "ModelVersionWarning",
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
    "fit_goals",
    "load",
    "metric_names",
]

__getattr__, __dir__ = lazy(globals(), _HOME)

"""Classifiers for a rare class: train for an operating point, set the exact threshold, certify."""

from __future__ import annotations

from typing import TYPE_CHECKING

from setpoint._internal import renamed
from setpoint._internal.imports import lazy
from setpoint._internal.provenance import __version__ as __version__

if TYPE_CHECKING:
    from setpoint.certificates import Bound, Certificate, Verdict, certify
    from setpoint.errors import (
        CheckpointError,
        GoalError,
        InfeasibleGoalWarning,
        ModelFileError,
        ModelVersionWarning,
        SetpointError,
        UncertifiedWarning,
    )
    from setpoint.estimators import SetpointClassifier, SetpointThreshold, fit_goals
    from setpoint.goals import (
        FPOR,
        FROP,
        OFOS,
        Constraint,
        Goal,
        Metric,
        define_metric,
        metric_names,
    )
    from setpoint.method import ExactPenalty
    from setpoint.model_files import load
    from setpoint.thresholds import OperatingPoint, choose_threshold, evaluate_threshold

# Names are imported on first use: torch and scikit-learn take seconds to import, and
# `setpoint --help` needs neither.
_HOMES = {
    "certificates": ("Bound", "Certificate", "Verdict", "certify"),
    "errors": (
        "CheckpointError",
        "GoalError",
        "InfeasibleGoalWarning",
        "ModelFileError",
        "ModelVersionWarning",
        "SetpointError",
        "UncertifiedWarning",
    ),
    "estimators": ("SetpointClassifier", "SetpointThreshold", "fit_goals"),
    "goals": (
        "FPOR",
        "FROP",
        "OFOS",
        "Constraint",
        "Goal",
        "Metric",
        "define_metric",
        "metric_names",
    ),
    "model_files": ("load",),
    "method": ("ExactPenalty",),
    "thresholds": ("OperatingPoint", "choose_threshold", "evaluate_threshold"),
}

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

__getattr__, __dir__ = lazy(globals(), _HOMES)
renamed.install()

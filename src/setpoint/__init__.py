"""Classifiers for a rare class: train for an operating point, set the exact threshold, certify."""

from __future__ import annotations

from typing import TYPE_CHECKING

from setpoint._internal import renamed
from setpoint._internal.imports import lazy
from setpoint._internal.provenance import __version__ as __version__

if TYPE_CHECKING:
    from setpoint.certificates import BandCertificate as BandCertificate
    from setpoint.certificates import Bound as Bound
    from setpoint.certificates import Certificate as Certificate
    from setpoint.certificates import MultilabelCertificate as MultilabelCertificate
    from setpoint.certificates import SegmentCertificates as SegmentCertificates
    from setpoint.certificates import Verdict as Verdict
    from setpoint.certificates import certify as certify
    from setpoint.certificates import certify_band as certify_band
    from setpoint.certificates import certify_by_segment as certify_by_segment
    from setpoint.certificates import certify_labels as certify_labels
    from setpoint.errors import CheckpointError as CheckpointError
    from setpoint.errors import GoalError as GoalError
    from setpoint.errors import InfeasibleGoalWarning as InfeasibleGoalWarning
    from setpoint.errors import ModelFileError as ModelFileError
    from setpoint.errors import ModelVersionWarning as ModelVersionWarning
    from setpoint.errors import SetpointError as SetpointError
    from setpoint.errors import UncertifiedWarning as UncertifiedWarning
    from setpoint.estimators import ModelSearch as ModelSearch
    from setpoint.estimators import SetpointBand as SetpointBand
    from setpoint.estimators import SetpointClassifier as SetpointClassifier
    from setpoint.estimators import SetpointMultilabel as SetpointMultilabel
    from setpoint.estimators import SetpointThreshold as SetpointThreshold
    from setpoint.estimators import fit_goals as fit_goals
    from setpoint.goals import FPOR as FPOR
    from setpoint.goals import FROP as FROP
    from setpoint.goals import OFOS as OFOS
    from setpoint.goals import BandGoal as BandGoal
    from setpoint.goals import Constraint as Constraint
    from setpoint.goals import Goal as Goal
    from setpoint.goals import Metric as Metric
    from setpoint.goals import define_metric as define_metric
    from setpoint.goals import metric_names as metric_names
    from setpoint.method import ExactPenalty as ExactPenalty
    from setpoint.model_files import load as load
    from setpoint.thresholds import BandPoint as BandPoint
    from setpoint.thresholds import ClassWeights as ClassWeights
    from setpoint.thresholds import MultilabelPoint as MultilabelPoint
    from setpoint.thresholds import OperatingPoint as OperatingPoint
    from setpoint.thresholds import SegmentThresholds as SegmentThresholds
    from setpoint.thresholds import choose_band as choose_band
    from setpoint.thresholds import choose_class_weights as choose_class_weights
    from setpoint.thresholds import choose_threshold as choose_threshold
    from setpoint.thresholds import choose_thresholds as choose_thresholds
    from setpoint.thresholds import choose_thresholds_by_segment as choose_thresholds_by_segment
    from setpoint.thresholds import compare_decisions as compare_decisions
    from setpoint.thresholds import evaluate_band as evaluate_band
    from setpoint.thresholds import evaluate_threshold as evaluate_threshold
    from setpoint.thresholds import evaluate_thresholds as evaluate_thresholds
    from setpoint.training import MiniBatchPenalty as MiniBatchPenalty

# Names are imported on first use: torch and scikit-learn take seconds to import, and
# `setpoint --help` needs neither.
_NAMES = {
    "certificates": "BandCertificate Bound Certificate MultilabelCertificate SegmentCertificates "
    "Verdict certify certify_band certify_by_segment certify_labels",
    "errors": "CheckpointError GoalError InfeasibleGoalWarning ModelFileError "
    "ModelVersionWarning SetpointError UncertifiedWarning",
    "estimators": "ModelSearch SetpointBand SetpointClassifier SetpointMultilabel "
    "SetpointThreshold fit_goals",
    "goals": "FPOR FROP OFOS BandGoal Constraint Goal Metric define_metric metric_names",
    "model_files": "load",
    "method": "ExactPenalty",
    "thresholds": "BandPoint ClassWeights MultilabelPoint OperatingPoint SegmentThresholds "
    "choose_band choose_class_weights choose_threshold choose_thresholds "
    "choose_thresholds_by_segment compare_decisions evaluate_band evaluate_threshold "
    "evaluate_thresholds",
    "training": "MiniBatchPenalty",
}
__all__, __getattr__, __dir__ = lazy(globals(), _NAMES)
renamed.install()

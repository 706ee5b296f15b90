"""Estimators with scikit-learn's interface."""

from setpoint.estimators.band import SetpointBand
from setpoint.estimators.classifier import SetpointClassifier
from setpoint.estimators.model_search import ModelSearch
from setpoint.estimators.multilabel import SetpointMultilabel
from setpoint.estimators.several_goals import fit_goals
from setpoint.estimators.threshold import SetpointThreshold

__all__ = [
    "ModelSearch",
    "SetpointBand",
    "SetpointClassifier",
    "SetpointMultilabel",
    "SetpointThreshold",
    "fit_goals",
]

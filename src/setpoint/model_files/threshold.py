"""SetpointThreshold as JSON and a skops file, and back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sklearn.base import clone

from setpoint.model_files.parameters import parameters_from_json, parameters_to_json
from setpoint.model_files.plain import decode, encode
from setpoint.model_files.promises import promise_from_json
from setpoint.model_files.sklearn_part import estimator_from_bytes, estimator_to_bytes
from setpoint.model_files.values import (
    Json,
    certificate_to_json,
    goal_from_json,
    goal_to_json,
    labels_from_json,
    labels_to_json,
    number_from_json,
    point_from_json,
    point_to_json,
)
from setpoint.threshold import SetpointThreshold

ESTIMATOR = "estimator.skops"
Described = tuple[Json, dict[str, bytes]]


def threshold_to_json(
    clf: SetpointThreshold, describe: Callable[[Any], Described | None]
) -> Described:
    """Return what model.json says of a fitted classifier, and its files.

    ``describe`` is asked first whether the classifier inside is one of our own.
    """
    own = describe(clf.estimator_)
    if own is None:
        inner = None
        parts = {ESTIMATOR: estimator_to_bytes(clf.estimator_, "The classifier")}
    else:
        inner, parts = own
    certificate = clf.certificate_
    content: Json = {
        "kind": "SetpointThreshold",
        "parameters": parameters_to_json(clf, without={"estimator"}),
        "estimator": inner,
        "labels": labels_to_json(clf._labels),
        "goal": goal_to_json(clf.goal_),
        "operating_point": point_to_json(clf.operating_point_),
        "certificate": None if certificate is None else certificate_to_json(certificate),
        "threshold": encode(clf.threshold_),
        "thresholds": encode(clf.thresholds_),
    }
    return content, parts


def threshold_from_json(
    content: Json, parts: dict[str, bytes], restore: Callable[[Json], Any]
) -> SetpointThreshold:
    """Return the classifier; ``restore`` gives back one of our own that is inside."""
    inner = content["estimator"]
    estimator = estimator_from_bytes(parts[ESTIMATOR]) if inner is None else restore(inner)
    parameters, notes = parameters_from_json(content["parameters"], SetpointThreshold)
    prefit = isinstance(parameters.get("cv"), str)  # then it was given as it is, fitted
    clf = SetpointThreshold(estimator if prefit else clone(estimator), **parameters)
    clf.estimator_ = estimator
    clf.goal_ = goal_from_json(content["goal"])
    clf.operating_point_ = point_from_json(content["operating_point"])
    clf.certificate_ = promise_from_json(content["certificate"], clf.goal_)
    clf.threshold_ = number_from_json(content["threshold"])
    clf.thresholds_ = decode(content["thresholds"])
    clf._labels = labels_from_json(content["labels"])
    clf.classes_, clf.pos_label_ = clf._labels.classes, clf._labels.positive
    for name in ("n_features_in_", "feature_names_in_"):
        if hasattr(estimator, name):
            setattr(clf, name, getattr(estimator, name))
    clf.load_notes_ = notes
    return clf

"""A fitted SetpointBand as JSON and files, and back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.base import clone

from setpoint.errors import ModelFileError
from setpoint.estimators.band import SetpointBand
from setpoint.saving.bands import (
    band_certificate_from_json,
    band_certificate_to_json,
    band_goal_from_json,
    band_point_from_json,
    band_point_to_json,
)
from setpoint.saving.document import Described
from setpoint.saving.skops_files import estimator_from_bytes, estimator_to_bytes
from setpoint.saving.values import (
    Json,
    decode,
    encode,
    labels_from_json,
    labels_to_json,
    parameters_from_json,
    parameters_to_json,
)

_ESTIMATOR = "estimator.skops"


def band_to_json(clf: SetpointBand, describe: Callable[[Any], Described | None]) -> Described:
    """Return the JSON of a fitted SetpointBand, and the content of its files.

    ``describe`` returns that of a classifier of this package, and None for any other.
    """
    own = describe(clf.estimator_)
    if own is None:
        own = {}, {_ESTIMATOR: estimator_to_bytes(clf.estimator_, "The classifier")}
    inner, parts = own
    content: Json = {
        "kind": "SetpointBand",
        "parameters": parameters_to_json(clf, without={"estimator"}),
        "estimator": inner or None,
        "labels": labels_to_json(clf._labels),
        "goal": str(clf.goal_),
        "operating_point": band_point_to_json(clf.operating_point_),
        "certificate": band_certificate_to_json(clf.certificate_),
        "bands": [encode(side) for side in clf.bands_.T],
    }
    return content, parts


def band_from_json(
    content: Json, parts: dict[str, bytes], restore: Callable[[Json, dict[str, bytes]], Any]
) -> SetpointBand:
    """Return the SetpointBand; ``restore`` returns a classifier of this package."""
    inner = content["estimator"]
    estimator = estimator_from_bytes(parts[_ESTIMATOR]) if inner is None else restore(inner, parts)
    parameters, notes = parameters_from_json(content["parameters"], SetpointBand)
    prefit = isinstance(parameters.get("cv"), str)  # then it was given as it is, fitted
    clf = SetpointBand(estimator if prefit else clone(estimator), **parameters)
    clf.estimator_ = estimator
    clf.goal_ = band_goal_from_json(content["goal"])
    clf.operating_point_ = point = band_point_from_json(content["operating_point"])
    clf.certificate_ = band_certificate_from_json(content["certificate"], clf.goal_)
    if point.goal != clf.goal_ or (
        clf.certificate_ is not None and clf.certificate_.operating_point != point
    ):
        raise ModelFileError("the model's review band does not fit its goal or its certificate.")
    clf.low_, clf.high_ = point.low, point.high
    clf.bands_ = np.column_stack([decode(side) for side in content["bands"]])
    clf._set_labels(labels_from_json(content["labels"]))
    for name in ("n_features_in_", "feature_names_in_"):
        if hasattr(estimator, name):
            setattr(clf, name, getattr(estimator, name))
    clf.load_notes_ = notes
    return clf

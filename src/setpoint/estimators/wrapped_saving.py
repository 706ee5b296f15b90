"""A fitted SetpointThreshold or SetpointBand as JSON and files, and back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from setpoint.errors import ModelFileError
from setpoint.estimators.band import SetpointBand
from setpoint.estimators.base import take_features
from setpoint.estimators.stack_saving import search_from_json, search_to_json
from setpoint.estimators.threshold import SetpointThreshold
from setpoint.saving.bands import (
    band_certificate_from_json,
    band_certificate_to_json,
    band_goal_from_json,
    band_point_from_json,
    band_point_to_json,
)
from setpoint.saving.certificate import certificate_from_json, certificate_to_json
from setpoint.saving.document import Described
from setpoint.saving.skops_files import estimator_from_bytes, estimator_to_bytes
from setpoint.saving.values import (
    Json,
    cutoff_from_json,
    decode,
    encode,
    goal_from_json,
    goal_to_json,
    labels_from_json,
    labels_to_json,
    notes_of,
    parameters_from_json,
    parameters_to_json,
    point_from_json,
    point_to_json,
    segments_from_json,
)
from setpoint.thresholds.by_segment import SegmentThresholds
from setpoint.thresholds.operating_point import OperatingPoint

_ESTIMATOR = "estimator.skops"


def wrapped_to_json(
    clf: SetpointThreshold | SetpointBand, describe: Callable[[Any], Described | None]
) -> Described:
    """Return the JSON of a fitted wrapper of a classifier, and the content of its files.

    ``describe`` returns that of a classifier of this package, and None for any other.
    """
    own = describe(clf.estimator_)
    parts = (
        {_ESTIMATOR: estimator_to_bytes(clf.estimator_, "The classifier")}
        if own is None
        else own[1]
    )
    content: Json = {
        "kind": type(clf).__name__,
        "parameters": parameters_to_json(clf, without={"estimator"}),
        "estimator": None if own is None else own[0],
        "labels": labels_to_json(clf._labels),
        "search": search_to_json(clf.estimator, clf.candidates_),
    }
    decided = _band_to_json(clf) if isinstance(clf, SetpointBand) else _threshold_to_json(clf)
    return {**content, **decided}, parts


def wrapped_from_json(
    kind: type[SetpointThreshold] | type[SetpointBand],
    content: Json,
    parts: dict[str, bytes],
    restore: Callable[[Json, dict[str, bytes]], Any],
) -> SetpointThreshold | SetpointBand:
    """Return the wrapper; ``restore`` returns a classifier of this package."""
    inner = content["estimator"]
    estimator = estimator_from_bytes(parts[_ESTIMATOR]) if inner is None else restore(inner, parts)
    parameters, notes = parameters_from_json(content["parameters"], kind)
    prefit = isinstance(parameters.get("cv"), str)  # then it was given as it is, fitted
    given, candidates, further = search_from_json(content.get("search"), estimator, prefit)
    clf = kind(given, **parameters)
    clf.estimator_, clf.candidates_ = estimator, candidates
    if isinstance(clf, SetpointBand):
        _set_band(clf, content)
    else:
        _set_threshold(clf, content)
    clf._set_labels(labels_from_json(content["labels"]))
    take_features(clf, estimator)
    clf.load_notes_ = [*notes, *further, *notes_of(estimator)]
    return clf


def _threshold_to_json(clf: SetpointThreshold) -> Json:
    return {
        "goal": goal_to_json(clf.goal_),
        "operating_point": point_to_json(clf.operating_point_),
        "certificate": certificate_to_json(clf.certificate_),
        "segments": encode(clf.segments_),
        "segment_thresholds": _by_segment_to_json(clf.segment_thresholds_),
        "threshold": encode(clf.threshold_),
        "thresholds": encode(clf.thresholds_),
    }


def _set_threshold(clf: SetpointThreshold, content: Json) -> None:
    clf.goal_ = goal_from_json(content["goal"])
    clf.segments_ = segments_from_json(content)
    clf.operating_point_ = point_from_json(content["operating_point"])
    clf.certificate_ = certificate_from_json(content["certificate"], clf.goal_)
    clf.threshold_ = cutoff_from_json(content["threshold"])
    clf.decisions_ = None  # about rows that the file does not hold
    clf.segment_thresholds_ = _by_segment_from_json(
        content.get("segment_thresholds"), clf.operating_point_
    )
    clf.thresholds_ = decode(content["thresholds"])


def _by_segment_to_json(found: SegmentThresholds | None) -> Json | None:
    if found is None:
        return None
    values = {name: encode(float(value)) for name, value in found.thresholds.items()}
    return {"column": found.column, "thresholds": values, "other": encode(float(found.other))}


def _by_segment_from_json(values: Json | None, point: OperatingPoint) -> SegmentThresholds | None:
    if values is None:
        return None
    thresholds = {str(k): cutoff_from_json(v) for k, v in values["thresholds"].items()}
    return SegmentThresholds(
        str(values["column"]), thresholds, cutoff_from_json(values["other"]), point
    )


def _band_to_json(clf: SetpointBand) -> Json:
    return {
        "goal": str(clf.goal_),
        "operating_point": band_point_to_json(clf.operating_point_),
        "certificate": band_certificate_to_json(clf.certificate_),
        "bands": [encode(side) for side in clf.bands_.T],
    }


def _set_band(clf: SetpointBand, content: Json) -> None:
    clf.goal_ = band_goal_from_json(content["goal"])
    clf.operating_point_ = point = band_point_from_json(content["operating_point"])
    clf.certificate_ = band_certificate_from_json(content["certificate"], clf.goal_)
    if point.goal != clf.goal_ or (
        clf.certificate_ is not None and clf.certificate_.operating_point != point
    ):
        raise ModelFileError("the model's review band does not fit its goal or its certificate.")
    clf.low_, clf.high_ = point.low, point.high
    clf.bands_ = np.column_stack([decode(side) for side in content["bands"]])

"""A fitted SetpointMultilabel as JSON and files, and back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.base import clone

from setpoint.certificates.multilabel import MultilabelCertificate
from setpoint.errors import ModelFileError
from setpoint.estimators.label_classifiers import LabelClassifiers
from setpoint.estimators.multilabel import SetpointMultilabel
from setpoint.goals.goal import Goal
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
)
from setpoint.thresholds.label_goals import LabelGoals
from setpoint.thresholds.multilabel import MultilabelPoint

_ESTIMATORS = "estimators.skops"


def multilabel_to_json(
    clf: SetpointMultilabel, describe: Callable[[Any], Described | None]
) -> Described:
    """Return the JSON of a fitted SetpointMultilabel, and the content of its files.

    ``describe`` returns that of a classifier of this package, and None for any other.
    """
    classifiers = clf._classifiers
    several = (classifiers.of_all,) if classifiers.of_all is not None else classifiers.of_each
    parts: dict[str, bytes] = {}
    inner: list[Json | None] = []
    others: list[Any] = []  # classifiers of other packages are in one file
    for label, classifier in enumerate(several):
        own = None if classifier is None else describe(classifier)
        inner.append(None if own is None else own[0])
        others.append(classifier if own is None else None)
        if own is not None:
            parts |= {f"{_prefix(label)}{name}": data for name, data in own[1].items()}
    parts[_ESTIMATORS] = estimator_to_bytes(others, "The classifier of a label")
    certificate, labels = clf.certificate_, clf._labels
    certificates = () if certificate is None else certificate.certificates
    content: Json = {
        "kind": "SetpointMultilabel",
        "parameters": parameters_to_json(clf, without={"estimator"}),
        "estimators": inner,
        "multilabel": classifiers.of_all is not None,
        "kept": list(classifiers.kept),
        "names": list(clf.label_names_),
        "labels": None if labels is None else labels_to_json(labels),
        "goals": [goal_to_json(goal) for goal in clf.goals_.goals],
        "average": clf.goals_.average,
        "on_sums": [str(constraint) for constraint in clf.goals_.on_sums],
        "on": clf.operating_point_.on,
        "points": [point_to_json(point) for point in clf.operating_point_.points],
        "certificates": [certificate_to_json(found) for found in certificates],
        "thresholds": encode(clf.thresholds_),
    }
    return content, parts


def multilabel_from_json(
    content: Json, parts: dict[str, bytes], restore: Callable[[Json, dict[str, bytes]], Any]
) -> SetpointMultilabel:
    """Return the SetpointMultilabel; ``restore`` returns a classifier of this package."""
    others = estimator_from_bytes(parts[_ESTIMATORS])
    several = []
    for label, (inner, other) in enumerate(zip(content["estimators"], others, strict=True)):
        prefix = _prefix(label)
        own = {k.removeprefix(prefix): v for k, v in parts.items() if k.startswith(prefix)}
        several.append(other if inner is None else restore(inner, own))
    classifiers = LabelClassifiers(
        several[0] if content["multilabel"] else None,
        () if content["multilabel"] else tuple(several),
        tuple(bool(each) for each in content["kept"]),
    )
    parameters, notes = parameters_from_json(content["parameters"], SetpointMultilabel)
    prefit = isinstance(parameters.get("cv"), str)  # then it was given as it is, fitted
    some = next((each for each in several if each is not None), None)
    clf = SetpointMultilabel(some if prefit or some is None else clone(some), **parameters)
    clf._set_classifiers(classifiers)
    clf.label_names_ = list(content["names"])
    names = tuple(clf.label_names_)
    goals = tuple(goal_from_json(goal) for goal in content["goals"])
    on_sums = Goal(goals[0].objective, tuple(content["on_sums"])).constraints
    clf.goals_ = LabelGoals(goals, content["average"], on_sums)
    points = tuple(point_from_json(point) for point in content["points"])
    clf.operating_point_ = MultilabelPoint(names, points, clf.goals_, content["on"])
    clf.thresholds_ = np.array([cutoff_from_json(encode(t)) for t in decode(content["thresholds"])])
    clf.certificate_ = _certificate(content["certificates"], goals, names, clf)
    sizes = {len(names), len(goals), len(points), len(clf.thresholds_), len(classifiers.kept)}
    if len(sizes) > 1 or len(several) not in (1, len(names)):
        raise ModelFileError("the parts of the model are for different numbers of labels.")
    clf._labels = None if content["labels"] is None else labels_from_json(content["labels"])
    clf.classes_ = np.array([0, 1]) if clf._labels is None else clf._labels.classes
    clf.load_notes_ = [*notes, *notes_of(*several)]
    return clf


def _certificate(
    values: list[Json], goals: tuple[Goal, ...], names: tuple[str, ...], clf: SetpointMultilabel
) -> MultilabelCertificate | None:
    """Return the certificates of the labels; they must be at the confidence that is stated."""
    found = [certificate_from_json(v, goal) for v, goal in zip(values, goals, strict=bool(values))]
    certificates = tuple(each for each in found if each is not None)
    if not certificates:
        return None
    joined = MultilabelCertificate(names, certificates, float(clf.confidence or 0), bool(clf.joint))
    if any(abs(each.confidence - joined.each) > 1e-9 for each in certificates):
        raise ModelFileError(
            "the certificates of the labels are not at the confidence of the model; the file was "
            "changed."
        )
    return joined


def _prefix(label: int) -> str:
    """Return the beginning of the names of a label's files, which consist of letters."""
    letters = "".join(chr(ord("a") + (label // 26**power) % 26) for power in (3, 2, 1, 0))
    return f"label{letters}"

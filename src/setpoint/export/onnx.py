"""Write a fitted classifier as ONNX, after comparing the two on some rows."""

from __future__ import annotations

import json
import os
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from setpoint._internal.files import new_folder, write_atomically
from setpoint._internal.provenance import __version__
from setpoint.errors import ModelFileError, OnnxError
from setpoint.estimators.band import SetpointBand
from setpoint.estimators.classifier import SetpointClassifier
from setpoint.estimators.multilabel import SetpointMultilabel
from setpoint.estimators.threshold import SetpointThreshold
from setpoint.export.decisions import amounts_of, label_margins, margins, scoring_method
from setpoint.export.estimators import classifier_scores, estimator_scores
from setpoint.export.graph import Graph, run

_TEST_ROWS = 500
_TOLERANCE = 1e-4


def export_onnx(model: Any, path: str | Path) -> None:
    """Write a fitted classifier as ONNX, with its standardizer and its threshold.

    The input ``X`` has the shape (n, features). Its precision is float32 for a classifier that was
    fitted to float32, otherwise float64. Decisions by expected value need the input ``amounts``,
    float64 of the shape (n, amounts), and thresholds per group the input ``segments``, n texts; the
    properties ``amounts`` and ``segments`` of the model name their columns. Nothing checks these
    values, as ``predict`` does.

    The outputs, one entry per row, are ``score``, relative to the threshold, and ``decision``:
    whether the score is above 0, which means positive. Those of a SetpointMultilabel have a column
    for each label; those of a SetpointBand are its own score, and 0 (clear), 1 (review) or 2
    (alarm). The labels and the goal are stored as properties of the model, with ``low`` and
    ``high`` of a band.

    The model computes in the classifier's precision, so that decisions differ at most where a score
    equals the threshold up to rounding: a relative 1e-15 in float64, 1e-7 in float32. onnxruntime
    supports a few steps of scikit-learn, such as support vector machines and SimpleImputer, in
    float32 only; if such a step comes first, the input is float32 too. Before the file is written,
    onnxruntime is run on some rows; OnnxError is raised if it does not agree with the classifier.

    Parameters
    ----------
    model : SetpointClassifier, SetpointThreshold, SetpointBand or SetpointMultilabel
        A fitted classifier of numeric features: linear, MLP or another torch module; or thresholds
        on gradient boosting, forests, linear models, most other classifiers of scikit-learn, and
        pipelines of them.
    path : str or Path
        The file to write.
    """
    if isinstance(model, SetpointClassifier):
        check_is_fitted(model, "module_")
        found = _checked(model, model._dtype)
    elif isinstance(model, (SetpointThreshold, SetpointBand, SetpointMultilabel)):
        check_is_fitted(model)
        found = _of_thresholds(model)
    elif hasattr(model, "classifier") and hasattr(model, "encoder"):
        raise OnnxError(
            "the steps that turn a table into numbers cannot be exported; export the classifier "
            "alone: export_onnx(model.classifier, path)."
        )
    else:
        raise OnnxError(
            f"{type(model).__name__} cannot be exported, only a SetpointClassifier, a "
            "SetpointThreshold, a SetpointBand or a SetpointMultilabel."
        )
    _write(Path(path).expanduser(), found.SerializeToString())


def _write(path: Path, data: bytes) -> None:
    real = Path(os.path.realpath(path))  # a link stays; the file it points to is replaced
    try:
        with new_folder(real.parent):
            write_atomically(real, data)
    except OSError as error:
        raise ModelFileError(f"{path} cannot be written: {error.strerror or error}.") from error


def _of_thresholds(model: Any) -> Any:
    """Return the model in float64, or in float32 if onnxruntime does not support that."""
    try:
        return _checked(model, np.float64)
    except OnnxError as first:
        try:
            return _checked(model, np.float32)
        except OnnxError:
            raise first from None


def _checked(model: Any, dtype: Any) -> Any:
    if isinstance(model, SetpointMultilabel) and not any(model._classifiers.kept):
        raise OnnxError("no label has a classifier, so there is nothing to export.")
    n_features = getattr(model, "n_features_in_", None)
    if n_features is None:
        raise OnnxError(
            "the classifier does not take an array of numbers, so it cannot be exported to ONNX."
        )
    graph = Graph(int(n_features), dtype)
    kind, band, columns = np.dtype(np.float64), None, None
    if isinstance(model, SetpointClassifier):
        scores, kind = classifier_scores(graph, model, "X"), np.dtype(dtype)
    elif isinstance(model, SetpointMultilabel):
        scores, columns = label_margins(graph, model), len(model.label_names_)
    else:
        scores = estimator_scores(
            graph, model.estimator_, "X", scoring_method(model), model._labels.positive_index
        )
        if isinstance(model, SetpointBand):
            band = model.low_, model.high_
        else:
            scores = margins(graph, model, scores)
    exported = graph.finish(scores, _properties(model), kind, band, columns)
    _check_agreement(exported, model, graph)
    return exported


def _properties(model: Any) -> dict[str, str]:
    properties = {"setpoint": __version__}
    if isinstance(model, SetpointMultilabel):
        properties |= {"goal": str(model.goals_), "labels": json.dumps(model.label_names_)}
    else:
        labels = model._labels
        negative = labels.classes[1 - labels.positive_index]
        properties |= {
            "goal": str(model.goal_), "positive": str(labels.positive), "negative": str(negative),
        }  # fmt: skip
    if isinstance(model, SetpointBand):
        properties |= {"low": repr(float(model.low_)), "high": repr(float(model.high_))}
    if isinstance(model, SetpointThreshold):
        if model.decision == "expected_value":
            properties["amounts"] = json.dumps(amounts_of(model))
        if model.segment_thresholds_ is not None:
            properties["segments"] = model.segment_thresholds_.column
    names = getattr(model, "feature_names_in_", None)
    return properties if names is None else {**properties, "features": json.dumps(list(names))}


def _check_agreement(exported: Any, model: Any, graph: Graph) -> None:
    """Raise OnnxError if onnxruntime cannot run the model or computes other scores."""
    rows = _rows(model, graph)
    named = _decision_columns(model)
    scores, decisions = run(exported, rows, *(_input_of(columns) for columns in named.values()))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of missing column names
        try:
            expected = _expected_scores(model, rows, named)
        except Exception as error:
            raise OnnxError(
                f"the classifier does not take an array without column names ({error}), so it "
                "cannot be exported to ONNX."
            ) from error
    with np.errstate(invalid="ignore"):  # of equal infinities
        near = np.abs(scores - expected) <= _TOLERANCE * (1 + np.abs(expected))
    near |= scores == expected
    decided: NDArray[Any] = scores > 0
    if isinstance(model, SetpointBand):
        decided = (scores > model.low_).astype(np.int64) + (scores > model.high_)
    if not near.all() or not np.array_equal(decisions, decided):
        raise OnnxError(
            f"the exported model does not agree with the classifier on {int((~near).sum())} of "
            f"{near.size} scores, so it was not written; the exporter does not support "
            f"{_step_names(model)}."
        )


def _input_of(columns: dict[str, NDArray[Any]]) -> NDArray[Any]:
    first, *_ = columns.values()
    return first if first.dtype == object else np.column_stack([*columns.values()])


def _decision_columns(model: Any) -> dict[str, dict[str, NDArray[Any]]]:
    """Return the amounts and segments of the rows to compare, in the order of the inputs."""
    rng = np.random.default_rng(1)
    found: dict[str, dict[str, NDArray[Any]]] = {}
    if not isinstance(model, SetpointThreshold):
        return found
    if model.decision == "expected_value" and (names := amounts_of(model)):
        found["amounts"] = {name: rng.lognormal(size=_TEST_ROWS) for name in names}
    if (by := model.segment_thresholds_) is not None:
        texts = np.array([*by.thresholds, "another segment"], dtype=object)
        found["segments"] = {by.column: texts[rng.integers(0, len(texts), _TEST_ROWS)]}
    return found


def _expected_scores(model: Any, rows: NDArray[Any], named: dict[str, Any]) -> NDArray[Any]:
    """Return the classifier's own scores, relative to the threshold unless there are two."""
    if isinstance(model, SetpointMultilabel):
        return np.asarray(model.label_scores(rows) - model.thresholds_)
    scores = model.positive_scores(rows, **named)
    if isinstance(model, SetpointThreshold):
        scores = scores.astype(np.float64) - model.threshold_
    return np.asarray(scores)


def _rows(model: Any, graph: Graph) -> NDArray[np.floating]:
    """Return rows at the scale of the training rows if known, otherwise of many magnitudes."""
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((_TEST_ROWS, graph.n_features))
    standardizer = getattr(model, "standardizer_", None)
    if standardizer is None:
        rows *= 10.0 ** rng.integers(-2, 4, rows.shape)
        rows[::2] = rng.integers(-1, 30, rows[::2].shape)  # categories, for models that use them
    else:
        scale = np.where(np.isfinite(standardizer.scale), standardizer.scale, 0.0)
        rows = rows * scale + standardizer.centre
    return rows.astype(graph.dtype)


def _step_names(model: Any) -> str:
    several = [each for each in getattr(model, "estimators_", None) or () if each is not None]
    inner = getattr(model, "estimator_", None) or (several[0] if several else model.module_)
    steps = inner.steps if isinstance(inner, Pipeline) else [("", inner)]
    return " and ".join(type(step).__name__ for _, step in steps)

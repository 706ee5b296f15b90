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
from setpoint.estimators.threshold import SetpointThreshold
from setpoint.export.estimators import classifier_scores, estimator_scores
from setpoint.export.graph import Graph, run

_TEST_ROWS = 500
_TOLERANCE = 1e-4


def export_onnx(model: Any, path: str | Path) -> None:
    """Write a fitted classifier as ONNX, with its standardizer and its threshold.

    The input ``X`` has the shape (n, features). Its precision is float32 for a classifier that was
    fitted to float32, otherwise float64. The outputs, one entry per row, are ``score``, relative to
    the threshold, and ``decision``: whether the score is above 0, which means positive. Those of a
    SetpointBand are its own score, and 0 (clear), 1 (review) or 2 (alarm). The labels and the goal
    are stored as properties of the model, with ``low`` and ``high`` of a band.

    The model computes in the classifier's precision, so that decisions differ at most where a score
    equals the threshold up to rounding: a relative 1e-15 in float64, 1e-7 in float32. onnxruntime
    supports a few steps of scikit-learn, such as support vector machines and SimpleImputer, in
    float32 only; if such a step comes first, the input is float32 too. Before the file is written,
    onnxruntime is run on some rows; OnnxError is raised if it does not agree with the classifier.

    Parameters
    ----------
    model : SetpointClassifier, SetpointThreshold or SetpointBand
        A fitted classifier of numeric features: linear, MLP or another torch module; or a threshold
        or a review band on gradient boosting, forests, linear models, most other classifiers of
        scikit-learn, and pipelines of them.
    path : str or Path
        The file to write.
    """
    if isinstance(model, SetpointClassifier):
        check_is_fitted(model, "module_")
        found = _checked(model, model._dtype)
    elif isinstance(model, SetpointThreshold):
        check_is_fitted(model, "threshold_")
        found = _of_threshold(model)
    elif isinstance(model, SetpointBand):
        check_is_fitted(model, "low_")
        found = _of_threshold(model)
    elif hasattr(model, "classifier") and hasattr(model, "encoder"):
        raise OnnxError(
            "the steps that turn a table into numbers cannot be exported; export the classifier "
            "alone: export_onnx(model.classifier, path)."
        )
    else:
        raise OnnxError(
            f"{type(model).__name__} cannot be exported, only a SetpointClassifier, a "
            "SetpointThreshold or a SetpointBand."
        )
    _write(Path(path).expanduser(), found.SerializeToString())


def _write(path: Path, data: bytes) -> None:
    real = Path(os.path.realpath(path))  # a link stays; the file it points to is replaced
    try:
        with new_folder(real.parent):
            write_atomically(real, data)
    except OSError as error:
        raise ModelFileError(f"{path} cannot be written: {error.strerror or error}.") from error


def _of_threshold(model: SetpointThreshold | SetpointBand) -> Any:
    """Return the model in float64, or in float32 if onnxruntime does not support that."""
    try:
        return _checked(model, np.float64)
    except OnnxError as first:
        try:
            return _checked(model, np.float32)
        except OnnxError:
            raise first from None


def _checked(model: Any, dtype: Any) -> Any:
    n_features = getattr(model, "n_features_in_", None)
    if n_features is None:
        raise OnnxError(
            "the classifier does not take an array of numbers, so it cannot be exported to ONNX."
        )
    graph = Graph(int(n_features), dtype)
    band = (model.low_, model.high_) if isinstance(model, SetpointBand) else None
    if isinstance(model, SetpointClassifier):
        scores = classifier_scores(graph, model, "X")
    else:
        scores = estimator_scores(
            graph, model.estimator_, "X", _method(model), model._labels.positive_index
        )
        if band is None:
            threshold = graph.constant(np.float64(model.threshold_))
            scores = graph.add("Sub", scores, threshold)
    kind = dtype if isinstance(model, SetpointClassifier) else np.float64
    exported = graph.finish(scores, _properties(model), kind, band)
    _check_agreement(exported, model, graph)
    return exported


def _method(model: SetpointThreshold | SetpointBand) -> str:
    """Return the method whose scores the thresholds apply to."""
    if model.response_method != "auto":
        return str(model.response_method)
    found = hasattr(model.estimator_, "decision_function")
    return "decision_function" if found else "predict_proba"


def _properties(model: Any) -> dict[str, str]:
    labels = model._labels
    negative = labels.classes[1 - labels.positive_index]
    properties = {
        "setpoint": __version__,
        "goal": str(model.goal_),
        "positive": str(labels.positive),
        "negative": str(negative),
    }
    if isinstance(model, SetpointBand):
        properties |= {"low": repr(float(model.low_)), "high": repr(float(model.high_))}
    names = getattr(model, "feature_names_in_", None)
    return properties if names is None else {**properties, "features": json.dumps(list(names))}


def _check_agreement(exported: Any, model: Any, graph: Graph) -> None:
    """Raise OnnxError if onnxruntime cannot run the model or computes other scores."""
    rows = _rows(model, graph)
    scores, decisions = run(exported, rows)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of missing column names
        try:
            expected = model.positive_scores(rows)
        except Exception as error:
            raise OnnxError(
                f"the classifier does not take an array without column names ({error}), so it "
                "cannot be exported to ONNX."
            ) from error
    if isinstance(model, SetpointThreshold):
        expected = expected.astype(np.float64) - model.threshold_
    near = np.abs(scores - expected) <= _TOLERANCE * (1 + np.abs(expected))
    decided: NDArray[Any] = scores > 0
    if isinstance(model, SetpointBand):
        decided = (scores > model.low_).astype(np.int64) + (scores > model.high_)
    if not near.all() or not np.array_equal(decisions, decided):
        raise OnnxError(
            f"the exported model does not agree with the classifier on {int((~near).sum())} of "
            f"{len(rows)} rows, so it was not written; the exporter does not support "
            f"{_step_names(model)}."
        )


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
    inner = getattr(model, "estimator_", None) or model.module_
    steps = inner.steps if isinstance(inner, Pipeline) else [("", inner)]
    return " and ".join(type(step).__name__ for _, step in steps)

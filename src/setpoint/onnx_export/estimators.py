"""Classifiers of scikit-learn as ONNX nodes."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from sklearn.ensemble import (
    ExtraTreesClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
)
from sklearn.linear_model._base import LinearClassifierMixin
from sklearn.pipeline import Pipeline

from setpoint._extras import need
from setpoint.estimators import SetpointClassifier
from setpoint.onnx_export.errors import OnnxError
from setpoint.onnx_export.graph import ML, ML_OPSET, OPSET, Graph
from setpoint.onnx_export.modules import classifier_scores
from setpoint.onnx_export.runtime import run
from setpoint.onnx_export.trees import boosted_scores, forest_scores

_BY_DECISION = "decision_function"


def estimator_scores(graph: Graph, estimator: Any, X: str, method: str, positive_index: int) -> str:
    """Add a classifier; return the name of its float64 scores, larger for likely positives.

    Parameters
    ----------
    graph : Graph
        Is added to.
    estimator : classifier
        A fitted one.
    X : str
        The name of the features.
    method : {"decision_function", "predict_proba"}
        Which of its scores are meant.
    positive_index : int
        Which of its classes is positive.
    """
    kind = type(estimator)
    if isinstance(estimator, Pipeline):
        steps = [s for s in estimator.steps[:-1] if s[1] not in (None, "passthrough")]
        if steps:
            X = graph.include(_converted(Pipeline(steps), graph, {}), X)
        return estimator_scores(graph, estimator.steps[-1][1], X, method, positive_index)
    if kind in (RandomForestClassifier, ExtraTreesClassifier):
        return forest_scores(graph, estimator, X, positive_index)
    if method == _BY_DECISION and kind is SetpointClassifier:
        scores = graph.cast(classifier_scores(graph, estimator, X), np.float64)
        return _signed(graph, scores, estimator._labels.positive_index == positive_index)
    if method == _BY_DECISION and kind is HistGradientBoostingClassifier:
        return _signed(graph, boosted_scores(graph, estimator, X), positive_index == 1)
    if method == _BY_DECISION and isinstance(estimator, LinearClassifierMixin):
        weight = graph.constant(np.asarray(estimator.coef_, dtype=np.float64).reshape(1, -1))
        bias = graph.constant(np.asarray(estimator.intercept_, dtype=np.float64).reshape(-1)[:1])
        scores = graph.add("Gemm", graph.cast(X, np.float64), weight, bias, transB=1)
        scores = graph.add("Reshape", scores, graph.constant(np.array([-1])))
        return _signed(graph, scores, positive_index == 1)
    return _by_skl2onnx(graph, estimator, X, method, positive_index)


def _signed(graph: Graph, scores: str, plus: bool) -> str:
    return scores if plus else graph.add("Neg", scores)


def _by_skl2onnx(graph: Graph, estimator: Any, X: str, method: str, positive_index: int) -> str:
    options: dict[str, Any] = {"zipmap": False}
    if method == _BY_DECISION:
        options["raw_scores"] = True
    model = _converted(estimator, graph, {id(estimator): options})
    two_rows = np.zeros((2, _n_features(estimator, graph)), dtype=graph.dtype)
    shape = run(model, two_rows)[1].shape
    scores = graph.include(model, X, output=1)
    scores = graph.cast(scores, np.float64)
    if shape == (2, 2):
        column = graph.constant(np.array(positive_index))
        return graph.add("Gather", scores, column, axis=1)
    scores = graph.add("Reshape", scores, graph.constant(np.array([-1])))
    return _signed(graph, scores, positive_index == 1)


def _converted(estimator: Any, graph: Graph, options: dict[int, Any]) -> Any:
    """Return what skl2onnx makes of an estimator, in the precision of the graph."""
    skl2onnx = need("skl2onnx", "onnx", "An ONNX export")
    types = need("skl2onnx.common.data_types", "onnx", "An ONNX export")
    double = graph.dtype == np.float64
    n_features = _n_features(estimator, graph)
    kind = types.DoubleTensorType if double else types.FloatTensorType
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about what it uses of scikit-learn
            return skl2onnx.convert_sklearn(
                estimator,
                initial_types=[("X", kind([None, n_features]))],
                options=options,
                target_opset={"": OPSET, ML: ML_OPSET},
            )
    except Exception as error:  # whatever skl2onnx does not know
        what = type(getattr(estimator, "steps", [(0, estimator)])[-1][1]).__name__
        raise OnnxError(
            f"{what} cannot be exported to ONNX: {str(error).splitlines()[0][:200]}"
        ) from error


def _n_features(estimator: Any, graph: Graph) -> int:
    return int(getattr(estimator, "n_features_in_", graph.n_features))

"""Classifiers of scikit-learn and torch modules as ONNX nodes."""

from __future__ import annotations

import copy
import io
import warnings
from typing import Any

import numpy as np
import torch
from sklearn.ensemble import (
    ExtraTreesClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
)
from sklearn.linear_model._base import LinearClassifierMixin
from sklearn.multiclass import OneVsRestClassifier
from sklearn.multioutput import MultiOutputClassifier
from sklearn.pipeline import Pipeline
from torch import nn

from setpoint._internal.imports import BOOSTERS, need
from setpoint.errors import OnnxError
from setpoint.estimators.classifier import SetpointClassifier
from setpoint.estimators.label_classifiers import LabelClassifiers
from setpoint.estimators.scores import METHODS
from setpoint.estimators.stacking import StackedModels, least_probability
from setpoint.export.graph import ML, ML_OPSET, OPSET, Graph, run
from setpoint.export.trees import boosted_scores, forest_scores

_BY_DECISION = "decision_function"


def estimator_scores(graph: Graph, estimator: Any, X: str, method: str, positive_index: int) -> str:
    """Add a classifier; return the name of its float64 scores, larger for likely positives.

    Parameters
    ----------
    graph : Graph
        The graph to extend.
    estimator : classifier
        A fitted classifier.
    X : str
        The name of the features.
    method : {"decision_function", "predict_proba"}
        The method that gives the scores.
    positive_index : int
        The index of the positive class.
    """
    if isinstance(estimator, StackedModels):
        # Its members learned from booleans.
        plus = estimator.positive_index == positive_index
        if estimator.single is not None:
            return estimator_scores(graph, estimator.single, X, method, int(plus))
        scores = _with_sign(graph, _stacked(graph, estimator, X), plus)
        return scores if method == _BY_DECISION else graph.add("Sigmoid", scores)
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
        return _with_sign(graph, scores, estimator._labels.positive_index == positive_index)
    if kind is HistGradientBoostingClassifier:
        scores = _with_sign(graph, boosted_scores(graph, estimator, X), positive_index == 1)
        return scores if method == _BY_DECISION else graph.add("Sigmoid", scores)
    if method == _BY_DECISION and isinstance(estimator, LinearClassifierMixin):
        weight = graph.constant(np.asarray(estimator.coef_, dtype=np.float64).reshape(1, -1))
        bias = graph.constant(np.asarray(estimator.intercept_, dtype=np.float64).reshape(-1)[:1])
        scores = graph.add("Gemm", graph.cast(X, np.float64), weight, bias, transB=1)
        scores = graph.add("Reshape", scores, graph.constant(np.array([-1])))
        return _with_sign(graph, scores, positive_index == 1)
    return _by_skl2onnx(graph, estimator, X, method, positive_index)


def _stacked(graph: Graph, stack: StackedModels, X: str) -> str:
    """Add a stack; return the name of its logits."""
    total = graph.constant(np.float64(stack.intercept))
    for weight, member in zip(stack.weights, stack.members, strict=True):
        own = X
        if member.columns is not None:
            ends = [np.array([end]) for end in member.columns[:2]]
            own = graph.add("Slice", X, *map(graph.constant, [*ends, np.array([1])]))
        classifier = member.classifier
        if hasattr(classifier, _BY_DECISION) and not member.from_probabilities:
            logits = estimator_scores(graph, classifier, own, _BY_DECISION, 1)
        else:
            p = estimator_scores(graph, classifier, own, "predict_proba", 1)
            least = least_probability(classifier)
            limits = [graph.constant(np.float64(end)) for end in (least, 1 - least)]
            p = graph.add("Min", graph.add("Max", p, limits[0]), limits[1])
            against = graph.add("Sub", graph.constant(np.float64(1.0)), p)
            logits = graph.add("Log", graph.add("Div", p, against))
        weighted = graph.add("Mul", logits, graph.constant(np.float64(weight)))
        total = graph.add("Add", total, weighted)
    return total


def label_scores(graph: Graph, classifiers: LabelClassifiers, X: str) -> list[str | None]:
    """Add the classifiers of several labels; return the name of each one's float64 scores.

    It is None for a label without a classifier.
    """
    of_all = classifiers.of_all
    if of_all is None:
        return [
            None if one is None else estimator_scores(graph, one, X, _scoring_method(one), 1)
            for one in classifiers.of_each
        ]
    found: list[str | None]
    if type(of_all) in (RandomForestClassifier, ExtraTreesClassifier):
        found = [
            forest_scores(graph, of_all, X, _place_of_1(known), label) if 1 in known else None
            for label, known in enumerate(of_all.classes_)
        ]
    elif type(of_all) in (OneVsRestClassifier, MultiOutputClassifier):
        method = _scoring_method(of_all)
        found = [
            estimator_scores(graph, one, X, method, _place_of_1(one.classes_))
            if 1 in one.classes_
            else None
            for one in of_all.estimators_
        ]
    else:
        raise OnnxError(
            f"{type(of_all).__name__}, fitted to a matrix of labels, cannot be exported; wrap it "
            "in sklearn.multioutput.MultiOutputClassifier."
        )
    scores = iter(found)
    return [next(scores) if kept else None for kept in classifiers.kept]


def _place_of_1(classes: Any) -> int:
    return list(classes).index(1)


def _scoring_method(estimator: Any) -> str:
    return next(name for name in METHODS if hasattr(estimator, name))


def _with_sign(graph: Graph, scores: str, plus: bool) -> str:
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
    return _with_sign(graph, scores, positive_index == 1)


def _converted(estimator: Any, graph: Graph, options: dict[int, Any]) -> Any:
    """Return an estimator converted by skl2onnx, in the precision of the graph."""
    skl2onnx = need("skl2onnx", "onnx", "An ONNX export")
    types = need("skl2onnx.common.data_types", "onnx", "An ONNX export")
    double = graph.dtype == np.float64
    n_features = _n_features(estimator, graph)
    what = type(getattr(estimator, "steps", [(0, estimator)])[-1][1])
    if what.__module__.partition(".")[0] in BOOSTERS:
        raise OnnxError(
            f"{what.__name__} cannot be exported to ONNX; fit scikit-learn's boosted trees instead "
            "(HistGradientBoostingClassifier, --model hgb)."
        )
    kind = types.DoubleTensorType if double else types.FloatTensorType
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about its use of scikit-learn
            return skl2onnx.convert_sklearn(
                estimator,
                initial_types=[("X", kind([None, n_features]))],
                options=options,
                target_opset={"": OPSET, ML: ML_OPSET},
            )
    except Exception as error:  # skl2onnx raises many kinds of errors
        raise OnnxError(
            f"{what.__name__} cannot be exported to ONNX: {str(error).splitlines()[0][:200]}"
        ) from error


def _n_features(estimator: Any, graph: Graph) -> int:
    return int(getattr(estimator, "n_features_in_", graph.n_features))


_ACTIVATIONS = {nn.ReLU: "Relu", nn.Tanh: "Tanh", nn.Sigmoid: "Sigmoid"}
_WITHOUT_EFFECT = (nn.Dropout, nn.Identity)  # in prediction


def classifier_scores(graph: Graph, clf: SetpointClassifier, X: str) -> str:
    """Add a classifier's standardizer, module and threshold; return the name of its scores."""
    dtype = clf._dtype
    if clf.standardizer_ is not None:
        wide = graph.cast(X, np.float64)
        centred = graph.add("Sub", wide, graph.constant(clf.standardizer_.centre))
        X = graph.add("Div", centred, graph.constant(clf.standardizer_.scale))
    X = graph.cast(X, dtype)
    logits = _layers(graph, clf.module_, X) if _is_translatable(clf.module_) else None
    if logits is None:
        logits = graph.include(_exported(clf.module_, clf.n_features_in_), X)
    logits = graph.add("Reshape", logits, graph.constant(np.array([-1])))
    return graph.add("Sub", logits, graph.constant(dtype.type(clf.logit_threshold_)))


def _is_translatable(module: nn.Module) -> bool:
    """Return whether a module consists only of layers that are translated here."""
    if module._forward_hooks or module._forward_pre_hooks:
        return False
    if type(module) is nn.Sequential:
        return all(_is_translatable(layer) for layer in module)
    return type(module) in (nn.Linear, *_ACTIVATIONS, *_WITHOUT_EFFECT)


def _layers(graph: Graph, module: nn.Module, X: str) -> str:
    if isinstance(module, nn.Sequential):
        for layer in module:
            X = _layers(graph, layer, X)
        return X
    if isinstance(module, nn.Linear):
        weight = graph.constant(module.weight.detach().numpy())
        bias = [] if module.bias is None else [graph.constant(module.bias.detach().numpy())]
        return graph.add("Gemm", X, weight, *bias, transB=1)
    if type(module) in _ACTIVATIONS:
        return graph.add(_ACTIVATIONS[type(module)], X)
    return X


def _exported(module: nn.Module, n_features: int) -> object:
    """Return the ONNX model that torch exports for a user-defined module."""
    from onnx import load_model_from_string

    module = copy.deepcopy(module).eval()
    dtype = next(module.parameters()).dtype
    buffer: Any = io.BytesIO()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # deprecated, but needs no other package
            torch.onnx.export(
                module,
                (torch.zeros((3, n_features), dtype=dtype),),
                buffer,
                input_names=["X"],
                output_names=["logits"],
                dynamic_axes={"X": {0: "n"}},
                opset_version=OPSET,
                dynamo=False,
            )
    except Exception as error:  # the exporter raises many kinds of errors
        raise OnnxError(
            f"torch cannot export the module {type(module).__name__} to ONNX: {error}"
        ) from error
    return load_model_from_string(buffer.getvalue())

"""Fitted classifiers as SQL: which kind they are, and the scores of their positive class."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.ensemble import (
    ExtraTreesClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
)
from sklearn.linear_model import LogisticRegression
from sklearn.linear_model._base import LinearClassifierMixin
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier, ExtraTreeClassifier

from setpoint.errors import SqlError
from setpoint.estimators.band import SetpointBand
from setpoint.estimators.classifier import SetpointClassifier
from setpoint.estimators.stacking import StackedModels
from setpoint.estimators.threshold import SetpointThreshold
from setpoint.export.decisions import scoring_method
from setpoint.export.sql.features import Feature, Numeric
from setpoint.export.sql.linear import Scaling, linear_scores, sigmoid
from setpoint.export.sql.statement import Sql, Statement, constant, expression
from setpoint.export.sql.trees import boosted_scores, forest_scores
from setpoint.training.models import is_linear

_FORESTS = (RandomForestClassifier, ExtraTreesClassifier)
_TREES = (DecisionTreeClassifier, ExtraTreeClassifier)
_EXACT = (*_FORESTS, *_TREES, HistGradientBoostingClassifier)


def own_scores(statement: Statement, features: Sequence[Feature], model: SetpointClassifier) -> Sql:
    """Add a linear SetpointClassifier; return its scores, which are relative to the threshold."""
    module: Any = model.module_
    if not is_linear(module):
        raise SqlError(
            "a network cannot be exported to SQL, only a linear model, logistic regression or "
            "trees; use ONNX (--format onnx), or fit --model linear, logistic or hgb."
        )
    weights = module.weight.detach().double().numpy().ravel()
    bias = 0.0 if module.bias is None else float(module.bias.detach().double())
    threshold = float(model._dtype.type(model.logit_threshold_))
    standardizer = model.standardizer_
    scaling = None if standardizer is None else Scaling.of_standardizer(standardizer)
    single = model._dtype == np.float32
    logit = linear_scores(statement, features, scaling, weights, bias, single=single)
    if np.isinf(threshold):  # the same decision for all rows
        return constant(statement.dialect.number(-threshold), logit)
    return expression(f"{logit.text} - {statement.dialect.number(threshold)}", logit)


def wrapped_scores(
    statement: Statement, features: Sequence[Feature], model: SetpointThreshold | SetpointBand
) -> Sql:
    """Add the classifier of a SetpointThreshold or SetpointBand; return its scores."""
    method, positive = scoring_method(model), _positive_index(model)
    if isinstance(model.estimator_, StackedModels) and model.estimator_.single is None:
        logit = _calibrated(statement, features, model.estimator_)
        return logit if method == "decision_function" else sigmoid(statement, logit)
    scaler, estimator = _unwrapped(model.estimator_)
    if isinstance(estimator, _EXACT) and scaler is not None:
        raise _unknown(model.estimator_)
    if type(estimator) in _FORESTS:
        trees = estimator.estimators_
        total = forest_scores(statement, features, trees, positive)
        mean = f"{total.text} / {statement.dialect.number(len(trees))}"
        return statement.define("probability", expression(mean, total))
    if type(estimator) in _TREES:
        return forest_scores(statement, features, [estimator], positive)
    if type(estimator) is HistGradientBoostingClassifier:
        logit = boosted_scores(statement, features, estimator)
    elif type(estimator) is LogisticRegression or (
        method == "decision_function" and isinstance(estimator, LinearClassifierMixin)
    ):
        logit = _regression(statement, features, scaler, estimator)
    else:
        raise _unknown(model.estimator_)
    if method == "decision_function":
        return logit if positive == 1 else expression(f"(-{logit.text})", logit)
    probability = sigmoid(statement, logit)
    return probability if positive == 1 else expression(f"(1e0 - {probability.text})", probability)


def _calibrated(statement: Statement, features: Sequence[Feature], stack: StackedModels) -> Sql:
    """Add the only model of a stack, which is trained for the goal; return its logits."""
    scores = own_scores(statement, features, stack.only)
    slope, intercept = map(statement.dialect.number, (stack.weights[0], stack.intercept))
    return expression(f"({scores.text}) * {slope} + {intercept}", scores)


def check_kind(classifier: Any) -> None:
    """Raise SqlError for a stack, unless it is one model."""
    stack = getattr(classifier, "estimator_", None)
    if not isinstance(stack, StackedModels) or stack.single is not None:
        return
    if len(stack.members) == 1 and not isinstance(stack.only, SetpointClassifier):
        raise SqlError(
            f"{stack.members[0].name!r}, chosen by a ModelSearch for labels other than 0 and 1, "
            "decides by the logit of its probability, which cannot be exported to SQL; fit it "
            "without a search, or use ONNX (--format onnx)."
        )
    if not isinstance(stack.only, SetpointClassifier):
        raise SqlError(
            "a stack of several models cannot be exported to SQL; fit a single one: --model hgb, "
            "extra-trees, forest, logistic or linear. ONNX has stacks: --format onnx."
        )


def is_exact(model: Any) -> bool:
    """Whether SQL computes the same scores as the model, bit for bit up to the last few bits."""
    if isinstance(model, SetpointClassifier):
        return bool(model._dtype != np.float32)
    only = model.estimator_.only if isinstance(model.estimator_, StackedModels) else None
    if isinstance(only, SetpointClassifier):
        return is_exact(only)
    _, estimator = _unwrapped(model.estimator_)
    return isinstance(estimator, _EXACT) or estimator.coef_.dtype != np.float32


def _regression(
    statement: Statement, features: Sequence[Feature], scaler: Any, estimator: Any
) -> Sql:
    """Add a linear model of scikit-learn; return its decision function."""
    weights = np.asarray(estimator.coef_)
    if weights.ndim == 2 and len(weights) != 1:
        raise SqlError("a classifier of more than two classes cannot be exported to SQL.")
    single = weights.dtype == np.float32  # fitted to 32-bit floats, and computes with them
    if single:
        features = [replace(f, single=True) if isinstance(f, Numeric) else f for f in features]
    scaling = None if scaler is None else Scaling.of_scaler(scaler, single)
    bias = float(np.ravel(estimator.intercept_)[0])
    return linear_scores(statement, features, scaling, weights.ravel(), bias, single=single)


def _unwrapped(estimator: Any) -> tuple[Any, Any]:
    """Return the StandardScaler of a pipeline, or None, and its classifier."""
    if isinstance(estimator, StackedModels) and estimator.single is not None:
        estimator = estimator.single
    if not isinstance(estimator, Pipeline):
        return None, estimator
    steps = [step for _, step in estimator.steps if step not in (None, "passthrough")]
    if len(steps) == 2 and type(steps[0]) is StandardScaler:
        return steps[0], steps[1]
    if len(steps) == 1:
        return None, steps[0]
    raise _unknown(estimator)


def _positive_index(model: SetpointThreshold | SetpointBand) -> int:
    if isinstance(model.estimator_, StackedModels) and model.estimator_.only is not None:
        return 1  # the only model learned from booleans
    labels = model._labels
    known = np.asarray(getattr(model.estimator_, "classes_", labels.classes))
    if len(known) != 2:
        raise SqlError(
            f"the classifier knows {len(known)} classes; only those of two can be exported to SQL."
        )
    positive, _ = labels.compare(known)
    return int(np.flatnonzero(positive)[0])


def _unknown(estimator: Any) -> SqlError:
    steps = estimator.steps if isinstance(estimator, Pipeline) else [("", estimator)]
    names = " and ".join(type(step).__name__ for _, step in steps)
    return SqlError(
        f"{names} cannot be exported to SQL, only linear models (logistic regression and the like, "
        "after a StandardScaler or not), HistGradientBoostingClassifier, random forests, extra "
        "trees and decision trees. ONNX has more: --format onnx."
    )

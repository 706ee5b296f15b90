"""Fitted linear models as one weight for each feature: their coefficients and contributions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.special import logit
from sklearn.linear_model import LogisticRegression
from sklearn.linear_model._base import LinearClassifierMixin
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, RobustScaler, StandardScaler

from setpoint.errors import SetpointError
from setpoint.estimators.stacking import StackedModels
from setpoint.explain.coefficients import Coefficient, Coefficients
from setpoint.training.models import is_linear

Floats = NDArray[np.float64]

_INSTEAD = "permutation_importance() explains models of any kind."


@dataclass(frozen=True, eq=False)
class LinearScore:
    """A score that is a weighted sum of features.

    Attributes
    ----------
    weights : ndarray of shape (features,)
        The change of the score for one unit of each feature.
    intercept : float
        The score, relative to the threshold, where all features are 0.
    means, deviations : ndarray of shape (features,) or None
        Of the features in the rows that trained the model; None if it did not standardize them.
    of : {"score", "log-odds"}
        What the sum is: the score, or its log-odds if the threshold applies to probabilities.
    before : tuple of transformers
        Steps of a pipeline that make the features.
    """

    weights: Floats
    intercept: float
    means: Floats | None = None
    deviations: Floats | None = None
    of: str = "score"
    before: tuple[Any, ...] = ()

    def features(self, X: Any) -> Floats:
        """Return the features of rows of the classifier."""
        for step in self.before:
            X = step.transform(X)
        X = X.toarray() if sparse.issparse(X) else X
        return np.asarray(X, dtype=np.float64)

    def names(self, fitted: Any) -> list[str]:
        """Return the names of the features of a fitted classifier."""
        names = getattr(fitted, "feature_names_in_", None)
        for step in self.before:
            try:
                names = step.get_feature_names_out(names)
            except (AttributeError, ValueError):  # the step knows no names
                names = None
        if names is None or len(names) != len(self.weights):
            return [f"x{i}" for i in range(len(self.weights))]
        return [str(name) for name in names]

    def contributions(self, features: Floats) -> Floats:
        """Return by how much each feature of rows moves the score from that of the mean row.

        That is the feature less its mean in training, times its weight. Without these means, those
        of the rows given are taken.
        """
        means = np.mean(features, axis=0) if self.means is None else self.means
        return np.asarray((features - means) * self.weights)


def contributions_by_column(
    found: LinearScore, features: Floats, columns: Sequence[str]
) -> tuple[list[dict[str, float]], float, str]:
    """Return by how much each column moves the score of rows, and the score of the average row.

    ``columns`` are those of the features. Also returned is what is moved: the score or log-odds.
    """
    moved = found.contributions(features)
    names = list(dict.fromkeys(columns))
    place = {name: i for i, name in enumerate(names)}
    totals = np.zeros((len(names), len(moved)))
    np.add.at(totals, [place[name] for name in columns], moved.T)
    rows = [dict(zip(names, row, strict=True)) for row in totals.T.tolist()]
    means = np.mean(features, axis=0) if found.means is None else found.means
    return rows, found.intercept + float(found.weights @ means), found.of


def linear_score(classifier: Any) -> LinearScore:
    """Return the weights of a fitted classifier; raise SetpointError if it is not linear."""
    if hasattr(classifier, "logit_threshold_"):  # a SetpointClassifier
        return _of_module(classifier)
    if getattr(classifier, "decision", "threshold") != "threshold":
        raise SetpointError(
            f"decisions by expected value depend on the prices of each row, so that the model has "
            f"no coefficients; {_INSTEAD}"
        )
    if getattr(classifier, "segment_thresholds_", None) is not None:
        raise SetpointError(
            "scores are measured from the threshold of each segment, so that the model has no "
            f"coefficients; {_INSTEAD}"
        )
    fitted = classifier.estimator_
    found = _of_wrapped(fitted)
    known = np.asarray(fitted.classes_)
    positive, _ = classifier._labels.compare(known)
    if not positive[-1]:
        found = replace(found, weights=-found.weights, intercept=-found.intercept)
    threshold = float(getattr(classifier, "threshold_", 0.0))  # a review band has two
    method = classifier.response_method
    by_probability = method == "predict_proba" or (
        method == "auto" and not hasattr(fitted, "decision_function")
    )
    if by_probability:
        with np.errstate(divide="ignore"):
            threshold = float(logit(np.clip(threshold, 0.0, 1.0)))
        if type(_last(fitted)) is not LogisticRegression or hasattr(fitted, "logit_threshold_"):
            raise SetpointError(
                "coefficients of probabilities are those of logistic regression, not of "
                f"{_name(fitted)}; use response_method='decision_function'. {_INSTEAD}"
            )
        found = replace(found, of="log-odds")
    return replace(found, intercept=found.intercept - threshold)


def coefficients_of(classifier: Any, X: Any = None) -> Coefficients:
    """Return the coefficients of a fitted classifier of arrays.

    ``X`` are rows whose standard deviations are taken if the model did not standardize features.
    """
    found = linear_score(classifier)
    deviations = found.deviations
    if deviations is None and X is not None:
        deviations = np.std(found.features(X), axis=0)
    known = np.full(len(found.weights), np.nan) if deviations is None else deviations
    names = found.names(getattr(classifier, "estimator_", classifier))
    return Coefficients(
        [
            Coefficient(name, "", float(weight), float(weight * deviation))
            for name, weight, deviation in zip(names, found.weights, known, strict=True)
        ],
        found.intercept,
        found.of,
    )


def _of_module(classifier: Any) -> LinearScore:
    """Return the weights of a SetpointClassifier."""
    module, standardizer = classifier.module_, classifier.standardizer_
    if not is_linear(module):
        raise _not_linear(classifier)
    weights = module.weight.detach().double().numpy().ravel()
    bias = 0.0 if module.bias is None else float(module.bias.detach().double())
    found = LinearScore(weights, bias - float(classifier.logit_threshold_))
    if standardizer is None:
        return found
    deviations = np.where(np.isinf(standardizer.scale), 0.0, standardizer.scale)
    return _scaled(found, standardizer.centre, standardizer.scale, standardizer.centre, deviations)


def _of_wrapped(fitted: Any) -> LinearScore:
    """Return the weights of a classifier that a SetpointThreshold or SetpointBand wraps."""
    if hasattr(fitted, "logit_threshold_"):
        found = _of_module(fitted)
        sign = 1.0 if fitted._labels.positive_index == 1 else -1.0  # of the decision function
        return replace(found, weights=sign * found.weights, intercept=sign * found.intercept)
    if hasattr(fitted, "best_estimator_"):  # of a search
        return _of_wrapped(fitted.best_estimator_)
    if isinstance(fitted, StackedModels) and fitted.only is not None:
        found = _of_wrapped(fitted.only)
        sign = 1.0 if fitted.positive_index == 1 else -1.0
        weights = sign * fitted.weights[0] * found.weights
        intercept = sign * (fitted.weights[0] * found.intercept + fitted.intercept)
        return replace(found, weights=weights, intercept=intercept)
    steps = [fitted]
    if isinstance(fitted, Pipeline):
        steps = [step for _, step in fitted.steps if step not in (None, "passthrough")]
    last = steps.pop()
    if hasattr(last, "logit_threshold_"):
        found = _of_wrapped(last)
    elif isinstance(last, LinearClassifierMixin) and hasattr(last, "coef_"):
        weights = last.coef_.toarray() if sparse.issparse(last.coef_) else np.asarray(last.coef_)
        if weights.ndim == 2 and len(weights) != 1:
            raise SetpointError(f"the classifier knows more than two classes; {_INSTEAD}")
        found = LinearScore(weights.ravel().astype(np.float64), float(np.ravel(last.intercept_)[0]))
    else:
        raise _not_linear(fitted)
    while steps and (scaling := _scaling(steps[-1], len(found.weights))) is not None:
        step, moments = steps.pop(), (None, None)
        if type(step) is StandardScaler and step.var_ is not None:
            moments = step.mean_, np.sqrt(step.var_)
        found = _scaled(found, *scaling, *moments)
    return replace(found, before=(*steps, *found.before))


def _scaling(step: Any, features: int) -> tuple[Floats, Floats] | None:
    """Return what a step subtracts from each feature and divides it by; None if it does more."""
    kind, zeros, ones = type(step), np.zeros(features), np.ones(features)
    if kind is StandardScaler:
        centre = zeros if step.mean_ is None or not step.with_mean else step.mean_
        return centre, ones if step.scale_ is None else step.scale_
    if kind is RobustScaler:
        centre = step.center_ if step.with_centering else zeros
        return centre, step.scale_ if step.with_scaling else ones
    if kind is MaxAbsScaler:
        return zeros, step.scale_
    if kind is MinMaxScaler and not step.clip:
        return -step.min_ / step.scale_, 1 / step.scale_
    return None


def _scaled(
    found: LinearScore,
    centre: Floats,
    scale: Floats,
    means: Floats | None = None,
    deviations: Floats | None = None,
) -> LinearScore:
    """Return the weights of features before they were centred and scaled.

    ``means`` and ``deviations`` are those of the features in the training rows, if the step that
    scaled them knows these.
    """
    weights = found.weights / scale
    if found.means is not None and found.deviations is not None:  # known to a later step
        means, deviations = centre + found.means * scale, found.deviations * scale
    moved = np.where(weights == 0, 0.0, weights * centre)  # the centre may be infinite
    return LinearScore(
        weights, found.intercept - float(moved.sum()), means, deviations, found.of, found.before
    )


def _last(fitted: Any) -> Any:
    if isinstance(fitted, StackedModels) and fitted.only is not None:
        fitted = fitted.only
    fitted = getattr(fitted, "best_estimator_", fitted)
    return fitted.steps[-1][1] if isinstance(fitted, Pipeline) else fitted


def _name(fitted: Any) -> str:
    if isinstance(fitted, StackedModels) and fitted.only is not None:
        fitted = fitted.only
    if hasattr(fitted, "logit_threshold_"):
        return "a SetpointClassifier"
    steps = fitted.steps if isinstance(fitted, Pipeline) else [("", fitted)]
    return " and ".join(type(step).__name__ for _, step in steps)


def _not_linear(fitted: Any) -> SetpointError:
    what = _name(fitted)
    if hasattr(fitted, "logit_threshold_"):
        what += " with a network"
    return SetpointError(f"coefficients are those of a linear model, not of {what}; {_INSTEAD}")

r"""A stack: a logistic regression on the logits of several fitted classifiers.

With :math:`z_k(x)` for the logit of classifier k,

.. math:: f(x) = b + \sum_k w_k z_k(x), \qquad w_k \ge 0,

where w and b minimise the logistic loss of rows that were new to the classifiers. A negative weight
would use a classifier against its own evidence; it only fits noise.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import expit, logit
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.ensemble._forest import BaseForest
from sklearn.utils import _safe_indexing
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

Floats = NDArray[np.floating]

_RIDGE = 1.0  # for weights of logits of standard deviation 1; intercepts have none
_LEAST = 1e-6  # a probability of 0 has no logit
_LEAST_VOTE = 0.1  # of one tree: how far the votes of a forest are from 0 and 1 at least


class Columns(NamedTuple):
    """The first and the last column of X, exclusive, that a model takes.

    With ``in_64_bits`` they become 64-bit floats: features of tables are 32-bit ones, and linear
    models of these have the scores of an exported statement only if they compute in 64 bits.
    """

    first: int
    last: int
    in_64_bits: bool = False


class Member(NamedTuple):
    """A fitted classifier of a stack.

    Attributes
    ----------
    name : str
        What it is called.
    classifier : classifier
        Fitted to booleans.
    columns : Columns or None
        Its columns of X; None: all of them.
    from_probabilities : bool
        Whether its logits are those of its probabilities although it has a decision function.
    """

    name: str
    classifier: Any
    columns: Columns | None = None
    from_probabilities: bool = False

    def take(self, X: Any) -> Any:
        """Return the columns that the classifier takes."""
        return take_columns(X, self.columns)

    def logits(self, taken: Any) -> Floats:
        """Return the logits of rows with the classifier's columns."""
        return logits(self.classifier, taken, self.from_probabilities)


def _has(name: str) -> Any:
    """Return a check that the classifier has a method, for ``available_if``."""

    def check(self: OnColumns) -> bool:
        return hasattr(self.classifier, name)

    return check


class OnColumns(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A fitted classifier that takes some columns of X.

    Parameters
    ----------
    classifier : classifier
        Fitted on these columns.
    columns : Columns
        These columns.
    """

    def __init__(self, classifier: Any, columns: Columns) -> None:
        self.classifier = classifier
        self.columns = columns

    @property
    def classes_(self) -> NDArray[Any]:
        """The labels."""
        return np.asarray(self.classifier.classes_)

    def fit(self, X: Any, y: Any) -> OnColumns:
        """Do nothing: the classifier is fitted already."""
        return self

    def __sklearn_is_fitted__(self) -> bool:
        return _is_fitted(self.classifier)

    @available_if(_has("decision_function"))  # type: ignore[untyped-decorator]
    def decision_function(self, X: Any) -> Any:
        """Return the classifier's decision function."""
        return self.classifier.decision_function(take_columns(X, self.columns))

    @available_if(_has("predict_proba"))  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any) -> Any:
        """Return the classifier's probabilities."""
        return self.classifier.predict_proba(take_columns(X, self.columns))

    def predict(self, X: Any) -> Any:
        """Return the classifier's labels."""
        return self.classifier.predict(take_columns(X, self.columns))


class StackedModels(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Fitted classifiers, combined by a weighted sum of their logits.

    ``SetpointThreshold.auto`` builds it; it cannot be fitted on its own. The members learned from
    booleans; ``classes`` are the two labels that ``predict`` returns, the negative one first or
    second as ``positive_index`` says.

    Parameters
    ----------
    members : sequence of Member
        The classifiers.
    weights : ndarray of shape (members,)
        Their weights, >= 0.
    intercept : float
        The intercept.
    classes : ndarray of shape (2,)
        The labels in sorted order.
    positive_index : {0, 1}
        Which of them is positive.
    """

    def __init__(
        self,
        members: Any,
        weights: Any,
        intercept: float = 0.0,
        classes: Any = (False, True),
        positive_index: int = 1,
    ) -> None:
        self.members = members
        self.weights = weights
        self.intercept = intercept
        self.classes = classes
        self.positive_index = positive_index

    @property
    def classes_(self) -> NDArray[Any]:
        """The two labels."""
        return np.asarray(self.classes)

    @property
    def n_features_in_(self) -> int:
        """The number of columns of X."""
        ends = [m.columns[1] for m in self.members if m.columns is not None]
        return int(max(ends) if ends else self.members[0].classifier.n_features_in_)

    @property
    def feature_names_in_(self) -> NDArray[Any]:
        """The names of the columns of X, if all members take all columns and know their names."""
        names = [getattr(m.classifier, "feature_names_in_", None) for m in self.members]
        if any(m.columns is not None for m in self.members) or any(n is None for n in names):
            raise AttributeError("the members do not know the names of all columns.")
        return np.asarray(names[0])

    @property
    def only(self) -> Any:
        """The only classifier, if the stack's scores follow from its decision function; or None.

        That is a single model, chosen among several, whose labels are not booleans or whose scores
        are calibrated.
        """
        member = self.members[0]
        if len(self.members) > 1 or member.columns is not None or member.from_probabilities:
            return None
        return member.classifier if hasattr(member.classifier, "decision_function") else None

    @property
    def single(self) -> Any:
        """The only classifier, if its decision function is that of the positive label; or None."""
        unchanged = self.weights[0] == 1 and self.intercept == 0
        return self.only if unchanged else None

    def fit(self, X: Any, y: Any) -> StackedModels:
        """Do nothing: the members are fitted already."""
        return self

    def __sklearn_is_fitted__(self) -> bool:
        return all(_is_fitted(member.classifier) for member in self.members)

    def combined(self, scores: list[Floats]) -> Floats:
        """Return the logits of the stack, given those of its members in order."""
        # One addition after another: a matrix product rounds differently for one row than for many.
        total = np.full(len(scores[0]), float(self.intercept))
        for weight, own in zip(self.weights, scores, strict=True):
            total += weight * own
        return total

    def decision_function(self, X: Any) -> Floats:
        """Return the logit of the second class."""
        found = self.combined([m.logits(m.take(X)) for m in self.members])
        return found if self.positive_index == 1 else -found

    def predict_proba(self, X: Any) -> Floats:
        """Return the probabilities of the two classes."""
        found = expit(self.decision_function(X))
        return np.column_stack([1 - found, found])

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the more likely label."""
        return np.asarray(self.classes_[(self.decision_function(X) > 0).astype(int)])


def logits(classifier: Any, X: Any, from_probabilities: bool = False) -> Floats:
    """Return the logits of the positive class: the second one of a fitted classifier."""
    if hasattr(classifier, "decision_function") and not from_probabilities:
        return np.asarray(classifier.decision_function(X), dtype=np.float64)
    return as_logits(classifier, classifier.predict_proba(X)[:, 1])


def as_logits(classifier: Any, probabilities: Floats) -> Floats:
    """Return the logits of a classifier's probabilities; those of 0 and 1 are finite."""
    least = least_probability(classifier)
    values = np.asarray(probabilities, dtype=np.float64)
    return np.asarray(logit(np.clip(values, least, 1 - least)))


def least_probability(classifier: Any) -> float:
    """Return the probability that takes the place of 0, whose logit is infinite."""
    return _LEAST_VOTE / len(classifier.estimators_) if _is_forest(classifier) else _LEAST


def fit_weights(
    scores: NDArray[np.float64], y: NDArray[np.bool_], weight: Floats | None = None
) -> tuple[NDArray[np.float64], float]:
    """Return the weights, none of them negative, and the intercept of a stack.

    Parameters
    ----------
    scores : ndarray of shape (n, models)
        Logits of rows that were new to the models.
    y : ndarray of bool, shape (n,)
        Their labels.
    weight : ndarray of shape (n,), optional
        Weights of the rows.
    """
    centre, spread = scores.mean(axis=0), scores.std(axis=0)
    spread = np.where(spread > 0, spread, 1.0)
    Z, models = (scores - centre) / spread, scores.shape[1]
    sign = np.where(y, 1.0, -1.0)
    weight = np.ones(len(y)) if weight is None else np.asarray(weight, dtype=np.float64)

    def loss(theta: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        w, margin = theta[:-1], sign * (Z @ theta[:-1] + theta[-1])
        slope = -weight * sign * expit(-margin)
        value = weight @ np.logaddexp(0, -margin) + _RIDGE / 2 * (w @ w)
        return float(value), np.append(Z.T @ slope + _RIDGE * w, slope.sum())

    rate = np.clip(weight[y].sum() / weight.sum(), _LEAST, 1 - _LEAST)
    start = np.append(np.full(models, 1 / models), logit(rate))
    bounds = [(0.0, None)] * models + [(None, None)]
    theta = minimize(loss, start, jac=True, bounds=bounds, method="L-BFGS-B").x
    weights = theta[:-1] / spread
    return weights, float(theta[-1] - weights @ centre)


def calibrated(
    name: str, classifier: Any, X: Any, y: NDArray[np.bool_], weight: Floats | None = None
) -> StackedModels:
    """Return a classifier whose scores became logits, by a logistic regression on some rows.

    A SetpointClassifier measures its scores from its own threshold, and how far they spread is
    arbitrary. Scores of two fits, such as those of two folds, can be compared only as logits.
    """
    scores = np.asarray(logits(classifier, X), dtype=np.float64)
    weights, intercept = fit_weights(scores[:, None], y, weight)
    return StackedModels([Member(name, classifier)], weights, intercept)


def take_rows(X: Any, rows: NDArray[np.intp], columns: Columns | None) -> Any:
    """Return some rows, and the columns that a model takes."""
    return take_columns(_safe_indexing(X, rows), columns)


def take_columns(X: Any, columns: Columns | None) -> Any:
    """Return the columns of a matrix, a data frame or a list of rows; all of them for None."""
    if columns is None:
        return X
    first, last, in_64_bits = Columns(*columns)
    if hasattr(X, "iloc"):
        return X.iloc[:, first:last]
    taken = (X if hasattr(X, "shape") else np.asarray(X))[:, first:last]
    return taken.astype(np.float64, copy=False) if in_64_bits else taken


def _is_forest(classifier: Any) -> bool:
    return isinstance(classifier, BaseForest)


def _is_fitted(classifier: Any) -> bool:
    check_is_fitted(classifier)
    return True

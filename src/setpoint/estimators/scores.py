"""One score per row from any classifier, and the probability that it stands for."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline

from setpoint.data.labels import Labels
from setpoint.errors import SetpointError
from setpoint.estimators.stacking import StackedModels

Floats = NDArray[np.floating]
METHODS = ("decision_function", "predict_proba")

# Classifiers whose decision function is the logit of their probability.
_LOGISTIC = (LogisticRegression, HistGradientBoostingClassifier, StackedModels)


def positive_scores(classifier: Any, X: Any, labels: Labels, method: str) -> Floats:
    """Return one score per row, larger for likely positives."""
    if method not in ("auto", *METHODS):
        raise SetpointError(f"response_method is one of {('auto', *METHODS)}, not {method!r}.")
    if method == "auto":
        method = _preferred(classifier, labels)
    if not hasattr(classifier, method):
        raise SetpointError(f"{type(classifier).__name__} has no {method}.")
    scores = np.asarray(getattr(classifier, method)(X))
    if np.isnan(scores).any():
        raise SetpointError(
            f"{np.isnan(scores).sum()} scores of {type(classifier).__name__} are NaN."
        )
    if labels.positive_labels:
        known = np.asarray(getattr(classifier, "classes_", [False, True]))
        if scores.ndim == 2:
            return two_columns(scores, known, labels, method)[:, 1]
        return np.asarray(scores if _positive_classes(known, labels)[1] else -scores)
    known = np.asarray(getattr(classifier, "classes_", labels.classes))
    index = np.flatnonzero(known == labels.positive)
    if set(known.tolist()) != set(labels.classes.tolist()):
        raise SetpointError(
            f"the classifier knows the classes {known.tolist()}, the labels are "
            f"{labels.classes.tolist()}; both must be the same two."
        )
    if scores.ndim == 2 and scores.shape[1] == 2:
        return np.asarray(scores[:, int(index[0])])
    scores = scores.reshape(len(scores))
    return scores if index[0] == 1 else -scores


def _preferred(classifier: Any, labels: Labels) -> str:
    """Return the method that ``"auto"`` stands for."""
    found = [name for name in METHODS if hasattr(classifier, name)]
    if not found:
        raise SetpointError(
            f"{type(classifier).__name__} has neither decision_function nor predict_proba; a "
            "threshold needs scores."
        )
    if labels.positive_labels and len(getattr(classifier, "classes_", ())) > 2:
        return "predict_proba"  # decision functions of several classes cannot be added
    return found[0]


def probabilities(classifier: Any, scores: Floats, labels: Labels, method: str) -> Floats | None:
    """Return the probabilities of rows with such scores, None if these do not tell them."""
    if method == "auto":
        method = _preferred(classifier, labels)
    if method == "predict_proba":
        return np.asarray(scores)
    return np.asarray(expit(scores)) if is_logistic(classifier) else None


def is_logistic(classifier: Any) -> bool:
    """Whether a classifier's decision function is known to be the logit of its probability."""
    last = getattr(classifier, "best_estimator_", classifier)
    last = last.steps[-1][1] if isinstance(last, Pipeline) else last
    return isinstance(last, _LOGISTIC)


def two_columns(
    scores: Any, known: Any, labels: Labels, method: str = "predict_proba"
) -> NDArray[np.floating]:
    """Return the summed probabilities of the negative and of the positive labels.

    ``known`` are the classes of the columns: booleans, or labels of which some are positive.
    """
    found, known = np.asarray(scores), np.asarray(known)
    positive = _positive_classes(known, labels)
    if len(known) > 2 and method != "predict_proba":
        raise SetpointError(
            f"the classifier knows the classes {known.tolist()}; only probabilities of several "
            "classes can be added. Use response_method='predict_proba'."
        )
    return np.column_stack([found[:, ~positive].sum(axis=1), found[:, positive].sum(axis=1)])


def _positive_classes(known: NDArray[Any], labels: Labels) -> NDArray[np.bool_]:
    """Return which classes of a classifier are positive; some must be, and some not."""
    positive, _ = labels.compare(known)
    if positive.all() or not positive.any():
        raise SetpointError(
            f"the classifier knows the classes {known.tolist()}; some must be positive "
            f"({labels.positive}) and some negative."
        )
    return positive

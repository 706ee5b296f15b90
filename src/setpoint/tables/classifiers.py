"""The classifiers to choose from, and the baseline that they are compared with."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit
from sklearn.pipeline import Pipeline

from setpoint._internal.imports import BOOSTERS
from setpoint.data.splits import FEWEST, VALIDATION_FRACTION
from setpoint.errors import SetpointError
from setpoint.estimators.default_models import (
    boosted_name,
    boosted_trees,
    extra_trees,
    logistic_model,
)
from setpoint.estimators.model_search import ModelSearch
from setpoint.estimators.stacking import Columns, StackedModels
from setpoint.goals.bands import AnyGoal, BandGoal
from setpoint.goals.goal import Goal
from setpoint.tables.encoder import tree_categories
from setpoint.tables.model_options import AUTO, TRAINED
from setpoint.tables.schema import Schema

if TYPE_CHECKING:
    from setpoint.report.bands import BandBaseline
    from setpoint.report.content import Baseline

Floats = NDArray[np.floating]

_CAUTION = 0.1  # of "auto", as in SetpointThreshold.auto
_RAW = ("hgb", *BOOSTERS)  # models that accept missing values and numbered categories

_TREES = (
    "HistGradientBoostingClassifier", "RandomForestClassifier", "ExtraTreesClassifier",
    "XGBClassifier", "LGBMClassifier", "CatBoostClassifier",
)  # fmt: skip

# Matrix products round differently for one row than for many. In blocks of one size, padded with
# zeros, the score of a row depends neither on the rows around it nor on how a file is cut. Trees
# multiply nothing, and lose much time to threads in small blocks.
_BLOCK = 8_192


def computes_in_64_bits(name: str) -> bool:
    """Whether a model is fitted to 64-bit features, though encoders make 32-bit ones.

    Sums over features are then exact to ten digits wherever they are computed, so that an exported
    linear model has the same scores.
    """
    return name in ("linear", "logistic")


def takes_raw_columns(name: str) -> bool:
    """Whether a model accepts missing values and numbered categories."""
    return name in _RAW


def is_tree_model(classifier: Any) -> bool:
    """Whether a fitted classifier consists of trees."""
    return type(classifier).__name__ in _TREES


def make_classifier(
    name: str,
    goal: AnyGoal,
    schema: Schema,
    *,
    confidence: float | None,
    certification: Any,
    validation: Any,
    random_state: int,
    callback: Any,
    decision: str = "threshold",
    thresholds: str = "one",
    caps: Mapping[str, float] | None = None,
    widths: tuple[int, int] | None = None,
    rows: int = 0,
    time_limit: float | None = None,
) -> Any:
    """Return an unfitted classifier; parameters as for the estimators.

    ``validation`` is a list of one pair of row indices, training rows and those that set the
    threshold, or None for a random split. ``widths`` are the numbers of features for trees and for
    other models, which "auto" takes side by side, and ``rows`` the number of its training rows.
    """
    from setpoint.estimators.band import SetpointBand
    from setpoint.estimators.classifier import SetpointClassifier
    from setpoint.estimators.threshold import SetpointThreshold

    if isinstance(goal, BandGoal):
        return SetpointBand(
            _conventional(name, schema, random_state), goal, cv=validation, confidence=confidence,
            certification=certification, random_state=random_state,
        )  # fmt: skip
    certified: dict[str, Any] = {
        "confidence": confidence, "certification": certification, "caps": dict(caps or {}) or None,
    }  # fmt: skip
    if name in TRAINED:
        return SetpointClassifier(
            goal,
            model="linear" if name == "linear" else "mlp",
            validation="auto" if validation is None else validation,
            random_state=random_state,
            callback=callback,
            **certified,
        )
    if name == AUTO:
        assert widths is not None
        classifier: Any = _model_search(
            goal, schema, widths, rows, random_state, time_limit, callback
        )
    else:
        classifier = _conventional(name, schema, random_state)
    return SetpointThreshold(
        classifier, goal, decision=decision, thresholds=thresholds, cv=validation,
        caution=_CAUTION if name == AUTO else 0.0, random_state=random_state, **certified,
    )  # fmt: skip


def _model_search(
    goal: Goal,
    schema: Schema,
    widths: tuple[int, int],
    rows: int,
    random_state: int,
    time_limit: float | None,
    callback: Any,
) -> ModelSearch:
    """Return the models of "auto", each with the features that suit it."""
    from setpoint.estimators.classifier import SetpointClassifier

    boosted = boosted_name()
    models = {
        "logistic": logistic_model(widths[1]),
        "linear": SetpointClassifier(goal, random_state=random_state),
        boosted: boosted_trees(boosted, random_state, range(tree_categories(schema))),
        "extra-trees": extra_trees(random_state, rows),
    }
    if goal.amounts or goal.segments or goal.periods:
        del models["linear"]  # it would need the columns of each fold
    raw, rest = (0, widths[0]), (widths[0], sum(widths))
    columns = {
        name: Columns(*(raw if takes_raw_columns(name) else rest), computes_in_64_bits(name))
        for name in models
    }
    return ModelSearch(models, columns=columns, time_limit=time_limit, callback=callback)


def make_labels_classifier(
    name: str,
    goal: Any,
    schema: Schema,
    *,
    average: Any,
    confidence: float | None,
    certification: Any,
    validation: Any,
    random_state: int,
) -> Any:
    """Return an unfitted classifier of several labels; parameters as in ``make_classifier``."""
    from setpoint.estimators.multilabel import SetpointMultilabel

    return SetpointMultilabel(
        _conventional(name, schema, random_state), goal, average=average, cv=validation,
        confidence=confidence, certification=certification, random_state=random_state,
    )  # fmt: skip


def logistic() -> Any:
    """Return logistic regression as it is commonly used."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    return make_pipeline(StandardScaler(), LogisticRegression(max_iter=2_000))


def _conventional(name: str, schema: Schema, random_state: int) -> Any:
    from sklearn.ensemble import RandomForestClassifier

    if takes_raw_columns(name):
        return boosted_trees(name, random_state, range(tree_categories(schema)))
    if name == "extra-trees":
        return extra_trees(random_state)
    if name == "forest":
        # Without threads, the trees' votes are added up in one order.
        return RandomForestClassifier(200, min_samples_leaf=5, random_state=random_state)
    return logistic()


def fit_baselines(
    features: Floats,
    y: NDArray[np.bool_],
    groups: NDArray[np.intp] | None,
    test: Floats,
    goal: Goal,
    validation: Any,
    random_state: int,
    named: Mapping[str, Any] | None = None,
) -> tuple[Baseline, Baseline | None]:
    """Return logistic regression with threshold 0.5, and with a threshold tuned for the goal.

    It is fitted on ``features`` and gives probabilities for the rows of ``test``. ``validation`` is
    a list of one pair of row indices: those that fit another regression for tuning, and those that
    tune the threshold; by default that split is random. There is no tuned threshold if there are
    too few rows of one label. ``named`` are the columns that the goal names.
    """
    from setpoint.estimators.threshold import SetpointThreshold
    from setpoint.report.content import Baseline

    if validation is None:
        fewest = np.bincount(y, minlength=2).min()
        enough = fewest * VALIDATION_FRACTION >= FEWEST
        validation = VALIDATION_FRACTION if enough else None  # None: cross-fitted
    tuner = SetpointThreshold(
        logistic(), goal, cv=validation, response_method="predict_proba", random_state=random_state
    )
    threshold = None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # common use ignores that it has not converged
        try:
            regression = tuner.fit(features, y, groups=groups, **(named or {})).estimator_
            threshold = tuner.threshold_
        except SetpointError:  # too few rows of one label
            regression = logistic().fit(features, y)
    scores = in_blocks(lambda X: np.asarray(regression.predict_proba(X)[:, 1]), test)
    name = "logistic regression"
    tuned = None if threshold is None else Baseline(f"{name}, tuned threshold", scores, threshold)
    return Baseline(f"{name} at 0.5", scores, 0.5), tuned


def fit_band_baseline(
    features: Floats,
    y: NDArray[np.bool_],
    groups: NDArray[np.intp] | None,
    test: Callable[[Any], Any],
    goal: BandGoal,
    validation: Any,
    random_state: int,
    named: Mapping[str, Any] | None = None,
) -> BandBaseline | None:
    """Return logistic regression with the best review band on held-out training rows.

    Parameters are as in :func:`fit_baselines`, but ``test`` returns the point of a fitted band on
    the test rows. None if there are too few rows of one label.
    """
    from setpoint.estimators.band import SetpointBand
    from setpoint.report.bands import BandBaseline

    tuner = SetpointBand(logistic(), goal, cv=validation, random_state=random_state)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a regression that has not converged, of a goal missed
        try:
            tuner.fit(features, y, groups=groups, **(named or {}))
        except SetpointError:
            return None
    return BandBaseline("logistic regression, tuned band", test(tuner))


def above_threshold(
    classifier: Any, features: Floats, named: Mapping[str, Any] | None = None
) -> Floats:
    """Return a classifier's scores of the positive class, minus its threshold.

    A review band has two thresholds, and the scores are the classifier's own. ``named`` are the
    amounts and segments that its decisions need.
    """
    fitted = getattr(classifier, "estimator_", None)
    score = getattr(classifier, "raw_scores", classifier.positive_scores)
    features = _as_fitted(fitted, features)
    if isinstance(fitted, StackedModels):
        scores = _stack_scores(classifier, fitted, features)
    elif is_tree_model(fitted):
        scores = np.asarray(score(features))
    else:
        scores = in_blocks(score, features)
    if not hasattr(classifier, "threshold_"):  # relative to the threshold already, or of a band
        return scores
    scores = classifier.decision_scores(scores, dict(named or {}))
    # In 64 bits, as the classifier compares, a difference has the sign of the comparison.
    return np.asarray(scores.astype(np.float64, copy=False) - classifier.threshold_)


def _as_fitted(fitted: Any, features: Floats) -> Floats:
    """Return features in 64 bits for linear models of scikit-learn that were fitted to such."""
    weights = getattr(fitted[-1] if isinstance(fitted, Pipeline) else fitted, "coef_", None)
    return features if weights is None else features.astype(weights.dtype, copy=False)


def _stack_scores(classifier: Any, stack: StackedModels, features: Floats) -> Floats:
    """Return the scores of a stack, of which each member is scored as it would be alone."""
    found = []
    for member in stack.members:
        own = member.take(features)
        if is_tree_model(member.classifier):
            found.append(member.logits(own))
        else:
            found.append(in_blocks(member.logits, own))
    scores = stack.combined(found)
    return np.asarray(expit(scores)) if classifier.decision == "expected_value" else scores


def label_scores(classifier: Any, features: Floats) -> Floats:
    """Return the scores of several labels, one column each, to which the thresholds apply."""
    several = [classifier.estimator_, *(classifier.estimators_ or ())]
    trees = any(is_tree_model(each) for each in several)
    if trees:
        return np.asarray(classifier.label_scores(features))
    return in_blocks(classifier.label_scores, features)


def in_blocks(score: Callable[[Floats], Floats], features: Floats) -> Floats:
    """Return scores that do not depend on the number of rows."""
    found = []
    for start in range(0, len(features), _BLOCK):
        block = features[start : start + _BLOCK]
        rows = len(block)
        if rows < _BLOCK:
            block = np.concatenate([block, np.zeros((_BLOCK - rows, block.shape[1]), block.dtype)])
        found.append(score(block)[:rows])
    return np.concatenate(found) if found else np.zeros(0)

"""The classifiers to choose from."""

from __future__ import annotations

from typing import Any

from setpoint._internal.validation import did_you_mean
from setpoint.errors import SchemaError
from setpoint.goals.goal import Goal
from setpoint.tables.encoder import tree_categories
from setpoint.tables.schema import Schema

MODELS = {
    "linear": "a linear model, trained for the goal",
    "mlp": "a network of three layers, trained for the goal",
    "hgb": "gradient-boosted trees, with the exact threshold for the goal",
    "logistic": "logistic regression, with the exact threshold for the goal",
    "forest": "a random forest, with the exact threshold for the goal",
}
TRAINED = ("linear", "mlp")  # for the goal


def check_model(name: str) -> None:
    """Refuse a model that is not known."""
    if name not in MODELS:
        raise SchemaError(
            f"there is no model {name!r}; choose one of {', '.join(MODELS)}."
            f"{did_you_mean(name, list(MODELS))}"
        )


def check_device(device: Any, model: str) -> None:
    """Refuse a device that is not there, or of no use to the model."""
    from setpoint._internal.devices import CPU, requested_device

    if requested_device(device) not in (None, CPU) and model not in TRAINED:
        raise SchemaError(
            f"device='{device}' is for {' and '.join(TRAINED)}; {model!r} is trained on the CPU."
        )


def takes_raw_columns(name: str) -> bool:
    """Whether a model takes missing values and numbered categories as they are."""
    return name == "hgb"


def is_tree_model(classifier: Any) -> bool:
    """Whether a fitted classifier is one of the trees."""
    from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier

    return isinstance(classifier, (HistGradientBoostingClassifier, RandomForestClassifier))


def make_classifier(
    name: str,
    goal: Goal,
    schema: Schema,
    *,
    confidence: float | None,
    certification: Any,
    judging: Any,
    random_state: int,
    callback: Any,
) -> Any:
    """Return a classifier, not fitted yet.

    Parameters
    ----------
    name : str
        One of ``MODELS``.
    goal : Goal
        What it is for.
    schema : Schema
        The columns that its features come from.
    confidence, certification
        As of the estimators.
    judging : list of one pair of rows, or None
        Which rows train and which set the threshold, where chance is not to choose them.
    random_state : int
        Seed of all randomness.
    callback : callable or None
        For the models that are trained for the goal: called after every outer iteration.
    """
    from setpoint.estimators.classifier import SetpointClassifier
    from setpoint.estimators.threshold import SetpointThreshold

    promise: dict[str, Any] = {"confidence": confidence, "certification": certification}
    if name in TRAINED:
        return SetpointClassifier(
            goal,
            model="linear" if name == "linear" else "mlp",
            validation="auto" if judging is None else judging,
            random_state=random_state,
            callback=callback,
            **promise,
        )
    classifier = _ordinary(name, schema, random_state)
    return SetpointThreshold(classifier, goal, cv=judging, random_state=random_state, **promise)


def logistic() -> Any:
    """Return logistic regression as most people would use it."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    return make_pipeline(StandardScaler(), LogisticRegression(max_iter=2_000))


def _ordinary(name: str, schema: Schema, random_state: int) -> Any:
    from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier

    if name == "hgb":
        # Without a ridge, leaves with few rare positives get huge values that spoil the ranking.
        return HistGradientBoostingClassifier(
            l2_regularization=10.0,
            categorical_features=list(range(tree_categories(schema))) or None,
            random_state=random_state,
        )
    if name == "forest":
        # Without threads, the trees' votes are added up in one order.
        return RandomForestClassifier(200, min_samples_leaf=5, random_state=random_state)
    return logistic()

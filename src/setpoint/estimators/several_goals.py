"""One classifier for each of several goals, trained at once."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from setpoint.errors import SetpointError
from setpoint.estimators.classifier import SetpointClassifier
from setpoint.estimators.fitting import fit_classifiers
from setpoint.goals.goal import Goal
from setpoint.training.several_goals import parsed_goals


def fit_goals(
    classifier: SetpointClassifier,
    goals: Iterable[str | Goal],
    X: Any,
    y: Any,
    sample_weight: Any = None,
    groups: Any = None,
) -> list[SetpointClassifier]:
    """Return a fitted classifier for each goal: a curve of what can be had.

    All are trained as one batched problem, see :func:`setpoint.training.solve_goals`; that is faster
    than to fit one after another. They share the parts into which rows are split. A goal is given
    the model of another one where that serves it better on the rows that judge. With neither a
    validation part nor ``confidence`` a stricter level so never does better than a laxer one.

    Each certificate, where ``confidence`` asks for them, holds by itself. Whoever looks at k of
    them and then picks one goal has 1 - k (1 - confidence) for it.

    Parameters
    ----------
    classifier : SetpointClassifier
        Whose parameters all have, but for the goal; it is not changed. For several goals its solver
        must be "projected"; ``refit`` and ``checkpoint`` are for one goal.
    goals : iterable of str or Goal
        What to train for, e.g. one objective under several levels of a constraint.
    X, y, sample_weight, groups
        As of :meth:`setpoint.SetpointClassifier.fit`.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from setpoint import SetpointClassifier, fit_goals
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> goals = [f"max recall s.t. precision >= {level}" for level in (0.9, 0.95, 0.99)]
    >>> tumours = SetpointClassifier(pos_label=0, random_state=0)
    >>> fitted = fit_goals(tumours, goals, X, y)
    >>> [clf.operating_point_.feasible for clf in fitted]
    [True, True, True]
    """
    if not isinstance(classifier, SetpointClassifier):
        raise SetpointError(
            f"a SetpointClassifier is trained for goals, a {type(classifier).__name__} is not."
        )
    # Not clones: these would have copies of a callback, and an iterable's splits cannot be copied.
    parameters = classifier.get_params(deep=False)
    fitted = [type(classifier)(**{**parameters, "goal": goal}) for goal in parsed_goals(goals)]
    for name in ("refit", "checkpoint"):
        if getattr(classifier, name):
            raise SetpointError(
                f"{name} is for one goal; fit each goal by itself, or leave {name} out."
            )
    fit_classifiers(fitted, X, y, sample_weight, groups)
    for one in fitted:
        one._tell()
    return fitted

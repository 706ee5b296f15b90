"""One classifier for each of several goals, trained at once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from sklearn.utils.validation import validate_data

from setpoint._internal.devices import use_device
from setpoint.errors import SetpointError
from setpoint.estimators.classifier import SetpointClassifier
from setpoint.estimators.fitting import FitData, Trained, moved, new_module, on_cpu, train
from setpoint.goals.goal import Goal
from setpoint.training.several_goals import parsed_goals, solve_goals


def fit_goals(
    classifier: SetpointClassifier,
    goals: Iterable[str | Goal],
    X: Any,
    y: Any,
    sample_weight: Any = None,
    groups: Any = None,
    *,
    amounts: Any = None,
    segments: Any = None,
    times: Any = None,
) -> list[SetpointClassifier]:
    """Return a fitted classifier for each goal: a trade-off curve.

    All are trained as one batched problem, see :func:`setpoint.training.solve_goals`; that is
    faster than to fit one after another. They share the splits. A goal is given the model of
    another one if that serves it better on the validation rows. With neither validation rows nor
    ``confidence`` a stricter level therefore never does better than a laxer one.

    Each certificate, if there is a ``confidence``, holds by itself. If you look at k of them and
    then pick one goal, its confidence is 1 - k (1 - confidence).

    Parameters
    ----------
    classifier : SetpointClassifier
        Its parameters are used for all goals; it is not changed. For several goals its solver must
        be "projected"; ``refit`` and ``checkpoint`` are for one goal.
    goals : iterable of str or Goal
        What to train for, e.g. one objective under several levels of a constraint.
    X, y, sample_weight, groups, amounts, segments, times
        As of :meth:`setpoint.SetpointClassifier.fit`. If a goal names amounts, segments or
        periods, the goals are trained one after another.

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
            f"only a SetpointClassifier is trained for goals, not a {type(classifier).__name__}."
        )
    # Not clones: they would copy a callback, and the splits of an iterable cannot be copied.
    parameters = classifier.get_params(deep=False)
    parsed = parsed_goals(goals)
    fitted = [type(classifier)(**{**parameters, "goal": goal}) for goal in parsed]
    for name in ("refit", "checkpoint"):
        if getattr(classifier, name):
            raise SetpointError(
                f"{name} is for one goal; fit each goal by itself, or leave {name} out."
            )
    first, *others = fitted
    if any(goal.amounts or goal.segments or goal.periods for goal in parsed):
        return [
            one.fit(X, y, sample_weight, groups, amounts=amounts, segments=segments, times=times)
            for one in fitted
        ]
    data = FitData.of(first, X, y, sample_weight, groups, parsed[0])
    for other in others:
        validate_data(other, X, skip_check_array=True)  # names and number of features
    found = _train_goals(first, parsed, data) if others else [train(first, parsed[0], data)]
    for one, goal, trained in zip(fitted, parsed, found, strict=True):
        one._set_trained(goal, data, trained)
    for one in fitted:
        one._warn_if_unmet()
    return fitted


def _train_goals(
    classifier: SetpointClassifier, goals: Sequence[Goal], data: FitData
) -> list[Trained]:
    """Train for several goals at once; the counterpart of :func:`train`."""
    training, validation = data.splits.training, data.splits.validation
    standardizer = data.standardizer(training)
    with use_device(data.device):
        problem = data.problem(goals[0], training, standardizer, validation)
        solutions = solve_goals(
            moved(problem, data.device),
            goals,
            new_module(classifier, problem, data),
            data.solver,
            seed=None if classifier.random_state is None else data.seed,
            callback=classifier.callback,
        )
    rows = training if validation is None else validation
    trained = []
    for solution, goal in zip(solutions, goals, strict=True):
        own = problem.for_goal(goal)
        solution = on_cpu(solution, own, data.device)
        on, candidates = own.evaluation.on, solution.candidates
        trained.append(Trained(solution, candidates, standardizer, rows, on, own.validation))
    return trained

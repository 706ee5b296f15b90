"""How rows in memory are checked, parted, and certified with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.utils import check_random_state
from sklearn.utils.validation import _check_sample_weight, validate_data

from setpoint._certification import certifying_split
from setpoint._checks import check_share
from setpoint._device import asked_device, device_for
from setpoint._labels import Labels
from setpoint._row_training import Data, Parts, Trained, train, train_goals
from setpoint._validation import check_groups, split
from setpoint.certificates import sequence
from setpoint.errors import SetpointError
from setpoint.goals import Goal
from setpoint.operating_point import evaluate_threshold
from setpoint.solvers import Solver, get_solver
from setpoint.solvers.stochastic import Stochastic
from setpoint.streams.together import several

if TYPE_CHECKING:
    from setpoint.estimators import SetpointClassifier


def fit_classifiers(
    classifiers: Sequence[SetpointClassifier], X: Any, y: Any, sample_weight: Any, groups: Any
) -> None:
    """Check what is given and train classifiers that differ in their goals alone, all at once.

    See :meth:`setpoint.SetpointClassifier.fit`.
    """
    for classifier in classifiers:
        Goal.parse(classifier.goal)
    first = classifiers[0]
    if first.confidence is not None:
        check_share(first.confidence, "confidence")
    solver = get_solver(first.solver)
    if first.callback is not None and not callable(first.callback):
        raise SetpointError(f"callback {first.callback!r} cannot be called.")
    device = asked_device(first.device)
    given = X
    X, y = validate_data(first, given, y, dtype=[np.float64, np.float32])
    for other in classifiers[1:]:
        validate_data(other, given, skip_check_array=True)
    weight = _check_sample_weight(sample_weight, X, dtype=X.dtype, ensure_non_negative=True)
    _fit_rows(classifiers, X, y, weight, groups, solver, device)


def _fit_rows(
    classifiers: Sequence[SetpointClassifier],
    X: NDArray[np.floating],
    y: NDArray[Any],
    weight: NDArray[np.floating],
    groups: Any,
    solver: Solver,
    asked: torch.device | None,
) -> None:
    """Train on checked rows. Solver and device are the classifiers', as objects."""
    classifier, goals = classifiers[0], [Goal.parse(c.goal) for c in classifiers]
    labels = Labels.of(y, classifier.pos_label)
    positive = labels.is_positive(y)
    labels.check_counts(positive[weight > 0])
    if not 1e-9 < (mean := weight[weight > 0].mean()) < 1e9:
        raise SetpointError(f"sample_weight has a mean of {mean:.3g}; rescale it to about 1.")
    seed = int(check_random_state(classifier.random_state).randint(2**31 - 1))
    # A checkpoint is of use only if the next fit holds out the same rows.
    unseeded = classifier.random_state is None and classifier.checkpoint is not None
    parts = _parts(classifier, labels, positive, weight, groups, 0 if unseeded else seed)
    device = device_for(
        asked,
        numbers=X.size if classifier.model == "linear" else None,
        size=X.nbytes,
        together=isinstance(solver, Stochastic) and several(),
    )
    data = Data(X, positive, weight, classifier.standardize)
    if len(goals) == 1:
        found = [train(classifier, data, goals[0], parts, solver, seed, device)]
    else:
        found = train_goals(classifier, data, goals, parts, solver, seed, device)
    for one, goal, trained in zip(classifiers, goals, found, strict=True):
        _finish(one, goal, trained, data, parts, labels, grouped=groups is not None)


def _finish(
    classifier: SetpointClassifier,
    goal: Goal,
    found: Trained,
    data: Data,
    parts: Parts,
    labels: Labels,
    grouped: bool,
) -> None:
    """Give a classifier what training found, and certify it where that is asked for."""
    X, positive = data.X, data.positive
    classifier._take(labels, goal, found.solution, found.standardizer, X.dtype)
    classifier.candidates_ = found.candidates
    judges = found.judges
    if parts.certifying is not None:
        judged = parts.certifying
        plans, tests = (
            sequence.Rows.of(positive[rows], classifier._logits(X[rows]))
            for rows in (judges, judged)
        )
        classifier._certify(plans, tests, goal, grouped)
        classifier._judged = positive[judged], classifier._scores(X[judged])
        return
    classifier._judged = positive[judges], classifier._scores(X[judges])
    classifier.operating_point_ = evaluate_threshold(
        *classifier._judged,
        0.0,
        goal,
        sample_weight=data.weight[judges],
        on=found.on,
    )


def _parts(
    classifier: SetpointClassifier,
    labels: Labels,
    positive: NDArray[np.bool_],
    weight: NDArray[np.floating],
    groups: Any,
    seed: int,
) -> Parts:
    kept, certifying = weight > 0, None
    if classifier.confidence is not None:
        groups = check_groups(groups, positive.shape)
        seen, certifying = certifying_split(
            classifier.certification, positive, weight, groups, seed
        )
        kept = np.isin(np.arange(len(positive)), seen)
        labels.check_counts(positive[kept])
    everything = np.flatnonzero(kept)
    found = split(classifier.validation, positive, kept, groups, seed)
    training, judging = (everything, None) if found is None else found
    return Parts(everything, training, judging, certifying)

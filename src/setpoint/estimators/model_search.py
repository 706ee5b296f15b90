"""The best of several kinds of models for a goal, and of a stack of them.

Every model is fitted on the same folds. The scores of the held-out rows give its operating point,
at the exact threshold, its gains on random halves of these rows, and its logistic loss. The
simplest model that is at most one standard error behind the best, for the goal and in loss, is
chosen and fitted once more on all rows.

The goal alone would often take a poor model for simplicity's sake: an operating point depends on
few rows, so its standard error is large.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin

from setpoint.data.splits import Rows
from setpoint.errors import SetpointError
from setpoint.estimators.cross_fit import Fold, LabelledRows
from setpoint.estimators.default_models import default_models
from setpoint.estimators.search_fits import (
    STACK,
    Fitted,
    Measure,
    SearchFits,
    SearchProgress,
    gain_of,
    penalty_scale,
)
from setpoint.estimators.stacking import Columns
from setpoint.goals.goal import Goal
from setpoint.training.model_candidates import ModelCandidate, ModelCandidates

FOLDS = 3  # by default: five take half as long again
_PAIRS = 10  # of complementary halves
_MOST = 4_000_000  # rows times halves, at most: with more rows fewer halves suffice


class Found(NamedTuple):
    """The chosen classifier, its scores of held-out rows, and all candidates."""

    estimator: Any
    folds: list[Fold]
    candidates: ModelCandidates


class ModelSearch(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Several classifiers, of which ``SetpointThreshold`` takes the best for its goal.

    ``SetpointThreshold.auto(goal)`` is the short form of
    ``SetpointThreshold(ModelSearch(), goal, caution=0.1)``. Without ``cv``, models are compared on
    three folds. A model that is hopeless on the first fold is not fitted on the others.

    Parameters
    ----------
    models : "auto" or mapping of str to classifier
        The models by name, the simplest first. ``"auto"``: logistic regression, a linear model that
        is trained for the goal, boosted trees (of XGBoost, LightGBM or CatBoost, the first of them
        that is installed, otherwise scikit-learn's), and extra trees.
    stack : bool
        Whether a stack of all of them is a candidate as well: a logistic regression on their
        logits, with weights >= 0.
    columns : mapping of str to (int, int) or Columns, optional
        The first and the last column, exclusive, that a model takes; by default all.
    time_limit : float, optional
        Seconds after which no further model is fitted; the first one always is. The limit is for
        the comparison, without the last fit of the chosen model. Results then depend on the speed
        of the machine.
    callback : callable, optional
        Called before each fit, from several threads, with a ``SearchProgress`` and the largest
        number of fits.
    """

    # It weights every model itself, so there is nothing to request with metadata routing.
    __metadata_request__fit: ClassVar[dict[str, bool]] = {"sample_weight": True}

    def __init__(
        self,
        models: str | Mapping[str, Any] = "auto",
        *,
        stack: bool = True,
        columns: Mapping[str, tuple[int, int] | Columns] | None = None,
        time_limit: float | None = None,
        callback: Callable[[SearchProgress, int], object] | None = None,
    ) -> None:
        self.models = models
        self.stack = stack
        self.columns = columns
        self.time_limit = time_limit
        self.callback = callback

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> ModelSearch:
        """Raise SetpointError: which model is best depends on a goal."""
        raise SetpointError(
            "ModelSearch chooses a model for a goal; use "
            "SetpointThreshold(ModelSearch(), goal).fit(X, y), or SetpointThreshold.auto(goal)."
        )

    def find(
        self,
        data: LabelledRows,
        splits: Sequence[tuple[Rows, Rows]],
        seen: Rows,
        goal: Goal,
        method: str,
        measure: Measure,
        seed: int,
        refit: bool,
        n_jobs: int | None = None,
    ) -> Found:
        """Fit all models, compare them, and return the best one.

        ``measure`` returns the operating point on the rows of a fold. ``n_jobs`` is how many fits
        run at once, as in joblib; None: as many as torch has threads.
        """
        models = self._models(data, goal, seed)
        search = SearchFits(
            models, data, list(splits), method, seed, measure, columns=self.columns,
            time_limit=self.time_limit, callback=self.callback, n_jobs=n_jobs,
        )  # fmt: skip
        fitted = search.fit_models(keep=not refit)
        rows = np.concatenate([held for _, held in splits])
        stacked = search.stack(fitted, rows) if self.stack and len(fitted) > 1 else None
        if stacked is not None:
            fitted[STACK] = stacked
        candidates = _compare(search, fitted, rows)
        name = candidates.winner.name
        if name == STACK:
            estimator = search.fit_stack(fitted, rows, seen, refit)
        elif refit:
            estimator = search.labelled(name, *search.fit_all([name], seen))
        else:
            estimator = search.labelled(name, fitted[name].classifiers[0])
        held = zip(splits, fitted[name].scores, strict=True)
        folds = [Fold(estimator, own, scores) for (_, own), scores in held]
        return Found(estimator, folds, candidates)

    def _models(self, data: LabelledRows, goal: Goal, seed: int) -> dict[str, Any]:
        if isinstance(self.models, str):
            if self.models != "auto":
                raise SetpointError(
                    f"models is 'auto' or a mapping of names to classifiers, not {self.models!r}."
                )
            return default_models(data.X, goal, seed, plain=not data.columns)
        if not self.models:
            raise SetpointError("models is empty; name at least one classifier.")
        if STACK in self.models:
            raise SetpointError(f"no model can be called {STACK!r}, which is the stack of all.")
        return dict(self.models)


def _compare(search: SearchFits, fitted: dict[str, Fitted], rows: Rows) -> ModelCandidates:
    """Return all models with their operating points, and how far each is behind the best."""
    measure = search.measure
    scores = {name: np.concatenate(one.scores) for name, one in fitted.items()}
    points = {name: measure(Fold(None, rows, own)) for name, own in scores.items()}
    scale = penalty_scale(points.values())
    halves = list(_halves(search, rows))
    gains = {
        name: np.array(
            [gain_of(measure(Fold(None, rows[half], own[half])), scale) for half in halves]
        )
        for name, own in scores.items()
    }
    averages = {
        name: np.mean([gain_of(points[name], scale), *([own.mean()] if len(own) else [])])
        for name, own in gains.items()
    }
    best = max(averages, key=lambda name: averages[name])  # the first, and so simplest, of equals
    losses = {name: search.losses(one, rows) for name, one in fitted.items()}
    least = min(losses, key=lambda name: losses[name].mean())
    candidates = []
    for name in (*search.models, *([STACK] if STACK in fitted else [])):
        if name not in fitted:
            candidates.append(ModelCandidate(name, None, note=search.skipped[name]))
            continue
        # The estimate of a half varies about that of all rows as the latter about the truth: half
        # the rows double the variance, and drawing them without replacement halves it.
        error = float(np.std(gains[best] - gains[name])) if halves else points[best].standard_error
        excess = losses[name] - losses[least]
        note = f"of {', '.join(n for n in fitted if n != STACK)}" if name == STACK else ""
        candidates.append(
            ModelCandidate(
                name,
                points[name],
                float(averages[name]),
                float(averages[best] - averages[name]),
                0.0 if name == best else error,
                float(losses[name].mean()),
                float(excess.mean()),
                search.error_of_mean(excess, rows),
                fitted[name].seconds,
                note,
                gain_of(points[best], scale) - gain_of(points[name], scale),
            )
        )
    return ModelCandidates(candidates)


def _halves(search: SearchFits, rows: Rows) -> Iterator[Rows]:
    """Yield positions of random complementary halves of rows, by class or by whole units.

    There are none if a constraint is about segments: halves of small ones say little.
    """
    if search.data.columns.segments:
        return
    rng = np.random.default_rng(search.seed)
    positive, units = search.data.positive[rows], search.units(rows)
    for _ in range(int(np.clip(_MOST // (2 * len(rows)), 1, _PAIRS))):
        first = np.zeros(len(rows), dtype=bool)
        if units is not None:
            chosen = np.zeros(units.max() + 1, dtype=bool)
            chosen[rng.permutation(len(chosen))[: len(chosen) // 2]] = True
            first = chosen[units]
        else:
            for own in (np.flatnonzero(positive), np.flatnonzero(~positive)):
                first[rng.permutation(own)[: len(own) // 2]] = True
        for half in (np.flatnonzero(first), np.flatnonzero(~first)):
            if 0 < positive[half].sum() < len(half):
                yield half

"""The fits of a model search: every model on the same folds, a stack of them, and the final fit."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit
from sklearn import config_context
from sklearn.base import clone
from sklearn.model_selection import StratifiedGroupKFold, StratifiedKFold
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import has_fit_parameter

from setpoint._internal.threads import map_in_threads
from setpoint.data.labels import Labels
from setpoint.data.splits import Rows
from setpoint.errors import SetpointError
from setpoint.estimators.classifier import SetpointClassifier
from setpoint.estimators.cross_fit import Fold, LabelledRows
from setpoint.estimators.scores import is_logistic, positive_scores
from setpoint.estimators.stacking import (
    Columns,
    Member,
    OnColumns,
    StackedModels,
    calibrated,
    fit_weights,
    take_rows,
)
from setpoint.thresholds.operating_point import OperatingPoint

Floats = NDArray[np.floating]
Measure = Callable[[Fold], OperatingPoint]

STACK = "stack"
_BOOLEANS = Labels(np.array([False, True]), 1)  # what models are fitted to
_STACK_FOLDS = 5
# A model is dropped after one fold: standard errors of the loss, and its share of a stack's logits.
_BEHIND, _LEAST_SHARE = 2.0, 0.05
# Folds are fitted side by side, each in one thread. Threads of one fit would wait for one another,
# long on a busy machine, and add numbers up in an order that depends on their number.
_THREADS = {
    "XGBClassifier": "n_jobs", "LGBMClassifier": "n_jobs", "CatBoostClassifier": "thread_count",
}  # fmt: skip


class SearchProgress(NamedTuple):
    """How many fits are done, and the model that is fitted next."""

    iteration: int
    model: str


class Fitted(NamedTuple):
    """A model's fits: the classifiers of the folds if they are kept, scores, logits and time."""

    classifiers: list[Any]
    scores: list[Floats]
    logits: list[Floats]
    seconds: float


class _FittedFold(NamedTuple):
    classifier: Any
    scores: Floats
    logits: Floats
    seconds: float


class SearchFits:
    """The fits of one search."""

    def __init__(
        self,
        models: dict[str, Any],
        data: LabelledRows,
        splits: list[tuple[Rows, Rows]],
        method: str,
        seed: int,
        measure: Measure,
        *,
        columns: Mapping[str, tuple[int, int] | Columns] | None,
        time_limit: float | None,
        callback: Callable[[SearchProgress, int], object] | None,
        n_jobs: int | None = None,
    ) -> None:
        self.models, self.data, self.splits = models, data, splits
        self.skipped: dict[str, str] = {}
        self.seed, self.measure = seed, measure
        self._method, self._limit, self._callback = method, time_limit, callback
        self._columns = {name: Columns(*own) for name, own in (columns or {}).items()}
        self._jobs = n_jobs
        self._started, self._fits = time.perf_counter(), 0

    def fit_models(self, keep: bool) -> dict[str, Fitted]:
        """Fit every model on every fold, until the time is up.

        The slow ones come last, so that the time limit is for them and they meet most rivals: a
        model that is hopeless after the first fold is not fitted on the others.
        """
        fitted: dict[str, Fitted] = {}
        for name in sorted(self.models, key=self._is_slow):
            found = self._fit_folds(name, self.splits[:1], must=not fitted)
            if found[0] is not None and len(self.splits) > 1:
                if self._is_hopeless(found[0], fitted):
                    self.skipped[name] = f"dropped after the first of {len(self.splits)} folds"
                    continue
                found += self._fit_folds(name, self.splits[1:], must=not fitted)
            if any(fold is None for fold in found):
                self.skipped[name] = f"not fitted: over the time limit of {self._limit:g} s"
                continue
            folds = [fold for fold in found if fold is not None]
            fitted[name] = Fitted(
                [fold.classifier for fold in folds] if keep else [],
                [fold.scores for fold in folds],
                [fold.logits for fold in folds],
                sum(fold.seconds for fold in folds),
            )
        return {name: fitted[name] for name in self.models if name in fitted}

    def _is_slow(self, name: str) -> bool:
        """Whether a model is trained for the goal, which also cannot be done in several threads."""
        return isinstance(self.models[name], SetpointClassifier)

    def _is_hopeless(self, own: _FittedFold, rivals: dict[str, Fitted]) -> bool:
        """Whether a model is neither close to the best on the first fold nor of use in a stack.

        Neither close: more than two standard errors behind in logistic loss, and more than one for
        the goal. Of no use: next to no weight beside the rivals.
        """
        if not rivals:
            return False
        rows = self.splits[0][1]
        logits = [one.logits[0] for one in rivals.values()]
        losses = [self._losses(z, rows) for z in logits]
        best = min(losses, key=np.mean)
        excess = self._losses(own.logits, rows) - best
        if excess.mean() <= _BEHIND * self.error_of_mean(excess, rows):
            return False
        Z = np.column_stack([*logits, own.logits])
        weights, _ = fit_weights(Z, self.data.positive[rows], self._weight(rows))
        shares = weights * Z.std(axis=0)
        if shares[-1] > _LEAST_SHARE * shares.sum():
            return False
        points = [self.measure(Fold(None, rows, one.scores[0])) for one in rivals.values()]
        last = self.measure(Fold(None, rows, own.scores))
        scale = penalty_scale([*points, last])
        leader = max(points, key=lambda point: gain_of(point, scale))
        return gain_of(leader, scale) - gain_of(last, scale) > leader.standard_error

    def _fit_folds(
        self, name: str, splits: Sequence[tuple[Rows, Rows]], must: bool
    ) -> list[_FittedFold | None]:
        """Fit a model on folds, side by side; None for those that are over the time limit."""

        def fit(split: tuple[Rows, Rows]) -> _FittedFold | None:
            if not must and self._time_is_up():
                return None
            started = time.perf_counter()
            classifier = self.fit(name, split[0])
            X = take_rows(self.data.X, split[1], self._columns.get(name))
            own = positive_scores(classifier, X, _BOOLEANS, self._method)
            logits = self._member(name, classifier).logits(X)
            scores = self._scores(logits) if self._on_logits else own
            return _FittedFold(classifier, scores, logits, time.perf_counter() - started)

        with _quiet():
            in_turn = self._is_slow(name)
            return [*map(fit, splits)] if in_turn else map_in_threads(fit, splits, self._jobs)

    def _time_is_up(self) -> bool:
        return self._limit is not None and time.perf_counter() - self._started > self._limit

    def fit_all(self, names: Sequence[str], rows: Rows) -> list[Any]:
        """Return models, fitted on the same rows side by side."""
        with _quiet():
            quick = [name for name in names if not self._is_slow(name)]
            fitted = map_in_threads(lambda n: self.fit(n, rows), quick, self._jobs)
            found = dict(zip(quick, fitted, strict=True))
            return [found[n] if n in found else self.fit(n, rows) for n in names]

    def fit(self, name: str, rows: Rows) -> Any:
        """Return a model, fitted on some rows in one thread; its classes are False and True."""
        if self._callback is not None:
            total = len(self.models) * (len(self.splits) + 1)
            self._callback(SearchProgress(self._fits, name), total)
        self._fits += 1
        model, data = clone(self.models[name]), self.data
        if threads := _THREADS.get(type(model).__name__):
            model.set_params(**{threads: 1})
        params: dict[str, Any] = {}
        if data.weight is not None:
            params[_weight_parameter(model)] = data.weight[rows]
        if isinstance(model, SetpointClassifier) and data.groups is not None:
            params["groups"] = data.groups[rows]
        X = take_rows(data.X, rows, self._columns.get(name))
        # Weights go to each model by name. Threads know no metadata routing in any case.
        with config_context(enable_metadata_routing=False):
            model.fit(X, data.positive[rows], **params)
        if isinstance(model, SetpointClassifier):
            return calibrated(name, model, X, data.positive[rows], self._weight(rows))
        return model

    def _from_probabilities(self, classifier: Any) -> bool:
        """Whether probabilities are asked for, and the decision function is not their logit."""
        both = hasattr(classifier, "predict_proba") and hasattr(classifier, "decision_function")
        return self._method == "predict_proba" and both and not is_logistic(classifier)

    def _scores(self, logits: Floats) -> Floats:
        """Return the scores of a stack on the scale that ``SetpointThreshold`` uses."""
        return np.asarray(expit(logits) if self._method == "predict_proba" else logits)

    def stack(self, fitted: dict[str, Fitted], rows: Rows) -> Fitted | None:
        """Return the stack's scores of held-out rows, each by weights from other rows."""
        started = time.perf_counter()
        Z = np.column_stack([np.concatenate(one.logits) for one in fitted.values()])
        y, weight, groups = self.data.positive[rows], self._weight(rows), self.units(rows)
        units = len(rows) if groups is None else len(np.unique(groups))
        folds = min(_STACK_FOLDS, int(min(y.sum(), (~y).sum())), units)
        if folds < 2:
            return None
        kind = StratifiedKFold if groups is None else StratifiedGroupKFold
        splitter = kind(folds, shuffle=True, random_state=self.seed)
        scores = np.zeros(len(rows))
        for train, held in splitter.split(Z, y, groups):
            if not 0 < y[train].sum() < len(train):
                return None  # all positives are of one group
            own = None if weight is None else weight[train]
            weights, intercept = fit_weights(Z[train], y[train], own)
            scores[held] = Z[held] @ weights + intercept
        ends = np.cumsum([len(held) for _, held in self.splits])[:-1]
        own = np.split(scores, ends)
        return Fitted([], [self._scores(z) for z in own], own, time.perf_counter() - started)

    def units(self, rows: Rows) -> NDArray[np.intp] | None:
        """Return codes of held-out rows that belong together; None if each is one by itself.

        These are rows of one group, or one row that several splits hold out.
        """
        of = rows if self.data.groups is None else self.data.groups[rows]
        known, codes = np.unique(of, return_inverse=True)
        return None if len(known) == len(rows) else codes

    def error_of_mean(self, values: Floats, rows: Rows) -> float:
        """Return the standard error of a mean over held-out rows, whose units are independent."""
        units = self.units(rows)
        if units is None:
            return float(values.std() / np.sqrt(len(values)))
        sums = np.bincount(units, weights=values - values.mean())
        return float(np.sqrt(len(sums)) * sums.std() / len(values))

    def losses(self, fitted: Fitted, rows: Rows) -> Floats:
        """Return the logistic loss of each held-out row, given calibrated logits of a model."""
        return self._losses(np.concatenate(fitted.logits), rows)

    def _losses(self, given: Floats, rows: Rows) -> Floats:
        logits = np.asarray(given, dtype=np.float64)
        y = self.data.positive[rows]
        weight = self._weight(rows)
        (slope,), intercept = fit_weights(logits[:, None], y, weight)
        found = np.logaddexp(0.0, np.where(y, -1.0, 1.0) * (slope * logits + intercept))
        return np.asarray(found if weight is None else found * weight / weight.mean())

    def fit_stack(
        self, fitted: dict[str, Fitted], rows: Rows, seen: Rows, refit: bool
    ) -> StackedModels:
        """Return the stack with members that are fitted on all rows, or on the only split."""
        names = [name for name in fitted if name != STACK]
        Z = np.column_stack([np.concatenate(fitted[name].logits) for name in names])
        weights, intercept = fit_weights(Z, self.data.positive[rows], self._weight(rows))
        used = np.flatnonzero(weights > 0)
        names = [names[k] for k in used]
        if refit:
            classifiers = self.fit_all(names, seen)
        else:
            classifiers = [fitted[name].classifiers[0] for name in names]
        return self._stacked(names, classifiers, weights[used], intercept)

    def _stacked(
        self, names: Sequence[str], classifiers: Sequence[Any], weights: Floats, intercept: float
    ) -> StackedModels:
        """Return a stack; calibrations of its members become part of its weights."""
        members, own = [], np.array(weights, dtype=np.float64)
        for k, (name, classifier) in enumerate(zip(names, classifiers, strict=True)):
            member = self._member(name, classifier)
            if isinstance(classifier, StackedModels):  # calibrated
                intercept += own[k] * classifier.intercept
                own[k] *= classifier.weights[0]
                member = member._replace(classifier=classifier.members[0].classifier)
            members.append(member)
        return StackedModels(members, own, float(intercept), *self._classes())

    def _member(self, name: str, classifier: Any) -> Member:
        columns, given = self._columns.get(name), self._from_probabilities(classifier)
        return Member(name, classifier, columns, given)

    def _weight(self, rows: Rows) -> Floats | None:
        return None if self.data.weight is None else self.data.weight[rows]

    def labelled(self, name: str, classifier: Any) -> Any:
        """Return a fitted model that takes all columns, and knows the labels."""
        columns = self._columns.get(name)
        if self._on_logits or isinstance(classifier, StackedModels):
            return self._stacked([name], [classifier], np.ones(1), 0.0)
        return classifier if columns is None else OnColumns(classifier, columns)

    @property
    def _on_logits(self) -> bool:
        """Whether a single model is used through its logits, since its labels are booleans."""
        classes, positive_index = self._classes()
        return classes.tolist() != [False, True] or positive_index != 1  # nor 0 and 1

    def _classes(self) -> tuple[NDArray[Any], int]:
        """Return the labels of the chosen classifier, and which one is positive."""
        labels = self.data.labels if not self.data.labels.positive_labels else _BOOLEANS
        return labels.classes, labels.positive_index


def gain_of(point: OperatingPoint, scale: float) -> float:
    """Return the objective, negated if minimised; less scale * (1 + violation) if infeasible."""
    violation, gain, *_ = point.sort_key
    return gain if point.feasible else gain - scale * (1 - violation)


def penalty_scale(points: Iterable[OperatingPoint]) -> float:
    """Return what an infeasible point loses: more than objectives of the points differ.

    Rates differ by at most 1, amounts of money and numbers of alarms by any number.
    """
    sizes = [abs(gain) for gain in (point.sort_key[1] for point in points) if np.isfinite(gain)]
    return max([1.0, *(2 * size for size in sizes if size > 1)])


def _weight_parameter(model: Any) -> str:
    """Return the parameter of ``fit`` that takes sample weights, that of a pipeline's last step."""
    if isinstance(model, Pipeline):
        name, last = model.steps[-1]
        return f"{name}__{_weight_parameter(last)}"
    if not has_fit_parameter(model, "sample_weight"):
        raise SetpointError(
            f"{type(model).__name__} takes no sample_weight; leave it out of the models, or the "
            "weights out of fit."
        )
    return "sample_weight"


@contextmanager
def _quiet() -> Iterator[None]:
    """Ignore warnings of single fits: what they lead to is seen in the comparison."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield

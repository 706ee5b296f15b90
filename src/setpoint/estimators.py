"""The scikit-learn classifier that is trained for a goal."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from setpoint._standardize import Standardizer
from setpoint.errors import SetpointError
from setpoint.goals import Goal
from setpoint.models import Model, build, scores_of
from setpoint.operating_point import OperatingPoint, evaluate_threshold
from setpoint.solvers import Callback, Solver, get_solver, make_problem, solve


class SetpointClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A binary classifier that is trained for an operating point.

    Parameters
    ----------
    goal : str or Goal
        What to train for, e.g. ``"max recall s.t. precision >= 0.9"``.
    model : {"linear", "mlp"}, torch.nn.Module or callable
        A module that returns one logit per row, which is copied, or a factory
        ``f(n_features)`` of one.
    solver : {"lifted", "paper", "cross_entropy"} or Solver
        How to train. ``"lifted"``: Algorithm 1 in the preset that works; ``"paper"``: the same
        with the paper's constants; ``"cross_entropy"``: ordinary training, where the goal only
        sets the threshold.
    pos_label : optional
        The label of the positive class; by default the larger of the two.
    standardize : bool
        Whether features are brought to mean 0 and deviation 1 first.
    random_state : int, RandomState or None
        Seed of all randomness. The default preset of a linear model has none.
    callback : callable, optional
        ``callback(record, outer_iterations)`` after every outer iteration, for a progress bar.
    checkpoint : path, optional
        A file from which an interrupted fit goes on.

    Attributes
    ----------
    operating_point_ : OperatingPoint
        Threshold, counts and metrics on the training data. Its threshold applies to
        ``scores`` and is 0, because the model's bias absorbs it.
    history_ : History
        Objective, violation and lambda per outer iteration, in metric units.
    certificate_ : None
        What is promised on new data: nothing yet.
    module_ : torch.nn.Module
        The trained model, for standardised features.
    classes_ : ndarray of shape (2,)
        The labels; ``pos_label_`` is the positive one.
    goal_ : Goal
        The goal, parsed.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from setpoint import SetpointClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> clf = SetpointClassifier("max recall s.t. precision >= 0.99", pos_label=0).fit(X, y)
    >>> clf.operating_point_.feasible
    True
    """

    def __init__(
        self,
        goal: str | Goal = "max f1",
        *,
        model: Model = "linear",
        solver: str | Solver = "lifted",
        pos_label: Any = None,
        standardize: bool = True,
        random_state: Any = None,
        callback: Callback | None = None,
        checkpoint: str | Path | None = None,
    ) -> None:
        self.goal = goal
        self.model = model
        self.solver = solver
        self.pos_label = pos_label
        self.standardize = standardize
        self.random_state = random_state
        self.callback = callback
        self.checkpoint = checkpoint

    def fit(
        self, X: Any, y: Any, sample_weight: Any = None
    ) -> SetpointClassifier:
        """Train for the goal.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Features, finite. float32 is trained in float32, all else in float64.
        y : array-like of shape (n,)
            Two different labels, of any kind.
        sample_weight : array-like of shape (n,), optional
            Weights >= 0 of the counts; a weight of 2 is the same as the row twice.
        """
        goal = Goal.parse(self.goal)
        solver = get_solver(self.solver)
        X, y = validate_data(self, X, y, dtype=[np.float64, np.float32])
        weight = _check_sample_weight(sample_weight, X, dtype=X.dtype, ensure_non_negative=True)
        positive = self._encode(y)
        kept = weight > 0
        X, positive, weight = X[kept], positive[kept], weight[kept]
        self._check_classes(positive)

        self._standardizer = Standardizer.fit(X, weight) if self.standardize else None
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            module = build(self.model, X.shape[1])
        features = torch.from_numpy(self._prepare(X))
        module = module.to(features.dtype)
        problem = make_problem(features, torch.from_numpy(positive), goal, torch.from_numpy(weight))
        solution = solve(
            problem,
            module,
            solver,
            seed=seed,
            callback=self.callback,
            checkpoint=self.checkpoint,
        )
        self.goal_ = goal
        self.module_ = solution.module
        self.history_ = solution.history
        self.certificate_ = None
        # decision_function is measured from the threshold, as scikit-learn expects of it: a
        # positive value is a positive decision.
        self._threshold = solution.operating_point.threshold
        self.operating_point_ = evaluate_threshold(
            positive, self._score(X), 0.0, goal, sample_weight=weight, on="the training data"
        )
        return self

    def scores(self, X: Any) -> NDArray[np.floating]:
        """Return the logit of the positive class above the operating threshold.

        ``score > 0`` is a positive decision, whichever label is the positive one.
        """
        check_is_fitted(self, "module_")
        X = validate_data(self, X, reset=False, dtype=[np.float64, np.float32])
        return self._score(X)

    def decision_function(self, X: Any) -> NDArray[np.floating]:
        """Return the scores as scikit-learn wants them: > 0 decides for ``classes_[1]``."""
        score = self.scores(X)
        return score if self.pos_label_ == self.classes_[1] else -score

    def predict_proba(self, X: Any) -> NDArray[np.floating]:
        """Return f and 1 - f in the order of ``classes_``, the threshold being 0.5.

        These are scores for the operating point and not calibrated probabilities.
        """
        first_minus_second = -self.decision_function(X)
        p = 1.0 / (1.0 + np.exp(np.clip(first_minus_second, -500, 500)))
        return np.column_stack([1.0 - p, p])

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the label decided at the operating threshold."""
        return np.asarray(np.where(self.scores(X) > 0, self.pos_label_, self._neg_label))

    def evaluate(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        *,
        on: str = "the test data",
    ) -> OperatingPoint:
        """Return what the operating threshold does on other labelled data."""
        return evaluate_threshold(
            np.asarray(y) == self.pos_label_,
            self.scores(X),
            0.0,
            self.goal_,
            sample_weight=sample_weight,
            on=on,
        )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags

    def _encode(self, y: NDArray[Any]) -> NDArray[np.bool_]:
        """Check the labels and return which are positive."""
        check_classification_targets(y)
        self.classes_ = np.unique(y)
        if len(self.classes_) > 2:
            # The first sentence is scikit-learn's wording for binary-only classifiers.
            raise SetpointError(
                f"Only binary classification is supported. The type of the target is "
                f"{type_of_target(y)}. Its labels are {_listed(self.classes_)}; choose the "
                f"important one and pass y == label."
            )
        if len(self.classes_) < 2:
            raise SetpointError(
                f"y holds only one class, {self.classes_[0]!r}; a classifier needs both classes."
            )
        if self.pos_label is None:
            self.pos_label_ = self.classes_[1]
        else:
            match = self.classes_[self.classes_ == self.pos_label]
            if len(match) != 1:
                raise SetpointError(
                    f"pos_label {self.pos_label!r} is not in y, whose labels are "
                    f"{_listed(self.classes_)}."
                )
            self.pos_label_ = match[0]
        self._neg_label = self.classes_[self.classes_ != self.pos_label_][0]
        return np.asarray(y == self.pos_label_)

    def _check_classes(self, positive: NDArray[np.bool_]) -> None:
        """Refuse classes that are too small, counted without rows of no weight."""
        for count, needed, label in (
            (int(positive.sum()), 2, self.pos_label_),
            (int((~positive).sum()), 1, self._neg_label),
        ):
            if count < needed:
                raise SetpointError(
                    f"the class {label!r} has {count} row{'' if count == 1 else 's'} of positive "
                    f"weight; training needs at least {needed}."
                )

    def _prepare(self, X: NDArray[np.floating]) -> NDArray[np.floating]:
        return X if self._standardizer is None else self._standardizer.transform(X)

    def _score(self, X: NDArray[np.floating]) -> NDArray[np.floating]:
        dtype = next(self.module_.parameters()).dtype
        features = torch.from_numpy(np.ascontiguousarray(self._prepare(X))).to(dtype)
        logits = scores_of(self.module_, features).numpy()
        return np.asarray(logits - logits.dtype.type(self._threshold))


def _listed(labels: NDArray[Any]) -> str:
    shown = ", ".join(repr(label) for label in labels.tolist()[:5])
    return shown + (", ..." if len(labels) > 5 else "")

"""The scikit-learn classifier that is trained for a goal."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import expit
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data
from torch import Tensor

from setpoint._labels import Labels
from setpoint._standardize import Standardizer
from setpoint.errors import InfeasibleGoalWarning, SetpointError
from setpoint.goals import Goal
from setpoint.models import Model, build, scores_of
from setpoint.models import check as check_model
from setpoint.operating_point import OperatingPoint, evaluate_threshold
from setpoint.solvers import Callback, Solver, get_solver, make_problem, solve


class SetpointClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A binary classifier that is trained for an operating point.

    Where the goal is not met in training, ``fit`` warns with an ``InfeasibleGoalWarning``.
    ``score`` is plain accuracy, as in all of scikit-learn; give a grid search a scorer of its own.

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
        A file from which an interrupted fit goes on. A fit that came to its end leaves it behind;
        the same fit then returns at once, and another one overwrites it.

    Attributes
    ----------
    operating_point_ : OperatingPoint
        Threshold, counts and metrics on the training data. Its threshold applies to
        ``positive_scores``, which are measured from it, and so is 0.
    history_ : History
        Objective, violation and lambda per outer iteration, in metric units.
    certificate_ : None
        What is promised on new data: nothing yet.
    module_, standardizer_, logit_threshold_
        The parts of a decision, for those who serve them elsewhere: the trained torch module,
        what brings features to its scale (or None), and the logit above which it decides for the
        positive class.
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

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> SetpointClassifier:
        """Train for the goal.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Features, finite. float32 is trained in float32, all else in float64.
        y : array-like of shape (n,)
            Two different labels of one kind, e.g. 0/1, booleans or texts.
        sample_weight : array-like of shape (n,), optional
            Weights >= 0 of the counts; a weight of 2 is the same as the row twice.
        """
        goal = Goal.parse(self.goal)
        solver = get_solver(self.solver)
        X, y = validate_data(self, X, y, dtype=[np.float64, np.float32])
        weight = _check_sample_weight(sample_weight, X, dtype=X.dtype, ensure_non_negative=True)
        labels = Labels.of(y, self.pos_label)
        kept = weight > 0
        X, positive, weight = X[kept], labels.is_positive(y[kept]), weight[kept]
        labels.check_counts(positive)
        if not 1e-9 < weight.mean() < 1e9:
            raise SetpointError(
                f"sample_weight has a mean of {weight.mean():.3g}; rescale it to about 1."
            )

        standardizer = Standardizer.fit(X, weight) if self.standardize else None
        features = _features(X, standardizer, X.dtype)
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            module = build(self.model, X.shape[1]).to(features.dtype)
            check_model(module, features)
            solution = solve(
                make_problem(features, torch.from_numpy(positive), goal, torch.from_numpy(weight)),
                module,
                solver,
                seed=None if self.random_state is None else seed,
                callback=self.callback,
                checkpoint=self.checkpoint,
            )
        self.classes_ = labels.classes
        self.pos_label_ = labels.positive
        self.goal_ = goal
        self.module_ = solution.module
        self.history_ = solution.history
        self.certificate_ = None
        self._labels = labels
        self.standardizer_ = standardizer
        self._dtype = X.dtype
        # Scores are measured from the threshold, so that the sign decides, as in scikit-learn.
        self.logit_threshold_ = solution.operating_point.threshold
        self.operating_point_ = evaluate_threshold(
            positive, self._scores(X), 0.0, goal, sample_weight=weight, on="the training data"
        )
        if not self.operating_point_.feasible or self.operating_point_.empty:
            warnings.warn(self.operating_point_.message, InfeasibleGoalWarning, stacklevel=2)
        return self

    def positive_scores(self, X: Any) -> NDArray[np.floating]:
        """Return the logit of the positive class above the operating threshold.

        ``score > 0`` is a positive decision, whichever label is the positive one.
        """
        check_is_fitted(self, "module_")
        X = validate_data(self, X, reset=False, dtype=[np.float64, np.float32])
        return self._scores(X)

    def decision_function(self, X: Any) -> NDArray[np.floating]:
        """Return the scores as scikit-learn wants them: > 0 decides for ``classes_[1]``."""
        scores = self.positive_scores(X)
        if self._labels.positive_index == 1:
            return scores
        # A score of exactly 0 is a negative decision, which is classes_[1] here.
        return np.asarray(np.where(scores == 0, np.finfo(scores.dtype).tiny, -scores))

    def predict_proba(self, X: Any) -> NDArray[np.floating]:
        """Return the sigmoid of the scores, in the order of ``classes_``; the threshold is 0.5.

        These are scores for the operating point and not calibrated probabilities.
        """
        p = expit(self.decision_function(X))
        return np.column_stack([1.0 - p, p])

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the label decided at the operating threshold."""
        positive = self.positive_scores(X) > 0
        return self._labels.of_decisions(positive)

    def evaluate(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        *,
        on: str = "the test data",
    ) -> OperatingPoint:
        """Return what the operating threshold does on other labelled data."""
        scores = self.positive_scores(X)
        positive = self._labels.is_positive(y)
        return evaluate_threshold(
            positive, scores, 0.0, self.goal_, sample_weight=sample_weight, on=on
        )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags

    def _scores(self, X: NDArray[np.floating]) -> NDArray[np.floating]:
        features = _features(X, self.standardizer_, self._dtype)
        logits = scores_of(self.module_, features).numpy()
        return np.asarray(logits - logits.dtype.type(self.logit_threshold_))


def _features(
    X: NDArray[np.floating], standardizer: Standardizer | None, dtype: np.dtype[Any]
) -> Tensor:
    """Return the tensor that a model is given for these rows."""
    if standardizer is not None:
        X = standardizer.transform(X)
    return torch.from_numpy(np.ascontiguousarray(X, dtype=dtype))

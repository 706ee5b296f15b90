"""The scikit-learn classifier that is trained for a goal."""

from __future__ import annotations

import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import expit
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from setpoint.certificates.certificate import Certificate
from setpoint.certificates.certify import certify_best
from setpoint.certificates.sequence import Rows
from setpoint.data.labels import Labels
from setpoint.data.rows import RowSource
from setpoint.data.standardize import Standardizer
from setpoint.errors import InfeasibleGoalWarning
from setpoint.estimators.fitting import features_of, fit_classifiers
from setpoint.estimators.outputs import Outputs, tell
from setpoint.goals.goal import Goal
from setpoint.thresholds.operating_point import OperatingPoint, evaluate_threshold
from setpoint.training.loop import Callback, Solution, Solver
from setpoint.training.models import Model, scores_of


class SetpointClassifier(Outputs, ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A binary classifier that is trained for an operating point.

    Where the goal is not met on the rows that set the threshold, ``fit`` warns with an
    ``InfeasibleGoalWarning``.
    ``score`` is plain accuracy, as in all of scikit-learn; give a grid search a scorer of its own.

    Parameters
    ----------
    goal : str or Goal
        What to train for, e.g. ``"max recall s.t. precision >= 0.9"``.
    model : "linear", "mlp", torch.nn.Module or callable
        A module that returns one logit per row, which is copied, or a factory
        ``f(n_features)`` of one.
    solver : "projected", "lifted", "paper", "cross_entropy" or Solver
        How to train. ``"projected"``: the exact penalty with its lifted variables eliminated;
        ``"lifted"``: Algorithm 1 in the preset that works; ``"paper"``: the same with the paper's
        constants; ``"cross_entropy"``: ordinary training, where the goal only sets the threshold.
    validation : "auto", float, splitter, iterable or None
        Which rows choose among the candidates (ordinary training at several strengths,
        goal-trained models, and all of them at several moments) and set the threshold. A float is
        the share of a random, stratified split; a splitter such as
        ``sklearn.model_selection.PredefinedSplit``, or an iterable, yields one pair of training
        and validation rows. ``"auto"``: a share of 0.25, unless that would hold fewer than ten
        rows of a class. ``None`` turns selection off: all rows train, and the best training
        objective wins.
    refit : bool
        Whether the winner is trained again, in the same way, on all rows, which then set the
        threshold too. More rows to learn from, but a threshold that is only as good as on rows
        the model has seen.
    confidence : float, optional
        E.g. 0.9: how surely the constraints must hold on new data. Some rows are then kept apart
        from training and validation; they certify, and the threshold is the best one whose
        constraints are promised. Where nothing can be promised, ``fit`` warns with an
        ``UncertifiedWarning``.
    certification : float, splitter or iterable
        Which rows certify: a share, drawn by chance and by whole groups, or one pair of other and
        certifying rows, which must not be stratified. Where there are groups, one row of each
        certifies, for the others are no independent draws.
    pos_label : optional
        The label of the positive class; by default the larger of the two.
    standardize : bool
        Whether features are brought to mean 0 and deviation 1 first.
    random_state : int, RandomState or None
        Seed of all randomness: the validation split, disturbed starts, a module's initial weights.
    device : "auto", "cpu", "cuda", "cuda:1" or torch.device
        Where to train. ``"auto"``: on a GPU if torch sees one, unless a linear model has fewer
        than four million numbers to learn from, or the GPU too little memory. A fitted classifier
        is on the CPU, and so are the scores that its threshold was chosen on; a GPU's may differ
        in the last bits, and so may counts in ``candidates_`` and ``history_``. Under ``torchrun``
        each process takes a GPU of its own, or all take the CPU.
    callback : callable, optional
        ``callback(record, outer_iterations)`` after every outer iteration, for a progress bar. The
        answer ``"stop"`` ends the fit with the best model so far.
    checkpoint : path, optional
        A file from which an interrupted fit goes on, on the same kind of device. A fit that came
        to its end leaves it behind; the same fit then returns at once, and another one overwrites
        it. A refit has a file of its own, with ``.refit`` at the end of its name.

    Attributes
    ----------
    operating_point_ : OperatingPoint
        Threshold, counts and metrics on the rows that set the threshold: the certifying rows, the
        validation part, or all rows; ``operating_point_.on`` says which. Its threshold applies to
        ``positive_scores``, which are measured from it, and so is 0.
    candidates_ : Candidates
        What was compared, and what each came to on the rows that chose; ``print`` it for a table.
    history_ : History
        Objective and violation of the best model of every outer iteration, on the rows that judge,
        and lambda.
    certificate_ : Certificate or None
        What is promised on new data, of ``positive_scores``.
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

    # Labels and scores of the rows that set the threshold, where they are in memory.
    _judged: tuple[NDArray[np.bool_], NDArray[np.floating]] | None

    def __init__(
        self,
        goal: str | Goal = "max f1",
        *,
        model: Model = "linear",
        solver: str | Solver = "projected",
        validation: Any = "auto",
        refit: bool = False,
        confidence: float | None = None,
        certification: Any = 0.3,
        pos_label: Any = None,
        standardize: bool = True,
        random_state: Any = None,
        device: str | torch.device = "auto",
        callback: Callback | None = None,
        checkpoint: str | Path | None = None,
    ) -> None:
        self.goal = goal
        self.model = model
        self.solver = solver
        self.validation = validation
        self.refit = refit
        self.confidence = confidence
        self.certification = certification
        self.pos_label = pos_label
        self.standardize = standardize
        self.random_state = random_state
        self.device = device
        self.callback = callback
        self.checkpoint = checkpoint

    def fit(
        self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None
    ) -> SetpointClassifier:
        """Train for the goal.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Features, finite. float32 is trained in float32, all else in float64.
        y : array-like of shape (n,)
            Two different labels of one kind, e.g. 0/1, booleans or texts.
        sample_weight : array-like of shape (n,), optional
            Weights >= 0 of the counts; a weight of 2 is the same as the row twice.
        groups : array-like of shape (n,), optional
            Rows of one group, e.g. of one patient, are not parted by a split.
        """
        fit_classifiers([self], X, y, sample_weight, groups)
        self._tell()
        return self

    def fit_stream(
        self, source: RowSource, validation: RowSource | None = None
    ) -> SetpointClassifier:
        """Train for the goal on rows that come in blocks, in bounded memory.

        The solver is "stochastic". Under ``torchrun`` all processes train one model together, each
        on its share of the rows, and on a GPU of its own if all have one. What was trained on a GPU
        takes a few more passes for the threshold on the CPU. Splits are by chance, and keep the
        source's groups together; the certifying part's scores must fit into memory. The positive
        label is the source's.

        Parameters
        ----------
        source : RowSource
            The rows: a :class:`setpoint.data.ParquetRows`, ``ArrayRows`` or ``LoaderRows``.
        validation : RowSource, optional
            Rows that judge, in place of a share of the source.
        """
        from setpoint.estimators.stream_fitting import fit_stream

        fit_stream(self, source, validation)
        return self

    def _take(
        self,
        labels: Labels,
        goal: Goal,
        solution: Solution,
        standardizer: Standardizer | None,
        dtype: np.dtype[Any],
    ) -> None:
        """Keep what training found."""
        self.classes_ = labels.classes
        self.pos_label_ = labels.positive
        self.goal_ = goal
        self.module_ = solution.module
        self.history_ = solution.history
        self.certificate_: Certificate | None = None
        self._labels = labels
        self.standardizer_ = standardizer
        self._dtype = dtype
        self._judged = None
        # Scores are measured from the threshold, so that the sign decides, as in scikit-learn.
        self.logit_threshold_ = solution.operating_point.threshold

    def _certify(self, planning: Rows, testing: Rows, goal: Goal, grouped: bool) -> Certificate:
        """Move the threshold to the best one that can be promised."""
        assert self.confidence is not None
        found = certify_best(planning, testing, goal, self.confidence, on="the certifying rows")
        self.logit_threshold_ = found.threshold
        self.operating_point_ = replace(found.operating_point, threshold=0.0)
        self.certificate_ = replace(
            found,
            threshold=0.0,
            operating_point=self.operating_point_,
            one_per_group=grouped,
            pos_label=self.pos_label_,
        )
        return self.certificate_

    def _tell(self) -> None:
        """Warn where the goal is not met or nothing is promised; called from a public function."""
        if self.certificate_ is not None:
            tell(self.certificate_, stacklevel=4)
        elif not self.operating_point_.feasible or self.operating_point_.empty:
            warnings.warn(self.operating_point_.message, InfeasibleGoalWarning, stacklevel=3)

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
        scores = self.decision_function(X)
        p = expit(scores)
        # A score too small to move the sigmoid is still a decision.
        p = np.where(scores > 0, np.maximum(p, np.nextafter(p.dtype.type(0.5), p.dtype.type(1))), p)
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

    def _logits(self, X: NDArray[np.floating]) -> NDArray[np.floating]:
        features = features_of(X, self.standardizer_, self._dtype)
        return np.asarray(scores_of(self.module_, features).numpy())

    def _scores(self, X: NDArray[np.floating]) -> NDArray[np.floating]:
        logits = self._logits(X)
        return np.asarray(logits - logits.dtype.type(self.logit_threshold_))

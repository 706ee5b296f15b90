"""The scikit-learn classifier that is trained for a goal."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import expit
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from setpoint.certificates import sequence
from setpoint.certificates.certificate import Certificate
from setpoint.certificates.certify import certify_best, certify_on
from setpoint.data.labels import Labels
from setpoint.data.rows import RowSource
from setpoint.data.standardize import Standardizer
from setpoint.estimators.base import SetpointEstimator
from setpoint.estimators.fitting import FitData, Trained, features_of, train
from setpoint.goals.goal import Goal
from setpoint.thresholds.choose import point_at
from setpoint.thresholds.operating_point import OperatingPoint
from setpoint.training.loop import Callback, Solution, Solver
from setpoint.training.models import Model, scores_of
from setpoint.training.problem import Problem


class SetpointClassifier(SetpointEstimator, ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A binary classifier that is trained for an operating point.

    If the goal is not met on the rows that set the threshold, ``fit`` warns with an
    ``InfeasibleGoalWarning``. ``score`` is plain accuracy, as everywhere in scikit-learn; pass
    :meth:`Goal.scorer` to a grid search.

    On tables, boosted trees are often better than a linear model:
    ``SetpointThreshold.auto(goal)`` compares several kinds of models and takes the best.

    Parameters
    ----------
    goal : str or Goal
        What to train for, e.g. ``"max recall s.t. precision >= 0.9"``.
    model : "linear", "mlp", torch.nn.Module or callable
        A module that returns one logit per row, which is copied, or a factory
        ``f(n_features)`` of one.
    solver : "projected", "lifted", "paper", "cross_entropy" or Solver
        How to train. ``"projected"``: the exact penalty with its lifted variables eliminated;
        ``"lifted"``: Algorithm 1 in our preset; ``"paper"``: the same with the paper's constants,
        in our reading (``Lifted.printed()``: as printed); ``"cross_entropy"``: ordinary training,
        where the goal only sets the threshold.
    validation : "auto", float, splitter, iterable or None
        The validation rows, which choose among the candidates (ordinary training at several
        strengths, goal-trained models, and all of them at several iterations) and set the
        threshold. A float is the fraction of a random, stratified split; a splitter such as
        ``sklearn.model_selection.PredefinedSplit``, or an iterable, yields one pair of training
        and validation rows. ``"auto"``: a fraction of 0.25, unless that would hold fewer than ten
        rows of a class. ``None``: all rows are training rows, and the best training objective wins.
    refit : bool
        Whether the winner is trained again, in the same way, on all rows, which then also set the
        threshold. There are more rows to learn from, but the threshold is only as good as it is on
        rows that the model has seen.
    caution : float
        What it is worth that the constraints hold on new rows, in units of the objective. Candidate
        and threshold must meet the constraints on the validation rows; among those that do, they
        are chosen by the objective plus ``caution`` times the estimated probability that the
        constraints hold on new rows. So at most this much of the objective is given up, and only
        where it helps. 0: the best objective on the validation rows. There is no caution on
        training rows (``validation=None``, ``refit``), nor with ``confidence``.
    confidence : float, optional
        Confidence, e.g. 0.9, with which the constraints must hold on new data. Certification rows
        are then split off, which neither train nor validate, and the threshold is the best one
        whose constraints are certified. If there is none, ``fit`` warns with an
        ``UncertifiedWarning``.
    certification : float, splitter or iterable
        The certification rows: a fraction, drawn at random and by whole groups, or one pair of
        other and certification rows, which must not be stratified. If there are groups, one row of
        each is used, since the others are not independent draws.
    caps : mapping of str to float, optional
        The largest amounts that rows can have, by name, for certified bounds on costs; see
        :func:`setpoint.certify`.
    pos_label : optional
        The label of the positive class. By default the larger of two numbers, so 1 or True; of two
        texts "yes", "true" or "positive" and the like, or else the rarer one if it makes up less
        than 40 % of the rows, or else the one that sorts last. A warning says which one was taken
        unless scikit-learn would take it as well. A list: these labels
        are positive. With a list, and with more than two labels, all others are negative;
        ``classes_`` are then two texts, such as ``"other"`` and ``"1 or 2"``, which ``predict``
        returns.
    standardize : bool
        Whether features are first scaled to mean 0 and standard deviation 1.
    random_state : int, RandomState or None
        Seed of all randomness: the splits, restarts, a module's initial weights.
    device : "auto", "cpu", "cuda", "cuda:1" or torch.device
        Where to train. ``"auto"``: on a GPU if torch sees one, unless a linear model has fewer
        than four million numbers to learn from, or the GPU too little memory. A fitted classifier
        is on the CPU, and so are the scores that its threshold was chosen on; a GPU's may differ
        in the last bits, and so may counts in ``candidates_`` and ``history_``. Under ``torchrun``
        each process uses its own GPU, or all use the CPU.
    callback : callable, optional
        ``callback(record, outer_iterations)`` after every outer iteration, e.g. for a progress bar.
        If it returns ``"stop"``, the fit ends with the best model so far.
    checkpoint : path, optional
        A file from which an interrupted fit continues, on the same kind of device. It is kept at
        the end: the same fit then returns at once, and another one overwrites it. A refit has its
        own file, whose name ends in ``.refit``.

    Attributes
    ----------
    operating_point_ : OperatingPoint
        Threshold, counts and metrics on the rows that set the threshold: the certification rows,
        the validation rows, or all rows; see ``operating_point_.on``. On validation rows in memory
        they are cross-fitted, which estimates them for new rows: random halves of the rows are
        counted at the threshold that the other half would set, and the counts, averaged, need not
        be whole. The threshold applies to ``positive_scores``, which are measured from it, and so
        is 0.
    candidates_ : Candidates
        The candidates and their operating points on the validation rows that chose them, which look
        better than new rows will; ``print`` it for a table.
    history_ : History
        Objective and violation of the best model of every outer iteration, on the validation rows,
        and lambda.
    certificate_ : Certificate or None
        What is certified on new data, of ``positive_scores``.
    module_, standardizer_, logit_threshold_
        The steps of a decision, to serve them elsewhere: the trained torch module, the standardizer
        of its features (or None), and the logit above which the decision is positive.
    classes_ : ndarray of shape (2,)
        The labels; ``pos_label_`` is the positive one.
    goal_ : Goal
        The goal, parsed.
    segments_ : dict
        By column, the segments in each of which the goal's constraints are held; ``"(other)"`` is
        all others together.

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
        solver: str | Solver = "projected",
        validation: Any = "auto",
        refit: bool = False,
        caution: float = 0.2,
        confidence: float | None = None,
        certification: Any = 0.3,
        caps: Any = None,
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
        self.caution = caution
        self.confidence = confidence
        self.certification = certification
        self.caps = caps
        self.pos_label = pos_label
        self.standardize = standardize
        self.random_state = random_state
        self.device = device
        self.callback = callback
        self.checkpoint = checkpoint

    def fit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        groups: Any = None,
        *,
        amounts: Any = None,
        segments: Any = None,
        times: Any = None,
    ) -> SetpointClassifier:
        """Train for the goal.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Features, finite. float32 is trained in float32, all else in float64.
        y : array-like of shape (n,)
            Two different labels of one kind, e.g. 0/1, booleans or strings; more if ``pos_label``
            names the positive ones.
        sample_weight : array-like of shape (n,), optional
            Weights >= 0 of the counts; a weight of 2 is the same as the row twice.
        groups : array-like of shape (n,), optional
            Rows of one group, e.g. of one patient, stay in the same split.
        amounts, segments, times : optional
            The columns that the goal names, as for :func:`setpoint.choose_threshold`. Segments of
            fewer than ten positives or negatives are pooled. With a budget per period, whole
            periods stay in the same split.
        """
        goal = Goal.parse(self.goal)
        data = FitData.of(
            self, X, y, sample_weight, groups, goal, amounts=amounts, segments=segments, times=times
        )
        data.columns.check_values(goal)
        self._set_trained(goal, data, train(self, goal, data))
        self._warn_if_unmet()
        return self

    def fit_stream(
        self, source: RowSource, validation: RowSource | None = None
    ) -> SetpointClassifier:
        """Train for the goal on rows that come in blocks, in bounded memory.

        The solver is "stochastic". Under ``torchrun`` all processes train one model, each on its
        own rows, and on its own GPU if all have one. A model trained on a GPU takes a few more
        passes for the threshold on the CPU. Splits are random, and keep the source's groups
        together; the scores of the certification rows must fit into memory. The positive label is
        the source's. The goal must count all rows alike: amounts, segments and times are for
        :meth:`fit`.

        Parameters
        ----------
        source : RowSource
            The rows: a :class:`setpoint.data.ParquetRows`, ``ArrayRows`` or ``LoaderRows``.
        validation : RowSource, optional
            Validation rows, instead of a fraction of the source.
        """
        from setpoint.estimators.stream_fitting import fit_stream

        fit_stream(self, source, validation)
        return self

    def _set_trained(self, goal: Goal, data: FitData, found: Trained) -> None:
        """Keep a trained model, and set its threshold: certified, or on the validation rows."""
        X, positive, certification = data.X, data.positive, data.splits.certification
        self._set_solution(goal, data.labels, found.solution, found.standardizer, X.dtype)
        self.segments_ = data.segments
        self.candidates_ = found.candidates
        rows = found.rows
        if certification is not None:
            assert self.confidence is not None
            planning, testing = (
                (positive[own], self._logits(X[own]), data.columns.take(own))
                for own in (rows, certification)
            )
            certificate = certify_on(planning, testing, goal, self.confidence, self.caps)
            self._set_certified(certificate, testing[1].dtype, data.grouped)
            rows = certification
        self._threshold_rows = positive[rows], self._scores(X[rows])
        self._threshold_columns = data.columns.take(rows)
        if certification is None:
            self._chosen_point = point_at(
                positive[rows], self._threshold_rows[1] > 0, data.weight[rows],
                data.columns.take(rows), goal, 0.0, found.on,
            )  # fmt: skip
            self.operating_point_ = _cross_fitted(
                self._chosen_point, self._threshold_rows[1], found.validated
            )

    def _set_solution(
        self,
        goal: Goal,
        labels: Labels,
        solution: Solution,
        standardizer: Standardizer | None,
        dtype: np.dtype[Any],
    ) -> None:
        """Keep a trained model, without its operating point."""
        self.goal_ = goal
        self.segments_ = {}
        self._set_labels(labels)
        self.module_ = solution.module
        self.history_ = solution.history
        self.candidates_ = solution.candidates
        self.standardizer_ = standardizer
        self._dtype = dtype
        self.certificate_ = None
        self._threshold_rows = self._threshold_columns = None
        self._chosen_point, self._planned_point = None, solution.operating_point
        # Scores are measured from the threshold, so that the sign decides, as in scikit-learn.
        self.logit_threshold_ = solution.operating_point.threshold

    def _certify(self, planning: sequence.Rows, testing: sequence.Rows, grouped: bool) -> None:
        """Move the threshold to the best one that can be certified."""
        assert self.confidence is not None
        found = certify_best(
            planning, testing, self.goal_, self.confidence, on="the certification rows"
        )
        self._set_certified(found, testing.positive.sorted.dtype, grouped)

    def _set_certified(self, found: Certificate, kind: Any, grouped: bool) -> None:
        self.logit_threshold_ = found.threshold
        self.operating_point_ = replace(found.operating_point, threshold=0.0)
        self.certificate_ = replace(
            found,
            threshold=0.0,
            certified_thresholds=found.certified_thresholds.less(found.threshold, kind),
            operating_point=self.operating_point_,
            one_per_group=grouped,
            pos_label=self._labels.pos_label,
        )

    def positive_scores(self, X: Any) -> NDArray[np.floating]:
        """Return the logit of the positive class above the operating threshold.

        ``score > 0`` is a positive decision, whichever label is the positive one.
        """
        check_is_fitted(self, "module_")
        X = validate_data(self, X, reset=False, dtype=[np.float64, np.float32])
        return self._scores(X)

    def decision_function(self, X: Any) -> NDArray[np.floating]:
        """Return scores by scikit-learn's convention: > 0 decides for ``classes_[1]``."""
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
        scores = self.positive_scores(X)
        return self._labels.of_decisions(scores > 0)

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


def _cross_fitted(
    point: OperatingPoint, scores: NDArray[np.floating], validated: Problem | None
) -> OperatingPoint:
    """Return the cross-fitted counts of validation rows; others, and too few, as they are."""
    if validated is None or validated.halves is None:
        return point
    recall, fpr = validated.halves.cross_fitted(scores, validated.ranking)
    _, _, P, N = point.goal_counts
    on = f"{point.on} (cross-fitted)"
    found = OperatingPoint.of_counts(point.threshold, recall * P, fpr * N, P, N, point.goal, on)
    return replace(found, ranking=point.ranking)

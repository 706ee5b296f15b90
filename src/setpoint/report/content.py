"""The content of a report: labelled rows, a threshold, and everything known about them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from setpoint.certificates.certificate import Certificate
from setpoint.certificates.joint_monitor import JointVerdict
from setpoint.certificates.monitor import Verdict
from setpoint.errors import SetpointError
from setpoint.explain.explanations import Explanations
from setpoint.goals.columns import GoalColumns
from setpoint.goals.goal import Goal
from setpoint.thresholds.by_segment import SegmentThresholds
from setpoint.thresholds.checks import check_scores
from setpoint.thresholds.choose import point_at
from setpoint.thresholds.expected_value import DecisionTable
from setpoint.thresholds.operating_point import OperatingPoint
from setpoint.training.candidates import Candidates
from setpoint.training.history import History
from setpoint.training.model_candidates import ModelCandidates

Floats = NDArray[np.floating]

_PLAIN_POSITIVES = ("positive", "1", "1.0", "True", "true")  # labels that name nothing


class Terms(NamedTuple):
    """The words for one positive case and for several, and the currency."""

    one: str = "positive"
    many: str = "positives"
    currency: str = "€"


@dataclass(frozen=True, eq=False)
class Rows:
    """The labelled rows of a report.

    Attributes
    ----------
    y : ndarray of bool
        The labels; 0/1 and -1/1 are accepted as well.
    scores : ndarray of float
        One per row; higher for likely positives.
    on : str
        What to call these rows, e.g. ``"the test rows"``.
    unseen : bool
        Whether none of them was used for the model, the threshold or the certificate. Only then do
        they show what to expect of new data, and count as evidence about a certificate.
    chose : bool
        Whether the threshold was chosen on them; then new rows are likely to have worse results.
    named : mapping or GoalColumns
        The ``amounts``, ``segments`` and ``times`` of the rows, where the goal names some.
    probability : ndarray of float, optional
        The model's probability of each row, if it has one that should agree with how often such
        rows are positive.
    """

    y: NDArray[np.bool_]
    scores: Floats
    on: str = "the data given"
    unseen: bool = False
    chose: bool = False
    named: Mapping[str, Any] | GoalColumns = field(default_factory=dict)
    probability: Floats | None = None

    def __post_init__(self) -> None:
        if self.unseen and self.chose:
            raise SetpointError(
                f"{self.on} cannot be unseen if the threshold was chosen on them; set either "
                "unseen=True or chose=True."
            )
        y, scores, _ = check_scores(self.y, self.scores, None, None)
        for present, name in ((y.any(), "positive"), (not y.all(), "negative")):
            if not present:
                raise SetpointError(
                    f"there are no {name} rows in {self.on}; a report needs both classes."
                )
        object.__setattr__(self, "y", y)
        object.__setattr__(self, "scores", scores)
        if self.probability is not None:
            object.__setattr__(self, "probability", self._checked_probability())

    def __len__(self) -> int:
        return len(self.y)

    def _checked_probability(self) -> Floats:
        found = np.asarray(self.probability, dtype=np.float64)
        if found.shape != self.y.shape or not ((found >= 0) & (found <= 1)).all():
            raise SetpointError(
                f"probability must hold one number from 0 to 1 for each of the {len(self):,} rows."
            )
        return found

    def columns(self, goal: Goal) -> GoalColumns:
        """Validate and return the columns that a goal names."""
        if isinstance(self.named, GoalColumns):
            return self.named
        return GoalColumns.of(goal, len(self), **self.named)


@dataclass(frozen=True, eq=False)
class Baseline:
    """Another classifier to compare with, on the same rows.

    Attributes
    ----------
    name : str
        E.g. ``"logistic regression at 0.5"``.
    scores : ndarray of float
        One per row, on its own scale.
    threshold : float
        On that scale.
    """

    name: str
    scores: Floats
    threshold: float

    def __post_init__(self) -> None:
        if np.isnan(self.threshold):
            raise SetpointError(f"the threshold of the baseline '{self.name}' is NaN.")


@dataclass(frozen=True)
class Costs:
    """The cost of decisions, all in one currency.

    Attributes
    ----------
    alarm : float
        Of investigating one alarm, real or false.
    miss : float
        Of one missed positive.
    catch : float
        Of one caught positive, in addition to its alarm; negative where it brings money in.
    currency : str
        Written before every amount.
    """

    alarm: float
    miss: float
    catch: float = 0.0
    currency: str = "€"

    def __post_init__(self) -> None:
        for name in ("alarm", "miss", "catch"):
            value = getattr(self, name)
            if not np.isfinite(value):
                raise SetpointError(f"the cost '{name}' must be a finite number, not {value}.")
            if value < 0 and name != "catch":
                raise SetpointError(f"the cost '{name}' must not be negative, but is {value}.")

    def total(self, point: OperatingPoint) -> float:
        """Return the cost of all decisions at an operating point."""
        alarms = point.tp + point.fp
        return self.alarm * alarms + self.miss * point.fn + self.catch * point.tp


class Described:
    """What the reports on one threshold and on a review band share.

    Sentences call the positive cases by their name, or by their label in quotes. A certificate
    belongs to the goal and the thresholds of the report.
    """

    decided_by: ClassVar[str]
    goal: Any
    rows: Rows
    certificate: Any
    verdict: Any
    positive: str
    positives: str | None
    currency: str
    facts: Mapping[str, str]
    notes: tuple[str, ...]
    point: Any

    @property
    def singular(self) -> str:
        """What sentences call one case of the positive class."""
        if self.positives is not None:
            return self.positive
        return "positive" if self.positive in _PLAIN_POSITIVES else f"“{self.positive}” case"

    @property
    def plural(self) -> str:
        """What sentences call several cases of the positive class."""
        if self.positives is not None:
            return self.positives
        return "positives" if self.positive in _PLAIN_POSITIVES else f"“{self.positive}” cases"

    @property
    def terms(self) -> Terms:
        """The words for positives, and the currency."""
        return Terms(self.singular, self.plural, self.currency)

    @property
    def later(self) -> bool:
        """Whether the rows show what to expect of new data."""
        return self.rows.unseen or self.verdict is not None

    @cached_property
    def checked(self) -> Any:
        """The verdict of the rows on the certificate; None where they cannot be compared."""
        certificate = self.certificate
        if self.verdict is not None or certificate is None:
            return self.verdict
        if not (self.rows.unseen and certificate.certified) or certificate.one_per_group:
            return None
        if not certificate.can_be_checked or isinstance(self.rows.named, GoalColumns):
            return None
        named = dict(self.rows.named)
        return certificate.check(self.rows.y, self.rows.scores, pos_label=True, **named)

    @property
    def broken(self) -> bool:
        """Whether the rows contradict the certificate."""
        return self.checked is not None and self.checked.broken

    def _check(self, *names: str) -> None:
        """Raise SetpointError unless certificate and verdict belong to the fields so named."""
        notes: object = self.notes
        if isinstance(notes, str):
            raise SetpointError("notes must be a tuple of sentences, not a string.")
        certificate = self.certificate
        if certificate is None:
            if self.verdict is not None:
                raise SetpointError("a verdict needs the certificate that it is about.")
            return
        if str(certificate.goal) != str(self.goal):
            raise SetpointError(
                f"the certificate is for the goal '{certificate.goal}', the report for "
                f"'{self.goal}'."
            )
        own, certified = ([getattr(x, name) for name in names] for x in (self, certificate))
        if own != certified:
            s = "s" if len(names) > 1 else ""
            raise SetpointError(
                f"the certificate is for the threshold{s} {' and '.join(map(repr, certified))} and "
                f"does not apply to the report's, {' and '.join(map(repr, own))}."
            )
        if self.verdict is not None and self.verdict.guarantees != certificate.guarantees:
            raise SetpointError(
                "the verdict is about another certificate; get it from this certificate's check()."
            )


@dataclass(frozen=True, eq=False)
class Report(Described):
    """Everything that the page shows.

    Parameters
    ----------
    goal : Goal or str
        The goal of the classifier.
    rows : Rows
        Labels and scores, the source of all counts. They should be new to the model.
    threshold : float
        ``score > threshold`` raises an alarm.
    certificate : Certificate, optional
        For this goal and this threshold.
    verdict : Verdict or JointVerdict, optional
        The result of ``certificate.check`` on the rows, which then count as later data. Without it,
        unseen rows are checked here, unless the certificate is about one case of each group.
    baseline : Baseline, optional
        A classifier to compare with.
    tuned : Baseline, optional
        The same with a threshold that was tuned for the goal.
    current : Baseline, optional
        Today's model, which has a curve of its own.
    history : History, optional
        Of the training.
    candidates : Candidates or ModelCandidates, optional
        The models that were compared.
    compared : tuple of (str, OperatingPoint, Certificate or None)
        Models that were trained on the same rows, this one among them: their names, and their
        operating points on the rows of the report.
    chosen : str
        Which of them this one is.
    costs : Costs, optional
        If given, the page shows money, unless the goal has prices of its own.
    currency : str
        Of the amounts that the goal names; written before them.
    closest : OperatingPoint, optional
        Where no threshold met the goal on the rows that chose it: the closest one there.
    caution : float
        That of the classifier, which leaves a margin above the goal's levels.
    decisions : DecisionTable, optional
        A single threshold and decisions by expected value, compared.
    segment_thresholds : SegmentThresholds, optional
        The threshold of each segment, if the scores are measured from these.
    title : str
        The page's title.
    positive : str
        The name of one positive case, e.g. ``"fraud"``, or its label.
    positives : str, optional
        The plural, e.g. ``"frauds"``. Without it sentences use "“fraud” cases", which suits labels
        such as ``"yes"`` as well, and "positives" for the labels 1 and True.
    facts : mapping of str to str
        What is needed to reproduce the numbers: versions, seed, file names, date. Facts that are
        None, empty or given twice are left out.
    notes : tuple of str
        Sentences for the reader, e.g. warnings about the data.
    why : Explanations, optional
        The model's reasons, e.g. its coefficients.
    """

    decided_by: ClassVar[str] = "threshold"

    goal: Goal
    rows: Rows
    threshold: float
    certificate: Certificate | None = None
    verdict: Verdict | JointVerdict | None = None
    baseline: Baseline | None = None
    tuned: Baseline | None = None
    current: Baseline | None = None
    history: History | None = None
    candidates: Candidates | ModelCandidates | None = None
    compared: tuple[tuple[str, OperatingPoint, Certificate | None], ...] = ()
    chosen: str = ""
    costs: Costs | None = None
    currency: str = "€"
    closest: OperatingPoint | None = None
    caution: float = 0.0
    decisions: DecisionTable | None = None
    segment_thresholds: SegmentThresholds | None = None
    title: str = "What this classifier does"
    positive: str = "positive"
    positives: str | None = None
    facts: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    why: Explanations | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "goal", Goal.parse(self.goal))
        if np.isnan(self.threshold):
            raise SetpointError("the threshold is NaN.")
        for baseline in (self.baseline, self.tuned, self.current):
            if baseline is not None:
                _check_baseline(baseline, len(self.rows))
        self._check("threshold")

    @cached_property
    def columns(self) -> GoalColumns:
        """The amounts, segments and periods of the rows that the goal names."""
        return self.rows.columns(self.goal)

    @cached_property
    def alarm(self) -> NDArray[np.bool_]:
        """The rows that raise an alarm."""
        return _alarms(self.rows.scores, self.threshold)

    @cached_property
    def point(self) -> OperatingPoint:
        """The threshold's operating point on the rows."""
        return self._point(self.alarm, self.threshold)

    def _point(self, alarm: NDArray[np.bool_], threshold: float) -> OperatingPoint:
        rows = self.rows
        return point_at(rows.y, alarm, None, self.columns, self.goal, float(threshold), rows.on)

    @cached_property
    def baselines(self) -> tuple[tuple[Baseline, OperatingPoint], ...]:
        """The baselines that are given, with their operating points on the rows."""
        return tuple(
            (
                other,
                self._point(_alarms(np.asarray(other.scores), other.threshold), other.threshold),
            )
            for other in (self.baseline, self.tuned, self.current)
            if other is not None
        )


def _alarms(scores: NDArray[Any], threshold: float) -> NDArray[np.bool_]:
    # numpy would round a Python float to the precision of the scores before comparing.
    return np.asarray(scores.astype(np.float64, copy=False) > float(threshold))


def _check_baseline(baseline: Baseline, n: int) -> None:
    scores = np.asarray(baseline.scores)
    if scores.shape != (n,):
        raise SetpointError(
            f"the baseline '{baseline.name}' has scores of shape {scores.shape}, but the report "
            f"has {n} rows; score the same rows with both."
        )
    if scores.dtype.kind not in "fiub":
        raise SetpointError(f"the scores of the baseline '{baseline.name}' are not numbers.")
    if np.isnan(scores).any():
        raise SetpointError(
            f"{int(np.isnan(scores).sum())} scores of the baseline '{baseline.name}' are NaN."
        )

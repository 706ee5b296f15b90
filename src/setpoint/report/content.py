"""What a report is about: rows, a threshold, and what there is to say of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from setpoint.certificates.certificate import Certificate
from setpoint.certificates.monitor import Verdict
from setpoint.certificates.rates import rate_of
from setpoint.errors import SetpointError
from setpoint.goals.goal import Goal
from setpoint.thresholds.operating_point import OperatingPoint, check_scores, evaluate_threshold
from setpoint.training.candidates import Candidates
from setpoint.training.history import History

Floats = NDArray[np.floating]


@dataclass(frozen=True, eq=False)
class Rows:
    """The labelled rows that a report is about.

    Attributes
    ----------
    y : ndarray of bool
        The labels; 0/1 and -1/1 are taken as well.
    scores : ndarray of float
        One per row, larger for likely positives.
    on : str
        What to call these rows, e.g. ``"the test data"``.
    unseen : bool
        Whether neither the model, the threshold nor the certificate was made with any of them. Only
        then do they show what new data will, and can speak for or against a certificate.
    chose : bool
        Whether the threshold was chosen on them, so that they look better than new rows will.
    """

    y: NDArray[np.bool_]
    scores: Floats
    on: str = "the data given"
    unseen: bool = False
    chose: bool = False

    def __post_init__(self) -> None:
        if self.unseen and self.chose:
            raise SetpointError(
                f"{self.on} cannot have chosen the threshold and be unseen; one of both is wrong."
            )
        y, scores, _ = check_scores(self.y, self.scores, None, None)
        for present, name in ((y.any(), "positive"), (not y.all(), "negative")):
            if not present:
                raise SetpointError(
                    f"there are no {name} rows in {self.on}; a report needs both classes."
                )
        object.__setattr__(self, "y", y)
        object.__setattr__(self, "scores", scores)

    def __len__(self) -> int:
        return len(self.y)


@dataclass(frozen=True, eq=False)
class Baseline:
    """What the classifier is compared with, on the same rows.

    Attributes
    ----------
    name : str
        E.g. ``"logistic regression at 0.5"``.
    scores : ndarray of float
        One per row, on a scale of its own.
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
    """What decisions cost, each in the same currency.

    Attributes
    ----------
    alarm : float
        To look into one alarm, real or false.
    miss : float
        One positive that is not caught.
    catch : float
        One positive that is caught, besides the alarm; below 0 where a catch brings money in.
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
        """Return what all decisions at an operating point cost together."""
        alarms = point.tp + point.fp
        return self.alarm * alarms + self.miss * point.fn + self.catch * point.tp


@dataclass(frozen=True, eq=False)
class Report:
    """All that the page shows.

    Parameters
    ----------
    goal : Goal or str
        What was asked for.
    rows : Rows
        Labels and scores that all counts come from. They should be new to the model.
    threshold : float
        ``score > threshold`` is an alarm.
    certificate : Certificate, optional
        What is promised, of this goal at this threshold.
    verdict : Verdict, optional
        What ``certificate.check`` said of the rows, which are then taken as later data. Without it
        unseen rows are checked here, unless the promise is for one case of each group.
    baseline : Baseline, optional
        What to compare with.
    tuned : Baseline, optional
        The same with a threshold that was tuned for the goal.
    history : History, optional
        Of the training.
    candidates : Candidates, optional
        The models that were compared.
    costs : Costs, optional
        Where money shall be shown.
    title : str
        The page's name.
    positive : str
        One case of the positive class in a word, e.g. ``"fraud"``, or its label.
    positives : str, optional
        The plural, e.g. ``"frauds"``. Without it sentences say "“fraud” cases", which is right for
        labels such as ``"yes"`` or ``"1"`` as well.
    facts : mapping of str to str
        What is needed to reproduce the numbers: versions, seed, file names, date. What is None or
        said twice is left out.
    notes : tuple of str
        Sentences that a reader should know, e.g. warnings about the data.
    """

    goal: Goal
    rows: Rows
    threshold: float
    certificate: Certificate | None = None
    verdict: Verdict | None = None
    baseline: Baseline | None = None
    tuned: Baseline | None = None
    history: History | None = None
    candidates: Candidates | None = None
    costs: Costs | None = None
    title: str = "What this classifier does"
    positive: str = "positive"
    positives: str | None = None
    facts: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "goal", Goal.parse(self.goal))
        if np.isnan(self.threshold):
            raise SetpointError("the threshold is NaN.")
        for rival in (self.baseline, self.tuned):
            if rival is not None:
                _check_baseline(rival, len(self.rows))
        notes: object = self.notes
        if isinstance(notes, str):
            raise SetpointError("notes must be a tuple of sentences, not one text.")
        held = self.certificate
        if held is None:
            if self.verdict is not None:
                raise SetpointError("a verdict needs the certificate that it is about.")
            return
        if str(held.goal) != str(self.goal):
            raise SetpointError(
                f"the certificate is for the goal '{held.goal}', the report for '{self.goal}'."
            )
        if held.threshold != self.threshold:
            raise SetpointError(
                f"the certificate is for the threshold {held.threshold!r}, the report for "
                f"{self.threshold!r}; it promises nothing there."
            )
        if self.verdict is not None and self.verdict.promises != held.promises:
            raise SetpointError(
                "the verdict is on other promises than the certificate's; ask this certificate's "
                "check() for it."
            )

    @cached_property
    def point(self) -> OperatingPoint:
        """What the threshold does on the rows."""
        rows = self.rows
        return evaluate_threshold(rows.y, rows.scores, self.threshold, self.goal, on=rows.on)

    @cached_property
    def rivals(self) -> tuple[tuple[Baseline, OperatingPoint], ...]:
        """Baseline and tuned, as far as given, and what they do on the rows."""
        y, on = self.rows.y, self.rows.on
        return tuple(
            (other, evaluate_threshold(y, other.scores, other.threshold, self.goal, on=on))
            for other in (self.baseline, self.tuned)
            if other is not None
        )

    @property
    def later(self) -> bool:
        """Whether the rows show what new data will."""
        return self.rows.unseen or self.verdict is not None

    @cached_property
    def compared(self) -> Verdict | None:
        """What the rows say about the promise; None where they can say nothing."""
        held = self.certificate
        if self.verdict is not None or held is None or not (self.rows.unseen and held.certified):
            return self.verdict
        if held.one_per_group or any(rate_of(p.metric) is None for p in held.promises):
            return None
        return held.check(self.rows.y, self.rows.scores, pos_label=True)

    @property
    def broken(self) -> bool:
        """Whether the rows contradict the promise."""
        return self.compared is not None and self.compared.broken

    @property
    def one(self) -> str:
        """One case of the positive class, as sentences call it."""
        if self.positives is not None or self.positive == "positive":
            return self.positive
        return f"“{self.positive}” case"

    @property
    def many(self) -> str:
        """Several of them."""
        if self.positives is not None:
            return self.positives
        return "positives" if self.positive == "positive" else f"“{self.positive}” cases"


def _check_baseline(baseline: Baseline, n: int) -> None:
    scores = np.asarray(baseline.scores)
    if scores.shape != (n,):
        raise SetpointError(
            f"the baseline '{baseline.name}' has scores of the shape {scores.shape}, but the "
            f"report is about {n} rows; score the same rows with both."
        )
    if scores.dtype.kind not in "fiub":
        raise SetpointError(f"the scores of the baseline '{baseline.name}' are no numbers.")
    if np.isnan(scores).any():
        raise SetpointError(
            f"{int(np.isnan(scores).sum())} scores of the baseline '{baseline.name}' are NaN."
        )

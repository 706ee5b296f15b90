"""What is promised of a classifier on new data, and with which confidence."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from setpoint._internal.notebook import NotebookSummary, Summary
from setpoint._internal.validation import check_fraction, check_groups, one_row_per_group
from setpoint.certificates.bounds import Bound, bound_at_prevalence, weaker
from setpoint.certificates.monitor import Verdict, watch
from setpoint.certificates.rates import rate_of
from setpoint.errors import SetpointError
from setpoint.goals.goal import Constraint, Goal, format_metric
from setpoint.goals.metrics import Metric, format_number, format_threshold
from setpoint.thresholds.operating_point import OperatingPoint, jsonable

Choice = Literal["beforehand", "planned", "any"]
_WITHIN_A_CLASS = ("recall", "fnr", "fpr", "specificity")  # do not depend on the prevalence


@dataclass(frozen=True)
class Certificate(NotebookSummary):
    """What is promised at a threshold, and on which assumptions.

    ``print`` it for all of it in words.

    Attributes
    ----------
    goal : Goal
        What was asked for.
    threshold : float
        ``score > threshold`` is positive.
    confidence : float
        Of all attempts, issued or not, at most a share 1 - confidence ends in a false certificate.
    certified : bool
        Whether every constraint of the goal is promised; for a goal without constraints, whether
        the bound of its objective is a guarantee.
    operating_point : OperatingPoint
        Counts on the certifying rows.
    bounds : tuple of Bound
        One for each constraint, then one for the objective. Each holds by itself; where the
        threshold was chosen on the certifying rows they allow for all thresholds that were planned.
    choice : {"beforehand", "planned", "any"}
        Whether the threshold was given beforehand, is the best that passed of those that other
        rows had planned, or the best that passed of all there are.
    tested : int or None
        How many thresholds were to be tested; None for "any".
    more_positives : int or None
        About how many more labelled positives would be needed, where nothing could be certified;
        None where no number of them would help at what was observed.
    one_per_group : bool
        Whether rows came in groups, of each of which one certified: then the promise is for one
        case of each new group, not for all rows of large groups together.
    pos_label : object
        The label of the positive class, where labels were not 0/1, -1/1 or booleans.
    """

    goal: Goal
    threshold: float
    confidence: float
    certified: bool
    operating_point: OperatingPoint
    bounds: tuple[Bound, ...]
    choice: Choice = "beforehand"
    tested: int | None = 1
    more_positives: int | None = None
    one_per_group: bool = False
    pos_label: Any = field(default=None, compare=False)

    @property
    def promises(self) -> tuple[Constraint, ...]:
        """What later data are held to: the goal's constraints, or the objective's bound."""
        if not self.certified:
            return ()
        if self.goal.constraints:
            return self.goal.constraints
        bound = self.bounds[-1].bound
        assert bound is not None
        return (Constraint(self.goal.objective, weaker(self.goal.objective, bound)),)

    @property
    def assumptions(self) -> tuple[str, ...]:
        """Without which nothing is promised."""
        draws = (
            "the certifying rows and new cases are independent draws from one population "
            "(rows of one patient, customer or hour are not independent)"
        )
        if self.one_per_group:
            draws = (
                "groups are independent draws from one population, and a new case is one row of "
                "a new group, drawn by chance: nothing is said of all rows of large groups"
            )
        return (
            draws,
            "neither the model nor its features were trained or chosen on the certifying rows",
            "the share of positives stays the same, as far as precision and the like are promised "
            "(at_prevalence() answers for another share)",
        )

    @property
    def message(self) -> str:
        """What a person should know, in plain sentences."""
        percent = f"{100 * self.confidence:g} %"
        point, objective = self.operating_point, self.goal.objective
        reached = f"On {point.on} {objective} is {point.objective:.3f}."
        if np.isnan(point.objective):
            missing = "positives" if point.tp + point.fn == 0 else "negatives"
            reached = f"On {point.on} there are no {missing}."
        if self.certified and self.goal.constraints:
            held = " and ".join(map(str, self.goal.constraints))
            empty = " Nothing is predicted positive there." if point.empty else ""
            return f"Certified at {percent} confidence: {held}. {reached}{empty}"
        bound = self.bounds[-1]
        if self.certified:
            return f"Certified at {percent} confidence: {self.promises[0]}. {reached}"
        if not self.goal.constraints and bound.kind == "exact":
            return f"Not certified: no row says anything about {objective} at the threshold."
        if not self.goal.constraints:
            return (
                f"Not certified: for {objective} there is no exact bound. A bootstrap estimates "
                f"{str(bound).split(' (')[0]} with {percent} confidence. {reached}"
            )
        return f"Not certified at {percent} confidence: {self._missing()} {reached}"

    def _missing(self) -> str:
        weakest = max(self.bounds[:-1], key=lambda b: 1.0 if b.p_value is None else b.p_value)
        which, level = weakest.metric, weakest.level
        assert level is not None
        if weakest.p_value is None:
            return f"for {which} there is no exact bound, and {weakest} is an estimate."
        asked = f"{which} {_relation(which)} {format_number(level)}"
        if not weakest.trials:
            return f"no row says anything about '{asked}' at the threshold."
        seen = (
            f"'{asked}' was observed at {weakest.value:.3f} "
            f"({weakest.successes} of {weakest.trials})"
        )
        if weakest.p_value <= 1 - self.confidence:
            return f"{seen}, but a safer threshold, which had to pass before it, failed."
        if self.more_positives is None:
            return f"{seen}; more labels alone would not certify it."
        return (
            f"{seen}; {self.more_positives:,} or so more labelled positives, with other rows in "
            "proportion, would be needed (certify on new rows: trying the same ones again and "
            "again breaks the promise)."
        )

    def _summary(self) -> Summary:
        rows = [["metric", "required", "observed", "on new data"]]
        for bound in self.bounds:
            side = "≥" if bound.metric.direction == "max" else "≤"
            known = "unknown"
            if bound.bound is not None:
                known = f"{side} {format_number(weaker(bound.metric, bound.bound))}"
                known += "" if bound.kind == "exact" else " (estimate)"
            draws = "" if bound.trials is None else f" ({bound.successes:,} of {bound.trials:,})"
            required = "" if bound.level is None else f"{side} {format_number(bound.level)}"
            rows.append([bound.metric.name, required, format_metric(bound.value) + draws, known])
        caption = (
            f"threshold {format_threshold(self.threshold)}, {100 * self.confidence:g} % confidence"
        )
        assumed = ("Assumptions", self.assumptions)
        return Summary(self.message, self.certified, caption, [rows], assumed)

    def __str__(self) -> str:
        chosen = {
            "beforehand": "given beforehand",
            "planned": f"the best that passed of {self.tested} planned on other rows",
            "any": "the best that passes of all",
        }[self.choice]
        if self.choice == "planned" and self.tested == 1:
            chosen = "chosen on other rows"
        elif not self.certified and self.choice != "beforehand":
            chosen = "nothing passed; this is the nearest"
        lines = [self.message, f"threshold {self.threshold:.6g} ({chosen}); bounds one by one:"]
        lines += [f"  {bound}" for bound in self.bounds]
        lines += ["It assumes that", *(f"  - {a}" for a in self.assumptions)]
        return "\n".join(lines)

    def at_prevalence(self, prevalence: float) -> Certificate:
        """Return what is promised where another share of the cases is positive.

        The scores of positives are taken to stay what they were, and so are those of negatives:
        recall and fpr do not change, and precision follows from them. Its bound comes from one on
        recall and one on fpr, each with half the error.
        """
        prevalence = check_fraction(prevalence, "prevalence")
        at = self.operating_point.counts
        # At one threshold each constraint has the whole error; where several were tested, all of
        # them and all constraints share it.
        shares = None
        if self.tested is not None:
            shares = 1 if self.tested == 1 else self.tested * max(1, len(self.goal.constraints))
        bounds = []
        for bound in self.bounds:
            rate = rate_of(bound.metric) if bound.metric.name in _WITHIN_A_CLASS else None
            if rate is not None and shares is not None:
                worst = rate.bound(1 - (1 - self.confidence) / shares, *at)
                bounds.append(replace(bound, bound=worst))
            elif rate is not None:
                bounds.append(bound)
            else:
                value, lowest = bound_at_prevalence(
                    bound.metric, prevalence, at, self.confidence, shares
                )
                bounds.append(Bound(bound.metric, bound.level, value, lowest, "exact"))
        certified = all(
            b.bound is not None and (b.level is None or b.metric.sign * (b.bound - b.level) >= 0)
            for b in (bounds[:-1] or bounds)
        )
        return ShiftedCertificate(
            self.goal, self.threshold, self.confidence, certified, self.operating_point,
            tuple(bounds), self.choice, self.tested, None, self.one_per_group, self.pos_label,
            prevalence,
        )  # fmt: skip

    def check(
        self,
        y: ArrayLike,
        scores: ArrayLike,
        *,
        after: Verdict | None = None,
        level: float = 0.05,
        pos_label: Any = None,
        groups: ArrayLike | None = None,
    ) -> Verdict:
        """Ask whether later labelled data still agree with the promise.

        The answer may be looked at as often as one likes, after every batch or every row: if the
        promise holds, the chance that any look ever says "broken" is at most ``level``.

        Parameters
        ----------
        y, scores : array-like of shape (n,)
            Labels and scores of cases since the certificate; with ``after`` only those since then.
        after : Verdict, optional
            The last answer, from which this one goes on.
        level : float
            The chance of a false alarm, over all looks together.
        pos_label : optional
            The label of the positive class; by default that of the certificate.
        groups : array-like of shape (n,), optional
            Rows that belong together; one of each group is looked at. Groups must not come back in
            a later look. A certificate of groups needs them.
        """
        found = check_groups(groups, np.shape(y))
        if found is not None:
            chosen = one_row_per_group(found)
            y, scores = np.asarray(y)[chosen], np.asarray(scores)[chosen]
        elif self.one_per_group:
            raise SetpointError(
                "the promise is for one case of each group; give groups=, or one row of each and "
                "groups=range(len(y))."
            )
        if not self.certified:
            raise SetpointError("nothing was certified, so later data cannot break it.")
        for promise in self.promises:
            if rate_of(promise.metric) is None:
                raise SetpointError(f"'{promise}' is no share of draws and cannot be watched.")
        label = self.pos_label if pos_label is None else pos_label
        identity = (str(self.goal), self.threshold, self.confidence, *self.operating_point.counts)
        return watch(self.promises, self.threshold, y, scores, after, level, label, identity)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, ready for JSON: what is no finite number is None."""
        bounds = [
            {
                "metric": b.metric.name, "level": b.level, "value": jsonable(b.value),
                "bound": jsonable(b.bound), "kind": b.kind, "successes": b.successes,
                "trials": b.trials, "p_value": b.p_value,
            }
            for b in self.bounds
        ]  # fmt: skip
        return {
            "goal": str(self.goal), "threshold": jsonable(self.threshold),
            "confidence": self.confidence, "certified": self.certified, "bounds": bounds,
            "choice": self.choice, "tested": self.tested,
            "more_positives": self.more_positives, "one_per_group": self.one_per_group,
            "message": self.message,
            "assumptions": list(self.assumptions),
            "operating_point": self.operating_point.to_dict(),
        }  # fmt: skip


@dataclass(frozen=True)
class ShiftedCertificate(Certificate):
    """A certificate for a stated share of positives."""

    prevalence: float = 0.5

    @property
    def message(self) -> str:
        """What a person should know, in plain sentences."""
        where = f"where {100 * self.prevalence:g} % of the cases are positive"
        percent = f"{100 * self.confidence:g} %"
        shown = self.bounds[:-1] or self.bounds
        known = [str(b).split(" (")[0] for b in shown]
        if self.certified and self.goal.constraints:
            held = " and ".join(map(str, self.goal.constraints))
            return f"Certified at {percent} confidence {where}: {held} ({', '.join(known)})."
        if self.certified:
            return f"Certified at {percent} confidence {where}: {', '.join(known)}."
        return (
            f"Not certified at {percent} confidence {where}; known is only {' and '.join(known)}."
        )

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, ready for JSON: what is no finite number is None."""
        return {**super().to_dict(), "prevalence": self.prevalence}

    @property
    def assumptions(self) -> tuple[str, ...]:
        """Without which nothing is promised."""
        return (
            *super().assumptions[:2],
            f"{100 * self.prevalence:g} % of the cases are positive, and the scores of positives "
            "and of negatives are distributed as before",
        )


def _relation(which: Metric) -> str:
    return ">=" if which.direction == "max" else "<="

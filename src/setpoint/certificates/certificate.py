"""The certificate of a threshold: its guarantees on new data, or why there are none."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from setpoint._internal.renamed import renamed_property
from setpoint._internal.validation import check_fraction
from setpoint.certificates.base import CertificateBase, Wording
from setpoint.certificates.bounds import Bound, bound_at_prevalence, round_conservatively
from setpoint.certificates.joint_monitor import JointVerdict, Monitored, check_jointly
from setpoint.certificates.later_rows import is_monitored, later_draws, monitored_as
from setpoint.certificates.monitor import Verdict, check_guarantees
from setpoint.certificates.rates import rate_of
from setpoint.certificates.threshold_set import NO_THRESHOLDS, ThresholdSet
from setpoint.errors import SetpointError
from setpoint.goals.budgets import per_of
from setpoint.goals.columns import OTHER, GoalColumns
from setpoint.goals.goal import Constraint, Goal
from setpoint.goals.metrics import RECALL, Metric, format_threshold
from setpoint.goals.money import is_money, prices_of
from setpoint.goals.tallies import PLAIN
from setpoint.thresholds.operating_point import OperatingPoint, jsonable

Choice = Literal["beforehand", "planned", "any"]
_MOST_NAMED = 6  # segments in a claim


@dataclass(frozen=True)
class Certificate(CertificateBase[Verdict | JointVerdict]):
    """Guarantees for a threshold on new data, with their confidence and assumptions.

    ``print`` shows all of it as text.

    Attributes
    ----------
    goal : Goal
        The goal to certify.
    threshold : float
        ``score > threshold`` is positive.
    confidence : float
        Of all attempts to certify, successful or not, at most a fraction 1 - confidence ends in a
        false certificate.
    certified : bool
        Whether every constraint of the goal is guaranteed; for a goal without constraints, whether
        its objective has an exact bound.
    operating_point : OperatingPoint
        Counts on the certification rows.
    bounds : tuple of Bound
        One for each constraint, then one for the objective. Each holds on its own; if the
        threshold was chosen on the certification rows, they are valid for all that were tested.
    choice : {"beforehand", "planned", "any"}
        Whether the threshold was given beforehand, is the best that passed of those planned on
        other rows, or is the best that passed of all.
    tested : int or None
        The number of thresholds to test; None for "any".
    more_positives : int or None
        If nothing was certified: roughly how many more labelled positives are needed, or None if
        no number of them would help at the observed rates.
    one_per_group : bool
        Whether the rows came in groups and one row of each was used. The guarantee is then for one
        case of each new group, not for all rows of large groups together.
    pos_label : object
        The label of the positive class, if labels were not 0/1, -1/1 or booleans.
    certified_thresholds : ThresholdSet
        All thresholds that are certified together. You may use any of them instead of
        ``threshold``, even after looking at results: the guarantees hold for all of them at once.
    reasons : tuple of str
        Why nothing was certified, for goals that name segments, periods or amounts.
    periods_within : tuple of (str, float)
        For each budget that the goal asks of every period, which no finite number of past periods
        can show: the kind of period, and the fraction of future periods that keep to the budget.
    caps : tuple of (str, float)
        The largest amounts that were stated; larger ones count as these.
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
    certified_thresholds: ThresholdSet = NO_THRESHOLDS
    reasons: tuple[str, ...] = ()
    periods_within: tuple[tuple[str, float], ...] = ()
    caps: tuple[tuple[str, float], ...] = ()

    @property
    def claims(self) -> tuple[str, ...]:
        """What holds on new data, as short texts: one for a constraint on all segments."""
        if not self.certified:
            return ()
        stated = self.goal if self.goal.stated is None else self.goal.stated
        if not stated.constraints:
            return tuple(str(c) + self._capped(c.metric) for c in self.guarantees)
        found, within = [], dict(self.periods_within)
        for c in stated.constraints:
            if c.per is not None and c.per.share == 1 and c.per.period in within:
                c = replace(c, per=replace(c.per, share=within[c.per.period]))
            names = f" ({self._segments(c.each)})" if c.each else ""
            found.append(str(c) + names + self._capped(c.metric))
        return tuple(found)

    def name_of(self, bound: Bound) -> str:
        """Return what the metric of a bound is called, with the certified share of periods."""
        per, within = per_of(bound.metric), dict(self.periods_within)
        if per is None or per.share != 1 or per.period not in within:
            return str(bound.metric)
        return f"alarms {replace(per, share=within[per.period])}"

    def _segments(self, column: str) -> str:
        """Return the segments that are guaranteed something, as text."""
        names = dict(self.goal.found)[column]
        return ", ".join(names) if len(names) <= _MOST_NAMED else f"{len(names)} segments"

    def _capped(self, which: Metric) -> str:
        """Return what a claim about a cost leaves out, as the end of its text."""
        if not is_money(which):
            return ""
        named = {price.amount for price in prices_of(which).values()}
        caps = [
            f"{name} above {cap:,g} counts as {cap:,g}" for name, cap in self.caps if name in named
        ]
        return f" (where {' and '.join(caps)})" if caps else ""

    @property
    def guarantees(self) -> tuple[Constraint, ...]:
        """What holds on new data: the goal's constraints, or the bound of its objective."""
        if not self.certified:
            return ()
        if self.goal.constraints:
            return self.goal.constraints
        bound = self.bounds[-1].bound
        assert bound is not None
        return (Constraint(self.goal.objective, round_conservatively(self.goal.objective, bound)),)

    promises = renamed_property("promises", "guarantees")

    @property
    def assumptions(self) -> tuple[str, ...]:
        """The conditions under which the guarantees hold."""
        more = [
            f"{period}s are independent draws from one population of {period}s: a trend, or a "
            f"season that the rows do not cover, breaks the guarantee on {period}s"
            for period in self.goal.periods
        ]
        stated = self.goal if self.goal.stated is None else self.goal.stated
        for column in dict.fromkeys(c.each for c in stated.constraints if c.each):
            text = f"nothing is guaranteed for other values of {column!r} than "
            more.append(text + self._segments(column))
            if OTHER in dict(self.goal.found)[column]:
                more.append(f"{OTHER} is about all small segments of {column!r} together")
        more += [f"values of {name!r} above {cap:,g} count as {cap:,g}" for name, cap in self.caps]
        shifted = " (at_prevalence() gives the bounds at another prevalence)"
        return (
            *super().assumptions,
            "the prevalence stays the same, for precision and other metrics that depend on it"
            f"{shifted if self._counts_all_alike else ''}",
            *more,
        )

    @property
    def _counts_all_alike(self) -> bool:
        """Whether the goal names neither segments nor periods, amounts or prices."""
        return self.goal.is_plain and not any(is_money(which) for which in self.goal.metrics)

    @property
    def _observed(self) -> str:
        point, objective = self.operating_point, self.goal.objective
        observed = f" On {point.on} {objective} is {point.objective:.3f}."
        total = float(sum(point.counts[2:]))
        for column, rows in point.uncovered.items() if self.certified else ():
            observed = (
                f" Nothing is guaranteed for other values of {column!r}, which "
                f"{100 * rows / total:.3g} % of {point.on} have.{observed}"
            )
        missing = "positives" if point.tp + point.fn == 0 else "negatives"
        if np.isnan(point.objective) or (missing == "negatives" and point.fp + point.tn == 0):
            observed = f" On {point.on} there are no {missing}."
        if self.refusal is not None:
            if not self.goal.constraints and self.bounds[-1].trials == 0:
                observed = ""
        elif self.goal.constraints and point.empty:
            observed += " Nothing is predicted positive there."
        return observed

    @property
    def refusal(self) -> str | None:
        """Why nothing was certified: the weakest constraint and its remedy; None if certified."""
        if self.certified:
            return None
        if self.reasons:
            return f"{'; '.join(self.reasons)}."
        weakest = max(
            self.bounds[:-1] or self.bounds, key=lambda b: 1.0 if b.p_value is None else b.p_value
        )
        which = weakest.metric
        if weakest.kind == "estimate":
            estimate = ""
            if weakest.bound is not None:
                estimate = f" A bootstrap estimate is {str(weakest).split(' (')[0]}."
            return f"there is no exact bound for {which}.{estimate}"
        if not weakest.trials:
            return f"no row counts towards {which} at the threshold."
        P, N = map(float, self.operating_point.counts[2:])
        if self.choice == "any" and 0 in (P, N) and which.depends_on_prevalence:
            return (
                f"all rows are {'positive' if N == 0 else 'negative'}; {which} needs both classes."
            )
        if weakest.level is None or weakest.p_value is None:
            return f"the exact bound is only {weakest}."
        observed = f"{which} is {weakest.value:.3f} ({weakest.successes} of {weakest.trials})"
        required = Constraint(which, weakest.level)
        if weakest.p_value <= 1 - self.confidence and self.choice == "planned":
            return (
                f"{observed}, enough to certify '{required}', but thresholds are tested in a "
                "planned order, and a safer one before it failed, which ends the test."
            )
        if self.more_positives is None:
            remedy = "more labels at this rate would not help."
        else:
            remedy = (
                f"about {self.more_positives:,} more labelled positives, with other rows in "
                "proportion, would be needed (certify on new rows: repeated attempts on the same "
                "rows invalidate the guarantee)."
            )
        enough = f"not enough to certify '{required}'"
        if weakest.p_value <= 1 - self.confidence:
            enough += " at a threshold that is chosen on the same rows"
        return f"{observed}, {enough}; {remedy}"

    def _wording(self) -> Wording:
        chosen = {
            "beforehand": "given beforehand",
            "planned": f"the best that passed of {self.tested} planned on other rows",
            "any": "the best of all that pass",
        }[self.choice]
        if self.choice == "planned" and self.tested == 1:
            chosen = "chosen on other rows"
        elif not self.certified and self.choice != "beforehand":
            chosen = "the closest; no threshold passed"
        caption = f"threshold {format_threshold(self.threshold)}"
        allowed = []
        if self.certified and not self.certified_thresholds.is_one_threshold:
            allowed = [
                f"certified thresholds, any of which may be used: {self.certified_thresholds}"
            ]
        return Wording(
            self._observed, caption, f"threshold {self.threshold:.6g} ({chosen})", allowed
        )

    def at_prevalence(self, prevalence: float) -> Certificate:
        """Return the certificate for another prevalence, that is, fraction of positive cases.

        The scores of positives and of negatives are assumed to keep their distributions: recall
        and fpr do not change, and precision follows from them. Its bound comes from one on recall
        and one on fpr, each with half the error.
        """
        prevalence = check_fraction(prevalence, "prevalence")
        if not self._counts_all_alike:
            raise SetpointError(
                f"there are no bounds at another prevalence for '{self.goal.stated or self.goal}', "
                "which names segments, periods or prices: the prevalence of each segment, or of "
                "large amounts, may change in many ways. Certify on rows with that prevalence."
            )
        counts = self.operating_point.counts
        # At one threshold each constraint has the whole error; several thresholds divide it, also
        # among the constraints.
        divisor = None
        if self.tested is not None:
            divisor = 1 if self.tested == 1 else self.tested * max(1, len(self.goal.constraints))
        constraints = self.goal.constraints
        keeps = bool(constraints) and not any(c.metric.depends_on_prevalence for c in constraints)
        bounds = []
        for bound in self.bounds:
            rate = None if bound.metric.depends_on_prevalence else rate_of(bound.metric)
            if keeps and bound.level is not None:
                bounds.append(bound)  # the guarantee does not depend on the prevalence
            elif rate is not None and divisor is not None:
                exact = rate.bound(1 - (1 - self.confidence) / divisor, *counts)
                bounds.append(replace(bound, bound=exact))
            elif rate is not None:
                bounds.append(bound)
            else:
                value, exact_there = bound_at_prevalence(
                    bound.metric, prevalence, counts, self.confidence, divisor
                )
                bounds.append(Bound(bound.metric, bound.level, value, exact_there, "exact"))
        certified, thresholds = self.certified, self.certified_thresholds
        if not keeps:
            certified = all(
                b.bound is not None
                and (b.level is None or b.metric.sign * (b.bound - b.level) >= 0)
                for b in (bounds[:-1] or bounds)
            )
            # The bounds at the other prevalence are known at this threshold only.
            thresholds = ThresholdSet.of_points([self.threshold] if certified else [])
        changed = {
            "certified": certified,
            "bounds": tuple(bounds),
            "more_positives": None,
            "certified_thresholds": thresholds,
        }
        return ShiftedCertificate(**{**vars(self), **changed, "prevalence": prevalence})

    @property
    def unchecked(self) -> str | None:
        """Why :meth:`check` cannot compare later rows with the guarantees; None if it can."""
        for guarantee in self.guarantees:
            if not is_monitored(guarantee):
                return f"'{guarantee}' is not a fraction of independent draws and cannot be checked"
        return None

    @property
    def monitored(self) -> tuple[Monitored, ...] | None:
        """How each guarantee is monitored; None if all are about the same rows."""
        if all(c.metric.tallies == (PLAIN,) and rate_of(c.metric) for c in self.guarantees):
            return None
        within, caps = dict(self.periods_within), dict(self.caps)
        return tuple(monitored_as(c, self.threshold, within, caps) for c in self.guarantees)

    def _columns(self, n: int, amounts: Any, segments: Any, times: Any) -> GoalColumns:
        if self.monitored is None:
            return GoalColumns()
        stated = self.goal if self.goal.stated is None else self.goal.stated
        needed = Goal(RECALL, stated.constraints) if stated.constraints else Goal(stated.objective)
        columns = GoalColumns.of(needed, n, amounts, segments, times)
        found = {name: values for name, values in self.goal.found if name in columns.segments}
        return columns.keeping(found)

    def _check(
        self,
        y: ArrayLike,
        scores: ArrayLike,
        columns: GoalColumns,
        after: Verdict | JointVerdict | None,
        level: float,
        pos_label: Any,
        pending: int,
    ) -> Verdict | JointVerdict:
        if self.unchecked is not None:
            raise SetpointError(f"{self.unchecked}; certify again on later rows instead.")
        identity = (str(self.goal), self.threshold, self.confidence, *self.operating_point.counts)
        monitored = self.monitored
        if after is not None and isinstance(after, Verdict) != (monitored is None):
            raise SetpointError("the verdict in after= belongs to another certificate.")
        if monitored is None:
            assert not isinstance(after, JointVerdict)
            return check_guarantees(
                self.guarantees, self.threshold, y, scores, after, level, pos_label, identity,
                pending,
            )  # fmt: skip
        assert not isinstance(after, Verdict)
        later, last = later_draws(monitored, y, scores, columns, dict(self.caps), pos_label, after)
        return check_jointly(monitored, later, after, level, identity, pending, last)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, ready for JSON; numbers that are not finite are None."""
        return {
            "goal": str(self.goal), "threshold": jsonable(self.threshold), **super().to_dict(),
            "certified_thresholds": [list(map(jsonable, i)) for i in self.certified_thresholds],
            "choice": self.choice, "tested": self.tested,
            "periods_within": dict(self.periods_within),
            "caps": dict(self.caps),
        }  # fmt: skip


@dataclass(frozen=True)
class ShiftedCertificate(Certificate):
    """A certificate for a stated prevalence."""

    prevalence: float = 0.5

    @property
    def message(self) -> str:
        """The outcome as a sentence: what is certified, or why nothing is."""
        certified = (
            f"certified at {100 * self.confidence:g} % confidence "
            f"where {100 * self.prevalence:g} % of the cases are positive"
        )
        if self.refusal is not None:
            return f"Not {certified}: {self.refusal}"
        bounds = ", ".join(self._bounds)
        if self.goal.constraints:
            bounds = f"{' and '.join(map(str, self.goal.constraints))} ({bounds})"
        return f"{certified.capitalize()}: {bounds}."

    @property
    def refusal(self) -> str | None:
        """Why nothing was certified: the bounds, which do not reach their levels."""
        return None if self.certified else f"the bounds are only {' and '.join(self._bounds)}."

    @property
    def _bounds(self) -> list[str]:
        return [str(b).split(" (")[0] for b in self.bounds[:-1] or self.bounds]

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, ready for JSON; numbers that are not finite are None."""
        return {**super().to_dict(), "prevalence": self.prevalence}

    @property
    def assumptions(self) -> tuple[str, ...]:
        """The conditions under which the guarantees hold."""
        return (
            *super().assumptions[:2],
            f"{100 * self.prevalence:g} % of the cases are positive, and the scores of positives "
            "and of negatives are distributed as before",
        )

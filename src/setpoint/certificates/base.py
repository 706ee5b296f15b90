"""What certificates of thresholds and of review bands share: wording, and checks of later rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from setpoint._internal.notebook import NotebookSummary, Summary
from setpoint._internal.validation import check_groups, one_row_per_group
from setpoint.certificates.bounds import Bound, round_conservatively
from setpoint.errors import SetpointError
from setpoint.goals.columns import GoalColumns
from setpoint.goals.goal import format_metric
from setpoint.goals.metrics import format_number
from setpoint.thresholds.operating_point import jsonable

AnyVerdict = TypeVar("AnyVerdict")


class Wording(NamedTuple):
    """Texts that differ between kinds of certificates.

    ``observed`` is a sentence on the certification rows, ``caption`` and ``chosen`` are about the
    thresholds and their origin, and ``allowed`` about certified thresholds to choose from.
    """

    observed: str
    caption: str
    chosen: str
    allowed: Sequence[str]


class CertificateBase(NotebookSummary, Generic[AnyVerdict]):
    """Bounds on metrics, the conditions under which they hold, and checks of later rows."""

    goal: Any
    confidence: float
    certified: bool
    operating_point: Any
    bounds: tuple[Bound, ...]
    more_positives: int | None
    one_per_group: bool
    pos_label: Any

    @property
    def guarantees(self) -> tuple[Any, ...]:
        """What holds on new data: the goal's constraints, if they are certified."""
        return self.goal.constraints if self.certified else ()

    @property
    def refusal(self) -> str | None:
        """Why nothing was certified, and its remedy; None if the goal is certified."""
        raise NotImplementedError

    def _wording(self) -> Wording:
        raise NotImplementedError

    @property
    def claims(self) -> tuple[str, ...]:
        """What holds on new data, as short texts."""
        return tuple(map(str, self.guarantees))

    @property
    def message(self) -> str:
        """The outcome as a sentence: what is certified, or why nothing is."""
        percent, observed = f"{100 * self.confidence:g} %", self._wording().observed
        if self.refusal is not None:
            return f"Not certified at {percent} confidence: {self.refusal}{observed}"
        return f"Certified at {percent} confidence: {' and '.join(self.claims)}.{observed}"

    @property
    def assumptions(self) -> tuple[str, ...]:
        """The conditions under which the guarantees hold."""
        draws = (
            "the certification rows and new cases are independent draws from one population "
            "(rows of one patient, customer or hour are not independent)"
        )
        if self.one_per_group:
            draws = (
                "groups are independent draws from one population, and a new case is one row of "
                "a new group, drawn at random: nothing is guaranteed for all rows of large groups"
            )
        return (
            draws,
            "neither the model nor its features were trained or chosen on the certification rows",
        )

    def name_of(self, bound: Bound) -> str:
        """Return what the metric of a bound is called."""
        return str(bound.metric)

    def _summary(self) -> Summary:
        rows = [["metric", "required", "observed", "on new data"]]
        for bound in self.bounds:
            side = "≥" if bound.metric.direction == "max" else "≤"
            known = "unknown"
            if bound.bound is not None:
                known = f"{side} {format_number(round_conservatively(bound.metric, bound.bound))}"
                known += "" if bound.kind == "exact" else " (estimate)"
            draws = "" if bound.trials is None else f" ({bound.successes:,} of {bound.trials:,})"
            required = "" if bound.level is None else f"{side} {format_number(bound.level)}"
            observed = format_metric(bound.value) + draws
            rows.append([self.name_of(bound), required, observed, known])
        wording = self._wording()
        caption = f"{wording.caption}, {100 * self.confidence:g} % confidence"
        allowed = "; ".join(wording.allowed)
        allowed = allowed[:1].upper() + allowed[1:]
        assumed = ("Assumptions", self.assumptions)
        return Summary(self.message, self.certified, caption, [rows], assumed, allowed)

    def __str__(self) -> str:
        wording = self._wording()
        lines = [self.message, *wording.allowed, f"{wording.chosen}; individual bounds:"]
        lines += [f"  {bound.named(self.name_of(bound))}" for bound in self.bounds]
        lines += ["Assumptions:", *(f"  - {a}" for a in self.assumptions)]
        return "\n".join(lines)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, ready for JSON; numbers that are not finite are None."""
        bounds = [
            {
                "metric": self.name_of(b), "level": b.level, "value": jsonable(b.value),
                "bound": jsonable(b.bound), "kind": b.kind, "successes": b.successes,
                "trials": b.trials, "p_value": b.p_value,
            }
            for b in self.bounds
        ]  # fmt: skip
        return {
            "goal": str(self.goal), "confidence": self.confidence, "certified": self.certified,
            "bounds": bounds, "more_positives": self.more_positives,
            "one_per_group": self.one_per_group, "message": self.message,
            "assumptions": list(self.assumptions),
            "operating_point": self.operating_point.to_dict(),
        }  # fmt: skip

    @property
    def unchecked(self) -> str | None:
        """Why :meth:`check` cannot compare later rows with the guarantees; None if it can."""
        return None

    @property
    def can_be_checked(self) -> bool:
        """Whether :meth:`check` can compare later rows with the guarantees."""
        return self.unchecked is None

    def check(
        self,
        y: ArrayLike,
        scores: ArrayLike,
        *,
        after: AnyVerdict | None = None,
        level: float = 0.05,
        pos_label: Any = None,
        groups: ArrayLike | None = None,
        matured: ArrayLike | None = None,
        amounts: Any = None,
        segments: Any = None,
        times: Any = None,
    ) -> AnyVerdict:
        """Check whether later labelled rows contradict the guarantees.

        It may be called as often as you like, after every batch or every row: if the guarantees
        hold, the probability that any check ever returns ``broken`` is at most ``level``.

        Parameters
        ----------
        y, scores : array-like of shape (n,)
            Labels and scores of cases since the certificate; with ``after``, since that check.
        after : Verdict or JointVerdict, optional
            The result of the previous check, which this one continues.
        level : float
            The probability of a false alarm, over all checks together.
        pos_label : optional
            The label of the positive class; by default that of the certificate.
        groups : array-like of shape (n,), optional
            Rows that belong together; one row of each group is used. A group must not appear again
            in a later check. Required if the certificate is for groups.
        matured : array-like of bool, shape (n,), optional
            Whether a label is final, e.g. because a chargeback is no longer possible. Other rows
            are left out, whatever their label is now, and counted as pending; give them again when
            they have matured. Whether a row has matured must not depend on its label.
        amounts, segments, times : optional
            The columns that the goal names, as for :func:`setpoint.certify`. For a budget per day,
            a check needs whole days: a day must not appear again in a later check.
        """
        if not self.certified:
            raise SetpointError("nothing was certified, so later rows cannot contradict it.")
        if groups is None and self.one_per_group:
            raise SetpointError(
                "the guarantee is for one case of each group; give groups=, or one row of each and "
                "groups=range(len(y))."
            )
        columns = self._columns(np.shape(y)[0] if np.ndim(y) else 0, amounts, segments, times)
        for given, name in ((matured, "matured"), (groups, "groups")):
            if given is not None and columns.periods:
                period = next(iter(columns.periods))
                raise SetpointError(
                    f"a budget per {period} counts all rows of a {period}, and {name}= would leave "
                    f"some out; check without it, or certify the budget as a goal of its own."
                )
        pending = 0
        if matured is not None:
            final = _check_matured(matured, np.shape(y))
            pending = int((~final).sum())
            y, scores, columns = (
                np.asarray(y)[final],
                np.asarray(scores)[final],
                columns.take(final),
            )
            groups = None if groups is None else np.asarray(groups)[final]
        if groups is not None:
            y, scores, chosen = sample_groups(groups, 0, y, scores, np.arange(np.shape(y)[0]))
            columns = columns.take(chosen)
        label = self.pos_label if pos_label is None else pos_label
        return self._check(y, scores, columns, after, level, label, pending)

    def _columns(self, n: int, amounts: Any, segments: Any, times: Any) -> GoalColumns:
        """Return the columns that the guarantees need, of n rows."""
        return GoalColumns()

    def _check(
        self,
        y: ArrayLike,
        scores: ArrayLike,
        columns: GoalColumns,
        after: AnyVerdict | None,
        level: float,
        pos_label: Any,
        pending: int,
    ) -> AnyVerdict:
        """Check independent rows whose labels are final."""
        raise NotImplementedError


def _check_matured(matured: ArrayLike, shape: tuple[int, ...]) -> NDArray[np.bool_]:
    final = np.asarray(matured)
    if final.dtype != bool or final.shape != shape:
        raise SetpointError(
            f"matured has one True or False for each row; its dtype is {final.dtype} and its "
            f"shape {final.shape}, and the labels have the shape {shape}."
        )
    return final


def sample_groups(
    groups: ArrayLike | None, seed: int, y: ArrayLike, *columns: Any
) -> tuple[Any, ...]:
    """Return the columns with one random row per group, or unchanged if there are no groups."""
    found = check_groups(groups, np.shape(y))
    if found is None:
        return y, *columns
    chosen = one_row_per_group(found, seed)
    return tuple(None if c is None else np.asarray(c)[chosen] for c in (y, *columns))

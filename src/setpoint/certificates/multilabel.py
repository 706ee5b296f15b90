"""Certificates of several labels, each by itself or all of them at a joint confidence.

If each of L labels is certified with the error probability (1 - c) / L, the probability that any
certificate is false is at most the sum of these, 1 - c, however the labels depend on each other
(union bound, Bonferroni).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from setpoint._internal.listing import aligned
from setpoint._internal.validation import check_fraction, listed
from setpoint.certificates.certificate import Certificate
from setpoint.certificates.certify import Method, certify
from setpoint.certificates.joint_monitor import JointVerdict
from setpoint.certificates.monitor import Verdict
from setpoint.errors import SetpointError
from setpoint.goals.goal import check_for_new_rows
from setpoint.goals.metrics import format_threshold
from setpoint.thresholds.label_goals import LabelGoals
from setpoint.thresholds.multilabel import LabelMatrix, check_indicators

_MOST_ROWS = 40  # labels in the table of a printed certificate


@dataclass(frozen=True)
class MultilabelCertificate:
    """What is certified on new data for each of several labels.

    ``print`` shows a table; ``certificates`` hold the bounds and assumptions of each label.

    Attributes
    ----------
    names : tuple of str
        The labels.
    certificates : tuple of Certificate
        The certificate of each label, at the confidence ``each``.
    confidence : float
        With ``joint``, the probability that every certificate is true; of all attempts, at most a
        fraction 1 - confidence has any false certificate. Otherwise, that of each by itself.
    joint : bool
        Whether the confidence is that of all labels together.
    """

    names: tuple[str, ...]
    certificates: tuple[Certificate, ...]
    confidence: float
    joint: bool = True

    @property
    def each(self) -> float:
        """The confidence of each certificate."""
        return confidence_of_each(self.confidence, len(self.names), self.joint)

    def __getitem__(self, name: str) -> Certificate:
        if name not in self.names:
            raise KeyError(f"there is no label {name!r}; the labels are {listed(self.names)}")
        return self.certificates[self.names.index(name)]

    @property
    def thresholds(self) -> NDArray[np.float64]:
        """The threshold of each label."""
        return np.array([certificate.threshold for certificate in self.certificates])

    @property
    def certified_labels(self) -> tuple[str, ...]:
        """The labels whose goals are certified."""
        pairs = zip(self.names, self.certificates, strict=True)
        return tuple(name for name, certificate in pairs if certificate.certified)

    @property
    def certified(self) -> bool:
        """Whether the goals of all labels are certified."""
        return all(certificate.certified for certificate in self.certificates)

    @property
    def meaning(self) -> str:
        """What the confidence is about, as a sentence."""
        percent, each = f"{100 * self.confidence:g} %", f"{100 * self.each:.6g} %"
        if self.joint:
            return (
                f"Joint confidence {percent}: with this probability no certificate of the "
                f"{len(self.names)} labels is false; each holds at {each}."
            )
        return (
            f"Confidence {percent} for each label by itself: of {len(self.names)} labels, several "
            "certificates may be false."
        )

    @property
    def message(self) -> str:
        """The outcome in a few sentences: which labels are certified, and what that means."""
        found = self.certified_labels
        kind = "joint confidence" if self.joint else "confidence for each label"
        percent = f"{100 * self.confidence:g} %"
        head = f"Certified at {percent} {kind}: {len(found)} of {len(self.names)} labels"
        missing = [name for name in self.names if name not in found]
        refused = f" Not certified: {listed(missing)}." if missing else ""
        named = f", {listed(found)}" if found and missing else ""
        return f"{head}{named}.{refused} {self.meaning}"

    def __str__(self) -> str:
        rows = [["label", "threshold", "certified", "guarantee or reason"]]
        for name, found in list(zip(self.names, self.certificates, strict=True))[:_MOST_ROWS]:
            held = " and ".join(map(str, found.guarantees)) or str(found.refusal)
            yes = "yes" if found.certified else "no"
            rows.append([name, format_threshold(found.threshold), yes, held])
        lines = aligned(rows, left=range(len(rows[0])))
        if len(self.names) > _MOST_ROWS:
            lines.append(f"... ({len(self.names)} labels)")
        assumed = [f"  - {each}" for each in self.certificates[0].assumptions]
        return "\n".join([self.message, *lines, "Assumptions:", *assumed])

    def check(
        self,
        Y: ArrayLike,
        scores: ArrayLike,
        *,
        after: Mapping[str, Verdict | JointVerdict] | None = None,
        level: float = 0.05,
        groups: ArrayLike | None = None,
    ) -> dict[str, Verdict | JointVerdict]:
        """Check whether later labelled rows contradict the certificates of the labels.

        Returns the verdict of each label that has a certificate which can be checked. The level is
        shared by these, so that the probability that any true certificate is ever contradicted is
        at most ``level``.

        Parameters
        ----------
        Y, scores : array-like of shape (n, L)
            Labels and scores of cases since the certificates.
        after : mapping of str to Verdict, optional
            The result of the previous check, which this one continues.
        level : float
            The probability of a false alarm, over all labels and checks together.
        groups : array-like of shape (n,), optional
            As in :meth:`Certificate.check`.
        """
        data = LabelMatrix.of(Y, scores, None, self.names)
        checked = [
            (name, found, column)
            for name, found, column in zip(self.names, self.certificates, data.columns, strict=True)
            if found.certified and found.can_be_checked
        ]
        return {
            name: found.check(
                positive, own, after=(after or {}).get(name), level=level / len(checked),
                groups=groups,
            )
            for name, found, (positive, own, _) in checked
        }  # fmt: skip

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, ready for JSON; numbers that are not finite are None."""
        return {
            "confidence": self.confidence, "joint": self.joint, "each": self.each,
            "certified": self.certified, "certified_labels": list(self.certified_labels),
            "message": self.message,
            "labels": {
                name: found.to_dict()
                for name, found in zip(self.names, self.certificates, strict=True)
            },
        }  # fmt: skip


def certify_labels(
    Y: ArrayLike,
    scores: ArrayLike,
    goal: Any,
    thresholds: ArrayLike | None = None,
    confidence: float = 0.9,
    *,
    joint: bool = True,
    method: Method = "simultaneous",
    planning: float | None = None,
    planning_rows: tuple[ArrayLike, ArrayLike] | None = None,
    groups: ArrayLike | None = None,
    names: Sequence[str] | None = None,
    random_state: Any = 0,
    on: str = "the certification rows",
) -> MultilabelCertificate:
    """Certify the thresholds of several labels on new data.

    Parameters
    ----------
    Y, scores : array-like of shape (n, L)
        Indicators and scores of rows that are independent draws, on which no classifier was
        trained.
    goal : str, Goal, list or mapping
        One goal for all labels or one for each, as in :func:`setpoint.choose_thresholds`; its
        constraints hold for each label.
    thresholds : array-like of shape (L,), optional
        Thresholds that were fixed without using these rows. By default, the best that can be
        certified is chosen for each label.
    confidence : float
        Of all attempts to certify, at most a fraction 1 - confidence has a false certificate.
    joint : bool
        Whether that fraction is for all labels together: each is then certified at
        1 - (1 - confidence) / L. Otherwise it is for each label by itself.
    method, planning, groups, random_state, on
        As in :func:`setpoint.certify`.
    planning_rows : (Y, scores), optional
        Other labelled rows for the plan.
    names : sequence of str, optional
        Names of the labels; by default the columns of a data frame, or ``"0"``, ``"1"``, ...

    Examples
    --------
    >>> import numpy as np
    >>> from setpoint import certify_labels
    >>> rng = np.random.default_rng(0)
    >>> Y = rng.random((3000, 2)) < [0.3, 0.003]
    >>> scores = rng.normal(size=Y.shape) + 3 * Y
    >>> found = certify_labels(
    ...     Y, scores, "max precision s.t. recall >= 0.9", names=["common", "rare"]
    ... )
    >>> found.certified_labels, found.each
    (('common',), 0.95)
    """
    check_fraction(confidence, "confidence")
    data = LabelMatrix.of(Y, scores, None, names)
    goals = goals_to_certify(goal, data.names)
    each = confidence_of_each(confidence, len(data.names), joint)
    given = _thresholds(thresholds, len(data.names))
    plans = _planning_columns(planning_rows, len(data.names))
    found = tuple(
        certify(
            positive, own, goal_of, threshold, each, method=method, planning=planning,
            planning_rows=plan, groups=groups, random_state=random_state, on=on,
        )
        for (positive, own, _), goal_of, threshold, plan in zip(
            data.columns, goals.goals, given, plans, strict=True
        )
    )  # fmt: skip
    return MultilabelCertificate(data.names, found, confidence, joint)


def confidence_of_each(confidence: float, labels: int, joint: bool) -> float:
    """Return the confidence of each label's certificate."""
    return 1 - (1 - confidence) / labels if joint else confidence


def goals_to_certify(goal: Any, names: Sequence[str]) -> LabelGoals:
    """Return the goal of each label; raise SetpointError for one of the summed counts."""
    goals = LabelGoals.of(goal, names, None)
    if goals.average == "micro" or goals.on_sums:
        raise SetpointError(
            f"'{goals}' is about the summed counts of all labels, which are not independent draws "
            "and cannot be certified; certify constraints of each label."
        )
    for each in dict.fromkeys(goals.goals):
        check_for_new_rows(each)
    return goals


def _thresholds(given: ArrayLike | None, labels: int) -> list[float | None]:
    if given is None:
        return [None] * labels
    found = np.asarray(given, dtype=np.float64)
    if found.shape != (labels,):
        raise SetpointError(
            f"thresholds must hold one number for each of {labels} labels; its shape is "
            f"{found.shape}."
        )
    return [float(threshold) for threshold in found]


def _planning_columns(rows: Any, labels: int) -> list[Any]:
    if rows is None:
        return [None] * labels
    try:
        Y, scores = rows
    except (TypeError, ValueError) as error:
        raise SetpointError(
            "planning_rows are two matrices, labels and scores: planning_rows=(Y, scores)."
        ) from error
    data = LabelMatrix.of(check_indicators(Y), scores, None, None)
    if len(data.names) != labels:
        raise SetpointError(f"planning_rows have {len(data.names)} labels instead of {labels}.")
    return [(positive, own) for positive, own, _ in data.columns]

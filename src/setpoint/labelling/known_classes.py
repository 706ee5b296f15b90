"""Certificates from samples that were drawn by class, e.g. chargebacks or confirmed cases.

Rows of one class say nothing about prevalence, but recall is a fraction of the positives alone, and
fpr one of the negatives alone. Exact binomial tests of both need no more than independent draws
from that class:

- **positives alone** certify a floor on recall: about log(1/alpha) / (1 - r) of them, if nearly all
  are above the threshold. No label of the pool is needed, and the limit of ``limits.py`` does not
  apply, because it is known that these rows are positive;
- **negatives alone** certify a ceiling on fpr;
- **both, with a stated prevalence**, certify precision: from a lower bound on recall and an upper
  bound on fpr, each with half the error (``Certificate.at_prevalence``).

What is assumed is not the same as for a pool. Chargebacks that were found *by the model* are not
draws from all positives: those that it missed are not among them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from setpoint._internal.validation import check_fraction, check_number, check_whole
from setpoint.certificates.bounds import bound_at_prevalence
from setpoint.certificates.certificate import Certificate, Choice, ShiftedCertificate
from setpoint.certificates.certify import certify, certify_threshold
from setpoint.certificates.sequence import Rows
from setpoint.errors import SetpointError
from setpoint.goals.goal import Goal
from setpoint.goals.metrics import SPECIFICITY, Metric
from setpoint.labelling.arguments import check_names_nothing, check_pool
from setpoint.thresholds.sweep import threshold_below

Floats = NDArray[np.float64]
_PLANNING = 0.3
_CUTS = 300
_ON = "the known cases"


class _ByClass:
    """Assumptions about rows that were drawn by class."""

    goal: Goal
    operating_point: Any

    @property
    def assumptions(self) -> tuple[str, ...]:
        """The conditions under which the guarantees hold."""
        _, _, P, N = self.operating_point.counts
        found = []
        if P:
            found.append(
                "the known positives are independent draws from all positives that will be met, "
                "not only from those that this or a similar model has found"
            )
        if N:
            found.append(
                "the known negatives are independent draws from all negatives that will be met"
            )
        found.append("neither the model nor its features were trained or chosen on these cases")
        if isinstance(self, ShiftedCertificate):
            found.append(f"{100 * self.prevalence:g} % of the cases are positive")
        return tuple(found)


@dataclass(frozen=True)
class ClassCertificate(_ByClass, Certificate):
    """A certificate from rows that were drawn by class, for metrics of one class."""

    def at_prevalence(self, prevalence: float) -> ShiftedClassCertificate:
        """Return the certificate for a stated prevalence."""
        return ShiftedClassCertificate(**vars(super().at_prevalence(prevalence)))


@dataclass(frozen=True)
class ShiftedClassCertificate(_ByClass, ShiftedCertificate):
    """A certificate from rows that were drawn by class, for a stated prevalence."""


def certify_known_classes(
    goal: str | Goal,
    positives: ArrayLike | None = None,
    negatives: ArrayLike | None = None,
    *,
    prevalence: float | None = None,
    threshold: float | None = None,
    confidence: float = 0.9,
    seed: int = 0,
) -> Certificate:
    """Certify a goal from the scores of known positives, known negatives, or both.

    Parameters
    ----------
    goal : str or Goal
        The goal. Constraints on recall (fnr) need positives, those on fpr (specificity) negatives,
        and all others, such as precision, need both and ``prevalence``.
    positives, negatives : array-like, optional
        Scores of independently drawn positives, e.g. chargebacks, and of negatives.
    prevalence : float, optional
        The fraction of positives among the cases that will be met.
    threshold : float, optional
        A threshold that was fixed without these cases. By default the best one that can be
        certified is chosen.
    confidence : float
        Of all attempts to certify, successful or not, at most a fraction 1 - confidence ends in a
        false certificate.
    seed : int
        Seed of the split, if the threshold has to be planned on some of the cases.

    Examples
    --------
    >>> import numpy as np
    >>> chargebacks = np.random.default_rng(0).normal(3, 1, size=200)
    >>> found = certify_known_classes("max specificity s.t. recall >= 0.9", chargebacks)
    >>> found.certified, round(found.threshold, 2)
    (True, 1.63)
    """
    parsed = Goal.parse(goal)
    check_names_nothing(parsed)
    classes = [
        _check(values, of) for values, of in ((positives, "positives"), (negatives, "negatives"))
    ]
    _check_needs(parsed, len(classes[0]), len(classes[1]), prevalence)
    if len(classes[1]) == 0 and parsed.objective.population != "positives":
        parsed = Goal(SPECIFICITY, parsed.constraints)  # the objective has no rows
    scores = np.concatenate(classes)
    y = np.arange(len(scores)) < len(classes[0])
    fixed = None if threshold is None else check_number(threshold, "threshold")
    metrics = [c.metric for c in parsed.constraints]
    if all(map(len, classes)):
        metrics.append(parsed.objective)
    if prevalence is None or not any(m.depends_on_prevalence for m in metrics):
        found = certify(y, scores, parsed, fixed, confidence, random_state=seed, on=_ON)
        return ClassCertificate(**vars(found))
    shift = check_fraction(prevalence, "prevalence")
    kept = np.ones(len(y), dtype=bool)
    choice: Choice = "beforehand"
    if fixed is None:
        rng = np.random.default_rng([check_whole(seed, "seed", 0), 20_214])
        planning = rng.random(len(y)) < _PLANNING
        fixed = _plan(y[planning], scores[planning], parsed, shift, confidence)
        kept, choice = ~planning, "planned"
    rows = Rows.of(y[kept], scores[kept])
    found = replace(certify_threshold(rows, parsed, fixed, confidence, on=_ON), choice=choice)
    return ShiftedClassCertificate(**vars(found.at_prevalence(shift)))


def _plan(
    y: NDArray[np.bool_], scores: Floats, goal: Goal, prevalence: float, confidence: float
) -> float:
    """Return the threshold with the best objective among those that are likely to pass.

    Those are the ones whose bounds already suffice on the planning cases, with one false alarm
    more and a third of the error. The others are more numerous, so that their bounds are likely to
    be better.
    """
    confidence = 1 - (1 - confidence) / 3
    if not y.any() or y.all():
        return np.inf
    cuts = np.unique(scores[y])[::-1]
    cuts = cuts[np.unique(np.linspace(0, len(cuts) - 1, _CUTS).astype(int))]
    P, N = float(y.sum()), float((~y).sum())
    ranked = []
    for cut in cuts:
        tp, fp = float((scores[y] >= cut).sum()), float((scores[~y] >= cut).sum())
        counts = (tp, min(fp + 1, N), P, N)
        margins = []
        for constraint in goal.constraints:
            value, bound = bound_at_prevalence(constraint.metric, prevalence, counts, confidence)
            reached = value if bound is None else bound
            margins.append(constraint.metric.sign * (reached - constraint.level))
        value, _ = bound_at_prevalence(goal.objective, prevalence, counts, confidence)
        margin = min(margins)
        gain = goal.objective.sign * value
        ranked.append((margin >= 0, gain if margin >= 0 else margin, float(cut)))
    return threshold_below(max(ranked)[2], np.sort(scores))


def _check(values: ArrayLike | None, which: str) -> Floats:
    if values is None or np.size(np.asarray(values)) == 0:
        return np.empty(0)
    try:
        return check_pool(values)
    except SetpointError as error:
        raise SetpointError(f"{which}: {error}") from None


def _check_needs(goal: Goal, P: int, N: int, prevalence: float | None) -> None:
    """Raise SetpointError if the goal cannot be certified from these classes."""

    def needs(metric: Metric) -> str:
        return {"positives": "positives", "negatives": "negatives"}.get(
            str(metric.population), "both classes and prevalence="
        )

    for constraint in goal.constraints:
        missing = {
            "positives": P == 0,
            "negatives": N == 0,
            "both classes and prevalence=": P == 0 or N == 0 or prevalence is None,
        }
        need = needs(constraint.metric)
        if missing[need]:
            raise SetpointError(f"'{constraint}' needs {need}; give them.")
    if not goal.constraints:
        raise SetpointError(f"'{goal}' has no constraint to certify.")
    if P and N and prevalence is None and needs(goal.objective).startswith("both"):
        raise SetpointError(
            f"{goal.objective} depends on the fraction of positives, which cases drawn by class "
            "do not have; give prevalence=, or an objective such as recall or specificity."
        )

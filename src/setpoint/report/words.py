"""Counts and shares in plain words, never better than they are."""

from __future__ import annotations

import math
from typing import NamedTuple

from setpoint.certificates.rates import lower_bound, upper_bound
from setpoint.goals.goal import Constraint, Goal
from setpoint.goals.metrics import Metric, called, plain

FEW = 100  # below this "82 of 100" would claim more digits than were seen
CONFIDENCE = 0.95  # of the intervals


class Share(NamedTuple):
    """A share in words, and whether the verb after it is in the plural."""

    text: str
    plural: bool


def share(successes: float, trials: float, one: str, many: str) -> Share:
    """Say a share: "82 of 100 frauds", "3 of the 7 frauds", "all 12 frauds".

    Rounding never turns some into none, or nearly all into all.
    """
    k, n = int(successes), int(trials)
    if n == 1 and k == 1:
        return Share(f"the only {one}", False)
    if k == 0:
        return Share(f"none of the {n:,} {many}" if n > 1 else f"not one {one}", False)
    if k == n:
        return Share(f"all {n:,} {many}", True)
    if n < FEW:
        return Share(f"{k} of the {n} {many}", k != 1)
    count, base = _rounded(k / n)
    if count == 0:
        return Share(f"fewer than 1 of {base:,} {many}", False)
    if count == base:
        return Share(f"more than {base - 1:,} of {base:,} {many}", True)
    return Share(f"{count:,} of {base:,} {many}", count != 1)


def _rounded(value: float) -> tuple[int, int]:
    """Return a share as a count of 10, 100 or 1,000, whichever says it well."""
    for base, slack in ((10, 0.05), (100, 0.5)):
        count = round(value * base)
        if 0 < count < base and abs(value * base - count) <= slack + 1e-9:
            return count, base
    return round(value * 1000), 1000


def interval(successes: float, trials: float) -> tuple[float, float]:
    """Return the exact two-sided interval of a share (Clopper and Pearson)."""
    if trials == 0:
        return 0.0, 1.0
    each = 1 - (1 - CONFIDENCE) / 2
    return lower_bound(successes, trials, each), upper_bound(successes, trials, each)


def between(successes: float, trials: float) -> str:
    """Say the interval, rounded outwards: "between 75 and 88 of 100"."""
    low, high = interval(successes, trials)
    base = 100 if high >= 0.02 and low <= 0.98 else 1000
    least, most = math.floor(low * base + 1e-9), math.ceil(high * base - 1e-9)
    return f"between {least:,} and {most:,} of {base:,}"


def goal_in_words(goal: Goal, many: str) -> str:
    """Say a goal without its formula."""
    wish = _WISHES.get(goal.objective.name)
    if wish is None:
        best = "high" if goal.objective.direction == "max" else "low"
        wish = f"make {called(goal.objective.name)} as {best} as possible"
    wish = wish.format(many=many)
    text = wish[0].upper() + wish[1:]
    if not goal.constraints:
        return f"{text}."
    kept = " and ".join(_kept(c, many) for c in goal.constraints)
    return f"{text}, on the condition that {kept}."


_WISHES = {
    "recall": "catch as many {many} as possible",
    "precision": "let as many of the alarms as possible be real",
    "fpr": "raise as few false alarms as possible",
    "specificity": "raise as few false alarms as possible",
    "fnr": "miss as few {many} as possible",
    "alarm_rate": "raise as few alarms as possible",
    "f1": "find the best balance of precision and recall (F1)",
    "accuracy": "decide as many cases as possible rightly",
}
_LEVELS = {
    "recall": "at least {level} {many} are caught",
    "precision": "at least {level} alarms are real",
    "fpr": "at most {level} other cases raise a false alarm",
    "specificity": "at least {level} other cases raise no alarm",
    "fnr": "at most {level} {many} are missed",
    "alarm_rate": "at most {level} cases raise an alarm",
}


def _kept(constraint: Constraint, many: str) -> str:
    sentence = _LEVELS.get(constraint.metric.name)
    if sentence is None:
        side = "least" if constraint.relation == ">=" else "most"
        return f"{called(constraint.metric.name)} is at {side} {plain(constraint.level)}"
    base = 100
    while base < 1_000_000 and abs(constraint.level * base - round(constraint.level * base)) > 1e-9:
        base *= 10
    return sentence.format(level=f"{round(constraint.level * base):,} of {base:,}", many=many)


def meaning(which: Metric, many: str) -> str | None:
    """Say what a metric means, or None for one that is not known here."""
    text = _MEANINGS.get(which.name)
    if text is None and which.name.startswith("fbeta("):
        text = (
            f"like F1, with recall {which.name[6:-1]} times as important as precision; 1 is perfect"
        )
    return None if text is None else text.format(many=many)


_MEANINGS = {
    "precision": "the share of the alarms that are real; 1 where there are no alarms at all",
    "recall": "the share of all {many} that raise an alarm, that is, are caught",
    "f1": "one number for both: the harmonic mean of precision and recall; 1 is perfect",
    "fpr": "false positive rate: the share of all other cases that raise a false alarm",
    "fnr": "false negative rate: the share of all {many} that are missed",
    "specificity": "the share of all other cases that raise no alarm",
    "npv": "the share of the cases without an alarm that are rightly left alone",
    "accuracy": "the share of all cases that are decided rightly; with a rare class it says little",
    "balanced_accuracy": "the mean of recall and specificity; 0.5 is what guessing gives",
    "gmean": "the geometric mean of recall and specificity; 1 is perfect",
    "jaccard": "real alarms as a share of all {many} and false alarms together",
    "mcc": "Matthews correlation of alarms and truth, between −1 and 1; 0 is what guessing gives",
    "alarm_rate": "the share of all cases that raise an alarm: the work there is to do",
}

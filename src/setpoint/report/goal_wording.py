"""Goals and metrics explained in plain English."""

from __future__ import annotations

from setpoint.goals.band_metrics import BandMetric
from setpoint.goals.bands import BandGoal
from setpoint.goals.budgets import Per, is_count, on_or_in, per_of, precision_at
from setpoint.goals.goal import Constraint, Goal
from setpoint.goals.metrics import Metric, display_name
from setpoint.goals.money import is_money
from setpoint.report.content import Terms
from setpoint.report.money import stated_amount
from setpoint.report.wording import (
    SHARES,
    AnyMetric,
    at_level,
    bare_level,
    capitalized,
    in_percent,
    in_words,
    joined,
    price_in_words,
    prices_in_words,
    scope_of,
)

_OBJECTIVES = {
    "recall": "catch as many {many} as possible",
    "precision": "make the fraction of alarms that are real as high as possible",
    "fpr": "raise as few false alarms as possible",
    "specificity": "raise as few false alarms as possible",
    "fnr": "miss as few {many} as possible",
    "alarm_rate": "raise as few alarms as possible",
    "alarms": "raise as few alarms as possible",
    "f1": "find the best balance of precision and recall (F1)",
    "accuracy": "decide as many cases as possible correctly",
    "recall(alarm)": "raise an alarm for as many {many} as possible",
    "npv(clear)": "make the fraction of cleared cases that are no {many} as high as possible",
    "fnr(clear)": "clear as few {many} as possible",
    "clear_rate": "clear as many cases as possible",
    "review_rate": "send as few cases to review as possible",
    "cost": "make the cost of decisions as low as possible",
}
_CONSTRAINTS = {
    "recall": "at least {level} {many} are caught",
    "precision": "at least {level} alarms are real",
    "fpr": "at most {level} other cases raise a false alarm",
    "specificity": "at least {level} other cases raise no alarm",
    "fnr": "at most {level} {many} are missed",
    "alarm_rate": "at most {level} cases raise an alarm",
    "recall(alarm)": "at least {level} {many} raise an alarm",
    "npv(clear)": "at least {level} cleared cases are no {many}",
    "fnr(clear)": "at most {level} {many} are cleared",
    "clear_rate": "at least {level} cases are cleared",
    "review_rate": "at most {level} cases go to review",
}
_MEANINGS = {
    "precision": "the fraction of alarms that are real; 1 if there are no alarms",
    "recall": "the fraction of all {many} that raise an alarm, that is, are caught",
    "f1": "the harmonic mean of precision and recall; 1 is perfect",
    "fpr": "false positive rate: the fraction of all other cases that raise a false alarm",
    "fnr": "false negative rate: the fraction of all {many} that are missed",
    "specificity": "the fraction of all other cases that raise no alarm",
    "npv": "negative predictive value: the fraction of cases without an alarm that are negative",
    "accuracy": "the fraction of all cases decided correctly; uninformative if a class is rare",
    "balanced_accuracy": "the mean of recall and specificity; guessing gives 0.5",
    "gmean": "the geometric mean of recall and specificity; 1 is perfect",
    "jaccard": "real alarms, divided by all {many} and false alarms together",
    "mcc": "Matthews correlation between alarms and truth, from −1 to 1; guessing gives 0",
    "alarm_rate": "the fraction of all cases that raise an alarm",
    "alarms": "the number of alarms, real or false, that is, the workload",
    "recall(alarm)": "the fraction of all {many} that raise an alarm",
    "npv(clear)": "negative predictive value: the fraction of cleared cases that are no {many}; 1 "
    "if none is cleared",
    "fnr(clear)": "false negative rate: the fraction of all {many} that are cleared, and so missed",
    "clear_rate": "the fraction of all cases that are cleared",
    "review_rate": "the fraction of all cases that a person must look at",
    "cost": "the mean cost of the decision on a case. {prices}",
}
_ALARMS = {"precision(alarm)": "precision", "fpr(alarm)": "fpr"}  # of a band, in the same words


def goal_in_words(goal: Goal | BandGoal, terms: Terms) -> str:
    """Describe a goal, as it was stated, without a formula."""
    if isinstance(goal, BandGoal):
        return _band_goal(goal, terms)
    text = capitalized(_wish(goal.objective, terms))
    if goal.constraints:
        conditions = " and ".join(_condition(c, terms) for c in goal.constraints)
        text = f"{text}, provided that {conditions}"
    priced = {m.base.name: m for m in goal.metrics if is_money(m)}
    return " ".join([f"{text}.", *(prices_in_words(m, terms) for m in priced.values())])


def _wish(which: Metric, terms: Terms) -> str:
    base, tally = which.base, which.tallies[0]
    best = "high" if which.direction == "max" else "low"
    if is_money(base):
        what = "the profit" if which.direction == "max" else "the cost of decisions"
        wish = f"make {what} as {best} as possible"
    elif base.name.startswith("precision@"):
        wish = f"make as many as possible of {_budget_of(base)} real"
    elif tally.amount and base.name == "recall":
        wish = f"catch as much as possible of the {in_words(tally.amount)} of all {terms.many}"
    elif tally.amount:
        name = f"{display_name(base.name)} by {in_words(tally.amount)}"
        wish = f"make {name} as {best} as possible"
    else:
        wish = _OBJECTIVES.get(
            base.name, f"make {display_name(base.name)} as {best} as possible"
        ).format(many=terms.many)
    scope = scope_of(tally).removesuffix(", ")
    return f"{wish} {scope}" if scope else wish


def _budget_of(which: Metric) -> str:
    """Return the alarms that the budget of precision@k allows, e.g. "8 alarms per day"."""
    made_by = which.made_by
    if made_by is None or made_by[0] is not precision_at:
        return f"{which.name.removeprefix('precision@')} alarms"
    _, budget, share, per, _ = made_by
    if share:
        return f"the alarms on {in_percent(budget)} of the cases"
    return f"{budget:,g} alarms{f' per {per}' if per else ''}"


def _condition(constraint: Constraint, terms: Terms) -> str:
    which, per = constraint.metric, constraint.per
    base, tally = which.base, which.tallies[0]
    scope = f"in each {in_words(constraint.each)}, " if constraint.each else scope_of(tally)
    if is_money(base):
        level = stated_amount(abs(constraint.level), terms.currency)
        if which.direction == "min":
            text = f"a case costs at most {level} on average"
            if constraint.level < 0:
                text = f"a case brings in at least {level} on average"
        else:
            text = f"a case brings in at least {level} on average"
            if constraint.level < 0:
                text = f"a case loses at most {level} on average"
    elif is_count(base):
        text = _budget_in_words(constraint, per)
    elif tally.amount and base.name in SHARES:
        share = SHARES[base.name].format(amount=in_words(tally.amount), many=terms.many)
        side = "at least" if constraint.relation == ">=" else "at most"
        text = f"{side} {in_percent(constraint.level)} {share}"
    elif base.name in _CONSTRAINTS and not tally.amount:
        text = _CONSTRAINTS[base.name].format(level=_out_of(constraint.level), many=terms.many)
    else:
        by = f" by {in_words(tally.amount)}" if tally.amount else ""
        text = f"{display_name(base.name)}{by} is {at_level(constraint, terms.currency)}"
    return scope + text


def _out_of(level: float) -> str:
    """Return a level as "90 of 100", or of as many as it takes."""
    base = 100
    while base < 1_000_000 and abs(level * base - round(level * base)) > 1e-9:
        base *= 10
    return f"{round(level * base):,} of {base:,}"


def _budget_in_words(constraint: Constraint, per: Per | None) -> str:
    number = bare_level(constraint, "")
    alarms = f"at most {number} alarm{'' if number == '1' else 's'}"
    be = "is" if number == "1" else "are"
    if per is None:
        return f"{alarms} {be} raised in all"
    if per.share is None:
        return f"{alarms} per {per.period} {be} raised on average"
    if per.share == 1:
        return f"{on_or_in(per.period)} every {per.period} {alarms} {be} raised"
    share = f"{on_or_in(per.period)} {in_percent(per.share)} of {per.period}s"
    return f"{share} {alarms} {be} raised"


def meaning(which: AnyMetric, terms: Terms) -> str:
    """Explain a metric."""
    if isinstance(which, BandMetric):
        prices = "" if which.costs is None else _band_prices(which, terms).removesuffix(".")
        return _MEANINGS[_words_of(which)].format(many=terms.many, prices=prices)
    base, tally = which.base, which.tallies[0]
    if base.name.startswith("fbeta("):
        beta = base.name[6:-1]
        text = f"like F1, with recall {beta} times as important as precision; 1 is perfect"
    elif is_money(base):
        kind = "cost" if base.direction == "min" else "profit"
        text = f"the mean {kind} of the decision on a case. {prices_in_words(base, terms)[:-1]}"
    elif (per := per_of(base)) is not None:
        text = _alarms_meaning(per)
    elif base.name.startswith("precision@"):
        text = f"real alarms, divided by what the budget allows: {_budget_of(base)}"
    else:
        text = _MEANINGS.get(base.name, "a custom metric").format(many=terms.many)
    if tally.amount and not is_money(base):
        text += f". Each case counts with its {in_words(tally.amount)}"
    return (
        f"{text}. Only cases {scope_of(tally).removesuffix(', ')} count" if tally.segment else text
    )


def _alarms_meaning(per: Per) -> str:
    period = per.period
    if per.share is None:
        return f"the number of alarms, divided by the number of {period}s that have cases"
    if per.share == 1:
        return f"the number of alarms in the {period} that has most of them"
    share = in_percent(per.share)
    return f"the number of alarms that {share} of all {period}s do not exceed"


# --- review bands --------------------------------------------------------------------------------


def _words_of(which: BandMetric) -> str:
    return _ALARMS.get(which.name, which.name)


def _band_goal(goal: BandGoal, terms: Terms) -> str:
    text = capitalized(_OBJECTIVES[_words_of(goal.objective)].format(many=terms.many))
    levels = [
        _CONSTRAINTS[_words_of(c.metric)].format(level=_out_of(c.level), many=terms.many)
        for c in goal.constraints
    ]
    if levels:
        text = f"{text}, provided that {joined(levels)}"
    prices = "" if goal.objective.costs is None else f" {_band_prices(goal.objective, terms)}"
    return f"{text}.{prices}"


def _band_prices(which: BandMetric, terms: Terms) -> str:
    names = ("a false alarm", f"a cleared {terms.one}", "a review")
    found = [
        f"{name} costs {price_in_words(price, terms)}"
        for name, price in zip(names, which.costs or (), strict=True)
        if price.factor != 0
    ]
    return f"{capitalized(joined(found))}."

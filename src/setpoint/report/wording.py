"""Goals and metrics in plain English."""

from __future__ import annotations

import math
import re
from typing import Any

from setpoint.goals.budgets import Per, format_percent, is_count, per_of, precision_at
from setpoint.goals.goal import Constraint, Goal, describe_value, format_metric
from setpoint.goals.metrics import Metric, display_name, format_number
from setpoint.goals.money import is_money, prices_of
from setpoint.goals.tallies import Tally
from setpoint.report.content import Terms
from setpoint.report.fractions import fraction, percent
from setpoint.report.money import money, per_case, stated_amount

_PLAIN_WORDS = re.compile(r"[a-z]+( [a-z]+)*")


# --- names ---------------------------------------------------------------------------------------


def in_words(name: str) -> str:
    """Return the name of a column for a sentence, in quotes unless it is plain words."""
    return name if _PLAIN_WORDS.fullmatch(name) else f"“{name}”"


def counted(number: float, one: str, many: str = "") -> str:
    """Return a number with its noun: "1 alarm", "1,200 alarms"."""
    return f"{number:,g} {one if number == 1 else many or f'{one}s'}" if number < 1e6 else (
        f"{number:,.0f} {many or f'{one}s'}"
    )  # fmt: skip


def in_percent(value: float) -> str:
    """Return a fraction that a goal states, e.g. "95 %"."""
    return format_percent(value).replace("%", "\N{NO-BREAK SPACE}%")


def shortened(text: str, most: int = 40) -> str:
    """Return a text of at most so many characters, without tabs and line breaks."""
    text = "".join(c if c.isprintable() else " " for c in text)
    return text if len(text) <= most else f"{text[: most - 1]}…"


def scope_of(which: Metric) -> str:
    """Return the segment that a metric is about as the beginning of a sentence, or nothing."""
    return _scope(which.tallies[0])


def _scope(tally: Tally) -> str:
    if not tally.segment:
        return ""
    return f"where {in_words(tally.segment)} is {in_words(shortened(tally.value))}, "


def metric_label(which: Metric) -> str:
    """Return a metric's name for a table, e.g. "cost per case" or "recall by amount"."""
    base, tally = which.base, which.tallies[0]
    name = display_name(base.name)
    if is_money(base):
        name = f"{base.name.split('(')[0]} per case"
    elif (per := per_of(base)) is not None:
        name = _alarms_label(per)
    elif tally.amount:
        name = f"{name} by {in_words(tally.amount)}"
    return f"{name} in {shortened(tally.value)}" if tally.segment else name


def _alarms_label(per: Per) -> str:
    if per.share is None:
        return f"alarms per {per.period}, on average"
    if per.share == 1:
        return f"alarms on the busiest {per.period}"
    return f"alarms per {per.period}, on {in_percent(per.share)} of {per.period}s"


def value_text(which: Metric, value: float, currency: str, level: Constraint | None = None) -> str:
    """Return a metric's value for a table, with the currency if it is money."""
    if is_money(which):
        return per_case(which, value, currency, level)
    return format_metric(value, level, which)


def level_text(constraint: Constraint, currency: str) -> str:
    """Return a constraint's relation and level for a table, e.g. "≥ 0.9"."""
    sign = "≥" if constraint.relation == ">=" else "≤"
    return f"{sign}\N{NO-BREAK SPACE}{_level(constraint, currency)}"


def at_level(constraint: Constraint, currency: str) -> str:
    """Return a constraint's level for a sentence, e.g. "at least 0.8"."""
    side = "least" if constraint.relation == ">=" else "most"
    return f"at {side} {_level(constraint, currency)}"


def _level(constraint: Constraint, currency: str) -> str:
    if is_money(constraint.metric):
        return stated_amount(constraint.level, currency)
    if is_count(constraint.metric):
        return format_metric(constraint.level, None, constraint.metric)
    return format_number(constraint.level)


# --- values --------------------------------------------------------------------------------------

_SHARES = {  # of an amount
    "recall": "of the {amount} of all {many} is caught",
    "precision": "of the {amount} of all alarms is real",
    "fpr": "of the {amount} of all other cases raises a false alarm",
    "specificity": "of the {amount} of all other cases raises no alarm",
    "fnr": "of the {amount} of all {many} is missed",
    "alarm_rate": "of the {amount} of all cases raises an alarm",
}


def value_in_words(
    which: Metric, value: float, counts: Any, terms: Terms, *, scope: bool = True
) -> str:
    """Describe a metric's value, e.g. "82 of 100 frauds are caught".

    ``counts`` are TP, FP, P and N in the metric's own tallies. With ``scope`` the sentence names
    the segment that it is about.
    """
    base, tally = which.base, which.tallies[0]
    text = ""
    if is_money(base):
        text = money_in_words(which, value, terms)
    elif (per := per_of(base)) is not None:
        text = alarms_in_words(per, format_metric(value, None, which))
    elif is_count(base):
        text = f"there are {describe_value(base, value)}"
    elif base.name.startswith("precision@"):
        text = f"the real alarms are {percent(value)} of the number that the budget allows"
    elif tally.amount and base.name in _SHARES and not math.isnan(value):
        tp, _, P, _ = (float(x) for x in counts)
        share = _SHARES[base.name].format(amount=in_words(tally.amount), many=terms.many)
        text = f"{percent(value)} {share}"
        if base.name == "recall":
            text += f" ({money(tp, terms.currency)} of {money(P, terms.currency)})"
    elif not tally.amount:
        text = _rate_in_words(base.name, counts, terms)
    if not text:
        by = f" by {in_words(tally.amount)}" if tally.amount else ""
        text = f"{display_name(base.name)}{by} is {format_metric(value)}"
    return _scope(tally) + text if scope else text


def _rate_in_words(name: str, counts: Any, terms: Terms) -> str:
    """Describe a fraction of rows; empty if there are none, or for other metrics."""
    if name not in _CONSTRAINTS:
        return ""
    tp, fp, P, N = (float(x) for x in counts)
    k, n, one, many, verb, end = {
        "recall": (tp, P, terms.one, terms.many, "are", "caught"),
        "fnr": (P - tp, P, terms.one, terms.many, "are", "missed"),
        "precision": (tp, tp + fp, "alarm", "alarms", "are", "real"),
        "fpr": (fp, N, "other case", "other cases", "raise", "a false alarm"),
        "specificity": (fp, N, "other case", "other cases", "raise", "a false alarm"),
        "alarm_rate": (tp + fp, P + N, "case", "cases", "raise", "an alarm"),
    }[name]
    return "" if n == 0 else f"{fraction(k, n, one, many).followed_by(verb)} {end}"


def money_in_words(which: Metric, value: float, terms: Terms) -> str:
    """Describe a mean cost or profit, e.g. "a case costs €1.19 on average"."""
    is_cost = which.direction == "min"
    verb = "costs" if is_cost == (value >= 0) else "brings in"
    if not is_cost and value < 0:
        verb = "loses"
    return f"a case {verb} {per_case(which, abs(value), terms.currency)} on average"


def alarms_in_words(per: Per, number: str) -> str:
    """Describe a number of alarms per period."""
    alarms = f"{number} alarm{'' if number == '1' else 's'}"
    be = "was" if number == "1" else "were"
    if per.share is None:
        return f"there {be} {alarms} per {per.period} on average"
    if per.share == 1:
        return f"there {be} {alarms} on the busiest {per.period}"
    return f"on {in_percent(per.share)} of {per.period}s there {be} at most {alarms}"


def prices_in_words(which: Metric, terms: Terms) -> str:
    """Describe the prices of a cost or profit as a sentence."""
    outcomes = {
        "tp": f"a caught {terms.one}",
        "fp": "a false alarm",
        "fn": f"a missed {terms.one}",
        "tn": "a correctly cleared case",
    }
    sign = 1 if which.direction == "min" else -1
    found = []
    for outcome, price in prices_of(which).items():
        if price.factor == 0:
            continue
        verb = "costs" if sign * price.factor > 0 else "brings in"
        found.append(f"{outcomes[outcome]} {verb} {_price(price.factor, price.amount, terms)}")
    text = " and ".join(filter(None, [", ".join(found[:-1]), found[-1]]))
    return f"{text[0].upper()}{text[1:]}."


def _price(factor: float, amount: str, terms: Terms) -> str:
    size = abs(factor)
    if not amount:
        return stated_amount(size, terms.currency)
    times = "" if size == 1 else f"{in_percent(size)} of "
    return f"{times}its {in_words(amount)}"


# --- goals ---------------------------------------------------------------------------------------

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
}
_CONSTRAINTS = {
    "recall": "at least {level} {many} are caught",
    "precision": "at least {level} alarms are real",
    "fpr": "at most {level} other cases raise a false alarm",
    "specificity": "at least {level} other cases raise no alarm",
    "fnr": "at most {level} {many} are missed",
    "alarm_rate": "at most {level} cases raise an alarm",
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
    "alarm_rate": "the fraction of all cases that raise an alarm, that is, the workload",
    "alarms": "the number of alarms, real or false, that is, the workload",
}


def goal_in_words(goal: Goal, terms: Terms) -> str:
    """Describe a goal, as it was stated, without a formula."""
    text = _wish(goal.objective, terms)
    text = text[0].upper() + text[1:]
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
    scope = _scope(tally).removesuffix(", ")
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
    scope = f"in each {in_words(constraint.each)}, " if constraint.each else _scope(tally)
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
    elif tally.amount and base.name in _SHARES:
        share = _SHARES[base.name].format(amount=in_words(tally.amount), many=terms.many)
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
    number = _level(constraint, "")
    alarms = f"at most {number} alarm{'' if number == '1' else 's'}"
    be = "is" if number == "1" else "are"
    if per is None:
        return f"{alarms} {be} raised in all"
    if per.share is None:
        return f"{alarms} per {per.period} {be} raised on average"
    if per.share == 1:
        return f"{'on' if per.period == 'day' else 'in'} every {per.period} {alarms} {be} raised"
    return f"on {in_percent(per.share)} of {per.period}s {alarms} {be} raised"


def meaning(which: Metric, terms: Terms) -> str:
    """Explain a metric."""
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
    return f"{text}. Only cases {_scope(tally).removesuffix(', ')} count" if tally.segment else text


def _alarms_meaning(per: Per) -> str:
    period = per.period
    if per.share is None:
        return f"the number of alarms, divided by the number of {period}s that have cases"
    if per.share == 1:
        return f"the number of alarms in the {period} that has most of them"
    share = in_percent(per.share)
    return f"the number of alarms that {share} of all {period}s do not exceed"

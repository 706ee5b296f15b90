"""Metrics in plain English: their names, levels and values."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from typing import Any

from setpoint.goals.band_metrics import BandMetric
from setpoint.goals.bands import BandConstraint
from setpoint.goals.budgets import (
    Per,
    format_percent,
    in_the_busiest,
    is_count,
    on_or_in,
    per_of,
)
from setpoint.goals.goal import Constraint, describe_value, format_metric
from setpoint.goals.metrics import Metric, display_name, format_number
from setpoint.goals.money import Price, is_money, prices_of
from setpoint.goals.tallies import Tally
from setpoint.report.content import Terms
from setpoint.report.fractions import fraction, percent
from setpoint.report.money import money, per_case, stated_amount

AnyMetric = Metric | BandMetric
AnyConstraint = Constraint | BandConstraint
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


def joined(parts: Sequence[str]) -> str:
    """Return a list for a sentence: "a, b and c"."""
    return " and ".join(filter(None, [", ".join(parts[:-1]), *parts[-1:]]))


def capitalized(text: str) -> str:
    """Return a text with its first letter in upper case, as a sentence begins."""
    return text[:1].upper() + text[1:]


def in_percent(value: float) -> str:
    """Return a fraction that a goal states, e.g. "95 %"."""
    return format_percent(value).replace("%", "\N{NO-BREAK SPACE}%")


def shortened(text: str, most: int = 40) -> str:
    """Return a text of at most so many characters, without tabs and line breaks."""
    text = "".join(c if c.isprintable() else " " for c in text)
    return text if len(text) <= most else f"{text[: most - 1]}…"


def scope_of(tally: Tally) -> str:
    """Return the segment of a metric as the beginning of a sentence, or nothing."""
    if not tally.segment:
        return ""
    return f"where {in_words(tally.segment)} is {in_words(shortened(tally.value))}, "


def metric_label(which: AnyMetric) -> str:
    """Return a metric's name for a table, e.g. "cost per case" or "recall by amount"."""
    if isinstance(which, BandMetric):
        return _band_label(which)
    base, tally = which.base, which.tallies[0]
    name = display_name(base.name)
    if is_money(base):
        name = f"{base.name.split('(')[0]} per case"
    elif (per := per_of(base)) is not None:
        name = _alarms_label(per)
    elif tally.amount:
        name = f"{name} by {in_words(tally.amount)}"
    return f"{name} in {shortened(tally.value)}" if tally.segment else name


def _band_label(which: BandMetric) -> str:
    if which.costs is not None:
        return "cost per case"
    name, _, side = which.name.rstrip(")").partition("(")
    cases = {"alarm": " of alarms", "clear": " of cleared cases", "": ""}[side]
    return name.replace("_", " ") + cases


def with_level(which: Metric, constraints: Iterable[Constraint], currency: str = "") -> str:
    """Return a metric's name, with the level that it must reach if that is the same everywhere."""
    levels = {level_text(c, currency) for c in constraints}
    name = metric_label(which)
    return f"{name} ({levels.pop()})" if len(levels) == 1 else name


def _alarms_label(per: Per) -> str:
    if per.share is None:
        return f"alarms per {per.period}, on average"
    if per.share == 1:
        return f"alarms {in_the_busiest(per.period)}"
    share = f"{in_percent(per.share)} of {per.period}s"
    return f"alarms per {per.period}, {on_or_in(per.period)} {share}"


def value_text(
    which: AnyMetric, value: float, currency: str, level: AnyConstraint | None = None
) -> str:
    """Return a metric's value for a table, with the currency if it is money."""
    if isinstance(which, BandMetric):
        if which.costs is not None:
            return money(value, currency, 2 if abs(value) >= 0.1 else 4)
        return format_metric(value, level)  # type: ignore[arg-type]
    assert not isinstance(level, BandConstraint)
    if is_money(which):
        return per_case(which, value, currency, level)
    return format_metric(value, level, which)


def level_text(constraint: AnyConstraint, currency: str) -> str:
    """Return a constraint's relation and level for a table, e.g. "≥ 0.9"."""
    sign = "≥" if constraint.metric.direction == "max" else "≤"
    return f"{sign}\N{NO-BREAK SPACE}{bare_level(constraint, currency)}"


def at_level(constraint: AnyConstraint, currency: str) -> str:
    """Return a constraint's level for a sentence, e.g. "at least 0.8"."""
    side = "least" if constraint.metric.direction == "max" else "most"
    return f"at {side} {bare_level(constraint, currency)}"


def is_and_should_be(constraint: AnyConstraint, value: float, currency: str) -> str:
    """Return what is missed, e.g. "precision is 0.79 and should be at least 0.8"."""
    name = metric_label(constraint.metric)
    text = value_text(constraint.metric, value, currency, constraint)
    return f"{name} is {text} and should be {at_level(constraint, currency)}"


def bare_level(constraint: AnyConstraint, currency: str) -> str:
    """Return a constraint's level alone."""
    if isinstance(constraint, BandConstraint):
        return format_number(constraint.level)
    if is_money(constraint.metric):
        return stated_amount(constraint.level, currency)
    if is_count(constraint.metric):
        return format_metric(constraint.level, None, constraint.metric)
    return format_number(constraint.level)


# --- values --------------------------------------------------------------------------------------

SHARES = {  # of an amount
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
    elif tally.amount and base.name in SHARES and not math.isnan(value):
        tp, _, P, _ = (float(x) for x in counts)
        share = SHARES[base.name].format(amount=in_words(tally.amount), many=terms.many)
        text = f"{percent(value)} {share}"
        if base.name == "recall":
            text += f" ({money(tp, terms.currency)} of {money(P, terms.currency)})"
    elif not tally.amount:
        text = _rate_in_words(base.name, counts, terms)
    if not text:
        by = f" by {in_words(tally.amount)}" if tally.amount else ""
        text = f"{display_name(base.name)}{by} is {format_metric(value)}"
    return scope_of(tally) + text if scope else text


def _rate_in_words(name: str, counts: Any, terms: Terms) -> str:
    """Describe a fraction of rows; empty if there are none, or for other metrics."""
    tp, fp, P, N = (float(x) for x in counts)
    found = {
        "recall": (tp, P, terms.one, terms.many, "are", "caught"),
        "fnr": (P - tp, P, terms.one, terms.many, "are", "missed"),
        "precision": (tp, tp + fp, "alarm", "alarms", "are", "real"),
        "fpr": (fp, N, "other case", "other cases", "raise", "a false alarm"),
        "specificity": (fp, N, "other case", "other cases", "raise", "a false alarm"),
        "alarm_rate": (tp + fp, P + N, "case", "cases", "raise", "an alarm"),
    }.get(name)
    if found is None or found[1] == 0:
        return ""
    k, n, one, many, verb, end = found
    return f"{fraction(k, n, one, many).followed_by(verb)} {end}"


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
        return f"there {be} {alarms} {in_the_busiest(per.period)}"
    share = f"{on_or_in(per.period)} {in_percent(per.share)} of {per.period}s"
    return f"{share} there {be} at most {alarms}"


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
        found.append(f"{outcomes[outcome]} {verb} {price_in_words(price, terms)}")
    return f"{capitalized(joined(found))}."


def price_in_words(price: Price, terms: Terms) -> str:
    """Return the size of a price, e.g. "€5" or "20 % of its amount"."""
    size = abs(price.factor)
    if not price.amount:
        return stated_amount(size, terms.currency)
    times = "" if size == 1 else f"{in_percent(size)} of "
    return f"{times}its {in_words(price.amount)}"

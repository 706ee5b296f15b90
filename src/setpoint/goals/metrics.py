"""Metrics as functions of two counts.

With the weighted class totals P and N fixed, every metric of a binary decision is a function of
the true positives TP and the false positives FP alone. A :class:`Metric` holds that function, its
two partial derivatives, the direction in which it improves and whether it is *monotone*:

    a metric is monotone if a further true positive never makes it worse and a further false
    positive never makes it better.

Monotonicity is what the inequality form of the reformulation needs (Theorem "Reformulation of
general DMO problems"). All functions take floats, numpy arrays or torch tensors.

How rows are counted is the metric's *tally* (:mod:`setpoint.goals.tallies`). A metric of several
tallies takes arrays of counts whose first axis is that of its tallies, and its derivatives have
that axis too.
"""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, Literal

import numpy as np

from setpoint.errors import GoalError
from setpoint.goals.linear_fraction import Counts, Linear, LinearFraction, maximum, sqrt, where
from setpoint.goals.tallies import PLAIN, Tally, parse_tally

CountFunction = Callable[[Counts, Counts, Any, Any], Any]
Direction = Literal["max", "min"]
Population = Literal[
    "positives", "negatives", "alarms", "cases without an alarm", "positives and alarms", "cases"
]

_TINY = 1e-12  # keeps derivatives of square roots finite where the exact value is infinite


# --- metrics -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Metric:
    """A metric of binary decisions, as a function of the counts.

    Parameters
    ----------
    name : str
        Its name in the goal language.
    value, d_tp, d_fp : callable
        ``f(TP, FP, P, N)``: the metric and its partial derivatives in TP and in FP.
    direction : {"max", "min"}
        Whether higher values are better (precision) or lower ones (fpr).
    monotone : bool
        Whether a further true positive never hurts and a further false positive never helps.
    bounds : tuple of float
        The smallest and largest possible value.
    fraction : LinearFraction or None
        The metric as a quotient of linear functions, where it is one.
    population : str or None
        The rows of which the metric is a fraction, e.g. ``"alarms"`` for precision; certificates
        have exact binomial bounds for built-in metrics with one. None if it is not a fraction.
    tallies : tuple of Tally
        How its rows are counted.
    made_by : tuple or None
        The function that made the metric and its arguments, by which it is pickled.
    """

    name: str
    value: CountFunction = field(repr=False)
    d_tp: CountFunction = field(repr=False)
    d_fp: CountFunction = field(repr=False)
    direction: Direction = "max"
    monotone: bool = True
    bounds: tuple[float, float] = (0.0, 1.0)
    fraction: LinearFraction | None = field(default=None, repr=False)
    population: Population | None = None
    tallies: tuple[Tally, ...] = (PLAIN,)
    made_by: tuple[Any, ...] | None = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.direction not in ("max", "min"):
            raise GoalError(
                f"metric {self.name!r}: direction is 'max' or 'min', not {self.direction!r}."
            )

    def __str__(self) -> str:
        return self.name

    def __copy__(self) -> Metric:
        return self  # immutable

    def __deepcopy__(self, memo: Any) -> Metric:
        return self

    def __reduce__(self) -> Any:
        # Built-in metrics are pickled by name, others with their functions. pickle needs these to
        # be importable; cloudpickle, which joblib's workers use, does not.
        if self == _METRICS.get(self.name) and self.name in BUILT_IN:
            return metric, (self.name,)
        family, *arguments = self.name.split("(", 1)
        if arguments and family in _FAMILIES:
            return metric, (self.name,)
        if self.made_by is not None:
            function, *arguments = self.made_by
            return function, tuple(arguments)
        functions = (self.value, self.d_tp, self.d_fp)
        return restore, (self.name, *functions, self.direction, self.monotone, self.bounds)

    @property
    def sign(self) -> int:
        """+1 where higher is better, -1 where lower is better."""
        return 1 if self.direction == "max" else -1

    @property
    def base(self) -> Metric:
        """The metric without its amounts and segment: recall for ``recall[amount]``."""
        if self.made_by is not None and self.made_by[0] is Metric.within:
            within: Metric = self.made_by[1]
            return within.base
        return self

    def within(self, tally: Tally) -> Metric:
        """Return the metric of the rows, or with the amounts, of a tally."""
        return self if tally == PLAIN else _within(self, tally)

    @property
    def plain(self) -> Metric:
        """The same metric of all rows, if this one is that of a segment or with amounts."""
        made_by = self.made_by
        if made_by is None or made_by[0] is not Metric.within:
            return self
        which: Metric = made_by[1]
        return which

    @property
    def is_bounded(self) -> bool:
        """Whether it has a smallest and a largest value; a sum of money, e.g., has none."""
        return bool(np.isfinite(self.bounds).all())

    @property
    def depends_on_prevalence(self) -> bool:
        """Whether it changes with the fraction of positives, at the same recall and fpr."""
        return self.population not in ("positives", "negatives")


@cache
def _within(which: Metric, tally: Tally) -> Metric:
    return replace(
        which,
        name=f"{which.name}[{tally}]",
        tallies=tuple(own.within(tally) for own in which.tallies),
        # An amount of money is not a number of rows.
        population=None if tally.amount else which.population,
        made_by=(Metric.within, which, tally),
    )


def from_fraction(
    name: str,
    numerator: Callable[[float, float], Linear],
    denominator: Callable[[float, float], Linear],
    *,
    empty: float = float("nan"),
    direction: Direction = "max",
    monotone: bool = True,
    bounds: tuple[float, float] = (0.0, 1.0),
    population: Population | None = None,
    tallies: tuple[Tally, ...] = (PLAIN,),
) -> Metric:
    """Return the metric that is a quotient of functions linear in the counts."""
    fraction = LinearFraction(numerator, denominator, empty)
    return Metric(
        name,
        fraction.value,
        fraction.d_tp,
        fraction.d_fp,
        direction=direction,
        monotone=monotone,
        bounds=bounds,
        fraction=fraction,
        population=population,
        tallies=tallies,
    )


# --- the catalogue -------------------------------------------------------------------------------

# No predicted positives: precision is 1, the paper's convention; npv is 1 likewise when there are
# no predicted negatives. Both conventions keep the metric monotone. The other quotients are 0/0
# only where a whole class is missing, and then they are NaN.
PRECISION = from_fraction(
    "precision", lambda P, N: (0, 1, 0), lambda P, N: (0, 1, 1), empty=1.0, population="alarms"
)
NPV = from_fraction(
    "npv", lambda P, N: (N, 0, -1), lambda P, N: (P + N, -1, -1), empty=1.0,
    population="cases without an alarm",
)  # fmt: skip
RECALL = from_fraction(
    "recall", lambda P, N: (0, 1, 0), lambda P, N: (P, 0, 0), population="positives"
)
FNR = from_fraction(
    "fnr", lambda P, N: (P, -1, 0), lambda P, N: (P, 0, 0), direction="min", population="positives"
)
SPECIFICITY = from_fraction(
    "specificity", lambda P, N: (N, 0, -1), lambda P, N: (N, 0, 0), population="negatives"
)
FPR = from_fraction(
    "fpr", lambda P, N: (0, 0, 1), lambda P, N: (N, 0, 0), direction="min", population="negatives"
)
F1 = from_fraction("f1", lambda P, N: (0, 2, 0), lambda P, N: (P, 1, 1))
JACCARD = from_fraction(
    "jaccard", lambda P, N: (0, 1, 0), lambda P, N: (P, 0, 1), population="positives and alarms"
)
ACCURACY = from_fraction(
    "accuracy", lambda P, N: (N, 1, -1), lambda P, N: (P + N, 0, 0), population="cases"
)
BALANCED_ACCURACY = from_fraction(
    "balanced_accuracy", lambda P, N: (P * N, N, -P), lambda P, N: (2 * P * N, 0, 0)
)
# The fraction of cases that raise an alarm: a capacity, and not monotone.
ALARM_RATE = from_fraction(
    "alarm_rate", lambda P, N: (0, 1, 1), lambda P, N: (P + N, 0, 0), direction="min",
    monotone=False, population="cases",
)  # fmt: skip
# The number of alarms, for a budget.
ALARMS = from_fraction(
    "alarms", lambda P, N: (0, 1, 1), lambda P, N: (1, 0, 0), direction="min", monotone=False,
    bounds=(0.0, math.inf),
)  # fmt: skip


@cache
def fbeta(beta: float) -> Metric:
    """Return F_beta, the weighted harmonic mean of precision and recall.

    F_beta = (1 + beta^2) TP / (beta^2 P + TP + FP); beta > 1 favours recall.
    """
    beta = float(beta)
    if not 1e-6 <= beta <= 1e6:
        raise GoalError(f"fbeta({format_number(beta)}): beta must lie between 1e-6 and 1e6.")
    b2 = beta * beta
    return from_fraction(
        f"fbeta({format_number(beta)})", lambda P, N: (0, 1 + b2, 0), lambda P, N: (b2 * P, 1, 1)
    )


def _gmean(tp: Counts, fp: Counts, P: float, N: float) -> Any:
    return sqrt(maximum(tp / P, 0.0) * maximum((N - fp) / N, 0.0))  # rounding may go below 0


# d sqrt(u v) = (u' v + u v') / (2 sqrt(u v)), with u = TP/P and v = (N - FP)/N.
def _gmean_d_tp(tp: Counts, fp: Counts, P: float, N: float) -> Any:
    return sqrt(maximum((N - fp) / N, 0.0) / maximum(tp / P, _TINY)) / (2 * P)


def _gmean_d_fp(tp: Counts, fp: Counts, P: float, N: float) -> Any:
    return -sqrt(maximum(tp / P, 0.0) / maximum((N - fp) / N, _TINY)) / (2 * N)


GMEAN = Metric("gmean", _gmean, _gmean_d_tp, _gmean_d_fp)


# MCC = (TP*TN - FP*FN) / sqrt(P N q (M - q)) with q = TP + FP, M = P + N. Its numerator is
# N*TP - P*FP. Without predicted positives, or without predicted negatives, it is 0.
def _mcc_parts(tp: Counts, fp: Counts, P: float, N: float) -> tuple[Any, Any, Any]:
    q = tp + fp
    return N * tp - P * fp, q * (P + N - q), P + N - 2 * q


def _mcc(tp: Counts, fp: Counts, P: float, N: float) -> Any:
    top, spread, _ = _mcc_parts(tp, fp, P, N)
    return where(spread > 0, top / sqrt(P * N * where(spread > 0, spread, 1.0)), 0.0)


def _mcc_derivative(tp: Counts, fp: Counts, P: float, N: float, d_top: float) -> Any:
    # d(u D^-1/2) = (u' D - u D'/2) D^-3/2, with D = q (M - q) and D' = M - 2q.
    top, spread, d_spread = _mcc_parts(tp, fp, P, N)
    safe = maximum(spread, _TINY * (P + N) ** 2)
    return (d_top * safe - top * d_spread / 2) / (np.sqrt(P * N) * safe * sqrt(safe))


def _mcc_d_tp(tp: Counts, fp: Counts, P: float, N: float) -> Any:
    return _mcc_derivative(tp, fp, P, N, N)


def _mcc_d_fp(tp: Counts, fp: Counts, P: float, N: float) -> Any:
    return _mcc_derivative(tp, fp, P, N, -P)


MCC = Metric("mcc", _mcc, _mcc_d_tp, _mcc_d_fp, bounds=(-1.0, 1.0))

_METRICS: dict[str, Metric] = {
    m.name: m
    for m in (
        PRECISION, RECALL, F1, FPR, FNR, SPECIFICITY, NPV, ACCURACY, BALANCED_ACCURACY,
        GMEAN, JACCARD, MCC, ALARM_RATE, ALARMS,
    )
}  # fmt: skip
BUILT_IN = tuple(_METRICS)
_ALIASES = {"tpr": "recall", "sensitivity": "recall", "tnr": "specificity", "ppv": "precision"}
# Metrics with arguments, by the text in their parentheses; the second entry is an example.
_FAMILIES: dict[str, tuple[Callable[[str], Metric], str]] = {}
_CALL = re.compile(r"(?s)\s*([A-Za-z_]\w*)\s*(?:\((.*)\))?\s*(?:\[(.*)\])?\s*")


def register_family(name: str, parse: Callable[[str], Metric], example: str) -> None:
    """Add metrics with arguments, e.g. ``fbeta(2)``, to the goal language."""
    _FAMILIES[name] = parse, example


def _parse_beta(argument: str) -> Metric:
    try:
        beta = float(argument)
    except ValueError:
        raise GoalError(f"'fbeta({argument})': {argument!r} is not a number.") from None
    return fbeta(beta)


register_family("fbeta", _parse_beta, "fbeta(2)")


def metric_names() -> list[str]:
    """Return all metric names of the goal language, aliases included."""
    examples = (example for _, example in _FAMILIES.values())
    return sorted([*_METRICS, *_ALIASES, *examples])


def metric(name: str) -> Metric:
    """Return the metric with this name.

    Examples
    --------
    >>> for name in ("recall", "TPR", "fbeta(2)", "cost(fp=5, fn=amount)", "recall[amount]"):
    ...     print(metric(name))
    recall
    recall
    fbeta(2)
    cost(fp=5, fn=amount)
    recall[amount]
    """
    match = _CALL.fullmatch(name)
    if match is None:
        raise _unknown(name, "".join(name.split()).lower())
    key, argument, tally = match.groups()
    key = _ALIASES.get(key.lower(), key.lower())
    if argument is not None and key in _FAMILIES:
        found = _FAMILIES[key][0](argument)
    elif key in _METRICS:
        if argument is not None:
            raise GoalError(f"{name!r}: {key} takes no number in parentheses.")
        found = _METRICS[key]
    else:
        raise _unknown(name, key)
    return found if tally is None else found.within(parse_tally(tally))


def _unknown(name: str, key: str) -> GoalError:
    """Return the error for a name that is not that of a metric."""
    if key in _FAMILIES:
        needs = "a number" if key == "fbeta" else "prices"
        return GoalError(f"{name!r} needs {needs} in parentheses, e.g. '{_FAMILIES[key][1]}'.")
    if match := re.fullmatch(r"f(\d+\.?\d*)", key):
        return GoalError(f"unknown metric {name!r}; did you mean fbeta({match[1]})?")
    if (joined := "_".join(name.lower().split())) in _METRICS:
        return GoalError(f"unknown metric {name!r}; did you mean {joined}?")
    near = difflib.get_close_matches(key, [*_METRICS, *_ALIASES, *_FAMILIES], n=3, cutoff=0.5)
    hint = f"did you mean {' or '.join(near)}?" if near else f"known: {', '.join(metric_names())}."
    return GoalError(f"unknown metric {name!r}; {hint}")


def is_built_in(name: str) -> bool:
    """Whether the name is that of a built-in metric, an alias or a family."""
    return name in BUILT_IN or name in _ALIASES or name == "fbeta"


def register(new: Metric) -> None:
    """Add a metric to the goal language."""
    _METRICS[new.name] = new


def restore(name: str, *fields: Any) -> Metric:
    """Return a custom metric from a pickle, and register it unless its name is taken."""
    value, d_tp, d_fp, direction, monotone, bounds = fields
    restored = Metric(name, value, d_tp, d_fp, direction, monotone, bounds)
    known = _METRICS.setdefault(name, restored)
    return known if known == restored else restored


def format_number(number: float) -> str:
    """Return the shortest text that gives back the same float: 0.9, 2, 1e-05."""
    text = repr(float(number))
    return text[:-2] if text.endswith(".0") else text


def display_name(name: str) -> str:
    """Return a metric's name as it is usually written."""
    return "F1" if name == "f1" else name


def format_threshold(value: float) -> str:
    """Format a threshold with six digits."""
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    return f"{value:.6g}".replace("-", "−")

"""Certify a threshold, given or chosen here, from labels and scores."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_random_state

from setpoint._internal.validation import check_fraction, check_number
from setpoint.certificates.base import sample_groups
from setpoint.certificates.bounds import (
    bounds_of,
    has_informative_bound,
    is_sharper_everywhere,
)
from setpoint.certificates.certificate import Certificate, Choice
from setpoint.certificates.decision_tests import DecisionRows
from setpoint.certificates.decisions import certify_decisions, needs_decisions
from setpoint.certificates.nested import is_nested
from setpoint.certificates.rates import rate_of
from setpoint.certificates.sequence import (
    STEPS,
    AnyRows,
    Counted,
    Rows,
    TalliedRows,
    counted,
    plain_gain,
    plan,
    try_in_order,
    violation,
    worst_of,
)
from setpoint.certificates.simultaneous import (
    Plan,
    certified_thresholds,
    closest_thresholds,
    is_testable_anywhere,
)
from setpoint.certificates.threshold_set import ThresholdSet
from setpoint.errors import SetpointError
from setpoint.goals.columns import GoalColumns, check_caps
from setpoint.goals.goal import Goal, check_for_new_rows
from setpoint.thresholds.checks import check_rows, check_scores

Method = Literal["simultaneous", "sequence", "split"]
Floats = NDArray[np.floating]
_METHODS = get_args(Method)
_PLANNING = {"simultaneous": 0.1, "sequence": 0.3, "split": 0.3}


def certify(
    y: ArrayLike,
    scores: ArrayLike,
    goal: str | Goal,
    threshold: float | None = None,
    confidence: float = 0.9,
    *,
    method: Method = "simultaneous",
    planning: float | None = None,
    planning_rows: tuple[ArrayLike, ArrayLike] | None = None,
    sample_weight: ArrayLike | None = None,
    groups: ArrayLike | None = None,
    amounts: Mapping[str, ArrayLike] | None = None,
    segments: Mapping[str, ArrayLike] | None = None,
    times: ArrayLike | None = None,
    caps: Mapping[str, float] | None = None,
    pos_label: Any = None,
    random_state: Any = 0,
    on: str = "the certification rows",
) -> Certificate:
    """Certify that a threshold of a classifier's scores meets a goal on new data.

    The rows must be independent draws on which the classifier was not trained.

    Parameters
    ----------
    y, scores : array-like of shape (n,)
        Labels, and scores that are larger for likely positives.
    goal : str or Goal
        The goal to certify, e.g. ``"max recall s.t. precision >= 0.9"``.
    threshold : float, optional
        A threshold that was fixed without using these rows. By default, the one with the best
        objective among those whose constraints can be certified is chosen here.
    confidence : float
        Of all attempts to certify, successful or not, at most a fraction 1 - confidence ends in a
        false certificate.
    method : {"simultaneous", "sequence", "split"}
        How to choose a threshold. ``"simultaneous"``: all thresholds are tested at once, and every
        one in ``certified_thresholds`` is certified. Where only recall (fnr), or only fpr
        (specificity, alarm_rate) is constrained, it needs no plan; for precision and npv, a few
        planning rows say where to look. Other constraints, e.g. on f1, have no such test and are
        tested by ``"sequence"``, at thresholds in an order that planning rows determine.
        ``"split"``: planning rows choose one threshold.
    planning : float, optional
        The fraction of planning rows; all others are certification rows. By default 0.1, and 0.3
        for a sequence or a split.
    planning_rows : (y, scores), optional
        Other labelled rows for the plan, e.g. training rows with cross-fitted scores. All rows are
        then certification rows.
    sample_weight : array-like of shape (n,), optional
        Weights of 0 and 1, or all equal: exact bounds count rows.
    groups : array-like of shape (n,), optional
        Rows that belong together, e.g. those of one patient, are not independent draws: one row of
        each group is used, and the guarantee is for one case of each new group.
    amounts, segments, times : optional
        The columns that the goal names, as for :func:`setpoint.choose_threshold`.
    caps : mapping of str to float, optional
        The largest amount that a row can have, by name, for bounds on costs. Larger amounts count
        as the cap. It must not be taken from these rows.
    pos_label : optional
        The label of the positive class, or a list of labels that count as positive; all others are
        negative.
    random_state : int, RandomState or None
        Seed of the planning rows, and of the row drawn from each group, for ``"sequence"`` and
        ``"split"``. Trying several and keeping the best invalidates the guarantee. Otherwise the
        scores determine the seed: the result depends on the rows and their order alone.
    on : str
        The name of these rows in messages.

    Examples
    --------
    >>> import numpy as np
    >>> from setpoint import certify
    >>> rng = np.random.default_rng(0)
    >>> y = rng.random(2000) < 0.3
    >>> scores = rng.normal(size=2000) + 2.5 * y
    >>> certify(y, scores, "max recall s.t. precision >= 0.9", threshold=2.0).certified
    True
    """
    goal = Goal.parse(goal)
    check_for_new_rows(goal)
    check_fraction(confidence, "confidence")
    if method not in _METHODS:
        raise SetpointError(f"method is {', '.join(map(repr, _METHODS))}, not {method!r}.")
    if method == "simultaneous":
        seed = _seed_from(scores)
    else:
        seed = int(check_random_state(random_state).randint(2**31 - 1))
    details = {"one_per_group": groups is not None, "pos_label": pos_label}
    if needs_decisions(goal):
        if method != "simultaneous":
            raise SetpointError(
                f"'{goal}' is tested at all thresholds at once; leave method={method!r} out."
            )
        if groups is not None or sample_weight is not None:
            raise SetpointError(
                f"a certificate for '{goal}' is for independent rows without weights; give one row "
                "of each group, and leave groups and sample_weight out."
            )
        sample = _decision_sample(
            y, scores, goal, planning, planning_rows, pos_label, seed,
            amounts=amounts, segments=segments, times=times, caps=caps,
        )  # fmt: skip
        fixed = None if threshold is None else check_number(threshold, "threshold")
        found = certify_decisions(sample, goal, confidence, fixed, on)
        return replace(found, pos_label=pos_label)
    if groups is not None and sample_weight is not None:
        if np.shape(sample_weight) != np.shape(y):
            raise SetpointError(
                f"sample_weight has the shape {np.shape(sample_weight)}, and the labels "
                f"{np.shape(y)}; give one weight per row."
            )
        # A row that does not count must not be drawn for its group.
        counts = np.asarray(sample_weight) != 0
        y, scores, groups, sample_weight = (
            np.asarray(column)[counts] for column in (y, scores, groups, sample_weight)
        )
    y, scores, sample_weight = sample_groups(groups, seed, y, scores, sample_weight)
    rows = _check_rows(y, scores, sample_weight, pos_label)
    if threshold is not None:
        fixed = check_number(threshold, "threshold")
        given = certify_threshold(Rows.of(*rows), goal, fixed, confidence, on=on)
        return replace(given, **details)
    if planning is not None:
        check_fraction(planning, "planning")
    if planning_rows is not None:
        plans = Rows.of(*_check_planning_rows(planning_rows, pos_label))
        tests = Rows.of(*rows)
    elif is_nested(goal):  # no plan is needed
        plans = tests = Rows.of(*rows)
    else:
        actual = method if is_testable_anywhere(goal) or method == "split" else "sequence"
        chosen = _draw_rows(len(rows[1]), planning or _PLANNING[actual], seed)
        plans, tests = Rows.of(*rows, chosen), Rows.of(*rows, ~chosen)
    return replace(certify_best(plans, tests, goal, confidence, on=on, method=method), **details)


def _decision_sample(
    y: ArrayLike,
    scores: ArrayLike,
    goal: Goal,
    planning: float | None,
    planning_rows: Any,
    pos_label: Any,
    seed: int,
    *,
    caps: Mapping[str, float] | None,
    **named: Any,
) -> DecisionRows:
    """Check the rows of a goal that names columns, and draw those that plan."""
    if planning_rows is not None:
        raise SetpointError(
            f"planning_rows have no amounts, segments or times, which '{goal}' names; leave them "
            "out, and a fraction of the rows plans."
        )
    if planning is not None:
        check_fraction(planning, "planning")
    positive, checked, _, columns = check_rows(y, scores, goal, None, **named, pos_label=pos_label)
    chosen = _draw_rows(len(checked), planning or _PLANNING["simultaneous"], seed)
    everything = np.ones(len(checked), dtype=bool)
    return DecisionRows(positive, checked, columns, chosen, everything, check_caps(caps, goal))


LabelledScores = tuple[NDArray[np.bool_], Floats, GoalColumns]


def certify_on(
    planning: LabelledScores,
    testing: LabelledScores,
    goal: Goal,
    confidence: float,
    caps: Mapping[str, float] | None = None,
    on: str = "the certification rows",
) -> Certificate:
    """Certify the best threshold on some rows, planned on others, with the goal's columns."""
    check_for_new_rows(goal)
    if not needs_decisions(goal):
        plans, tests = (Rows.of(*rows[:2]) for rows in (planning, testing))
        return certify_best(plans, tests, goal, confidence, on=on)
    plans_first = np.arange(len(planning[1]) + len(testing[1])) < len(planning[1])
    sample = DecisionRows(
        np.concatenate([planning[0], testing[0]]),
        np.concatenate([planning[1], testing[1]]),
        planning[2].followed_by(testing[2]),
        plans_first,
        ~plans_first,
        check_caps(caps, goal),
    )
    return certify_decisions(sample, goal, confidence, None, on)


def certify_rows(
    positive: NDArray[np.bool_],
    scores: Floats,
    columns: GoalColumns,
    goal: Goal,
    confidence: float,
    caps: Mapping[str, float] | None,
    seed: int,
) -> Certificate:
    """Certify the best threshold on rows of which some plan, with the goal's columns."""
    check_for_new_rows(goal)
    chosen = _draw_rows(len(scores), _PLANNING["simultaneous"], seed)
    everything = np.ones(len(scores), dtype=bool)
    sample = DecisionRows(positive, scores, columns, chosen, everything, check_caps(caps, goal))
    return certify_decisions(sample, goal, confidence, None, "the rows given")


def certify_threshold(
    rows: AnyRows, goal: Goal, threshold: float, confidence: float, *, on: str
) -> Certificate:
    """Certify a threshold that was fixed without using these rows."""
    check_for_new_rows(goal)
    only = np.array([float(threshold)])
    return _certify_in_order(rows, goal, only, confidence, "beforehand", on, rows.positive.total)


def certify_best(
    planning: AnyRows,
    testing: AnyRows,
    goal: Goal,
    confidence: float,
    *,
    on: str,
    method: Method = "simultaneous",
) -> Certificate:
    """Choose the best threshold that can be certified on the rows in ``testing``.

    If the goal needs a plan, the rows in ``planning`` make it.
    """
    check_for_new_rows(goal)
    nested = is_nested(goal)
    positives = testing.positive.total + (0 if nested else planning.positive.total)
    if nested or (method == "simultaneous" and is_testable_anywhere(goal)):
        return _certify_anywhere(planning, testing, goal, confidence, on, positives)
    steps = 1 if method == "split" else STEPS
    thresholds = plan(planning, goal, sum(testing.totals), 1 - confidence, steps)
    everywhere = _prefers_everywhere(planning, testing, goal, thresholds, confidence)
    return _certify_in_order(
        testing, goal, thresholds, confidence, "planned", on, positives, everywhere
    )


def _prefers_everywhere(
    planning: AnyRows, testing: AnyRows, goal: Goal, thresholds: Floats, confidence: float
) -> bool:
    """Return which bound of the objective is likely to be sharper, by the planning rows alone."""
    rate = rate_of(goal.objective)
    if rate is None:
        return False
    successes, trials = rate.draws(*planning.counts(thresholds), *planning.totals)
    if not trials.all():
        return True
    _, there = rate.draws(*testing.counts(thresholds[:1]), *testing.totals)
    expected = float((successes / trials)[3 * len(thresholds) // 4])  # most tests end near there
    return is_sharper_everywhere(
        goal.objective, confidence, len(thresholds), expected, int(there[0])
    )


def _certify_anywhere(
    planning: AnyRows, testing: AnyRows, goal: Goal, confidence: float, on: str, positives: float
) -> Certificate:
    """Test all thresholds at once; certify the best that passed, or refuse the closest one."""
    alpha = 1 - confidence
    planned = None
    if not is_nested(goal):
        planned = Plan.of(planning, goal, sum(testing.totals), alpha)
    found = certified_thresholds(testing, goal, planned, alpha)
    threshold, more = found.best, None
    if threshold is None:
        cuts = closest_thresholds(testing)
        counts = counted(testing, goal, cuts)
        p_values = worst_of(goal, counts, cuts.shape)
        closest = int(np.lexsort((violation(goal, counts, cuts.shape), p_values))[0])
        threshold = float(cuts[closest])
        there = [(tp[[closest]], fp[[closest]], P, N) for tp, fp, P, N in counts]
        more = _more_positives(goal, there, testing, found.error, positives)
    return _certificate(
        testing, goal, threshold, confidence, "any", on, found.best is not None, None, more,
        found.thresholds,
    )  # fmt: skip


def _certify_in_order(
    rows: AnyRows,
    goal: Goal,
    thresholds: Floats,
    confidence: float,
    choice: Choice,
    on: str,
    positives: float,
    everywhere: bool = True,
) -> Certificate:
    """Test the thresholds in order; certify the best that passed, or refuse the closest one.

    ``positives`` is the number of labelled positives, including those of the planning rows.
    """
    tp, fp = rows.counts(thresholds)
    best, passed, more = 0, 0, None
    if goal.constraints:
        values, passed = try_in_order(rows, goal, thresholds, 1 - confidence)
        if passed:
            with np.errstate(all="ignore"):
                gain = np.nan_to_num(
                    plain_gain(goal, tp[:passed], fp[:passed], *rows.totals), nan=-np.inf
                )
            best = int(np.argmax(gain))
        else:
            best = int(np.argmin(values))
            counts = counted(rows, goal, thresholds)
            more = _more_positives(goal, counts, rows, 1 - confidence, positives)
    return _certificate(
        rows, goal, float(thresholds[best]), confidence, choice, on, passed > 0, len(thresholds),
        more, ThresholdSet.of_points(thresholds[:passed]), everywhere,
    )  # fmt: skip


def _certificate(
    rows: AnyRows,
    goal: Goal,
    threshold: float,
    confidence: float,
    choice: Choice,
    on: str,
    certified: bool,
    tested: int | None,
    more: int | None,
    thresholds: ThresholdSet,
    everywhere: bool = True,
) -> Certificate:
    """Return the certificate of a threshold whose test is done."""
    point = rows.point(threshold, goal, on)
    if not goal.constraints:
        certified = has_informative_bound(goal.objective, point, confidence)
        thresholds = ThresholdSet.of_points([threshold] if certified else [])
    own = counted(rows, goal, np.array([threshold])) if isinstance(rows, TalliedRows) else None
    bounds = bounds_of(point, confidence, tested, certified, everywhere, own)
    return Certificate(
        goal, threshold, confidence, certified, point, bounds, choice, tested, more,
        certified_thresholds=thresholds,
    )  # fmt: skip


def _more_positives(
    goal: Goal, counts: Counted, rows: AnyRows, error: float, positives: float
) -> int | None:
    """Return roughly how many more labelled positives would be needed, or None."""
    every = range(len(counts[0][0]))
    times = min(
        _growth_needed(goal, [(tp[i], fp[i], P, N) for tp, fp, P, N in counts], error)
        for i in every
    )
    if not np.isfinite(times) or rows.positive.total == 0:
        return None
    return max(1, int(np.ceil((times - 1) * positives)))


def _seed_from(scores: ArrayLike) -> int:
    """Return a seed that depends on the scores.

    With the same seed for all tables, those that are sorted by score would always be planned on the
    same ranks.
    """
    try:
        values = np.asarray(scores, dtype=np.float64).ravel()
    except (TypeError, ValueError):  # the check of the scores raises a better error
        return 0
    return zlib.crc32(values[:: max(1, len(values) // 2**14)].tobytes())


def planning_draw(scores: Floats) -> NDArray[np.bool_]:
    """Return the rows that plan; the others test all thresholds at once."""
    return _draw_rows(len(scores), _PLANNING["simultaneous"], _seed_from(scores))


def _draw_rows(n: int, fraction: float, seed: int) -> NDArray[np.bool_]:
    """Draw rows at random regardless of class, so that the others remain independent draws."""
    # The second number makes the stream differ from that of data drawn with the same seed.
    rng = np.random.default_rng([seed, 20_211])
    return np.asarray(rng.integers(0, 2**16, n, dtype=np.uint16) < fraction * 2**16)


def _growth_needed(goal: Goal, counts: Counted, alpha: float) -> float:
    """Return how many times as many rows, at the same rates, would pass; inf if none would."""

    def passes(times: float) -> bool:
        return bool(worst_of(goal, counts, times=times) <= alpha)

    if not passes(1e6):
        return float("inf")
    low, high = 1.0, 1e6
    while high / low > 1.01:
        middle = float(np.sqrt(low * high))
        low, high = (low, middle) if passes(middle) else (middle, high)
    return high


def _check_planning_rows(rows: Any, pos_label: Any) -> tuple[NDArray[np.bool_], Floats]:
    try:
        y, scores = rows
    except (TypeError, ValueError) as error:
        raise SetpointError(
            "planning_rows are two arrays, labels and scores: planning_rows=(y, scores)."
        ) from error
    positive, checked, _ = check_scores(y, scores, None, pos_label)
    return positive, checked


def _check_rows(
    y: ArrayLike, scores: ArrayLike, sample_weight: ArrayLike | None, pos_label: Any
) -> tuple[NDArray[np.bool_], Floats]:
    """Return which rows are positive, and their scores; weights must be equal or zero."""
    positive, checked, weights = check_scores(y, scores, sample_weight, pos_label)
    if weights is not None and len(weights) and (weights != weights[0]).any():
        raise SetpointError(
            "sample_weight has different weights; exact bounds count independent rows. Leave the "
            "weights out, and give the rows as they were drawn."
        )
    return positive, checked

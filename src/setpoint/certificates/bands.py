"""Certify a review band: both of its thresholds, given or chosen here, at a joint confidence.

A metric of alarms is a plain metric at the upper threshold, and a metric of cleared rows one at the
lower threshold. Each side has a test that holds at all of its thresholds at once
(:mod:`setpoint.certificates.simultaneous`): outside an event of probability e, all certified
thresholds of that side are true. Outside the union of these events, so is every pair of them. The
error is divided equally among the parts for which something is chosen: alarms, cleared rows, and
reviews where these are limited.

**A threshold that was given beforehand costs nothing.** If it misses a constraint, any certificate
needs its test to pass, which has a probability of at most 1 - confidence; if it does not, only the
other parts can be false, and they have this error to themselves.

A limited rate of reviews has a test for all bands at once as well
(:mod:`setpoint.certificates.band_bounds`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_random_state

from setpoint._internal.validation import (
    check_fraction,
    check_groups,
    check_number,
    one_row_per_group,
)
from setpoint.certificates.band_bounds import bounds_of_band, most_reviewed
from setpoint.certificates.band_certificate import BandCertificate
from setpoint.certificates.band_sides import BandSide, plain_goal
from setpoint.certificates.certify import (
    _PLANNING,
    _check_planning_rows,
    _draw_rows,
    _seed_from,
)
from setpoint.certificates.nested import is_nested
from setpoint.certificates.sequence import Rows, thresholds_below
from setpoint.certificates.threshold_set import NO_THRESHOLDS
from setpoint.errors import GoalError, SetpointError
from setpoint.goals.band_metrics import Side
from setpoint.goals.bands import BandGoal
from setpoint.goals.metrics import format_number
from setpoint.thresholds.band_search import BandRows, Cuts, search_pairs
from setpoint.thresholds.bands import band_point, check_band
from setpoint.thresholds.sweep import threshold_below

Floats = NDArray[np.floating]


def certify_band(
    y: ArrayLike,
    scores: ArrayLike,
    goal: str | BandGoal,
    low: float | None = None,
    high: float | None = None,
    confidence: float = 0.9,
    *,
    planning: float | None = None,
    planning_rows: tuple[ArrayLike, ArrayLike] | None = None,
    sample_weight: ArrayLike | None = None,
    amounts: Mapping[str, ArrayLike] | None = None,
    groups: ArrayLike | None = None,
    pos_label: Any = None,
    random_state: Any = None,
    on: str = "the certification rows",
) -> BandCertificate:
    """Certify that a review band of a classifier's scores meets a goal on new data.

    The rows must be independent draws on which the classifier was not trained.

    Parameters
    ----------
    y, scores : array-like of shape (n,)
        Labels, and scores that are larger for likely positives.
    goal : str or BandGoal
        The goal to certify, with at least one constraint.
    low, high : float, optional
        Thresholds that were fixed without using these rows. Those that are not given are chosen
        here: the pair with the best objective among all that can be certified.
    confidence : float
        Of all attempts to certify, successful or not, at most a fraction 1 - confidence ends in a
        certificate of which any guarantee is false.
    planning : float, optional
        The fraction of planning rows, by default 0.1, which say where to look for certain
        precision(alarm) and npv(clear); all others are certification rows. Goals without these two
        need none.
    planning_rows : (y, scores), optional
        Other labelled rows for the plan. All rows are then certification rows.
    sample_weight : array-like of shape (n,), optional
        Weights of 0 and 1, or all equal: exact bounds count rows.
    amounts : dict of array-like, optional
        The arrays that a cost names. Costs rank certified bands; they are not bounded themselves.
    groups : array-like of shape (n,), optional
        Rows that belong together: one row of each group is used, and the guarantee is for one case
        of each new group.
    pos_label : optional
        The label of the positive class.
    random_state : int, RandomState or None
        Seed of the planning rows, and of the row drawn from each group. By default the scores
        determine it: the result depends on the rows and their order alone. Trying several and
        keeping the best invalidates the guarantee.
    on : str
        The name of these rows in messages.

    Examples
    --------
    >>> import numpy as np
    >>> from setpoint import certify_band
    >>> rng = np.random.default_rng(0)
    >>> y = rng.random(4000) < 0.2
    >>> scores = rng.normal(size=4000) + 3 * y
    >>> goal = "min review_rate s.t. precision(alarm) >= 0.9, npv(clear) >= 0.98"
    >>> certify_band(y, scores, goal).certified
    True
    """
    goal = BandGoal.parse(goal)
    check_fraction(confidence, "confidence")
    if not goal.constraints:
        raise GoalError(
            f"'{goal}' has no constraint, so nothing can be certified; write e.g. "
            f"'{goal} s.t. npv(clear) >= 0.99'."
        )
    low, high = _check_given(low, high)
    seed = _seed_from(scores)
    if random_state is not None:
        seed = int(check_random_state(random_state).randint(2**31 - 1))
    details = {"one_per_group": groups is not None, "pos_label": pos_label}
    if groups is not None:
        y, scores, sample_weight, amounts = _one_per_group(
            groups, seed, y, scores, sample_weight, amounts
        )
    rows = BandRows.of(y, scores, sample_weight, amounts, goal, pos_label)
    if rows.weights is not None and (rows.weights != rows.weights[0]).any():
        raise SetpointError(
            "sample_weight has different weights; exact bounds count independent rows. Leave the "
            "weights out, and give the rows as they were drawn."
        )
    rows = rows._replace(weights=None)
    if planning is not None:
        check_fraction(planning, "planning")
    if planning_rows is not None:
        plans = Rows.of(*_check_planning_rows(planning_rows, pos_label))
    elif _needs_plan(goal, low, high):
        chosen = _draw_rows(len(rows.scores), planning or _PLANNING["simultaneous"], seed)
        plans, rows = Rows.of(rows.positive, rows.scores, chosen), rows.among(~chosen)
    else:
        plans = Rows.of(rows.positive, rows.scores)
    found = certify_best_band(plans, rows, goal, confidence, low=low, high=high, on=on)
    return replace(found, **details)


def certify_best_band(
    planning: Rows,
    rows: BandRows,
    goal: BandGoal,
    confidence: float,
    *,
    low: float | None = None,
    high: float | None = None,
    on: str,
) -> BandCertificate:
    """Choose the best band that can be certified on the rows; those in ``planning`` make a plan."""
    alpha = 1 - confidence
    testing = Rows.of(rows.positive, rows.scores)
    given = {"alarm": high, "clear": low}
    both_given = low is not None and high is not None
    parts = sum(given[side] is None and bool(goal.of_side(side)) for side in ("alarm", "clear"))
    # A limit of 0 leaves bands of two equal thresholds, and a limit of 1 all: nothing to test.
    parts += 0 < (goal.most_reviews or 0.0) < 1 and not both_given
    error = alpha / max(parts, 1)
    alarm, clear = (
        BandSide.of(side, goal, given[side], planning, testing, confidence, error, on)
        for side in ("alarm", "clear")
    )
    limit = None
    if goal.most_reviews is not None:
        n = len(rows.scores)
        limit = most_reviewed(n, goal.most_reviews, error, any_band=low is None and high is None)
    pair = _best_pair(rows, goal, alarm, clear, limit)
    reason = None
    if pair is None:
        reason = _reason(rows, goal, alarm, clear, limit)
        pair = _closest_pair(rows, goal, alarm, clear)
    point = band_point(rows, *pair, goal, on)
    certified = reason is None
    # With a threshold that was given, only both sides together are certified.
    kept = certified or (low is None and high is None)
    more = [s.certificate.more_positives for s in (alarm, clear) if s.is_refused and s.certificate]
    return BandCertificate(
        goal, *pair, confidence, certified, point,
        bounds_of_band(point, goal, testing, confidence, given, certified),
        alarm.thresholds if kept else NO_THRESHOLDS, clear.thresholds if kept else NO_THRESHOLDS,
        tuple(name for name, value in (("low", low), ("high", high)) if value is None),
        reason, max((m for m in more if m), default=None) if all(more) else None,
    )  # fmt: skip


def _check_given(low: Any, high: Any) -> tuple[float | None, float | None]:
    low = None if low is None else check_number(low, "low")
    high = None if high is None else check_number(high, "high")
    if low is not None and high is not None:
        check_band(low, high)
    return low, high


def _one_per_group(
    groups: ArrayLike,
    seed: int,
    y: ArrayLike,
    scores: ArrayLike,
    weight: ArrayLike | None,
    amounts: Mapping[str, ArrayLike] | None,
) -> tuple[Any, Any, Any, Any]:
    """Return the columns with one random row of each group, none of them of weight 0."""
    found = check_groups(groups, np.shape(y))
    assert found is not None
    kept = np.arange(len(found))
    if weight is not None:
        if np.shape(weight) != np.shape(y):
            raise SetpointError(
                f"sample_weight has the shape {np.shape(weight)}, and the labels {np.shape(y)}; "
                "give one weight per row."
            )
        kept = np.flatnonzero(np.asarray(weight) != 0)
    kept = kept[one_row_per_group(found[kept], seed)]

    def selected(column: Any) -> Any:
        values = np.asarray(column)
        if values.shape[:1] != found.shape:  # its own check raises a better error
            return column
        return values[kept]

    amounts = None if amounts is None else {k: selected(v) for k, v in amounts.items()}
    return selected(y), selected(scores), None if weight is None else selected(weight), amounts


def _needs_plan(goal: BandGoal, low: float | None, high: float | None) -> bool:
    sides: tuple[tuple[Side, float | None], ...] = (("alarm", high), ("clear", low))
    plain = [plain_goal(goal, side) for side, given in sides if given is None]
    return any(g is not None and not is_nested(g) for g in plain)


# --- the pair -----------------------------------------------------------------------------------


def _best_pair(
    rows: BandRows, goal: BandGoal, alarm: BandSide, clear: BandSide, limit: int | None
) -> tuple[float, float] | None:
    """Return the best band of certified thresholds, with at most ``limit`` reviews, or None."""
    thresholds = _candidates(rows, alarm, clear)
    V, W = (np.where(side.allowed(thresholds), 0.0, np.inf) for side in (alarm, clear))
    found = search_pairs(Cuts.of(rows, thresholds), goal, V, W, limit=limit, strict=True)
    return None if found is None else (float(thresholds[found[0]]), float(thresholds[found[1]]))


def _candidates(rows: BandRows, *sides: BandSide) -> Floats:
    """Return thresholds halfway between scores, those given, and ends of certified intervals.

    The latter only where the threshold halfway between the same scores is not certified.
    """
    classes = [rows.scores[mask] for mask in (rows.positive, ~rows.positive) if mask.any()]
    for own in classes:
        own.sort()
    values = np.unique(rows.scores)
    cuts = values[values > -np.inf]
    halfway = np.append(thresholds_below(cuts, *classes), threshold_below(None, *classes))
    certified = np.logical_and.reduce([side.allowed(halfway) for side in sides])
    more = [side.given for side in sides if side.given is not None]
    for side in sides:
        ends = np.array([(low, np.nextafter(high, -np.inf)) for low, high in side.thresholds])
        ends = ends[np.isfinite(ends)]
        more += ends[~certified[np.searchsorted(cuts, ends, side="right")]].tolist()
    return np.unique(np.concatenate([halfway, more]))


def _reason(
    rows: BandRows, goal: BandGoal, alarm: BandSide, clear: BandSide, limit: int | None
) -> str:
    """Return why no band is certified, and what would help."""
    refused = [side for side in (alarm, clear) if side.is_refused]
    if refused:
        return " Besides, ".join(side.refusal for side in refused)
    if limit is not None and _best_pair(rows, goal, alarm, clear, None) is not None:
        return (
            "alarms and cleared rows can be certified, but not together with 'review_rate <= "
            f"{format_number(goal.most_reviews or 0.0)}': for that, a band may review at most "
            f"{max(limit, 0):,} of {len(rows.scores):,} rows, and each that passes reviews more; "
            "allow more reviews, lower another level, or use more rows."
        )
    return (
        f"lower thresholds are certified at {clear.thresholds} and upper ones at "
        f"{alarm.thresholds}, and each lower one is above all upper ones; lower one of the levels."
    )


def _closest_pair(
    rows: BandRows, goal: BandGoal, alarm: BandSide, clear: BandSide
) -> tuple[float, float]:
    """Return a band to report and use where none is certified.

    A side without certified thresholds has the one that is closest to pass; the other side has the
    best that goes with it.
    """
    pair = _best_pair(rows, goal, alarm.closest, clear.closest, None)
    if pair is not None:
        return pair
    low, high = clear.one_threshold, alarm.one_threshold
    if low <= high:
        return low, high
    if clear.given is None:
        return (high, high) if alarm.given is not None else (high, low)
    return low, low

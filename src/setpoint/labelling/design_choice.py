"""The design of a session: made before the first label, from planning rows or a guess."""

from __future__ import annotations

import math

import numpy as np

from setpoint.errors import SetpointError
from setpoint.labelling.designed_sample import JointTest, RecallTest
from setpoint.labelling.designs import SampleDesign, TopDownDesign, top_down_design
from setpoint.labelling.limits import Expectation, least_for_precision, least_for_recall
from setpoint.labelling.planning import Guess, Strata, plan_sample, plan_top_down
from setpoint.labelling.top_down import Floats, Indices, TopDownTest

_MOST_TOP_DOWN = 3000  # alarms, beyond which a part of the pool does nearly as well


def chances_of(scores: Floats, strata: Strata) -> Floats:
    """Return the chance of each score's stratum."""
    inside = np.searchsorted(-strata.edges, -scores, side="right")
    return np.asarray(strata.chances[np.minimum(inside, len(strata.edges) - 1)])


def choose_top_down(
    level: float,
    alpha: float,
    pool: Floats,
    order: Indices,
    guess: Guess | None,
    budget: int | None,
    aside: Indices,
) -> tuple[TopDownDesign, Expectation]:
    """Return a design for a floor on precision alone.

    ``order`` holds the rows of the pool that were not set aside, in random order.
    """
    least = least_for_precision(level, alpha)
    if least > len(order):
        raise SetpointError(
            f"precision >= {level:g} needs at least {least:,} labels at {100 * (1 - alpha):g} % "
            f"confidence, and the pool has {len(order):,} rows; lower the floor, or use more rows."
        )
    rows: Indices | None = None if len(aside) == 0 else order
    plan = None
    if guess is not None:
        # With some room, as the last cut that passes may be lower than planned.
        most = _MOST_TOP_DOWN if budget is None else max(1, min(_MOST_TOP_DOWN, 4 * budget // 5))
        plan = plan_top_down(guess, level, alpha, len(order), most)
    if guess is None or plan is None:
        design = top_down_design(TopDownTest(level, alpha), pool, rows, None)
        return design, Expectation(None, budget, None, least)
    if plan.rows < len(order):
        rows = order[: plan.rows]
    test = TopDownTest(level, alpha, plan.start, plan.planned)
    design = top_down_design(test, pool, rows, chances_of(pool, guess.strata()))
    expected = max(least, math.ceil(1.1 * plan.planned))
    if budget is not None:
        expected = min(expected, budget)
    return design, Expectation(expected, budget, None, least)


def choose_sample(
    precision: float | None,
    recall: float,
    alpha: float,
    pool: Floats,
    order: Indices,
    strata: Strata,
    budget: int | None,
    rng: np.random.Generator,
) -> tuple[SampleDesign, Expectation]:
    """Return a design for a floor on recall, alone or with one on precision.

    ``order`` holds the rows of the pool that were not set aside, in random order.
    """
    # The number of selected rows is random; leave two standard deviations.
    room = None if budget is None else budget - 2 * math.sqrt(budget)
    plan = plan_sample(strata, recall, precision, alpha, len(order), room)
    if plan is None:
        raise SetpointError(_why_no_plan(precision, budget))
    chances = plan.probabilities(pool[order], strata)
    selected = rng.random(len(order)) < chances
    rows = order[selected]
    by_recall = RecallTest(recall, alpha, plan.bets)
    test: RecallTest | JointTest = by_recall
    if precision is not None:
        test = JointTest(precision, by_recall, (plan.threshold,))
    to_the_end = precision is None and budget is not None
    design = SampleDesign(
        test, rows, pool[rows], chances[selected], np.sort(pool[order]), plan.threshold, to_the_end,
        chances_of(pool[rows], strata),
    )  # fmt: skip
    below = least_for_recall(plan.below_rows, plan.misses_left, alpha)
    least = math.ceil(min(below, float(len(pool))))
    if precision is not None:
        least += least_for_precision(precision, alpha)
    labels = len(rows) if to_the_end else min(len(rows), math.ceil(plan.labels))
    return design, Expectation(labels, len(rows), round(plan.chance, 2), least)


def _why_no_plan(precision: float | None, budget: int | None) -> str:
    both = "" if precision is None else ", together with the floor on precision,"
    text = (
        f"by the planning rows or the guess, no threshold{both} meets the floor on recall with "
        "a margin; lower a floor, or improve the model"
    )
    return f"{text}{'' if budget is None else ', or raise the budget'}."

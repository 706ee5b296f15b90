"""The methods of setpoint in every part, in a file of their own.

The results of the peers are stored with a digest of the other files, so they remain valid when
these methods change. ``METHODS[part]`` has functions of the ``Problem`` of that part.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.model_selection import PredefinedSplit

from decisions.scores import Floats, Labels, Scores, column

if TYPE_CHECKING:
    from decisions import band, budgets, groups, labels, money, training

# --- money ----------------------------------------------------------------------------------------


def one_threshold(problem: money.Problem) -> Labels:
    from setpoint import choose_threshold

    point = choose_threshold(problem.y, problem.p, problem.goal, amounts=problem.amounts)
    return problem.test_p > point.threshold


def expected_value(problem: money.Problem) -> Labels:
    """Return decisions by the costs of each row: an alarm where it is cheaper on average."""
    from setpoint import SetpointThreshold

    clf = SetpointThreshold(Scores(), problem.goal, cv="prefit", decision="expected_value")
    clf.fit(column(problem.p), problem.y.astype(int), amounts=problem.amounts)
    return clf.predict(column(problem.test_p), amounts=problem.test_amounts) == 1


# --- training -------------------------------------------------------------------------------------


def trained(problem: training.Problem) -> tuple[Labels, Floats]:
    """Return decisions and scores of a model trained for the cost of the rows."""
    from setpoint import SetpointClassifier

    parts = problem.train, problem.tune
    held_out = PredefinedSplit(np.repeat([-1, 0], [len(part.y) for part in parts]))
    clf = SetpointClassifier(
        problem.goal, validation=held_out, standardize=False, random_state=problem.seed
    )
    clf.fit(
        np.concatenate([part.X for part in parts]),
        np.concatenate([part.y for part in parts]),
        amounts={
            name: np.concatenate([part.amounts[name] for part in parts])
            for name in problem.train.amounts
        },
    )
    scores = clf.positive_scores(problem.test.X)
    return scores > 0, scores


# --- budgets --------------------------------------------------------------------------------------


def budgeted(promise: str) -> Callable[[budgets.Problem], Labels]:
    """Return a method that keeps the budget every day, or as the goal language says otherwise."""

    def decide(problem: budgets.Problem) -> Labels:
        from setpoint import choose_threshold

        train = problem.train
        times = np.datetime64("2018-07-25") + train.day.astype("timedelta64[D]")
        point = choose_threshold(train.y, train.p, f"{problem.goal}{promise}", times=times)
        return problem.test.p > point.threshold

    return decide


# --- groups ---------------------------------------------------------------------------------------


def one_for_all(problem: groups.Problem) -> Labels:
    from setpoint import choose_threshold

    segments = {problem.column: problem.groups}
    point = choose_threshold(problem.y, problem.p, problem.goal, segments=segments)
    return problem.test_p > point.threshold


def per_group(problem: groups.Problem) -> Labels:
    from setpoint import choose_thresholds_by_segment

    found = choose_thresholds_by_segment(
        problem.y, problem.p, problem.goal, segments={problem.column: problem.groups}
    )
    return found.above(problem.test_p, np.asarray(problem.test_groups, dtype=str)) > 0


def certified_per_group(problem: groups.Problem) -> Labels:
    """Return decisions at thresholds that are certified jointly; no alarm in the other groups."""
    from setpoint import certify_by_segment

    found = certify_by_segment(
        problem.y, problem.p, problem.goal, segments={problem.column: problem.groups}
    )
    of_rows = [found.thresholds.get(str(group), np.inf) for group in problem.test_groups]
    return problem.test_p > np.array(of_rows)


# --- review band ----------------------------------------------------------------------------------


def tuned_band(problem: band.Problem) -> band.Edges | None:
    from setpoint import choose_band

    found = choose_band(problem.y, problem.p, problem.goal)
    return closed(found) if found.feasible else None


def certified_band(problem: band.Problem) -> band.Edges | None:
    from setpoint import certify_band

    found = certify_band(problem.y, problem.p, problem.goal, confidence=0.9)
    return closed(found) if found.certified else None


def closed(found: Any) -> band.Edges:
    """Return the edges of a band that alarms strictly above its higher threshold."""
    return float(found.low), float(np.nextafter(found.high, np.inf))


# --- several labels -------------------------------------------------------------------------------


def averaged(average: str) -> Callable[[labels.Problem], Floats]:
    """Return a method that chooses the thresholds for an average of the labels' F1."""

    def thresholds(problem: labels.Problem) -> Floats:
        from setpoint.thresholds.multilabel import choose_thresholds

        found = choose_thresholds(problem.Y, problem.P, "max f1", average=average)
        # A label is given strictly above its threshold.
        return np.nextafter(np.asarray(found.thresholds, dtype=np.float64), np.inf)

    return thresholds


METHODS: dict[str, dict[str, Callable[[Any], Any]]] = {
    "money": {"setpoint": one_threshold, "setpoint, per row": expected_value},
    "training": {"setpoint": trained},
    "budgets": {"setpoint": budgeted(""), "setpoint, on average": budgeted(" on average")},
    "groups": {
        "setpoint, one threshold": one_for_all,
        "setpoint, per group": per_group,
        "setpoint, certified": certified_per_group,
    },
    "band": {"setpoint": tuned_band, "setpoint, certified": certified_band},
    "labels": {"setpoint, macro": averaged("macro"), "setpoint, micro": averaged("micro")},
}

"""The review band: compared with all pairs of cuts, by properties, and its errors."""

import pickle
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from setpoint import BandGoal, choose_band, choose_threshold, evaluate_band
from setpoint.errors import GoalError, SetpointError
from setpoint.thresholds.band_search import _range_minima

OBJECTIVES = (
    "min review_rate", "max precision(alarm)", "max recall(alarm)", "min fpr(alarm)",
    "min alarm_rate", "max npv(clear)", "min fnr(clear)", "max clear_rate",
    "min cost(fp=5, fn=20, review=1)", "min cost(fp=2, fn=7)", "min cost(fp=a, fn=2*b, review=1)",
    "min cost(fn=b, review=c)",
)  # fmt: skip
ALARM = ("precision(alarm) >= {}", "recall(alarm) >= {}", "fpr(alarm) <= {}", "alarm_rate <= {}")
CLEAR = ("npv(clear) >= {}", "fnr(clear) <= {}", "clear_rate >= {}")
LEVELS = (0, 0.05, 0.25, 0.5, 0.75, 0.9, 0.999, 1)


def random_goal(rng, objective=None):
    """Return a goal of any accepted kind."""
    parts = [c for c in ALARM if rng.random() < 0.4] + [c for c in CLEAR if rng.random() < 0.4]
    objective = objective or OBJECTIVES[rng.integers(len(OBJECTIVES))]
    free = "cost" in objective and "review=" not in objective
    parts += ["review_rate <= {}"] if free or rng.random() < 0.5 else []
    parts = [part.format(LEVELS[rng.integers(len(LEVELS))]) for part in parts]
    return BandGoal.parse(objective + (f" s.t. {', '.join(parts)}" if parts else ""))


def random_rows(rng):
    """Return labels of both classes, scores with ties, weights or None, and amounts."""
    n = int(rng.integers(2, 11))
    y = rng.random(n) < rng.choice([0.2, 0.5, 0.8])
    y[0], y[-1] = True, False
    scores = rng.integers(0, rng.choice([2, 4, 20]), n) / 4.0
    if rng.random() < 0.2:
        scores[rng.integers(n)] = rng.choice([np.inf, -np.inf])
    weights = rng.integers(0, 5, n) / 2.0 if rng.random() < 0.5 else None
    if weights is not None:
        weights[[0, -1]] = np.maximum(weights[[0, -1]], 0.5)
    amounts = {name: rng.integers(0, 9, n) / 4.0 for name in "abc"}
    return y, scores, weights, amounts


def every_band(y, scores, weights, amounts, goal):
    """Yield violation, objective and the tie-breaks of all pairs of thresholds, as fractions.

    Every count is a sum over the rows of its own band, and every value a quotient of such sums.
    """
    w = np.ones(len(y)) if weights is None else weights
    cuts = [-np.inf, *(np.unique(scores[w > 0]))]  # score > cut
    total = {label: Fraction(float(w[y == label].sum())) for label in (True, False)}

    def fraction(mask, amount=1.0):
        return Fraction(float((w * amount)[mask].sum()))

    def quotient(top, bottom):
        return top / bottom if bottom else Fraction(1)

    for low in cuts:
        for high in cuts:
            if low > high:
                continue
            alarm, clear = scores > high, scores <= low
            review = ~alarm & ~clear
            everything = total[True] + total[False]
            values = {
                "precision(alarm)": quotient(fraction(alarm & y), fraction(alarm)),
                "recall(alarm)": fraction(alarm & y) / total[True],
                "fpr(alarm)": fraction(alarm & ~y) / total[False],
                "alarm_rate": fraction(alarm) / everything,
                "npv(clear)": quotient(fraction(clear & ~y), fraction(clear)),
                "fnr(clear)": fraction(clear & y) / total[True],
                "clear_rate": fraction(clear) / everything,
                "review_rate": fraction(review) / everything,
            }
            if goal.objective.costs is not None:
                prices = goal.objective.costs
                fp, fn, each = (p.factor * amounts.get(p.amount, 1.0) for p in prices)
                cost = fraction(alarm & ~y, fp) + fraction(clear & y, fn) + fraction(review, each)
                values["cost"] = cost / everything
            violation = Fraction(0)
            for c in goal.constraints:
                short = c.metric.sign * (Fraction(c.level) - values[c.metric.name])
                violation += short if short > Fraction(1, 10**9) else 0
            objective = -goal.objective.sign * values[goal.objective.name]
            reviewed, tp, fp = fraction(review), fraction(alarm & y), fraction(alarm & ~y)
            yield violation, objective, reviewed, -tp, fp


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_no_pair_of_cuts_is_better(objective):
    """Together 1,200 tiny cases with ties, weights, amounts and infinite scores."""
    rng = np.random.default_rng(OBJECTIVES.index(objective))
    for _ in range(100):
        goal, (y, scores, weights, amounts) = random_goal(rng, objective), random_rows(rng)
        point = choose_band(y, scores, goal, sample_weight=weights, amounts=amounts)
        best = min(every_band(y, scores, weights, amounts, goal))
        sign = -goal.objective.sign
        assert point.violation == pytest.approx(float(best[0]), abs=1e-9)
        assert sign * point.objective == pytest.approx(float(best[1]), abs=1e-9)
        assert point.feasible == (best[0] == 0)
        c = point.counts
        found = (c.review, -c.alarm_positives, c.alarm_negatives)
        assert found == pytest.approx(tuple(map(float, best[2:])), abs=1e-9)


def test_many_rows_agree_with_all_pairs_of_cuts():
    """Windows of many lengths, in floating point, with a limited review rate."""
    rng = np.random.default_rng(5)
    for limit in (0.02, 0.1, 0.3):
        y = rng.random(150) < 0.3
        scores = np.round(rng.normal(size=150) + 1.2 * y, 2)
        goal = BandGoal.parse(
            "min cost(fp=3, fn=11, review=1) s.t. precision(alarm) >= 0.9, npv(clear) >= 0.97, "
            f"review_rate <= {limit}"
        )
        cuts = np.append(-9, np.unique(scores))
        pairs = [(low, high) for low in cuts for high in cuts if low <= high]
        every = [evaluate_band(y, scores, low, high, goal) for low, high in pairs]
        least = min(p.violation for p in every)
        best = min(p.objective for p in every if p.violation <= least + 1e-12)
        point = choose_band(y, scores, goal)
        assert point.violation == pytest.approx(least)
        assert point.objective == pytest.approx(best)


@given(st.integers(0, 2**32 - 1))
def test_thresholds_reproduce_their_counts(seed):
    rng = np.random.default_rng(seed)
    goal, (y, scores, weights, amounts) = random_goal(rng), random_rows(rng)
    point = choose_band(y, scores, goal, sample_weight=weights, amounts=amounts)
    again = evaluate_band(
        y, scores, point.low, point.high, goal, sample_weight=weights, amounts=amounts
    )
    assert again == point
    assert point.low <= point.high
    c = point.counts
    total = c.alarm_positives + c.alarm_negatives + c.review + c.clear_positives + c.clear_negatives
    assert total == pytest.approx(c.P + c.N)
    assert point.feasible == (point.violation == 0)


@given(st.integers(0, 2**32 - 1))
def test_a_row_of_weight_two_equals_the_same_row_twice(seed):
    rng = np.random.default_rng(seed)
    goal, (y, scores, _, amounts) = random_goal(rng), random_rows(rng)
    times = rng.integers(1, 3, len(y))
    twice = {name: np.repeat(a, times) for name, a in amounts.items()}
    a = choose_band(y, scores, goal, sample_weight=times, amounts=amounts)
    b = choose_band(np.repeat(y, times), np.repeat(scores, times), goal, amounts=twice)
    assert (a.low, a.high, a.violation) == (b.low, b.high, pytest.approx(b.violation))


@given(st.integers(0, 2**32 - 1))
def test_an_increasing_function_of_the_scores_gives_the_same_decisions(seed):
    rng = np.random.default_rng(seed)
    goal, (y, scores, weights, amounts) = random_goal(rng), random_rows(rng)
    a = choose_band(y, scores, goal, sample_weight=weights, amounts=amounts)
    b = choose_band(y, np.arctan(scores), goal, sample_weight=weights, amounts=amounts)
    if not np.isinf(scores).any():
        assert a.counts == b.counts


@given(st.integers(0, 2**32 - 1))
def test_without_reviews_the_band_is_one_threshold(seed):
    """One threshold with the same constraints is found by choose_threshold, too."""
    rng = np.random.default_rng(seed)
    y, scores, weights, _ = random_rows(rng)
    level = LEVELS[rng.integers(len(LEVELS))]
    band = choose_band(
        y, scores, f"max recall(alarm) s.t. precision(alarm) >= {level}, review_rate <= 0",
        sample_weight=weights,
    )  # fmt: skip
    one = choose_threshold(
        y, scores, f"max recall s.t. precision >= {level}", sample_weight=weights
    )
    assert band.low == band.high == one.threshold
    assert band.objective == pytest.approx(one.objective)
    assert (band.feasible, band.review_rate) == (one.feasible, 0)


@given(st.integers(0, 2**32 - 1))
def test_range_minima(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 40))
    values = rng.permutation(n)
    ends = np.sort(rng.integers(0, n, (n, 2)), axis=1)
    found = _range_minima(values, *ends.T)
    assert found.tolist() == [values[a : b + 1].min() for a, b in ends]


def test_a_stricter_limit_of_reviews_never_helps():
    rng = np.random.default_rng(0)
    y = rng.random(400) < 0.2
    scores = rng.normal(size=400) + 2 * y
    costs = [
        choose_band(y, scores, f"min cost(fp=3, fn=30) s.t. review_rate <= {limit}").objective
        for limit in (0, 0.01, 0.05, 0.2, 1)
    ]
    assert costs == sorted(costs, reverse=True)
    assert costs[-1] == 0


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_neighbouring_scores_in_any_precision(dtype):
    one = dtype(1)
    scores = np.array([one, np.nextafter(one, dtype(2)), 2, 3], dtype=dtype)
    point = choose_band(
        [0, 1, 0, 1], scores, "min review_rate s.t. npv(clear) >= 1, precision(alarm) >= 1"
    )
    assert point.clear_negatives == 1
    assert (point.review_positives, point.review_negatives) == (1, 1)
    assert point.alarm_positives == 1


def test_infinite_scores():
    y, scores = [0, 1, 0, 1], [-np.inf, -np.inf, 1.0, np.inf]
    goal = "min review_rate s.t. precision(alarm) >= 1, npv(clear) >= 0.5"
    point = choose_band(y, scores, goal)
    assert (point.alarm_positives, point.clear_positives, point.clear_negatives) == (1, 1, 2)
    assert point.review_rate == 0
    # A score of -inf is never above a threshold, so it is always cleared.
    missed = choose_band(y, scores, "min review_rate s.t. fnr(clear) <= 0")
    assert not missed.feasible
    assert missed.violation == 0.5


def test_one_class_can_be_evaluated_but_not_chosen_for():
    goal = "min review_rate s.t. npv(clear) >= 0.9"
    with pytest.raises(SetpointError, match="no positive samples"):
        choose_band([0, 0], [0.1, 0.2], goal)
    with pytest.raises(SetpointError, match="no negative samples of positive weight"):
        choose_band([1, 0], [0.1, 0.2], goal, sample_weight=[1, 0])
    point = evaluate_band([0, 0], [0.1, 0.2], 0.15, 0.3, goal)
    assert np.isnan(point.value("recall(alarm)"))
    assert "there are no positives" in point.message
    assert point.to_dict()["metrics"]["fnr(clear)"] is None


def test_messages():
    y, scores = [0, 1, 0, 1], [0.1, 0.2, 0.3, 0.4]
    goal = "min review_rate s.t. precision(alarm) >= 0.9, npv(clear) >= 0.9"
    assert choose_band(y, scores, goal).message == (
        "On the data given the goal 'min review_rate s.t. precision(alarm) >= 0.9, "
        "npv(clear) >= 0.9' is met: review_rate is 0.500."
    )
    nothing = evaluate_band(y, scores, 0.0, 1.0, goal)
    assert nothing.empty
    assert "only because no row raises an alarm and no row is cleared" in nothing.message
    missed = evaluate_band(y, scores, 0.25, 0.25, goal, on="some rows")
    assert not missed.feasible
    assert "is not met: precision(alarm) is 0.500 instead of >= 0.9 and npv(clear)" in (
        missed.message
    )
    assert choose_band(y, scores, "max recall(alarm)").message.startswith(
        "On the data given recall"
    )


def test_text_and_notebook():
    y, scores = [0, 1, 0, 1], [0.1, 0.2, 0.3, 0.4]
    point = choose_band(y, scores, "min cost(fp=5, fn=9, review=1) s.t. precision(alarm) >= 1")
    assert "alarm=1+0  review=1+1  clear=0+1" in str(point)
    html = point._repr_html_()
    for text in ("alarm", "review", "clear", "cost(fp=5, fn=9, review=1)", "≥ 1"):
        assert text in html
    assert pickle.loads(pickle.dumps(point)) == point
    found = point.to_dict()
    assert found["metrics"]["cost(fp=5, fn=9, review=1)"] == point.objective == 0.5
    assert found["costs"] == [0.0, 0.0, 2.0]


def test_values_by_name():
    y, scores = [0, 1, 0, 1], [0.1, 0.2, 0.3, 0.4]
    goal = "min cost(fp=a, fn=9, review=1)"
    point = evaluate_band(y, scores, 0.25, 0.25, goal, amounts={"a": [0, 0, 8, 0]})
    assert point.value("cost") == point.objective == (8 + 9) / 4
    assert point.value("cost(fp=1, fn=1)") == 0.5
    assert point.value("TPR(alarm)") == 0.5
    with pytest.raises(SetpointError, match="needs the amounts of each row"):
        point.value("cost(fp=b)")
    with pytest.raises(GoalError, match="needs a side"):
        point.value("precision")


@pytest.mark.parametrize(
    ("amounts", "message"),
    [
        (None, "pass amounts="),
        ([1, 2, 3], "must map names to arrays"),
        ({"Amounts": [1, 2, 3]}, "Did you mean 'Amounts'"),
        ({"amount": [1, 2]}, "must have one entry per row"),
        ({"amount": [1, np.nan, 2]}, "missing in 1 of 3 rows, the first at position 1"),
        ({"amount": [1, 2, -3]}, "negative in 1 of 3 rows, the first at position 2"),
        ({"amount": [1, np.inf, 2]}, "infinite"),
        ({"amount": ["x", "y", "z"]}, "must be numbers"),
    ],
)
def test_wrong_amounts(amounts, message):
    with pytest.raises(SetpointError, match=message):
        choose_band([0, 1, 1], [1, 2, 3], "min cost(fp=1, fn=amount, review=1)", amounts=amounts)


@pytest.mark.parametrize(
    ("low", "high", "message"),
    [(2, 1, "must not be above"), (np.nan, 1, "NaN"), (1, np.nan, "NaN"), ("a", 1, "be numbers")],
)
def test_wrong_bands(low, high, message):
    with pytest.raises(SetpointError, match=message):
        evaluate_band([0, 1], [1, 2], low, high, "min review_rate")


def test_wrong_scores_are_rejected_as_by_choose_threshold():
    for bad in ([1, np.nan], [[1, 2], [3, 4]], [], ["a", "b"]):
        with pytest.raises(SetpointError):
            choose_band([0, 1], bad, "min review_rate")

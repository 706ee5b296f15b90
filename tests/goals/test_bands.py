"""The language of review bands: what it accepts, what it rejects, and its inverse."""

import copy
import pickle
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from setpoint import BandGoal, Goal, GoalError
from setpoint.goals.band_metrics import BandCounts, BandMetric
from setpoint.goals.bands import BandConstraint, is_band_goal
from setpoint.goals.money import Price

METRICS = (
    "precision(alarm)", "recall(alarm)", "fpr(alarm)", "alarm_rate", "npv(clear)", "fnr(clear)",
    "clear_rate", "review_rate",
)  # fmt: skip
names = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,9}", fullmatch=True) | st.sampled_from(
    ["a (b), c=1", "a', \"b"]
)
amounts = st.builds(Price, st.floats(0.1, 1e6), st.just("") | names)
objectives = st.sampled_from(METRICS).map(BandMetric) | st.tuples(amounts, amounts, amounts).map(
    lambda costs: BandMetric("cost", costs)
)


@st.composite
def goals(draw):
    names = draw(st.lists(st.sampled_from(METRICS), unique=True))
    levels = [draw(st.floats(0, 1)) for _ in names]
    constraints = tuple(map(BandConstraint, map(BandMetric, names), levels))
    return BandGoal(draw(objectives), constraints)


@given(goals())
def test_parsing_is_the_inverse_of_str(goal):
    assert BandGoal.parse(str(goal)) == goal
    assert BandGoal.parse(f"  {goal}\n") == goal
    for again in (copy.deepcopy(goal), pickle.loads(pickle.dumps(goal))):
        assert again == goal
        assert hash(again) == hash(goal)
    assert BandGoal.parse(goal) is goal


@pytest.mark.parametrize(
    "text",
    [
        "min review_rate s.t. precision(alarm) >= 0.95, npv(clear) >= 0.999",
        "MINIMISE review_rate SUBJECT TO Precision( Alarm ) ≥ 95% AND npv (clear) >= 99.9%",
        "minimize review_rate such that 0.95 <= ppv(alarm), and 99.9% =< npv(clear)",
    ],
)
def test_ways_to_write_the_same_goal(text):
    assert str(BandGoal.parse(text)) == (
        "min review_rate s.t. precision(alarm) >= 0.95, npv(clear) >= 0.999"
    )


def test_costs_keep_the_case_of_names():
    goal = BandGoal.parse("Min COST( FP = 5,fn=Amount_1 , review=1e-1) s.t. fnr(clear) <= 1%")
    assert goal.objective.costs == (Price(5.0), Price(1.0, "Amount_1"), Price(0.1))
    assert goal.amounts == ("Amount_1",)
    assert str(goal) == "min cost(fp=5, fn=Amount_1, review=0.1) s.t. fnr(clear) <= 0.01"
    assert str(BandGoal.parse("min cost(fn=3, review=1)")) == "min cost(fn=3, review=1)"
    scaled = BandGoal.parse("min cost(fp=2 * 'paid, net', fn=0.5*Amount, review=1)")
    assert scaled.amounts == ("paid, net", "Amount")
    assert str(scaled) == 'min cost(fp=2*"paid, net", fn=0.5*Amount, review=1)'


@pytest.mark.parametrize(
    "limit", ["review_rate <= 5%", "clear_rate >= 80%", "recall(alarm) >= 0.5"]
)
def test_reviews_without_a_price_need_a_constraint_that_limits_them(limit):
    goal = BandGoal.parse(f"min cost(fp=5, fn=amount) s.t. {limit}")
    assert str(goal.objective) == "cost(fp=5, fn=amount)"


def test_parts_may_be_text():
    goal = BandGoal("review_rate", ("precision(alarm) >= 0.9", "NPV(clear) >= 99%"))
    assert goal == BandGoal.parse(
        "min review_rate s.t. precision(alarm) >= 0.9, npv(clear) >= 0.99"
    )
    assert goal.of_side("clear") == (BandConstraint(BandMetric("npv(clear)"), 0.99),)
    assert goal.most_reviews is None
    assert BandGoal.parse("max clear_rate s.t. review_rate <= 5%").most_reviews == 0.05


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty"),
        (3, "must be a string or a BandGoal, not int"),
        (Goal.parse("max f1"), "is a goal of one threshold"),
        ("review_rate", "does not begin with 'max' or 'min'"),
        ("min", "names no metric"),
        ("max review_rate", "is better when lower; write 'min review_rate'"),
        ("min recall(alarm)", "better when higher; write 'max recall"),
        ("max recall(clear)", r"not a metric of a review band; write 'fnr\(clear\)' with <="),
        ("max tpr(clear)", r"write 'fnr\(clear\)' with <="),
        ("max precision(clear)", r"write 'npv\(clear\)'"),
        ("max npv(alarm)", r"write 'npv\(clear\)'"),
        ("min fnr(alarm)", r"write 'recall\(alarm\)' or 'fnr\(clear\)'"),
        ("min fpr(clear)", r"write 'fpr\(alarm\)' or 'clear_rate'"),
        ("max precision(review)", "'review_rate' alone"),
        ("min review_rate(review)", "write 'review_rate'"),
        ("min alarm_rate(alarm)", "write 'alarm_rate'"),
        ("min review_rate s.t. precision >= 0.9", r"needs a side: .* write 'precision\(alarm\)'"),
        ("min review_rate s.t. recall >= 0.9", r"'recall\(alarm\)', or 'fnr\(clear\)'"),
        ("max f1", "is a metric of one threshold, not of a review band; known: precision"),
        ("max fbeta(2)", "is a metric of one threshold"),
        ("max f1(alarm)", "is a metric of one threshold"),
        ("min review_rat", "did you mean review_rate"),
        ("max xyzzy", "known: precision"),
        ("min review_rate, alarm_rate", "names two objectives"),
        ("min review_rate <= 5%", "contains a level; write levels after 's.t.'"),
        ("min review_rate s.t. npv(clear) >= 95", "Did you mean 95%"),
        ("min review_rate s.t. npv(clear) >= -1", "between 0 and 1"),
        ("min review_rate s.t. npv(clear) > 0.9", r"uses '>'; write 'npv\(clear\) >= 0.9'"),
        ("min review_rate s.t. npv(clear) <= 0.9", "is better when higher"),
        ("min review_rate s.t. npv(clear) >= x", "is not a number"),
        ("min review_rate s.t. npv(clear)", "not of the form"),
        ("min review_rate s.t. npv(clear) >= 0,9", "write decimals with a point"),
        ("min review_rate s.t. npv(clear) >= 0.9,", "a constraint is empty"),
        ("min review_rate s.t. npv(clear) >= 0.9, npv(clear) >= 0.8", "constrained twice"),
        ("min review_rate s.t. npv(clear) >= 0.9 s.t. alarm_rate <= 1%", "contains 's.t.' twice"),
        ("min review_rate s.t. cost(fp=1, fn=2) <= 3", r"couples both thresholds .* 'min cost\("),
        ("min cost", "does not say what each decision costs"),
        ("min cost()", "names no cost"),
        ("min cost(5, 100)", "'5' in .* names no cost"),
        ("min cost(tp=5)", "is not one of fp"),
        ("min cost(fp=1, fp=2)", "occurs twice"),
        ("min cost(fp=5%)", "is not a price"),
        ("min cost(fp=-5)", "finite and not negative"),
        ("min cost(fp=1e999)", "finite and not negative"),
        ("min cost(review=1)", "counts neither false alarms"),
        ("min cost(fp=0, fn=0)", "counts neither false alarms"),
        ("max cost(fp=1)", "better when lower"),
        (
            "min cost(fp=5, fn=amount)",
            "reviews cost nothing and are not limited, .* every row is "
            "reviewed; add what a review costs, e.g. 'review=1', or a limit, e.g. "
            "'s.t. review_rate <= 5%'",
        ),
        (
            "min cost(fp=5, fn=9, review=0) s.t. npv(clear) >= 0.9, alarm_rate <= 5%",
            "reviews cost nothing",
        ),
        (
            "min review_rate s.t. npv(clear) >= 0.9 for each region",
            "'npv.clear. >= 0.9 for each region': a review band cannot be required 'for each' "
            "segment; choose a band for the rows of each segment, or leave out 'for each'",
        ),
        ("max profit(tp=3)", r"'profit\(tp=3\)' is not a metric of a review band.*'min cost\("),
        ("min review_rate s.t. profit(tp=3) >= 2", "not a metric of a review band"),
        (
            "min review_rate s.t. npv(clear) >= 0.9 for each 'Sales, East', alarm_rate <= 5%",
            "leave out 'for each'",
        ),
    ],
)
def test_errors_say_what_to_write(text, message):
    with pytest.raises(GoalError, match=message):
        BandGoal.parse(text)


def test_errors_of_parts():
    with pytest.raises(GoalError, match="couples both"):
        BandGoal("review_rate", ("cost(fp=1) <= 2",))
    with pytest.raises(GoalError, match="unknown metric 'x'"):
        BandMetric("x")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("min review_rate", True),
        ("min cost(fp=5, fn=100, Review=1)", True),
        ("max recall s.t. precision( Alarm ) >= 0.9", True),
        ("max clear_rate", True),
        ("max npv(clear)", True),
        ("max recall s.t. precision >= 0.9", False),
        ("max recall s.t. alarm_rate <= 1%", False),
        ("min cost(fp=5, fn=amount)", False),
        ("max recall s.t. precision >= 0.9 for each reviewer", False),
        ("FPOR(0.9)", False),
        (Goal.parse("max f1"), False),
        (BandGoal.parse("min review_rate"), True),
        (None, False),
    ],
)
def test_band_goals_are_told_from_plain_ones(text, expected):
    assert is_band_goal(text) is expected


def test_values_and_directions():
    c = BandCounts(3.0, 1.0, 2.0, 6.0, 8.0, P=10.0, N=10.0, cost=5.0)
    values = (0.75, 0.3, 0.1, 0.2, 0.75, 0.2, 0.4, 0.4)
    assert tuple(BandMetric(name).value(c) for name in METRICS) == pytest.approx(values)
    assert BandMetric("cost", (Price(1.0), Price(2.0), Price(3.0))).value(c) == 0.25
    empty = BandCounts(0.0, 0.0, 0.0, 0.0, 20.0, P=10.0, N=10.0)
    assert BandMetric("precision(alarm)").value(empty) == 1
    assert BandMetric("npv(clear)").value(empty) == 1
    by_convention = {name for name in METRICS if BandMetric(name).is_by_convention(empty)}
    assert by_convention == {"precision(alarm)", "npv(clear)"}


def test_every_objective_goes_with_every_constraint():
    for objective, constrained in product(METRICS, METRICS):
        which, limited = BandMetric(objective), BandMetric(constrained)
        text = f"{which.direction} {which} s.t. {limited} {limited.relation} 0.5"
        assert str(BandGoal.parse(text)) == text

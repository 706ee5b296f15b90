"""Goals that name money, budgets, segments and amounts; tests/goals/test_goal.py has the others."""

import copy
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from setpoint import Constraint, Goal, GoalError
from setpoint.goals.budgets import Per
from setpoint.goals.metrics import metric
from setpoint.goals.money import Price, money
from setpoint.goals.tallies import Tally

names = st.sampled_from(["amount", "Claim", "order value", "it's", "st", "and", "x1"])
values = st.sampled_from(["north", "St. John's", "a,b", "=", "max", "1.5", "(other)"])
prices = st.just(Price(0.0)) | st.builds(
    Price, st.sampled_from([-5.0, 0.5, 1.0, 80.0]), st.just("") | names
)
monies = st.builds(
    lambda name, *four: money(name, "min" if name == "cost" else "max", *four),
    st.sampled_from(["cost", "profit"]), prices, prices, prices, prices,
).filter(lambda m: not m.name.endswith("()"))  # fmt: skip
plain = st.sampled_from(["recall", "precision", "f1", "fpr", "fbeta(2)"]).map(metric)
tallies = st.builds(Tally, amount=names) | st.builds(Tally, segment=names, value=values)
tallied = st.builds(lambda m, t: m.within(t), plain, tallies)
constraints = (
    st.builds(Constraint, plain | tallied, st.floats(0, 1))
    | st.builds(Constraint, plain, st.floats(0, 1), each=names)
    | st.builds(Constraint, monies, st.floats(-1e6, 1e6))
    | st.builds(
        Constraint,
        st.just(metric("alarms")),
        st.floats(0, 1e6),
        per=st.builds(Per, st.sampled_from(["hour", "day", "week", "month"]),
                      st.none() | st.sampled_from([0.5, 0.95, 0.999, 1.0])),
    )
)  # fmt: skip
goals = st.builds(
    Goal,
    plain | monies | tallied,
    st.lists(constraints, max_size=3, unique_by=lambda c: (c.metric.name, c.each)).map(tuple),
)


@given(goals)
def test_parse_and_str_are_inverse(goal):
    assert Goal.parse(str(goal)) == goal


@given(goals)
def test_goals_survive_pickle_and_copy(goal):
    assert pickle.loads(pickle.dumps(goal)) == goal
    assert copy.deepcopy(goal) == goal


@given(goals, st.data())
def test_damaged_goals_give_a_goal_or_a_clear_error(goal, data):
    text = str(goal)
    i = data.draw(st.integers(0, len(text) - 1))
    damaged = (
        text[:i]
        + data.draw(st.sampled_from(["", "(", ")", "[", "'", ",", "=", " per "]))
        + text[i + 1 :]
    )
    try:
        found = Goal.parse(damaged)
    except GoalError as error:
        assert len(str(error)) > 20
        assert "\ue000" not in str(error)
    else:
        assert Goal.parse(str(found)) == found


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("MIN Cost( FP = 5 , FN=Amount )", "min cost(fp=5, fn=Amount)"),
        ("max profit(tp=80, fp=-5)", "max profit(tp=80, fp=-5)"),
        ("min cost(fn=-amount, fp=1)", "min cost(fp=1, fn=-1*amount)"),
        ("min cost(fp=5, fn=0.3 * 'claim amount')", 'min cost(fp=5, fn=0.3*"claim amount")'),
        ("max recall s.t. cost(fp=5, fn=9) <= 2,000 per 1,000 rows",
         "max recall s.t. cost(fp=5, fn=9) <= 2"),
        ("max recall s.t. alarms <= 1%", "max recall s.t. alarm_rate <= 0.01"),
        ("max recall s.t. alarms <= 20 per 1000 cases", "max recall s.t. alarm_rate <= 0.02"),
        ("max recall s.t. 200 >= alarms per Day", "max recall s.t. alarms <= 200 per day"),
        ("max recall s.t. alarms <= 200 per day on 95% of days",
         "max recall s.t. alarms <= 200 per day on 95% of days"),
        ("max recall s.t. alarms <= 9 per week on 0.5 of weeks",
         "max recall s.t. alarms <= 9 per week on 50% of weeks"),
        ("max recall s.t. alarms <= 9 per month on average",
         "max recall s.t. alarms <= 9 per month on average"),
        ("max recall@200 per day", "max recall s.t. alarms <= 200 per day"),
        ("max recall @ 1%", "max recall s.t. alarm_rate <= 0.01"),
        ("max precision@100", "max precision@100 s.t. alarms <= 100"),
        ("max precision@100 per day s.t. alarms <= 100 per day",
         "max precision@100 per day s.t. alarms <= 100 per day"),
        ("max recall s.t. precision >= 90% for each Region, fpr <= 0.1",
         "max recall s.t. precision >= 0.9 for each Region, fpr <= 0.1"),
        ("max recall s.t. 0.9 <= precision for each 'Order Region' and fpr <= .1",
         'max recall s.t. precision >= 0.9 for each "Order Region", fpr <= 0.1'),
        ("max tpr[amount] s.t. ppv[Region=North] >= 0.5",
         "max recall[amount] s.t. precision[Region=North] >= 0.5"),
        ("max recall s.t. cost(fp=5, fn=amount)[region=north] <= 3",
         "max recall s.t. cost(fp=5, fn=amount)[region=north] <= 3"),
    ],
)  # fmt: skip
def test_accepted_spellings(text, canonical):
    assert str(Goal.parse(text)) == canonical
    assert str(Goal.parse(canonical)) == canonical


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("min cost", "'cost' needs prices in parentheses, e.g. 'cost"),
        ("min cost()", "does not price one of tp, fp, fn, tn"),
        ("min cost(fp=5, miss=3)", "'miss=3' does not price one of"),
        ("min cost(fp=5, fp=3)", "two prices of fp"),
        ("min cost(fp=5+2)", "is not a price"),
        ("min cost(fp=0)", "all prices are 0"),
        ("min cost(fp=1e999)", "too large"),
        ("max cost(fp=5)", "better when lower; write 'min cost"),
        ("max recall s.t. precision >= 0.9 per day", "'per day' is for alarms"),
        ("max recall s.t. alarms <= 9 per fortnight", "write 'per hour, day, week or month'"),
        ("max recall s.t. alarms <= 9 per day on 120% of days", "at most 100"),
        ("max recall s.t. alarms <= 5% per day", "needs no 'per day'"),
        ("max recall s.t. cost(fp=1) <= 5 per 0 rows", "write a number of rows"),
        ("max recall s.t. precision >= 0.9 for each", "name of one column"),
        ("max recall s.t. precision >= 0.9 for each a b", "name of one column"),
        ("max recall for each region", "belongs to a constraint"),
        ("max f1@20", "'@' is for precision and recall"),
        ("max recall s.t. precision[region=] >= 0.5", "column=value"),
        ("max recall s.t. precision[a=1, b=2] >= 0.5", "cannot be combined"),
        ("max recall s.t. precision[region=a] >= 0.5 for each region", "keep one of them"),
        ("max recall s.t. alarms <= 5 per day, alarms <= 9 per week", "constrained twice"),
    ],
)  # fmt: skip
def test_errors_say_what_to_write(text, message):
    with pytest.raises(GoalError, match=message):
        Goal.parse(text)


def test_what_a_goal_names():
    goal = Goal.parse(
        "min cost(fp=5, fn=amount) s.t. recall[value] >= 0.5, precision >= 0.9 for each region, "
        "fpr[site=a] <= 0.1, alarms <= 9 per day"
    )
    assert goal.amounts == ("amount", "value")
    assert goal.segments == ("site", "region")
    assert goal.periods == ("day",)
    assert not goal.is_bound
    bound = goal.bind({"region": ("n", "s"), "site": ("a",), "per day": ("1", "2", "3")})
    assert bound.is_bound
    assert str(bound) == str(goal)
    assert len(bound.constraints) == 5
    assert bound.periods == goal.periods
    assert bound.bind({}) is bound
    # All rows, two amounts, a segment for fpr, two for precision, three days
    assert len(bound.tallies) == 1 + 2 + 1 + 2 + 3


def test_a_plain_goal_has_one_tally_and_is_bound():
    goal = Goal.parse("max recall s.t. precision >= 0.9")
    assert goal.is_plain
    assert goal.is_bound
    assert goal.bind({}) is goal


@pytest.mark.parametrize(
    ("text", "is_monotone"),
    [
        ("min cost(fp=5, fn=amount)", True),
        ("min cost(tp=5, fp=5, fn=amount)", False),  # an alarm on a small amount costs more
        ("max profit(tp=80, fp=-5)", True),
        ("max profit(tp=80, fp=5)", False),
        ("max recall[amount] s.t. precision >= 0.5 for each region", True),
        ("max recall s.t. alarms <= 1%", False),
    ],
)
def test_monotone_goals(text, is_monotone):
    assert Goal.parse(text).is_monotone is is_monotone

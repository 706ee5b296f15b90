"""Goals that name money, budgets, segments and amounts; tests/goals/test_goal.py has the others."""

import copy
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from setpoint import Constraint, Goal, GoalError
from setpoint.goals.budgets import Per
from setpoint.goals.metrics import metric
from setpoint.goals.money import Price, best_for_every_row, is_money, money
from setpoint.goals.tallies import Tally

# With both kinds of quotes, next to each other and at the ends.
quotes = st.text(st.sampled_from("a ',\"="), min_size=1).filter(str.strip)
names = quotes | st.sampled_from(["amount", "Claim", "order value", "it's", "st", "and", "x1"])
values = quotes | st.sampled_from(["north", "St. John's", "a,b", "=", "max", "1.5", "(other)"])
prices = st.just(Price(0.0)) | st.builds(
    Price, st.sampled_from([-5.0, 0.5, 1.0, 80.0]), st.just("") | names
)
monies = st.builds(
    lambda name, *four: money(name, "min" if name == "cost" else "max", *four),
    st.sampled_from(["cost", "profit"]), prices, prices, prices, prices,
).filter(lambda m: not m.name.endswith("()"))  # fmt: skip


def is_trivial(which):
    """Whether it is money of which one decision is best for every row."""
    return is_money(which) and best_for_every_row(which) is not None


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
).filter(lambda goal: goal.constraints or not is_trivial(goal.objective))


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
        ("min cost(tp=-amount, fp=1)", "min cost(tp=-1*amount, fp=1)"),
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
        ("max recall s.t. alarms <= 20 per day, alarms <= 100 per week",
         "max recall s.t. alarms <= 20 per day, alarms <= 100 per week"),
        ("max recall s.t. alarms <= 9 per day, alarms <= 6 per day on 95% of days",
         "max recall s.t. alarms <= 9 per day, alarms <= 6 per day on 95% of days"),
        ("max recall@20 per day s.t. alarms <= 100 per week",
         "max recall s.t. alarms <= 100 per week, alarms <= 20 per day"),
        ("max recall s.t. alarms <= 1% for each region",
         "max recall s.t. alarm_rate <= 0.01 for each region"),
        ("max recall s.t. alarms[region=north] <= 1%",
         "max recall s.t. alarm_rate[region=north] <= 0.01"),
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
        ("max precision@0", "'precision@0': write a number of alarms above 0"),
        ("max precision@0%", "'precision@0%': write a number of alarms above 0"),
        ("max recall@-3 per day", "above 0"),
        ("max precision@1.5", "'precision@1.5': a number of alarms is a whole number"),
        ("max recall@0.1 per day", "whole number, or a percentage of the rows, e.g. '@1%'"),
        ("max recall s.t. alarms <= 5 per day on 95% of weeks",
         "a limit per day cannot hold on a percentage of weeks; write 'on 95% of days', or 'per "
         "week'"),
        ("max recall@200 s.t. alarms <= 5 per day",
         "'recall@200' and 'alarms <= 5 per day' both limit the number of alarms; keep one"),
        ("max precision@20 per day s.t. alarms <= 5", "'precision@20 per day' and 'alarms <= 5'"),
        ("max recall s.t. precision[region=] >= 0.5", "column=value"),
        ("max recall s.t. precision[a=1, b=2] >= 0.5", "cannot be combined"),
        ("max recall s.t. precision[region=a] >= 0.5 for each region", "keep one of them"),
        ("max recall s.t. alarms <= 5 per day, alarms <= 9 per day",
         "'alarms <= 9 per day': alarms per day is constrained twice"),
        ("max recall@5 per day s.t. alarms <= 9 per day", "both limit the number of alarms"),
        ("max recall s.t. precision(alarm) >= 0.9",
         "'precision.alarm.' is a metric of a review band, which has two thresholds; use "
         "choose_band or SetpointBand, with an objective of a band, e.g. 'min review_rate"),
        ("max recall s.t. review_rate <= 0.1", "'review_rate' is a metric of a review band"),
        ("max recall(alarm) s.t. fpr <= 0.1", "or write 'recall' for one threshold"),
        ("max recall s.t. precision@200 >= 0.3",
         "'precision@200 >= 0.3': '@' is for objectives, e.g. 'max precision@200'"),
        ("max recall s.t. precision@200 per day >= 0.3", "'@' is for objectives"),
        ("max recall@200%", "'recall@200%': the percentage must be at most 100, and it is 200%"),
        ("max recall s.t. alarms <= 200%", "'alarms <= 200%': the percentage must be at most 100"),
        ("max recall s.t. precision >= 120%", "the percentage must be at most 100"),
        ("max recall s.t. alarms <= 2000 per 1000 rows", "more than one alarm per row"),
        ("max recall s.t. alarms <= 20 per day for each region",
         "'alarms <= 20 per day for each region': a budget per period counts the alarms of all "
         "rows and cannot be required for each segment"),
        ("max recall s.t. alarms <= 20 for each region per day", "cannot be required for each"),
        ("max recall s.t. alarms[region=north] <= 20 per day", "cannot be required for each"),
    ],
)  # fmt: skip
def test_errors_say_what_to_write(text, message):
    with pytest.raises(GoalError, match=message):
        Goal.parse(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("min cost(fp=5)", "raising no alarm is best for every row, whatever its label. Add the "
         "price of a miss, e.g. fn=100, or add a constraint"),
        ("min cost(fp=5, tn=2, tp=amount)", "raising no alarm .* Add the price of a miss"),
        ("min cost(fp=5, fn=amount, tp=amount)", "raising no alarm .* Change the price of a miss"),
        ("min cost(fp=5, fn=-1*amount)", "raising no alarm .* Change the price of a miss"),
        ("max profit(fp=-5)", "raising no alarm .* Add the profit of a true alarm, e.g. tp=100"),
        ("min cost(fn=amount)", "an alarm is best for every row, whatever its label. Add the "
         "price of a false alarm, e.g. fp=5, or add a constraint"),
        ("min cost(fp=-5)", "an alarm is best .* Change the price of a false alarm, e.g. fp=5"),
        ("max profit(tp=80)", "an alarm is best .* Add the price of a false alarm, e.g. fp=-5"),
        ("min cost(fp=2, tn=2)[region=north]", "Add the price of a miss"),
    ],
)  # fmt: skip
def test_costs_with_one_best_decision_for_every_row(text, message):
    with pytest.raises(GoalError, match=message):
        Goal.parse(text)
    Goal.parse(f"{text} s.t. recall >= 0.8, alarms <= 10%")


@pytest.mark.parametrize(
    "text",
    [
        "min cost(tp=1, fp=1, fn=amount)",
        "min cost(fp=amount, fn=3)",
        "min cost(tp=amount, fn=loss, fp=1)",
        "max profit(tp=80, fp=-5)",
        "min cost(fp=5, tp=-3)",
    ],
)
def test_costs_of_which_each_decision_may_be_the_better_one(text):
    assert best_for_every_row(Goal.parse(text).objective) is None


@pytest.mark.parametrize("value", ["a', \"b", "\"'", "'\"", "''\"\"", "a'\"] s.t. x"])
def test_values_and_names_with_both_kinds_of_quotes(value):
    tally = Tally(segment=value, value=value)
    cost = money("cost", "min", Price(1.0), Price(5.0), Price(2.0, value), Price(0.0))
    goal = Goal(cost, (Constraint(metric("recall").within(tally), 0.5),
                       Constraint(metric("precision"), 0.5, each=value)))  # fmt: skip
    assert Goal.parse(str(goal)) == goal


def test_a_quote_inside_quotes_is_doubled():
    goal = Goal.parse("max recall[city='St. John''s']")
    assert goal.objective.tallies[0].value == "St. John's"
    assert str(goal) == 'max recall[city="St. John\'s"]'


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
        ("max profit(tp=80, fp=5) s.t. recall >= 0.5", False),
        ("max recall[amount] s.t. precision >= 0.5 for each region", True),
        ("max recall s.t. alarms <= 1%", False),
    ],
)
def test_monotone_goals(text, is_monotone):
    assert Goal.parse(text).is_monotone is is_monotone

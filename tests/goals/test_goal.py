import copy
import pickle
import string

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from setpoint import FPOR, FROP, OFOS, Constraint, Goal, GoalError
from setpoint.goals.goal import describe_value, format_metric
from setpoint.goals.metrics import BUILT_IN, fbeta, metric

any_metric = st.one_of(
    st.sampled_from(BUILT_IN).map(metric),
    st.floats(1e-6, 1e6).map(fbeta),
)


@st.composite
def goals(draw):
    constrained = draw(st.lists(any_metric, max_size=4, unique_by=lambda m: m.name))
    constraints = [Constraint(m, draw(st.floats(*m.bounds))) for m in constrained]
    return Goal(draw(any_metric), tuple(constraints))


@given(goals())
def test_parse_and_str_are_inverse(goal):
    assert Goal.parse(str(goal)) == goal
    assert str(Goal.parse(str(goal))) == str(goal)


@given(goals())
def test_goals_survive_pickle_and_copy(goal):
    assert pickle.loads(pickle.dumps(goal)) == goal
    assert copy.deepcopy(goal) == goal
    assert hash(copy.deepcopy(goal)) == hash(goal)


WORDS = ["max", "min", "s.t.", "st", "and", ",", ">=", "<=", ">", "=", "0.9", "90%", "-1", "1e-3",
         "recall", "precision", "fbeta(2)", "fbeta(", ")", "fpor(0.9)", "ofos", "nan", "é",
         "'"]  # fmt: skip


@given(st.lists(st.sampled_from(WORDS), max_size=9).map(" ".join))
def test_fuzz_words_give_a_goal_or_a_clear_error(text):
    check_parsed_or_rejected(text)


@given(st.text(max_size=40) | st.text(string.printable, max_size=40))
def test_fuzz_text_gives_a_goal_or_a_clear_error(text):
    check_parsed_or_rejected(text)


@given(goals(), st.data())
def test_fuzz_damaged_goals_give_a_goal_or_a_clear_error(goal, data):
    text = str(goal)
    i = data.draw(st.integers(0, len(text) - 1))
    check_parsed_or_rejected(text[:i] + data.draw(st.text(max_size=2)) + text[i + 1 :])


def check_parsed_or_rejected(text):
    try:
        goal = Goal.parse(text)
    except GoalError as error:
        assert len(str(error)) > 20
    else:
        assert Goal.parse(str(goal)) == goal


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("max recall s.t. precision >= 0.9", "max recall s.t. precision >= 0.9"),
        ("  MAXIMISE  Recall subject to Precision≥90% ", "max recall s.t. precision >= 0.9"),
        ("max tpr such that ppv => .9", "max recall s.t. precision >= 0.9"),
        ("min fpr st tpr >= 1", "min fpr s.t. recall >= 1"),
        ("max fbeta( 2 )", "max fbeta(2)"),
        ("max recall s.t. fpr <= 1e-2 and precision >= 0.5",
         "max recall s.t. fpr <= 0.01, precision >= 0.5"),
        ("max f1 s.t. mcc >= -0.5", "max f1 s.t. mcc >= -0.5"),
        ("FPOR(0.9)", "max recall s.t. precision >= 0.9"),
        ("frop( 95% )", "max precision s.t. recall >= 0.95"),
        ("ofos", "max f1"),
        ("OFOS()", "max f1"),
        ("max recall s.t. 0.9 <= precision", "max recall s.t. precision >= 0.9"),
        ("max recall, s.t. precision >= 0.9, and fpr <= 0.1",
         "max recall s.t. precision >= 0.9, fpr <= 0.1"),
        ("max recall s.t. precision >= 99.9%", "max recall s.t. precision >= 0.999"),
        ("max recall s.t. precision >= 0.9,0.1 >= fpr",
         "max recall s.t. precision >= 0.9, fpr <= 0.1"),
    ],
)  # fmt: skip
def test_accepted_spellings(text, canonical):
    assert str(Goal.parse(text)) == canonical


@pytest.mark.parametrize(
    ("text", "quoted"),
    [
        ("", "empty"),
        ("   ", "empty"),
        ("recall", "'recall' does not begin with 'max' or 'min'"),
        ("maxrecall", "'maxrecall' does not begin"),
        ("max", "no metric after 'max'"),
        ("max recal", "'recal'; did you mean recall"),
        ("max recall s.t. precison >= 0.9", "'precison'; did you mean precision"),
        ("max recall s.t. precision >= 1.2", "'precision >= 1.2'.*between 0 and 1"),
        ("max recall s.t. precision >= -0.1", "'precision >= -0.1'"),
        ("max f1 s.t. mcc >= -2", "'mcc >= -2'.*between -1 and 1"),
        ("max recall max precision", "'max recall max precision' names two objectives"),
        ("max recall, precision", "two objectives"),
        ("max recall and f1 s.t. fpr <= 0.1", "'max recall and f1' names two objectives"),
        ("max precision >= 0.9", "'precision >= 0.9' contains a level"),
        ("max recall s.t.", "constraint is empty"),
        ("max recall s.t. precision >= 0.9,", "constraint is empty"),
        ("max recall s.t. precision", "'precision' is not of the form"),
        ("max recall s.t. precision >= 0.9 >= 0.8", "is not of the form"),
        ("max recall s.t. precision >= high", "'high' in 'precision >= high' is not a number"),
        ("max recall s.t. precision >= 0,9", "'0,9'.*decimals with a point"),
        ("max recall s.t. precision > 0.9", "uses '>'; write 'precision >= 0.9'"),
        ("max recall s.t. precision == 0.9", "uses '=='; write 'precision >= 0.9'"),
        ("max recall s.t. precision >= 90", "Did you mean 90%"),
        ("max recall s.t. precision >= 1e9999999999999999999%", "too large"),
        ("max f2", r"did you mean fbeta\(2\)"),
        ("max balanced accuracy", "did you mean balanced_accuracy"),
        ("max recall s.t. precision <= 0.9", "precision is better when higher"),
        ("max recall s.t. fpr >= 0.1", "fpr is better when lower; write 'fpr <= 0.1'"),
        ("max recall s.t. 0.9 >= precision", "precision is better when higher"),
        ("max recall s.t. the precision >= 0.9", "'the precision'"),
        ("max recall s.t. precision >= 0.9 s.t. fpr <= 0.1", "'s.t.' twice"),
        ("max recall s.t. precision >= 0.9, precision >= 0.8", "constrained twice"),
        ("max fpr", "fpr is better when lower; write 'min fpr'"),
        ("min recall", "recall is better when higher"),
        ("FPOR", "needs a level"),
        ("FPOR(1.5)", "alpha must lie"),
        ("OFOS(1)", "takes no level"),
        ("max fbeta(0)", "beta must lie between"),
    ],
)
def test_errors_quote_the_offending_part(text, quoted):
    with pytest.raises(GoalError, match=quoted):
        Goal.parse(text)


def test_other_types_raise():
    with pytest.raises(GoalError, match="not int"):
        Goal.parse(3)


def test_many_metrics_of_a_family_stay_equal_to_themselves():
    goal = Goal.parse("max fbeta(2)")
    for beta in range(3, 300):
        Goal.parse(f"max fbeta({beta})")
    assert Goal.parse(str(goal)) == goal == pickle.loads(pickle.dumps(goal))


def test_named_goals():
    assert FPOR(0.9) == Goal.parse("max recall s.t. precision >= 0.9")
    assert FROP(0.95) == Goal.parse("max precision s.t. recall >= 0.95")
    assert OFOS() == Goal.parse("max f1")
    for bad in (-0.1, 1.1, float("nan")):
        with pytest.raises(GoalError, match="alpha"):
            FPOR(bad)


def test_goals_from_names():
    assert Goal("recall", [Constraint("precision", 0.9)]) == FPOR(0.9)
    assert Goal("recall", ["precision >= 9E-1"]) == FPOR(0.9)


def test_monotone_goals():
    assert FPOR(0.9).is_monotone
    assert not Goal.parse("max recall s.t. alarm_rate <= 0.01").is_monotone


@given(
    st.sampled_from(BUILT_IN).map(metric),
    st.floats(0, 1),
    st.tuples(st.integers(0, 8), st.integers(0, 20)),
)
def test_the_cleared_constraint_is_the_shortfall_times_a_positive_number(m, level, counts):
    constraint = Constraint(m, level)
    at = (*counts, 8.0, 20.0)
    factor = 8.0 if m.fraction is None else m.fraction.parts(*at)[1]
    factor *= 1.0 if m.is_bounded else max(level, 1e-6)
    assume(factor > 0)  # at 0/0 the cleared form is 0, the limit of all values of the quotient
    assert constraint.cleared(*at) == pytest.approx(factor * constraint.shortfall(*at), abs=1e-9)


def test_violation_adds_what_is_missed_and_forgives_rounding():
    goal = Goal.parse("max recall s.t. precision >= 0.9, fpr <= 0.1")
    assert goal.violation(5, 5, 10, 20) == pytest.approx(0.4 + 0.15)
    assert goal.violation(9, 1, 10, 20) == 0.0
    tenth = sum([0.1] * 3) / 0.3  # not quite 1
    assert Goal.parse("max f1 s.t. recall >= 1").violation(tenth * 10, 0, 10, 20) == 0.0


# --- formatting ----------------------------------------------------------------------------------


def test_money_and_numbers_of_alarms_are_written_sensibly():
    cost, alarms = metric("cost(fp=5, fn=amount)"), metric("alarms")
    for which, value, text in (
        (cost, 1.191, "1.19"), (cost, 12.345, "12.35"), (cost, 1234.5, "1,234"),
        (cost, 0.0, "0.00"),
        (cost, 0.01234, "0.0123"), (cost, -0.5, "-0.50"), (cost, 1e-12, "0.00"),
        (cost, float("nan"), "–"), (alarms, 89.0, "89"), (alarms, 12345.0, "12,345"),
        (alarms, 6.25, "6.2"), (alarms, 0.0, "0"), (metric("recall"), 0.5, "0.500"),
        (None, 0.5, "0.500"),
    ):  # fmt: skip
        assert format_metric(value, which=which) == text


def test_rounding_does_not_hide_a_missed_level_of_money_or_alarms():
    assert format_metric(3.001, Constraint(metric("cost(fp=5)"), 3.0)) == "3.001"
    assert format_metric(2.999, Constraint(metric("cost(fp=5)"), 3.0)) == "3.00"
    assert format_metric(1234.4, Constraint(metric("cost(fp=5)"), 1234.0)) == "1,234.4"
    assert format_metric(8.04, Constraint(metric("alarms"), 8.0)) == "8.04"


def test_values_are_described():
    found = {"per day": ("2024-01-01", "2024-01-02")}
    for scope, text in (
        ("per day", "12 alarms on the busiest day"),
        ("per day on average", "12 alarms per day on average"),
        ("per day on 95% of days", "12 alarms per day on 95% of days"),
    ):
        goal = Goal.parse(f"max recall s.t. alarms <= 8 {scope}").bind(found)
        assert describe_value(goal.constraints[0].metric, 12.0) == text
    for period, text in (("hour", "in"), ("day", "on"), ("week", "in"), ("month", "in")):
        goal = Goal.parse(f"max recall s.t. alarms <= 8 per {period}")
        bound = goal.bind({f"per {period}": ("2024-01", "2024-02")})
        words = describe_value(bound.constraints[0].metric, 12.0)
        assert words == f"12 alarms {text} the busiest {period}"
    assert describe_value(metric("alarms"), 1.0) == "1 alarm"
    assert describe_value(metric("cost(fp=5)"), 1.191) == "cost(fp=5) is 1.19 per row"
    assert describe_value(metric("recall"), 0.5) == "recall is 0.500"

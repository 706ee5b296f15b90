"""Goals and metrics of all kinds in words that a reader without training understands."""

import pytest

from setpoint import Goal
from setpoint.goals.metrics import metric
from setpoint.report.content import Terms
from setpoint.report.fractions import percent
from setpoint.report.goal_wording import goal_in_words, meaning
from setpoint.report.wording import counted, metric_label, prices_in_words, shortened

FRAUDS = Terms("fraud", "frauds")


@pytest.mark.parametrize(
    ("goal", "words"),
    [
        (
            "min cost(tp=4, fp=4, fn=amount)",
            "Make the cost of decisions as low as possible. A caught fraud costs €4, a false alarm "
            "costs €4 and a missed fraud costs its amount.",
        ),
        (
            "max profit(tp=80, fp=-5, fn=-0.5*Amount)",
            "Make the profit as high as possible. A caught fraud brings in €80, a false alarm "
            "costs €5 and a missed fraud costs 50 % of its “Amount”.",
        ),
        (
            "max recall s.t. cost(fp=5, fn=100) <= 3000 per 1000 rows",
            "Catch as many frauds as possible, provided that a case costs at most €3 on "
            "average. A false alarm costs €5 and a missed fraud costs €100.",
        ),
        (
            "max recall s.t. cost(tp=-2.5, tn=0.001) <= -1",
            "Catch as many frauds as possible, provided that a case brings in at least €1 on "
            "average. A caught fraud brings in €2.50 and a correctly cleared case costs €0.001.",
        ),
        (
            "max recall s.t. profit(tp=1, fp=-2) >= -0.05",
            "Catch as many frauds as possible, provided that a case loses at most €0.05 on "
            "average. A caught fraud brings in €1 and a false alarm costs €2.",
        ),
        (
            "max recall[amount] s.t. precision >= 0.4",
            "Catch as much as possible of the amount of all frauds, provided that at least 40 of "
            "100 alarms are real.",
        ),
        (
            "max precision s.t. recall[amount] >= 0.8",
            "Make the fraction of alarms that are real as high as possible, provided that at least "
            "80 % of the amount of all frauds is caught.",
        ),
        (
            "max f1[amount] s.t. mcc[amount] >= 0.1",
            "Make F1 by amount as high as possible, provided that mcc by amount is at least 0.1.",
        ),
        (
            "max recall s.t. precision >= 0.5 for each region",
            "Catch as many frauds as possible, provided that in each region, at least 50 of 100 "
            "alarms are real.",
        ),
        (
            "max recall[region=north] s.t. precision[region='Süd <b>'] >= 0.5",
            "Catch as many frauds as possible where region is north, provided that where region is "
            "“Süd <b>”, at least 50 of 100 alarms are real.",
        ),
        (
            "max recall s.t. alarms <= 8 per day",
            "Catch as many frauds as possible, provided that on every day at most 8 alarms are "
            "raised.",
        ),
        (
            "max recall s.t. alarms <= 1 per week on 95% of weeks",
            "Catch as many frauds as possible, provided that in 95 % of weeks at most 1 alarm is "
            "raised.",
        ),
        (
            "max recall s.t. alarms <= 1200 per month on average",
            "Catch as many frauds as possible, provided that at most 1,200 alarms per month are "
            "raised on average.",
        ),
        (
            "max recall s.t. alarms <= 80",
            "Catch as many frauds as possible, provided that at most 80 alarms are raised in all.",
        ),
        (
            "max precision@8 per day",
            "Make as many as possible of 8 alarms per day real, provided that on every day at most "
            "8 alarms are raised.",
        ),
        (
            "max precision@1%",
            "Make as many as possible of the alarms on 1 % of the cases real, provided that at "
            "most 1 of 100 cases raise an alarm.",
        ),
        ("min alarms s.t. recall >= 0.9", "Raise as few alarms as possible, provided that at least "
         "90 of 100 frauds are caught."),
    ],
)  # fmt: skip
def test_goals_in_words(goal, words):
    assert goal_in_words(Goal.parse(goal), FRAUDS).replace("\xa0", " ") == words


def test_prices_use_the_currency():
    dollars = Terms("fraud", "frauds", "US$")
    text = prices_in_words(metric("cost(fp=5, fn=2*amount)"), dollars)
    assert text.replace("\xa0", " ") == (
        "A false alarm costs US$ 5 and a missed fraud costs 200 % of its amount."
    )
    assert prices_in_words(metric("cost(fp=5)"), Terms(currency="")) == "A false alarm costs 5."


def test_labels_are_short():
    for name, label in (
        ("cost(tp=4, fp=4, fn=amount)", "cost per case"),
        ("profit(tp=1)[region=north]", "profit per case in north"),
        ("recall[amount]", "recall by amount"),
        ("recall['the amount']", "recall by the amount"),
        ("f1[Amount, region=north]", "F1 by “Amount” in north"),
        ("precision[region=north]", "precision in north"),
        ("alarms", "alarms"),
        ("recall", "recall"),
    ):
        assert metric_label(metric(name)) == label


def test_every_kind_of_metric_is_explained():
    for name, text in (
        ("recall[amount]", "Each case counts with its amount"),
        ("precision[region=north]", "Only cases where region is north count"),
        ("cost(fp=5, fn=amount)", "the mean cost of the decision on a case. A false alarm"),
        ("alarms", "the workload"),
        ("cost(fp=1)[region=north]", "Only cases where region is north count"),
    ):  # fmt: skip
        assert text in meaning(metric(name), FRAUDS)
    bound = Goal.parse("max precision@8 per day").bind({"per day": ("2024-01-01", "2024-01-02")})
    assert "what the budget allows: 8 alarms per day" in meaning(bound.objective, FRAUDS)
    assert "most of them" in meaning(bound.constraints[0].metric, FRAUDS)


def test_percentages_are_never_rounded_to_all_or_none():
    for value, text in (
        (0.0, "0 %"), (1.0, "100 %"), (0.82, "82 %"), (0.004, "0.4 %"),
        (0.00001, "less than 0.1 %"), (0.9999, "more than 99.9 %"), (0.996, "99.6 %"),
        (0.0994, "9.9 %"),
    ):  # fmt: skip
        assert percent(value) == text


def test_numbers_have_the_right_noun_and_texts_are_shortened():
    assert counted(1, "alarm") == "1 alarm"
    assert counted(1234, "case") == "1,234 cases"
    assert counted(2.5, "alarm") == "2.5 alarms"
    assert counted(12_345_678, "alarm") == "12,345,678 alarms"
    assert counted(0, "fraud", "frauds") == "0 frauds"
    assert shortened("a\tb\nc") == "a b c"
    assert len(shortened("x" * 80)) == 40

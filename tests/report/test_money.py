"""Tables of money add up, and agree with the goal's own value."""

import re

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from report_rows import of_names, report_of, scored
from setpoint import Goal
from setpoint.errors import GoalError
from setpoint.report import Baseline, Costs, headline, html
from setpoint.report.money import (
    OutcomeBill,
    money,
    money_metrics,
    stated_amount,
    with_currency,
)
from setpoint.report.sections import sections
from setpoint.thresholds.expected_value import compare_decisions

PRICES = st.one_of(st.just("amount"), st.just("-0.5*amount"), st.integers(-99, 99).map(str))


@given(st.tuples(PRICES, PRICES, PRICES, PRICES), st.integers(0, 99), st.sampled_from([0.0, 3.7]))
def test_outcomes_add_up_to_the_mean_of_the_rows(prices, seed, threshold):
    y, scores = scored(80, 0.3, seed)
    amount = np.round(np.random.default_rng(seed).lognormal(3, 1, 80), 2)
    names = dict(zip(("tp", "fp", "fn", "tn"), prices, strict=True))
    goal = f"min cost({', '.join(f'{k}={v}' for k, v in names.items())}, )".replace(", )", ")")
    try:
        Goal.parse(goal)
    except GoalError:  # prices by which one decision is best for every row
        assume(False)
    report = report_of(goal, y, scores, threshold, amounts={"amount": amount})
    value = {"amount": amount, "-0.5*amount": -0.5 * amount}
    price = {k: value[v] if v in value else float(v) * np.ones(80) for k, v in names.items()}
    for name, alarm in (("this classifier", scores > threshold), ("no alarms", y & ~y),
                        ("all alarms", y | ~y)):  # fmt: skip
        paid = np.where(
            y, np.where(alarm, price["tp"], price["fn"]), np.where(alarm, price["fp"], price["tn"])
        )
        bill = OutcomeBill(*money_metrics(report.goal), report)
        column = bill.columns[name]
        assert column["total"] == pytest.approx(1000 * paid.mean(), abs=0.51)
        items = [column[k] for k in ("tp", "fp", "fn", "tn")]
        assert sum(items) == pytest.approx(column["total"], abs=1e-6)


def test_a_negative_profit_and_amounts_of_zero():
    y, scores = scored(400)
    report = report_of("max profit(tp=amount, fp=-5)", y, scores, amounts={"amount": 0.0 * y})
    text = headline(report)
    assert "; a case loses €0." in text
    assert " on average, €" in text
    (bill,) = sections(report)["bills"]
    assert bill["head"] == ["", "caught frauds", "false alarms", "total"]
    assert bill["rows"][1] == ["no alarms", "€0", "€0", "€0"]
    assert bill["rows"][0][1] == "€0"
    assert bill["rows"][0][-1].startswith("−€")
    assert "the decisions lose €" in bill["result"]
    assert "less than without any alarm" in bill["result"]
    nothing = report_of("max recall s.t. recall[amount] >= 0.5", y, scores,
                        amounts={"amount": 0.0 * y})  # fmt: skip
    assert "recall by amount is –" in headline(nothing)
    assert "nan" not in re.sub("<script.*?</script>", "", html(nothing), flags=re.S).lower()


def test_the_goals_prices_replace_other_costs():
    y, scores = scored(400)
    report = report_of("min cost(fp=5, fn=100)", y, scores, costs=Costs(3, 70))
    page = html(report)
    assert "Costs per 10,000 such cases" not in page
    assert "the costs of alarms and misses that were given besides are not shown" in page
    assert "Costs per 1,000 cases" in page
    other = html(report_of("max recall", y, scores, costs=Costs(3, 70)))
    assert "Costs per 10,000 such cases" in other
    assert "Costs per 1,000 cases" not in other


def test_baselines_are_compared():
    y, scores = scored(400)
    report = report_of("min cost(fp=5, fn=100) s.t. precision >= 0.999", y, scores,
                       baseline=Baseline("<i>rules</i>", scores, 1.0))  # fmt: skip
    (bill,) = sections(report)["bills"]
    names = [row[0] for row in bill["rows"]]
    assert names == ["this classifier", "no alarms", "all alarms", "<i>rules</i>"]
    assert "as much as <i>rules</i> (which does not meet the goal either)." in bill["result"]
    assert "&lt;i&gt;rules&lt;/i&gt;" in html(report)


def test_costs_of_a_segment():
    y, scores = scored(400)
    goal = 'max recall s.t. cost(fp=5, fn=9)[region="a)b(c"] <= 0.01'
    report = report_of(goal, y, scores, segments={"region": of_names(["a)b(c", "d"], 400)})
    text = headline(report)
    assert "where region is “a)b(c”, a case costs €" in text
    assert "where region is “a)b(c”, cost per case is €" in text
    assert "and should be at most €0.01" in text
    (bill,) = sections(report)["bills"]
    assert "per 1,000 cases where region is “a)b(c”" in bill["caption"]


def test_decisions_by_expected_value_are_shown():
    y, scores = scored(400)
    p, amount = 1 / (1 + np.exp(-scores)), np.arange(400.0)
    goal, named = "min cost(fp=5, fn=amount)", {"amounts": {"amount": amount}}
    table = compare_decisions(y, p, goal, **named)
    report = report_of(goal, y, p, 0.5, decisions=table, **named)
    shown = sections(report)["decisions"]
    assert [row[0] for row in shown["rows"]] == list(table.points)
    assert shown["rows"][1][1] == money(1000 * table["expected value"].objective, "€", 0)
    assert "Ways to decide, on the data given" in html(report)


def test_amounts_as_text():
    assert money(-3.456, "€") == "−€3.46"
    assert with_currency("-12", "CHF") == "−CHF\xa012"
    assert with_currency("12", "") == "12"
    for amount, text in ((3.0, "€3"), (2.5, "€2.50"), (0.001, "€0.001"), (12345.0, "€12,345")):
        assert stated_amount(amount, "€") == text

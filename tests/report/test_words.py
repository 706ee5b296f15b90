"""Shares in words are never better than they are."""

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest

from setpoint import Constraint, Goal, metric_names
from setpoint.goals.goal import shown
from setpoint.goals.metrics import metric
from setpoint.report.words import between, goal_in_words, interval, meaning, share


@pytest.mark.parametrize(
    ("k", "n", "text", "plural"),
    [
        (82, 100, "82 of 100 alarms", True),
        (900, 1000, "9 of 10 alarms", True),
        (8960, 10000, "9 of 10 alarms", True),
        (8800, 10000, "88 of 100 alarms", True),
        (3, 7, "3 of the 7 alarms", True),
        (1, 7, "1 of the 7 alarms", False),
        (7, 7, "all 7 alarms", True),
        (0, 7, "none of the 7 alarms", False),
        (1, 1, "the only alarm", False),
        (0, 1, "not one alarm", False),
        (1, 100, "1 of 100 alarms", False),
        (3, 1000, "3 of 1,000 alarms", True),
        (1, 100_000, "fewer than 1 of 1,000 alarms", False),
        (99_999, 100_000, "more than 999 of 1,000 alarms", True),
        (997, 1000, "997 of 1,000 alarms", True),
        (120_000, 120_000, "all 120,000 alarms", True),
    ],
)
def test_shares(k, n, text, plural):
    assert share(k, n, "alarm", "alarms") == (text, plural)


@given(st.integers(1, 10**6), st.data())
def test_a_rounded_share_is_near_and_never_all_or_none(n, data):
    k = data.draw(st.integers(0, n))
    text = share(k, n, "alarm", "alarms").text
    assert text.startswith("all ") == (k == n > 1)
    assert text.startswith(("none ", "not one ")) == (k == 0)
    if found := re.fullmatch(r"([\d,]+) of ([\d,]+) alarms", text):
        said, base = (int(x.replace(",", "")) for x in found.groups())
        assert 0 < said < base
        assert abs(said / base - k / n) <= 0.5 / base + 1e-12
        assert abs(said / base - k / n) <= 0.005 + 1e-12


@given(st.integers(1, 5000), st.data())
def test_intervals_are_those_of_scipy_and_words_contain_them(n, data):
    k = data.draw(st.integers(0, n))
    exact = binomtest(k, n).proportion_ci(0.95, method="exact")
    assert interval(k, n) == pytest.approx((exact.low, exact.high), abs=1e-9)
    least, most, base = (int(x.replace(",", "")) for x in re.findall(r"[\d,]+", between(k, n)))
    assert least / base <= exact.low + 1e-9
    assert most / base >= exact.high - 1e-9


@pytest.mark.parametrize(
    ("value", "asked", "text"),
    [
        (0.8999, "precision >= 0.9", "0.8999"),  # not 0.900, which would be enough
        (0.9, "precision >= 0.9", "0.900"),
        (0.89996, "precision >= 0.9", "0.89996"),
        (0.0104, "fpr <= 0.01", "0.0104"),
        (0.0099, "fpr <= 0.01", "0.010"),
        (0.91234, "precision >= 0.9", "0.912"),
        (0.95036, "precision >= 0.9503", "0.9504"),  # 0.950 would not be
        (np.nan, "precision >= 0.9", "–"),
    ],
)
def test_rounding_does_not_hide_whether_a_level_is_kept(value, asked, text):
    name, _, level = asked.split()
    assert shown(value, Constraint(metric(name), float(level))) == text


def test_goals_are_said_without_a_formula():
    goal = Goal.parse("max recall s.t. precision >= 0.9, fpr <= 0.005")
    assert goal_in_words(goal, "frauds") == (
        "Catch as many frauds as possible, on the condition that at least 90 of 100 alarms are "
        "real and at most 5 of 1,000 other cases raise a false alarm."
    )
    assert goal_in_words(Goal.parse("max fbeta(2)"), "frauds").startswith("Make fbeta(2) as high")
    assert goal_in_words(Goal.parse("max mcc s.t. f1 >= 0.3"), "frauds").endswith(
        "F1 is at least 0.3."
    )


@pytest.mark.parametrize("name", [n for n in metric_names() if not n.endswith("(b)")])
def test_every_built_in_metric_is_explained(name):
    assert meaning(metric(name), "frauds")
    assert "2 times" in meaning(metric("fbeta(2)"), "frauds")

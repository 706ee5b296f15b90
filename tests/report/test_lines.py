"""The script gets the numbers of every threshold for goals of every kind."""

import json
import re

import numpy as np
import pytest

from report_rows import HOSTILE, of_names, report_of, scored
from setpoint import evaluate_threshold
from setpoint.report import Baseline, html
from setpoint.report import data as data_module
from setpoint.report.data import ReportData
from setpoint.report.lines import lines_of

AMOUNT = 'net "amount", €'
GOALS = {
    "min cost(tp=4, fp=4, fn='net \"amount\", €') s.t. recall >= 0.3": ["goal-0"],
    "max recall['net \"amount\", €'] s.t. precision >= 0.4": ["goal-0"],
    "max recall s.t. precision >= 0.5 for each region": ["each0", "each0-missed"],
    "max recall s.t. fpr <= 0.05 for each region, precision >= 0.3": ["each0", "each0-missed"],
    "max recall s.t. alarms <= 8 per day": ["goal-1", "over-day"],
    "max recall s.t. alarms <= 8 per day on 75% of days": ["goal-1", "over-day"],
    "max recall s.t. alarms <= 8 per day on average": ["goal-1"],
    "max precision@8 per day": ["goal-0", "goal-1", "over-day"],
    "max recall s.t. cost(fp=5, fn=100) <= 3000 per 1000 rows, alarms <= 5%": ["goal-1"],
}


@pytest.fixture(scope="module")
def named():
    rng = np.random.default_rng(7)
    return {
        "amounts": {AMOUNT: np.where(rng.random(900) < 0.3, 0.0, rng.lognormal(3, 1, 900))},
        "segments": {"region": of_names(HOSTILE, 900)},
        "times": rng.integers(0, 11, 900),
    }


@pytest.mark.parametrize("goal", GOALS)
@pytest.mark.parametrize("thinned", [False, True])
def test_every_step_has_the_values_of_its_threshold(goal, thinned, named, monkeypatch):
    if thinned:
        monkeypatch.setattr(data_module, "MAX_DISTINCT", 20)
        monkeypatch.setattr(data_module, "THINNED", 15)
    y, scores = scored(900)
    report = report_of(goal, y, scores, **named, baseline=Baseline("rules", scores[::-1], 1.5))
    data = ReportData(report)
    script = data.for_script()
    json.dumps(script, allow_nan=False)
    assert {*script["metrics"], *script["texts"]} >= {"precision", "recall", "f1", *GOALS[goal]}
    for i, at in enumerate(script["at"]):
        point = evaluate_threshold(y, scores, float(at), goal, **named)
        assert bool(script["met"][i]) == point.feasible
        for line in data.lines:
            text = line.text(point)
            if line.is_rate:
                value = script["metrics"][line.key][i]
                assert line.write(np.nan if value is None else value) == text
            else:
                assert script["texts"][line.key][i] == text


def test_counts_are_whole_and_money_has_a_currency(named):
    y, scores = scored(900)
    report = report_of("max recall s.t. alarms <= 8 per day", y, scores, **named)
    texts = ReportData(report).for_script()["texts"]
    assert all(re.fullmatch(r"\d+", text) for text in texts["goal-1"])
    assert all(re.fullmatch(r"\d+ of 11", text) for text in texts["over-day"])
    goal = "max profit(tp=80, fp=-5)"
    texts = ReportData(report_of(goal, y, scores, currency="CHF")).for_script()["texts"]
    (values,) = texts.values()
    assert all(re.fullmatch(r"−?CHF\xa0\d+(\.\d+)?", text) for text in values)


def test_names_in_the_script_are_plain(named):
    y, scores = scored(900)
    for goal in GOALS:
        page = html(report_of(goal, y, scores, **named))
        keys = re.findall(r'data-out="metric-([^"]*)"', page)
        assert len(keys) > 3
        assert all(re.fullmatch(r"[\w-]+", key) for key in keys)


def test_a_goal_on_200_segments_has_two_lines():
    y, scores = scored(5000)
    shop = of_names([f"shop {i}" for i in range(200)], 5000)
    goal = "max recall s.t. precision >= 0.5 for each shop"
    report = report_of(goal, y, scores, segments={"shop": shop})
    labels = [line.label for line in ReportData(report).lines]
    assert labels == ["precision", "recall", "F1", "lowest precision in any shop",
                      "segments of shop that miss it"]  # fmt: skip
    assert len(html(report)) < 300_000


def test_two_budgets_per_day_have_lines_of_their_own():
    y, scores = scored(300)
    goal = "max recall s.t. alarms <= 9 per day, alarms <= 6 per day on 75% of days"
    report = report_of(goal, y, scores, times=np.arange(300) % 21)
    keys = [line.key for line in lines_of(report)]
    assert len(set(keys)) == len(keys)
    assert {"over-day", "over-day-2"} <= set(keys)

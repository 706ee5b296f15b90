"""Results by segment and by period equal those of the rows, whatever the names and numbers."""

import numpy as np
import pytest

from report_rows import HOSTILE, of_names, report_of, scored
from setpoint.report import headline
from setpoint.report.breakdown import MOST_DRAWN, by_period, by_segment
from setpoint.report.breakdown_drawings import bars_of, draw_periods, draw_segments, time_ticks
from setpoint.report.fractions import interval
from setpoint.report.sections import sections

EACH = "max recall s.t. precision >= 0.5 for each region"


def test_segments_have_the_counts_of_their_rows():
    y, scores = scored(2000)
    region = of_names(HOSTILE, 2000)
    (found,) = by_segment(report_of(EACH, y, scores, segments={"region": region}))
    assert sorted(s.name for s in found.segments) == sorted(HOSTILE)
    for segment in found.segments:
        own = region == segment.name
        alarm = own & (scores > 1.0)
        assert segment.cases == own.sum()
        assert segment.positives == (own & y).sum()
        assert segment.alarms == alarm.sum()
        assert segment.caught == (alarm & y).sum()
        measured = segment.measured["precision"]
        assert measured.value == pytest.approx(segment.caught / segment.alarms)
        assert (measured.low, measured.high) == interval(segment.caught, segment.alarms)
        assert measured.met == (measured.value >= 0.5)
    values = [s.measured["precision"].value for s in found.segments]
    assert values == sorted(values)  # the worst first
    assert len(found.missed) == sum(value < 0.5 for value in values)


def test_rows_of_no_judged_segment_are_mentioned():
    y, scores = scored(500)
    region = of_names(["north", "south"], 500)
    region[:1] = "(none)"
    report = report_of(EACH, y, scores, segments={"region": region})
    (found,) = by_segment(report)
    assert found.unjudged is not None
    assert found.remarks == [
        f"1 case, including {int(y[0])} frauds, is in segments of region that are too small to be "
        "judged; the goal does not apply there."
    ]
    region[:40] = "(none)"
    region[40:90] = "(other)"
    (found,) = by_segment(report_of(EACH, y, scores, segments={"region": region}))
    assert found.remarks[0] == "“(other)” are all smaller segments of region together."
    assert found.remarks[1].startswith(f"40 cases, including {y[:40].sum()} frauds, are in ")


def test_a_segment_without_positives_is_not_judged_on_recall():
    y, scores = scored(400)
    region = np.where(y, "north", of_names(["north", "south"], 400))
    goal = "max precision s.t. recall >= 0.5 for each region"
    report = report_of(goal, y, scores, segments={"region": region})
    (part,) = sections(report)["segments"]
    assert [row[:2] for row in part["rows"]] == [["north", "✓ met"], ["south", "– not judged"]]
    assert part["rows"][1][-1] == "–"  # its recall
    assert part["result"] == "✓ The only segment reaches the required level."


def test_of_many_segments_the_worst_are_shown_and_the_rest_is_summarised():
    y, scores = scored(20_000, seed=1)
    shop = of_names([f"shop {i}" for i in range(200)], 20_000)
    report = report_of("max recall s.t. precision >= 0.3 for each shop", y, scores,
                       segments={"shop": shop})  # fmt: skip
    (found,) = by_segment(report)
    (part,) = sections(report)["segments"]
    assert len(part["rows"]) == MOST_DRAWN == 30
    picture = draw_segments(found, "precision", "p")
    assert picture.count('class="mark') == 30
    rest = found.segments[30:]
    missed = sum(not s.met for s in rest)
    (remark,) = found.remarks
    assert remark.startswith("These are the worst 30 of 200 segments of shop. Of the other 170 (")
    assert (f"{missed:,} do not" if missed else "all meet the goal") in remark
    text = headline(report)
    assert len(text) < 900  # never a sentence for each segment
    assert f"in {len(found.missed)} of 200 segments of shop" in text


def test_levels_of_single_segments():
    y, scores = scored(600)
    region = of_names(["north", "south", "east"], 600)
    goal = "max recall s.t. precision[region=north] >= 0.99, precision[region=south] >= 0.1"
    report = report_of(goal, y, scores, segments={"region": region})
    (part,) = sections(report)["segments"]
    assert [row[1] for row in part["rows"]] == ["✗ missed", "✓ met", "– not judged"]
    assert part["head"][6] == "precision"  # levels differ
    assert "where region is north, precision is 0." in headline(report)


def test_a_metric_without_an_interval_is_drawn():
    y, scores = scored(600)
    named = {"segments": {"region": of_names(["a", "b"], 600)}, "amounts": {"amount": 9.0 * y}}
    for goal in (
        "max recall s.t. cost(fp=5, fn=amount) <= 0.5 for each region",
        "max recall s.t. recall[amount] >= 0.5 for each region",
        "max recall s.t. alarms <= 40 for each region",
        "max recall s.t. gmean >= 0.9 for each region",
    ):
        report = report_of(goal, y, scores, **named)
        (found,) = by_segment(report)
        (name,) = found.metrics
        assert 'class="interval"' not in draw_segments(found, name, "p")
        assert "nan" not in draw_segments(found, name, "p")
        assert "in each region and misses that" in headline(report) or report.point.feasible


# --- by period -----------------------------------------------------------------------------------


def by_day(days, alarms_allowed=3, extra="", period="day", n=None):
    y, scores = scored(len(days) if n is None else n)
    goal = f"max recall s.t. alarms <= {alarms_allowed} per {period}{extra}"
    return report_of(goal, y, scores, times=np.asarray(days))


def test_periods_have_the_alarms_of_their_rows():
    rng = np.random.default_rng(0)
    days = np.datetime64("2024-02-25") + rng.integers(0, 12, 300)
    report = by_day(days)
    (found,) = by_period(report)
    assert len(found) == 12
    for name, alarms, real in zip(found.names, found.alarms, found.real, strict=True):
        own = (days == np.datetime64(name)) & report.alarm
        assert alarms == own.sum()
        assert real == (own & report.rows.y).sum()
    assert (np.diff(found.places) > 0).all()
    over = int((found.alarms > 3).sum())
    assert found.sentence.startswith(f"{over} of 12 days had more than 3 alarms; the busiest, ")
    assert f"had {found.alarms.max()}. On average there were " in found.sentence
    assert f"{over} of 12 days had more than 3 alarms" in headline(report)


def test_numbers_of_days_are_in_numerical_order():
    report = by_day(np.arange(200) % 12)
    (found,) = by_period(report)
    assert found.names == [str(i) for i in range(12)]
    assert found.busiest.startswith("day ")
    assert time_ticks(found)[1][0] == "0"


def test_one_day_a_day_without_alarms_and_a_day_without_rows():
    (one,) = by_period(by_day(np.zeros(100), 50))
    assert one.sentence.startswith("The only day, day 0, had ")
    assert one.sentence.endswith("; 50 alarms may be raised.")
    days = np.array(["2024-01-01"] * 100 + ["2024-01-09"] * 100, dtype="datetime64[D]")
    y, scores = scored(200)
    scores[100:] = -5.0
    report = report_of("max recall s.t. alarms <= 300 per day", y, scores, times=days)
    (found,) = by_period(report)
    assert found.alarms[1] == 0
    assert found.places[1] - found.places[0] == 8  # the days between leave a gap
    assert found.sentence.startswith("None of the 2 days had more than 300 alarms; ")
    assert 'class="over"' not in draw_periods(found, "p")
    report = report_of("max recall s.t. alarms <= 3 per day", y, scores, 99.0, times=days)
    assert "nan" not in draw_periods(by_period(report)[0], "p")  # no alarms at all


def test_periods_are_described_by_their_dates():
    times = np.array(["2024-03-16T17:05"] * 50 + ["2024-12-31T00:30"] * 50, dtype="datetime64[m]")
    for period, first in (
        ("hour", "16 March 2024, 17:00"), ("day", "16 March 2024"),
        ("week", "the week of 11 March 2024"), ("month", "March 2024"),
    ):  # fmt: skip
        (found,) = by_period(by_day(times, period=period))
        assert found.describe(0) == first


@pytest.mark.parametrize(("period", "span"), [("hour", 30), ("hour", 20_000), ("day", 5),
                                              ("day", 400), ("day", 9000), ("week", 60),
                                              ("month", 3), ("month", 400)])  # fmt: skip
def test_many_periods_have_few_ticks_and_bars(period, span):
    unit = {"hour": "h", "day": "D", "week": "W", "month": "M"}[period]
    times = np.datetime64("2019-11-20", unit) + np.arange(span)
    (found,) = by_period(by_day(times, 1, period=period))
    at, labels = time_ticks(found)
    assert 1 <= len(at) <= 6
    assert len(set(labels)) == len(labels) or span > 300
    assert all(found.places[0] - 1 <= place <= found.places[-1] + 1 for place in at)
    bars = bars_of(found)
    assert len(bars.at) <= 680
    assert bars.alarms.max() == found.alarms.max()  # the busiest are kept
    assert bars.over.any() == found.over.any()
    assert len(draw_periods(found, "p")) < 60_000
    if (period, span) == ("day", 400):
        assert bars.each == 1
        assert labels == ["Jan 2020", "Mar", "May", "Jul", "Sep", "Nov"]


def test_budgets_on_some_days_and_on_average():
    days = np.arange(400) % 20
    text = headline(by_day(days, 4, " on 95% of days")).replace("\xa0", " ")
    assert "on 95 % of days there were at most " in text
    assert "had more than 4 alarms, and at most 5 % may" in text
    text = headline(by_day(days, 4, " on average"))
    assert " alarms per day on average, and 4 are allowed" in text
    assert "alarms per day on average, and at most 4 are allowed" in text


def test_a_segment_without_alarms_has_no_precision_to_draw():
    y, scores = scored(600)
    region = np.where(scores <= 1.0, of_names(["quiet", "north"], 600), "north")
    report = report_of(EACH, y, scores, segments={"region": region})
    (found,) = by_segment(report)
    picture = draw_segments(found, "precision", "p")
    assert picture.count('class="mark ') == 1  # of the other one
    assert "1.000" not in picture
    assert "nan" not in picture

"""Columns of later rows compared with summaries of training."""

import json
import math

import numpy as np
import pandas as pd
import pytest
from scipy.stats import ks_2samp

from setpoint.explain import ColumnDrift, ColumnSummary, Drift


def compared(before, now, kind, **options):
    summary = ColumnSummary.of("x", kind, pd.Series(before), **options)
    again = ColumnSummary.from_dict(json.loads(json.dumps(summary.to_dict(), allow_nan=False)))
    assert repr(again) == repr(summary)
    return Drift.of([again], pd.DataFrame({"x": pd.Series(now)}), "new rows")[0]


def test_numbers_are_compared_by_ks():
    rng = np.random.default_rng(0)
    old, new = rng.normal(size=3000), rng.normal(0.7, 1.5, 2000)
    found = compared(old, new, "number")
    assert found.distance == pytest.approx(ks_2samp(old, new).statistic, abs=0.02)
    assert found.judgement == "large"
    assert found.before.startswith(("0.", "−0."))
    assert "± 1" in found.now
    assert compared(old, rng.normal(size=2000), "number").judgement == "within chance"


def test_numbers_with_few_different_values():
    rng = np.random.default_rng(0)
    old, new = rng.choice([0.0, 1.0], 1000, p=[0.9, 0.1]), rng.choice([0.0, 1.0], 1000)
    found = compared(old, new, "number")
    assert found.distance == pytest.approx(ks_2samp(old, new).statistic)


def test_categories_are_compared_by_total_variation():
    old = ["a"] * 600 + ["b"] * 300 + [""] * 100
    new = ["a"] * 200 + ["b"] * 200 + ["<script>"] * 100
    found = compared(old, new, "category")
    assert found.distance == pytest.approx((2 / 3 - 0.4 + abs(1 / 3 - 0.4) + 0.2) / 2)
    assert found.unseen == pytest.approx(0.2)
    assert (found.before, found.now) == ("a 67 %", "a 40 %")
    assert (found.missing_before, found.missing) == (0.1, 0.0)
    many = compared(old, new, "category", every_level=False)
    assert many.distance == found.distance
    rest = compared(["a"] * 50 + list("bcdefg"), ["a"] * 50 + list("bcdxyz"), "category",
                    every_level=False)  # fmt: skip
    assert rest.unseen is None
    assert rest.distance == pytest.approx(0, abs=1e-12)


def test_a_column_that_is_all_one_category_or_all_missing():
    found = compared(["a", "b"] * 200, ["a"] * 400, "category")
    assert found.distance == pytest.approx(0.5)
    gone = compared([1.0, 2.0] * 200, [math.nan] * 400, "number")
    assert (gone.distance, gone.size, gone.is_notable) == (0, 1, True)
    assert gone.now == "–"
    never = compared([math.nan] * 4, [1.0] * 4, "number")
    assert (never.size, never.judgement) == (1.0, "within chance")
    assert compared([math.nan] * 9, [math.nan] * 9, "number").size == 0


def test_no_value_is_unseen_by_rounding():
    rng = np.random.default_rng(0)
    for n in (7, 49, 333):
        now = rng.choice(list("abcdefghij"), n)
        found = compared(list("abcdefghij") * 30, now, "category")
        assert found.unseen == 0


def test_large_numbers_are_written_without_exponent():
    found = compared([1e5, 1.3e5] * 100, [2e6, 3e6] * 100, "number")
    assert (found.before, found.now) == ("115,000 ± 15,000", "2,500,000 ± 500,000")


def test_booleans_dates_texts_and_infinite_numbers():
    found = compared([1.0, 0.0, math.nan, 0.0] * 100, [1.0] * 400, "boolean")
    assert found.distance == pytest.approx(2 / 3)
    dates = pd.Series(pd.date_range("2020", periods=400, tz="Europe/Paris"))
    later = dates + pd.Timedelta(days=4000)
    found = compared(dates, later, "date")
    assert found.distance == pytest.approx(1, abs=0.02)
    assert (found.before, found.now) == ("mean 2020-07-18", "mean 2031-07-01")
    found = compared(["word " * 5] * 300, ["word " * 9, ""] * 150, "text")
    assert found.distance == pytest.approx(1, abs=0.02)
    assert "letters" in found.now
    found = compared([math.inf, -math.inf, 1.0, 2.0] * 50, [1e308, -1e308] * 100, "number")
    assert math.isfinite(found.distance)


def test_few_rows_differ_by_chance():
    rng = np.random.default_rng(0)
    false = 0
    for _ in range(50):
        old = pd.DataFrame({f"x{i}": rng.normal(size=200) for i in range(20)})
        summaries = [ColumnSummary.of(name, "number", old[name]) for name in old]
        new = pd.DataFrame({f"x{i}": rng.normal(size=12) for i in range(20)})
        false += len(Drift.of(summaries, new, "12 rows").notable)
    assert false <= 3  # in 50 trials, one in a hundred of which has a false one
    old = pd.Series(rng.integers(0, 300, 2000).astype(str))
    now = rng.integers(0, 300, 100).astype(str)
    assert not compared(old, now, "category").is_notable


def test_the_most_different_column_comes_first():
    found = Drift(
        [ColumnDrift("a", "number", 0.05, 0, 0, 0.01, "1", "2"),
         ColumnDrift("<b>", "category", 0.3, 0, 0, 0.01, "x 1 %", "x 9 %", 0.2)],
        "new rows", 1234,
    )  # fmt: skip
    assert [one.name for one in found] == ["<b>", "a"]
    assert [one.judgement for one in found] == ["large", "small"]
    text = str(found)
    assert "1 of 2 columns differs from training by 0.1 or more" in text
    assert "1,234 rows" in text
    assert "20 %" in text
    assert found.text(1).endswith("… 1 more")
    assert "<b> " not in found._repr_html_()
    assert json.dumps(found.to_dict(), allow_nan=False)
    assert "No column of new rows" in Drift(found[1:], "new rows", 9).meaning
    assert str(Drift([], "no columns", 0))

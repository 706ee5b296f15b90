"""Summaries of columns: what they keep, and damaged ones."""

import math

import pandas as pd
import pytest

from setpoint.explain import ColumnSummary


def test_extreme_values_of_single_rows_are_not_kept():
    summary = ColumnSummary.of("x", "number", pd.Series([*range(1000), 1e9]))
    assert max(summary.grid) < 1000
    rare = pd.Series(["a"] * 500 + [f"name {i}" for i in range(500)])
    summary = ColumnSummary.of("x", "category", rare, every_level=False)
    assert summary.levels == (("a", 500),)
    assert not summary.is_complete


@pytest.mark.parametrize(
    "change",
    [
        {"rows": -1}, {"rows": 1.5}, {"missing": 99}, {"kind": "code"}, {"name": 1},
        {"grid": [1.0]}, {"grid": [2.0, 1.0], "up_to": [1, 2]}, {"mean": "1"},
        {"levels": [["a", 9], ["b", 9]]}, {"levels": [[1, 1]]},
    ],
)  # fmt: skip
def test_damaged_summaries_are_refused(change):
    fields = ColumnSummary.of("x", "number", pd.Series([1.0, 2.0, math.nan] * 4)).to_dict()
    ColumnSummary.from_dict(fields)
    with pytest.raises(ValueError, match="not the summary"):
        ColumnSummary.from_dict({**fields, **change})

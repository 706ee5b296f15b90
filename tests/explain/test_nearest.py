"""Rows nearest to the threshold: which they are, and what is shown of them."""

import json

import numpy as np
import pytest

from setpoint import SetpointError
from setpoint.explain.nearest import NearestRows, NearRow, near_rows, nearest


def test_rows_exactly_at_the_threshold_have_no_alarm():
    scores = np.array([0.0, 1.0, 0.0, -1.0, 0.0, 2.0, np.inf, -np.inf])
    assert nearest(scores, 1).tolist() == [1, 0]
    assert nearest(scores, 3).tolist() == [5, 1, 0, 2, 4]
    assert nearest(scores, 100).tolist() == [5, 1, 0, 2, 4, 3]
    assert nearest(np.array([-1.0, -2.0]), 1).tolist() == [0]
    assert nearest(np.zeros(0), 1).tolist() == []
    with pytest.raises(SetpointError, match="at least 1"):
        nearest(scores, 0)


SCORES = np.array([5.0, 0.01, -0.02, -9.0])


def explained(**options):
    def explain(rows):
        return [{"a": 0.1, "<b>": -3.0, "zero": 0.0} for _ in rows], -1.25, "score"

    return near_rows(SCORES, 1, "new rows", explain=explain, labels=list("wxyz"), **options)


def test_contributions_come_largest_first_and_without_values():
    found = explained(numbers=np.array([10, 20, 30, 40]))
    assert [(row.number, row.label, row.is_alarm) for row in found] == [
        (21, "x", True), (31, "y", False)
    ]  # fmt: skip
    assert list(found[0].contributions) == ["<b>", "a", "zero"]
    assert found[0].values == {}
    text = str(found)
    assert "new rows" in text
    assert "<b> −3, a +0.1" in text
    assert "zero" not in text
    assert "average row, −1.25" in text
    assert "<b> ↓, a ↑" in found.table(exact=False)[1]
    assert "−3" not in str(found.table(exact=False))
    assert "values" not in found.to_dict()["rows"][0]
    assert "<b> −3" not in found._repr_html_()


def test_values_where_they_are_asked_for():
    found = explained(value=lambda row, name: "x" * 99 if name == "a" else row)
    assert "<b> = 1 −3" in str(found)
    assert len(found[0].values["a"]) <= 40
    assert json.loads(json.dumps(found.to_dict()))["rows"][0]["values"]["<b>"] == "1"


def test_without_labels_and_contributions():
    found = near_rows(SCORES, 1, "new rows")
    assert found.table() == [["row", "score"], ["2", "+0.01"], ["3", "−0.02"]]
    assert found.to_dict()["average"] is None
    assert str(NearestRows([], "no rows"))
    assert NearRow(1, 0.0).is_alarm is False

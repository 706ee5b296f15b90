"""The sections on the model's reasons: what their tables say about order and rows."""

import numpy as np
import pytest

from setpoint import evaluate_threshold
from setpoint.explain import (
    ColumnDrift,
    Drift,
    Explanations,
    Importance,
    Importances,
    NearestRows,
    NearRow,
)
from setpoint.report import Report, html
from setpoint.report.why import reasons


def importances(rows, metrics):
    point = evaluate_threshold(rows.y, rows.scores, 1.5, "max f1")
    found = [Importance((name,), (0.1,) * len(metrics), (0.0,) * len(metrics)) for name in "ab"]
    return Importances(found, metrics, point, 3000, 3000, 5)


@pytest.mark.parametrize(
    ("metrics", "order"),
    [
        (["f1"], "sorted by the loss"),
        (["recall", "precision"], "sorted by the largest loss in any"),
    ],
)
def test_the_caption_says_by_what_columns_are_sorted(rows, metrics, order):
    why = Explanations(importances=importances(rows, metrics))
    assert order in reasons(why)["importances"]["caption"]
    assert order in html(Report("max f1", rows, 1.5, why=why))


def test_row_numbers_are_identifiers_that_count_from_1(rows):
    near = NearestRows([NearRow(12345, 0.5, "1", {"a": 1.0})], "the test rows", -1.0)
    page = html(Report("max f1", rows, 1.5, why=Explanations(nearest=near)))
    assert '<th scope="row">12345</th>' in page
    assert "rows count from 1" in page
    assert "<td>a\N{NO-BREAK SPACE}↑</td>" in page


def test_numbers_are_not_broken_before_their_signs(rows):
    changed = ColumnDrift("age", "number", 0.4, 0, 0.2, 0.1, "41 ± 10", "53 ± 11", 0.3)
    found = Drift([changed], "the test rows", 2000)
    (row,) = reasons(Explanations(drift=found))["drift"]["rows"]
    assert "41\N{NO-BREAK SPACE}± 10" in row
    assert not any(" %" in text for text in row)
    assert np.all(["%" in text for text in row[5:]])

"""Coefficients as an object: order, text, plain values."""

import json
import math
import re

import pytest

from setpoint.explain import Coefficient, Coefficients

FOUND = Coefficients(
    [
        Coefficient("age", "", 0.5, 0.1),
        Coefficient("<b>x</b>", "= far", -2.0, -0.7, "far", "near, “so”"),
        Coefficient("unknown", "", 9.0, math.nan),
        Coefficient("amount", "", 0.001, 0.3, centre=1234.5, limit=10.0, missing=1200.0),
    ],
    -1.5,
)


def test_the_most_influential_come_first_and_unknown_deviations_last():
    assert [c.column for c in FOUND] == ["<b>x</b>", "amount", "age", "unknown"]
    assert [c.column for c in FOUND[:2]] == ["<b>x</b>", "amount"]
    assert FOUND[0].feature == "<b>x</b> = far"


def test_text():
    text = str(FOUND)
    assert "is the intercept −1.5 plus each coefficient" in text
    assert re.search(r"<b>x</b> = far \(against near, “so”\) +−2 +−0.7\n", text)
    assert "± 10" in text
    assert "1234" in text or "1235" in text
    assert FOUND.text(1).endswith("… 3 more")
    assert "limit" not in str(Coefficients([Coefficient("age", "", 0.5, 0.1)], 0.0))


def test_notebook_escapes_names():
    assert "<b>x" not in FOUND._repr_html_()
    assert "&lt;b&gt;x" in FOUND._repr_html_()


def test_plain_values():
    fields = json.loads(json.dumps(FOUND.to_dict(), allow_nan=False))
    assert fields["intercept"] == -1.5
    assert [c["limit"] for c in fields["coefficients"]] == [None, 10.0, None, None]
    assert fields["coefficients"][3]["per_deviation"] is None


def test_many_are_cut_off():
    many = Coefficients([Coefficient(f"x{i}", "", 1.0, 1.0) for i in range(1000)], 0.0)
    assert "970 more" in str(many)
    assert "970 of them are not shown" in many._repr_html_()
    assert len(many.to_dict()["coefficients"]) == 1000


def test_numbers_count_as():
    amount = FOUND[1]
    assert amount.counts_as(1234.5) == 1234.5
    assert amount.counts_as(1e300) == pytest.approx(1244.5)
    assert amount.counts_as(-math.inf) == 1224.5
    assert amount.counts_as(math.nan) == 1200
    assert amount.counts_as(1244.5) == pytest.approx(1234.5 + 10 / math.sqrt(2))
    assert FOUND[2].counts_as(7e300) == 7e300
    assert math.isnan(FOUND[2].counts_as(math.nan))

"""Rows with amounts, segments and times, and reports of goals that name these."""

import numpy as np

from setpoint.report import Report, Rows

HOSTILE = (
    "<b>north</b>", "\"quo'ted\"", "🐟 Süd & West", "x" * 80, "</script><script>alert(1)</script>",
    "[a=b](c)", "tab\tand\nline", "{{ 7 * 7 }}",
)  # fmt: skip


def scored(n, prevalence=0.1, seed=0):
    """Return labels, and scores with ties."""
    rng = np.random.default_rng(seed)
    y = rng.random(n) < prevalence
    return y, np.round(rng.normal(size=n) + 2 * y, 1)


def report_of(goal, y, scores, threshold=1.0, **named):
    """Return a report; ``named`` are amounts, segments, times and fields of the report."""
    columns = {k: named.pop(k) for k in ("amounts", "segments", "times") if k in named}
    rows = Rows(y, scores, "the test rows", named=columns)
    return Report(goal, rows, threshold, positive="fraud", positives="frauds", **named)


def of_names(names, n, seed=5):
    """Return a column of texts."""
    return np.array(list(names), dtype=object)[
        np.random.default_rng(seed).integers(0, len(names), n)
    ]

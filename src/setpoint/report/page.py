"""The report as one HTML file that asks nothing of any network.

Pictures are drawn here as SVG, and a small script moves a mark in them. A plotting library in the
browser would add 4.8 MB to every report, draw nothing without its script, and take neither print
nor dark colours from the style sheet. This page has about 100 to 400 KB, is complete before any
script runs, and every number on it can be read by a screen reader and by a test. What is given up
is zooming.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
from collections.abc import Mapping
from html import escape
from importlib import resources
from pathlib import Path
from typing import Any

from sklearn.utils.validation import check_is_fitted

from setpoint._internal.files import write_atomically
from setpoint._internal.provenance import made_by
from setpoint.errors import SetpointError
from setpoint.report import sections
from setpoint.report.content import Report, Rows
from setpoint.report.data import Contents
from setpoint.report.drawings import CURVE, WIDTH, Frame, scores_frame
from setpoint.report.explore import explore
from setpoint.report.headline import headline
from setpoint.report.promise import promise


def html(report: Report) -> str:
    """Return the page."""
    contents = Contents(report)
    style, script = _file("page.css"), _file("page.js")
    data = contents.for_script()
    data["frames"] = {"curve": _corners(CURVE), "scores": _corners(scores_frame(contents))}
    parts = [
        ("goal", "The goal", sections.goal(report)),
        ("promise", "What is promised", promise(report)),
        ("explore", "What other thresholds would do", explore(contents)),
        ("histograms", "Scores of both classes", sections.score_histograms(contents)),
        ("training", "How training went", sections.training(report)),
        ("candidates", "Models compared", sections.compared(report.candidates)),
        ("facts", "To reproduce this", sections.facts(report)),
        ("glossary", "Words used here", sections.glossary(contents)),
    ]
    body = "".join(
        f'<section aria-labelledby="{name}"><h2 id="{name}">{title}</h2>{inner}</section>'
        for name, title, inner in parts
        if inner
    )
    return _fill(
        _file("page.html"),
        {
            "policy": f"default-src 'none'; img-src data:; style-src {_digest(style)}; "
            f"script-src {_digest(script)}; base-uri 'none'; form-action 'none'",
            "generator": made_by(),
            "title": escape(report.title),
            "description": escape(headline(report)),
            "style": style,
            "opening": sections.opening(report),
            "sections": body,
            "data": _json(data),
            "script": script,
        },
    )


def write_report(report: Report, path: str | Path) -> Path:
    """Write the page to a file, in one step: a failure leaves what was there before."""
    target = Path(path)
    if target.is_dir():
        raise SetpointError(f"the report cannot be written to {target}, which is a folder.")
    # Labels may come from file names with bytes that are no text.
    content = html(report).encode("utf-8", errors="replace")
    real = Path(os.path.realpath(target))  # a link stays, and what it leads to is written
    try:
        real.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(real, content)
    except OSError as error:
        raise SetpointError(
            f"the report cannot be written to {target}: {error.strerror or error}. Choose another "
            "folder, or make room or permission there."
        ) from error
    return target


def _file(name: str) -> str:
    return resources.files("setpoint.report").joinpath(name).read_text(encoding="utf-8")


def _fill(template: str, values: Mapping[str, str]) -> str:
    """Replace every ``{{ name }}`` at once, so that what is put in is never looked at again."""
    return re.sub(r"\{\{ (\w+) \}\}", lambda found: values[found[1]], template)


def _digest(text: str) -> str:
    """Return the hash by which a browser knows a style sheet or script that may be used."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _json(data: dict[str, Any]) -> str:
    """Return JSON that cannot end the element it stands in."""
    text = json.dumps(data, separators=(",", ":"), allow_nan=False)
    for sign in "<>&":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return text


def _corners(frame: Frame) -> list[float]:
    """Return pixels and values of a frame's corners: left, right, bottom, top of both."""
    return [frame.left, WIDTH - frame.right, frame.bottom, frame.top, *frame.x, *frame.y]


def write_report_of(
    classifier: Any, path: str | Path, X: Any = None, y: Any = None, **options: Any
) -> Path:
    """Write the page about a fitted SetpointClassifier or SetpointThreshold.

    Parameters
    ----------
    classifier : SetpointClassifier or SetpointThreshold
        Fitted.
    path : path
        The HTML file.
    X, y : array-like, optional
        Labelled rows that are new to the classifier. Without them the page is about the rows that
        set the threshold.
    **options
        ``groups`` of the rows, where the promise is for one case of each group, and further fields
        of :class:`setpoint.report.Report`: title, positive, positives, baseline, tuned, costs,
        facts, notes.
    """
    return write_report(report_of(classifier, X, y, **options), path)


def report_of(
    classifier: Any, X: Any = None, y: Any = None, *, groups: Any = None, **options: Any
) -> Report:
    """Return what the page shows; parameters as in :func:`write_report_of`."""
    check_is_fitted(
        classifier,
        "operating_point_",
        msg="this %(name)s is not fitted yet: call fit(X, y) before report().",
    )
    if (X is None) != (y is None):
        raise SetpointError("a report on other rows needs both X and y.")
    if X is not None:
        positive, scores = classifier._labels.is_positive(y), classifier.positive_scores(X)
        rows = Rows(positive, scores, on="the rows given", unseen=True)
        held = classifier.certificate_
        if groups is not None and held is not None and held.certified:
            options.setdefault(
                "verdict", held.check(rows.y, rows.scores, pos_label=True, groups=groups)
            )
    else:
        judged = getattr(classifier, "_judged", None)
        if judged is None:
            raise SetpointError(
                "the rows that set the threshold are not kept in a file; give report() labelled "
                "rows, X and y."
            )
        positive, scores = judged
        rows = Rows(positive, scores, on=classifier.operating_point_.on, chose=True)
    return Report(
        classifier.goal_,
        rows,
        classifier.operating_point_.threshold,
        **{
            "certificate": classifier.certificate_,
            "history": getattr(classifier, "history_", None),
            "candidates": getattr(classifier, "candidates_", None),
            "positive": str(classifier.pos_label_),
            **options,
        },
    )


# DOC of report.of_classifier: The report of a fitted classifier.

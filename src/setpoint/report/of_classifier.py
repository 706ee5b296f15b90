"""The report of a fitted classifier."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sklearn.utils.validation import check_is_fitted

from setpoint.errors import SetpointError
from setpoint.report.content import Report, Rows
from setpoint.report.page import write_report


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

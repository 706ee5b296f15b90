"""Reports on a classifier: an HTML page, and figures as files."""

import warnings
from typing import Any

from setpoint.report.bands import BandBaseline, BandReport
from setpoint.report.content import Baseline, Costs, Report, Rows
from setpoint.report.figures import plot_certificate, save_figures
from setpoint.report.page import html, write_report
from setpoint.report.sentences import headline

__all__ = [
    "BandBaseline",
    "BandReport",
    "Baseline",
    "Costs",
    "Report",
    "Rows",
    "headline",
    "html",
    "plot_certificate",
    "save_figures",
    "write_report",
]


def _html_of(result: Any, *names: str, **classes: str) -> str:
    """Return a result as HTML; an operating point may be given names of its classes."""
    return str(result._summary(*names, **classes).html())


def __getattr__(name: str) -> Any:
    """Return the functions of version 0.1 that objects have as methods now."""
    if name in ("operating_point_html", "certificate_html", "verdict_html", "candidates_html"):
        warnings.warn(
            f"setpoint.report.{name}(x) is deprecated; use x._repr_html_().",
            DeprecationWarning,
            stacklevel=2,
        )
        return _html_of
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

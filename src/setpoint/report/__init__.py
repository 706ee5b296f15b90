"""A page, pictures and small tables that show what a classifier does and what is promised of it."""

from setpoint.report.content import Baseline, Costs, Report, Rows
from setpoint.report.figures import save_figures
from setpoint.report.headline import headline
from setpoint.report.notebook import (
    candidates_html,
    certificate_html,
    operating_point_html,
    verdict_html,
)
from setpoint.report.page import html, write_report

__all__ = [
    "Baseline",
    "Costs",
    "Report",
    "Rows",
    "candidates_html",
    "certificate_html",
    "headline",
    "html",
    "operating_point_html",
    "save_figures",
    "verdict_html",
    "write_report",
]

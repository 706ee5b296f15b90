"""A page, pictures and small tables that show what a classifier does and what is promised of it."""

from setpoint.report.content import Baseline, Costs, Report, Rows
from setpoint.report.figures import save_figures
from setpoint.report.headline import headline
from setpoint.report.page import html, write_report

__all__ = [
    "Baseline",
    "Costs",
    "Report",
    "Rows",
    "headline",
    "html",
    "save_figures",
    "write_report",
]

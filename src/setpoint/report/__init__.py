"""A page, pictures and small tables that show what a classifier does and what is promised of it."""

from setpoint.report.content import Baseline, Costs, Report, Rows
from setpoint.report.figures import save_figures
from setpoint.report.headline import headline
from setpoint.report.notebook import certificate_html, operating_point_html
from setpoint.report.page import html, write_report

__all__ = [
    "Baseline",
    "Costs",
    "Report",
    "Rows",
    "certificate_html",
    "headline",
    "html",
    "operating_point_html",
    "save_figures",
    "write_report",
]

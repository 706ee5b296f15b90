"""The pictures: where curves begin, intervals that can be seen on bars, and names of bars."""

import re

import numpy as np

from setpoint.report import Baseline, Report, Rows, html
from setpoint.report.data import ReportData
from setpoint.report.drawings import CURVE, WIDTH, draw_precision_recall, error_bar, swatch
from setpoint.report.why_drawings import Bar, draw_bars


def test_curves_begin_beside_the_axis_where_the_first_alarms_are_false():
    rng = np.random.default_rng(0)
    y = rng.random(2000) < 0.2
    scores = rng.normal(size=2000) + y
    scores[~y] += 9 * (rng.random((~y).sum()) < 0.01)  # false alarms come first
    rows = Rows(y, scores, "the test rows", unseen=True)
    others = {
        "baseline": Baseline("other", scores.copy(), 0.5), "current": Baseline("today", scores, 0.4)
    }  # fmt: skip
    picture = str(draw_precision_recall(ReportData(Report("max f1", rows, 0.5, **others))))
    for kind in ("line model", "line baseline", "line current", "area", "edge"):
        (path,) = re.findall(rf'<path class="{kind}" d="([^"]*)"', picture)
        assert min(float(x) for x in re.findall(r"[ML]([\d.]+) ", path)) >= CURVE.left + 1


def test_a_curve_of_one_positive_is_drawn():
    scores = np.arange(9.0)
    picture = str(
        draw_precision_recall(ReportData(Report("max f1", Rows(scores > 7, scores), 7.5)))
    )
    assert re.search(r'<path class="line model" d="M[^"]+"', picture)


def test_intervals_have_caps_at_both_ends_and_an_edge():
    across, upright = error_bar(10, 30, 5), error_bar(30, 10, 5, upright=True)
    assert 'class="interval" d="M10.0 1.0v8m0 -4H30.0m0 -4v8"' in across
    assert 'class="interval" d="M0.0 30.0h10m-5 0V10.0m-5 0h10"' in upright
    for drawn in (across, upright, swatch("interval")):
        assert drawn.index('class="halo"') < drawn.index('class="interval"')


def test_names_of_bars_are_whole_where_there_is_space_and_bars_stay_inside_the_frame():
    bars = [Bar("poutcome = success", 2.0, "+2", 1.5, 2.5), Bar("x" * 40, -1.0, "−1")]
    picture = str(draw_bars(bars, "change", "p", "bars"))
    assert ">poutcome = success<" in picture
    assert f">{'x' * 21}…<" in picture
    axis = re.search(r'class="axis" d="M([\d.]+) [\d.]+H([\d.]+)"', picture)
    left, right = float(axis[1]), float(axis[2])
    at = re.search(r'class="interval" d="M([\d.]+) [^H]*H([\d.]+)', picture)
    assert float(at[2]) < right - 2
    assert right < WIDTH
    starts = [float(x) for x in re.findall(r'class="bar \w+" d="M([\d.]+) ', picture)]
    assert min(starts) > left + 2


def test_bars_of_one_sign_begin_at_the_edge_of_the_frame():
    picture = str(draw_bars([Bar("a", 2.0, "+2"), Bar("b", 1.0, "+1")], "change", "p", "bars"))
    left = float(re.search(r'class="axis" d="M([\d.]+) [\d.]+H', picture)[1])
    starts = {float(x) for x in re.findall(r'class="bar \w+" d="M([\d.]+) ', picture)}
    assert starts == {left}


def test_the_legend_names_the_curve(rows):
    page = html(Report("max f1", rows, 1.5))
    assert "this model</li>" in page
    assert "every threshold</li>" not in page

"""Pictures show what the certificate says."""

import matplotlib
import numpy as np
import pytest

from setpoint import certify, evaluate_threshold
from setpoint.report.plots import plot_certificate

matplotlib.use("Agg")


@pytest.fixture
def rows():
    rng = np.random.default_rng(0)
    y = rng.random(2000) < 0.3
    return y, np.round(rng.normal(size=2000) + 2.5 * y, 1)  # with ties


def curve(ax):
    (line,) = [x for x in ax.get_lines() if x.get_label().startswith("every threshold")]
    return line.get_data()


def test_the_curve_is_that_of_every_distinct_cut(rows):
    y, scores = rows
    recall, precision = curve(plot_certificate(certify(y, scores, "max f1"), y, scores))
    assert len(recall) == len(np.unique(scores))
    for r, p, lowest in zip(recall, precision, np.unique(scores)[::-1], strict=True):
        point = evaluate_threshold(y, scores, lowest - 0.05, "max f1")
        assert (r, p) == pytest.approx((point.recall, point.precision))


def test_the_chosen_point_its_floor_and_its_bounds_are_drawn(rows):
    y, scores = rows
    certificate = certify(y, scores, "max recall s.t. precision >= 0.9")
    ax = plot_certificate(certificate, y, scores)
    labels = [text.get_text() for text in ax.get_legend().get_texts()]
    assert "goal: precision >= 0.9" in labels
    assert "precision >= 0.9000" in labels
    shown = {line.get_label(): line.get_data() for line in ax.get_lines()}
    point = certificate.operating_point
    (x,), (height,) = shown[f"on {point.on}"]
    assert (x, height) == (point.recall, point.precision)
    assert "Certified at 90 %" in ax.get_title(loc="left")
    matplotlib.pyplot.close("all")


def test_labels_of_any_kind_and_axes_of_ones_own_are_taken(rows):
    y, scores = rows
    names = np.where(y, "ill", "well")
    certificate = certify(names, scores, "max precision s.t. recall >= 0.9", pos_label="ill")
    ax = matplotlib.pyplot.subplots()[1]
    assert plot_certificate(certificate, names, scores, pos_label="ill", ax=ax) is ax
    matplotlib.pyplot.close("all")

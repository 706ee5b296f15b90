"""Figures as files, and plots of certificates."""

import errno
import os
from dataclasses import replace

import matplotlib
import numpy as np
import pytest
from matplotlib.figure import Figure

from report_rows import HOSTILE as SEGMENTS
from report_rows import of_names, report_of, scored
from setpoint import SetpointError, __version__, certify, evaluate_threshold
from setpoint.cli.output_paths import check_outputs
from setpoint.report import Baseline, plot_certificate, save_figures

matplotlib.use("Agg")


def test_each_figure_is_written_in_each_format(certified, history, tmp_path):
    other = Baseline("cost $5 or $6", certified.rows.scores[::-1].copy(), 1.0)
    report = replace(certified, history=history, baseline=other)
    files = save_figures(report, tmp_path / "new", ("png", "svg"))
    names = ["precision-recall", "scores", "history"]
    assert [f.name for f in files] == [f"{n}.{kind}" for n in names for kind in ("png", "svg")]
    assert sorted(os.listdir(tmp_path / "new")) == sorted(f.name for f in files)
    assert files[0].read_bytes().startswith(b"\x89PNG")
    assert b"<svg" in files[1].read_bytes()
    again = save_figures(report, tmp_path / "again", ("png", "svg"))
    assert [f.read_bytes() for f in again] == [f.read_bytes() for f in files]


def test_figures_name_their_maker(certified, tmp_path):
    """The command line recognises them by it."""
    png, svg, pdf = (
        f.read_bytes() for f in save_figures(certified, tmp_path, ("png", "svg", "pdf"))[:3]
    )
    maker = f"setpoint {__version__}".encode()
    assert b"tEXtSoftware\0" + maker in png
    assert b"<dc:title>" + maker in svg
    assert maker in pdf


def test_an_unknown_format_and_a_full_disk_are_errors(certified, tmp_path, monkeypatch):
    with pytest.raises(SetpointError, match="format 'bmp' is not one of"):
        save_figures(certified, tmp_path, ("bmp",))

    def full(*_, **__):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Figure, "savefig", full)
    with pytest.raises(SetpointError, match=r"precision-recall.png: No space left"):
        save_figures(certified, tmp_path)
    assert os.listdir(tmp_path) == []


def test_infinite_scores_and_thresholds_are_drawn(certified, tmp_path):
    scores = np.where(certified.rows.scores > 3, np.inf, certified.rows.scores)
    rows = replace(certified.rows, scores=scores)
    report = replace(certified, rows=rows, certificate=None, threshold=np.inf)
    assert len(save_figures(report, tmp_path, ("png",))) == 2


def test_figures_by_segment_and_period(tmp_path):
    y, scores = scored(900)
    goal = (
        "max recall s.t. precision >= 0.5 for each region, recall >= 0.9 for each region, "
        "alarms <= 9 per day"
    )
    named = {"segments": {"region": of_names(SEGMENTS, 900)}, "times": np.arange(900) % 400}
    files = save_figures(report_of(goal, y, scores, **named), tmp_path, ("png",))
    assert [f.stem for f in files] == [
        "precision-recall", "scores", "segments", "segments-2", "periods"
    ]  # fmt: skip
    check_outputs({}, figures=tmp_path)  # the command line knows them as figures


# --- plots of certificates -----------------------------------------------------------------------


@pytest.fixture
def labelled():
    rng = np.random.default_rng(0)
    y = rng.random(2000) < 0.3
    return y, np.round(rng.normal(size=2000) + 2.5 * y, 1)  # with ties


def curve(ax):
    (line,) = [x for x in ax.get_lines() if x.get_label().startswith("every threshold")]
    return line.get_data()


def test_the_curve_has_a_point_at_every_distinct_score(labelled):
    y, scores = labelled
    recall, precision = curve(plot_certificate(certify(y, scores, "max f1"), y, scores))
    assert len(recall) == len(np.unique(scores))
    for r, p, lowest in zip(recall, precision, np.unique(scores), strict=True):
        point = evaluate_threshold(y, scores, lowest - 0.05, "max f1")
        assert (r, p) == pytest.approx((point.recall, point.precision))


def test_operating_point_required_level_and_bounds_are_drawn(labelled):
    y, scores = labelled
    certificate = certify(y, scores, "max recall s.t. precision >= 0.9")
    ax = plot_certificate(certificate, y, scores)
    labels = [text.get_text() for text in ax.get_legend().get_texts()]
    assert "required: precision >= 0.9" in labels
    assert "precision >= 0.9000" in labels
    shown = {line.get_label(): line.get_data() for line in ax.get_lines()}
    point = certificate.operating_point
    (x,), (height,) = shown[f"on {point.on}"]
    assert (x, height) == (point.recall, point.precision)
    assert "Certified at 90 %" in ax.get_title(loc="left")
    matplotlib.pyplot.close("all")


def test_any_labels_and_given_axes_are_accepted(labelled):
    y, scores = labelled
    names = np.where(y, "ill", "well")
    certificate = certify(names, scores, "max precision s.t. recall >= 0.9", pos_label="ill")
    ax = matplotlib.pyplot.subplots()[1]
    assert plot_certificate(certificate, names, scores, pos_label="ill", ax=ax) is ax
    matplotlib.pyplot.close("all")

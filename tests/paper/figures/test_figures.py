"""All figures: how they are saved, without side effects."""

import os
import sys

import matplotlib
import numpy as np
import pytest

from setpoint.errors import SetpointError
from setpoint.paper import figures
from setpoint.paper.figures import FIGURES, NAMES, logit_histograms, save, stress_test
from setpoint.paper.figures.style import new_figure


def histograms():
    logits = np.random.default_rng(0).normal(size=200)
    model = logit_histograms.Logits(logits, 0.5)
    return logit_histograms.figure(model, model, logits > 1)


def stress():
    points = [
        stress_test.Point("ade", 0.95, part, method, method.upper(), after, x, 0.5, 0.01, 0.02)
        for part in ("train", "test")
        for method, x in (("wce", 0.96), ("focal", 0.96), ("own", 0.4))
        for after in (False, True)
    ]
    return stress_test.figure_of_points(points, "frop")


ALL = FIGURES | {
    "logit-histograms": histograms,
    "stress-test": stress,
}


def test_there_are_five_figures_of_which_three_need_no_results():
    assert tuple(ALL) == NAMES
    assert list(FIGURES) == ["surrogates", "heat-maps", "regulariser"]


@pytest.fixture(scope="module", params=NAMES)
def twice(request, tmp_path_factory):
    """A figure drawn and saved twice: without pyplot, and with a user's settings."""
    name, folder = request.param, tmp_path_factory.mktemp("figures")
    formats = ["png", "svg"] if name == "heat-maps" else ["svg"]
    with pytest.MonkeyPatch.context() as patch:
        # Pyplot would leave figures open, and might ask for a window system.
        patch.setitem(sys.modules, "matplotlib.pyplot", None)
        first = save(ALL[name](), folder / "one", name, formats)
    settings = {"font.size": 23.0, "axes.titlelocation": "right", "savefig.dpi": 40,
             "svg.hashsalt": None}  # fmt: skip
    with matplotlib.rc_context(settings):
        before = dict(matplotlib.rcParams), matplotlib.get_backend()
        second = save(ALL[name](), folder / "two", name, formats)
        after = dict(matplotlib.rcParams), matplotlib.get_backend()
    return first, second, before, after


def test_the_same_figure_is_the_same_bytes_whatever_the_users_settings(twice):
    first, second, _, _ = twice
    for one, two in zip(first, second, strict=True):
        data = one.read_bytes()
        assert data == two.read_bytes()
        assert matplotlib.__version__.encode() not in data
        assert b"dc:date" not in data


def test_drawing_and_saving_leave_settings_and_backend_alone(twice):
    _, _, before, after = twice
    assert before == after


def test_a_failed_write_leaves_the_old_file_and_no_other(tmp_path, monkeypatch):
    (tmp_path / "r.svg").write_text("old")
    drawn = new_figure(1.0, 1.0)

    def fail(file, **_):
        file.write(b"half a fig")
        raise OSError("disk full")

    monkeypatch.setattr(drawn, "savefig", fail)
    with pytest.raises(OSError, match="disk full"):
        save(drawn, tmp_path, "r", ["svg"])
    assert (tmp_path / "r.svg").read_text() == "old"
    assert os.listdir(tmp_path) == ["r.svg"]


def test_by_default_files_are_png_and_svg_and_what_the_umask_allows(tmp_path):
    (tmp_path / "plain").touch()
    png, svg = save(new_figure(1.0, 1.0), tmp_path / "new" / "folder", "h")
    assert (png.name, svg.name) == ("h.png", "h.svg")
    assert png.read_bytes().startswith(b"\x89PNG")
    assert svg.read_bytes().startswith(b"<?xml")
    assert png.stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_names_that_lead_elsewhere_raise(tmp_path):
    for name in ("", "..", "a/b", "/etc/r"):
        with pytest.raises(SetpointError, match="not a file name"):
            save(new_figure(1.0, 1.0), tmp_path, name)


def test_formats_that_are_not_reproducible_raise_before_anything_is_written(tmp_path):
    with pytest.raises(SetpointError, match="png, svg, pdf, not 'gif'"):
        save(new_figure(1.0, 1.0), tmp_path / "new", "h", ["png", "gif"])
    assert not (tmp_path / "new").exists()


def test_without_matplotlib_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(SetpointError, match=r'pip install "setpoint\[paper\]"'):
        figures.surrogates.figure()

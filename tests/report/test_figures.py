"""The pictures as files."""

import errno
import os
from dataclasses import replace

import numpy as np
import pytest
from matplotlib.figure import Figure

from setpoint import SetpointError, __version__
from setpoint.report import Baseline, save_figures


def test_each_picture_in_each_format(certified, history, tmp_path):
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


def test_pictures_name_their_maker(certified, tmp_path):
    """By which the command line knows them."""
    png, svg, pdf = (
        f.read_bytes() for f in save_figures(certified, tmp_path, ("png", "svg", "pdf"))[:3]
    )
    maker = f"setpoint {__version__}".encode()
    assert b"tEXtSoftware\0" + maker in png
    assert b"<dc:title>" + maker in svg
    assert maker in pdf


def test_an_unknown_format_and_a_full_disk(certified, tmp_path, monkeypatch):
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

"""Text and lines have enough contrast in the light theme, the dark one and print."""

import re
from importlib import resources

import pytest

CSS = resources.files("setpoint.report").joinpath("page.css").read_text(encoding="utf-8")
THEMES = [
    dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})", block))
    for block in re.findall(r"\{\s*color-scheme: [^}]*\}", CSS)
]
PAIRS = [
    *((text, ground) for text in ("text", "faint", "accent") for ground in ("panel", "ground")),
    ("text", "good-ground"), ("text", "bad-ground"), ("text", "note-ground"),
    ("good", "good-ground"), ("bad", "bad-ground"),
]  # fmt: skip


def luminance(color):
    parts = [int(color[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one, other):
    high, low = sorted((luminance(one), luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def test_there_are_a_light_theme_two_equal_dark_ones_and_paper():
    assert len(THEMES) == 4
    assert THEMES[1] == THEMES[2]
    assert len({len(theme) for theme in THEMES}) == 1
    assert contrast("#000000", "#ffffff") == pytest.approx(21)


@pytest.mark.parametrize("theme", THEMES)
def test_contrast(theme):
    for text, ground in PAIRS:
        assert contrast(theme[text], theme[ground]) >= 4.5, (text, ground)
    for line in ("model", "baseline", "current", "bound", "positives", "others", "mark"):
        assert contrast(theme[line], theme["panel"]) >= 3, line


def mixed(color, ground, opacity):
    parts = [
        round(int(color[i : i + 2], 16) * opacity + int(ground[i : i + 2], 16) * (1 - opacity))
        for i in (1, 3, 5)
    ]
    return "#" + "".join(f"{part:02x}" for part in parts)


@pytest.mark.parametrize("theme", THEMES)
def test_edges_of_the_interval_of_precision_and_intervals_on_bars_can_be_seen(theme):
    opacity = float(re.search(r"\.edge \{[^}]*stroke-opacity: ([\d.]+)", CSS)[1])
    edge = mixed(theme["model"], theme["panel"], opacity)
    assert contrast(edge, theme["panel"]) >= 3
    for ground in ("panel", "positives", "others"):  # a line with an edge in the panel's colour
        best = max(contrast(theme[line], theme[ground]) for line in ("text", "panel"))
        assert best >= 3, ground
    assert re.search(r"\.interval, \.halo \{[^}]*stroke: var\(--text\)", CSS)
    assert re.search(r"\.halo \{ stroke: var\(--panel\)", CSS)

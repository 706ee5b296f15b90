"""The numbers behind the stress test, and where they are drawn."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_hex, to_rgb

from setpoint.errors import SetpointError
from setpoint.paper.figures import stress_test
from setpoint.paper.figures.stress_test import (
    APART,
    LOOKS,
    Point,
    apart,
    figure_of_points,
    looks_of,
    stretch,
    summarise,
    unstretch,
)
from setpoint.paper.methods import COMPETITORS, OURS

# --- stress test ----------------------------------------------------------------------------------


def trials(**changes):
    """Ten trials of two methods on two data sets at two levels, before and after adjustment."""
    rng = np.random.default_rng(0)
    rows = [
        {"dataset": d, "kind": k, "alpha": a, "method": m, "label": m.upper(), "part": p,
         "adjusted": after, "precision": rng.random(), "recall": rng.random(), "f1": 0.5}
        for d in ("ade", "mura")
        for k, a in (("fpor", 0.95), ("fpor", 0.99), ("frop", 0.95), ("ofos", np.nan))
        for m in ("wce", "default")
        for p in ("train", "test")
        for after in (False, True)
        for _ in range(10)
    ]  # fmt: skip
    return pd.DataFrame(rows).assign(**changes)


def test_points_are_means_and_population_deviations_of_the_right_columns():
    results = trials()
    points = summarise(results, "fpor")
    assert len(points) == 2 * 2 * 2 * 2 * 2
    one = next(p for p in points if (p.dataset, p.alpha, p.method, p.part, p.adjusted)
               == ("mura", 0.99, "default", "test", True))  # fmt: skip
    own = results.query("dataset == 'mura' and kind == 'fpor' and alpha == 0.99 and part == 'test'")
    own = own[(own["method"] == "default") & own["adjusted"]]
    assert len(own) == 10
    assert (one.x, one.y) == pytest.approx((own["precision"].mean(), own["recall"].mean()))
    assert one.x_deviation == pytest.approx(np.std(own["precision"].to_numpy()))
    assert one.y_deviation == pytest.approx(np.std(own["recall"].to_numpy()))


def test_for_frop_recall_is_the_constraint():
    results = trials(precision=0.25, recall=0.75)
    assert {(p.x, p.y) for p in summarise(results, "frop")} == {(0.75, 0.25)}
    assert {(p.x, p.y) for p in summarise(results, "fpor")} == {(0.25, 0.75)}


def test_eight_ones_and_two_zeros_deviate_by_04_as_the_paper_prints_them():
    results = trials().head(10).assign(precision=[1.0] * 8 + [0.0] * 2)
    (point,) = summarise(results, "fpor")
    assert (point.x, point.x_deviation) == pytest.approx((0.8, 0.4))


def test_failed_trials_are_not_hidden_in_a_mean():
    results = trials()
    results.loc[3, "recall"] = np.nan
    with pytest.raises(SetpointError, match="a trial of wce on ade has no recall"):
        summarise(results, "fpor")
    with pytest.raises(SetpointError, match="has no alpha"):
        summarise(trials(alpha=np.nan), "fpor")


def test_results_that_cannot_be_drawn_raise():
    with pytest.raises(SetpointError, match="not 'ofos'"):
        stress_test.figure(trials(), "ofos")
    with pytest.raises(SetpointError, match="no column label, adjusted"):
        summarise(trials().drop(columns=["label", "adjusted"]), "fpor")
    with pytest.raises(SetpointError, match="contain no trial of frop"):
        stress_test.figure(trials(kind="fpor"), "frop")
    with pytest.raises(SetpointError, match="no points for train"):
        stress_test.figure(trials(part="elsewhere"), "fpor")
    with pytest.raises(SetpointError, match="cannot be distinguished"):
        looks_of([f"method {k}" for k in range(20)])


def test_methods_differ_by_marker_and_by_colour():
    looks = looks_of([*LOOKS, "ssa", "rcr", "eq", "xgboost"])
    assert len({look.marker for look in looks.values()}) == len(looks) == 18
    colours = [to_rgb(look.colour) for look in looks.values()]
    for k, one in enumerate(colours):
        for other in colours[:k]:
            assert np.abs(np.subtract(one, other)).sum() > 0.2
    assert looks_of(["mine", "rus"])["rus"] == LOOKS["rus"]
    assert list(looks_of(["mine", "rus"])) == ["mine", "rus"]


def test_every_drawn_method_has_a_unique_look():
    assert set(LOOKS) == {method.name for method in (*COMPETITORS, *OURS)}


def test_the_scale_is_undone_and_keeps_the_order():
    for alpha in (0.5, 0.95, 0.99, 1.0):
        x = np.linspace(0, 1, 101)
        assert unstretch(stretch(x, alpha), alpha) == pytest.approx(x)
        assert (np.diff(stretch(x, alpha)) > 0).all()
        assert stretch(alpha, alpha) == 0


@pytest.fixture(scope="module")
def panels(printed_points):
    points = printed_points("fpor")
    assert len(points) == 2 * 2 * 2 * 8 * 2
    figure = figure_of_points(points, "fpor")
    figure.draw_without_rendering()
    return points, figure


def markers(ax):
    return [line for line in ax.get_lines() if line.get_marker() not in ("None", "", None)]


def test_every_panel_holds_its_points_hollow_before_and_filled_after(panels):
    points, figure = panels
    assert len(figure.axes) == 8
    for ax in figure.axes:
        dataset, level, part = ax.get_title(loc="left").split(", ")
        alpha = float(level.split("=")[1].rstrip("$"))
        own = [p for p in points if (p.dataset, p.alpha, p.part) == (dataset, alpha, part)]
        drawn = {
            (float(m.get_xdata()[0]), float(m.get_ydata()[0]), to_hex(m.get_markeredgecolor()),
             m.get_marker(), to_hex(m.get_markerfacecolor()) != "#ffffff")
            for m in markers(ax)
        }  # fmt: skip
        assert drawn == {(p.x, p.y, *LOOKS[p.method], p.adjusted) for p in own}
        assert len(markers(ax)) == len(own) == 16


def test_every_marker_and_the_level_are_inside_its_panel(panels):
    for ax in panels[1].axes:
        (low, high), (bottom, top) = ax.get_xlim(), ax.get_ylim()
        for marker in markers(ax):
            assert low < marker.get_xdata()[0] < high
            assert bottom < marker.get_ydata()[0] < top
        alpha = float(ax.get_title(loc="left").split("=")[1].split("$")[0])
        assert low < alpha < high
        assert alpha in ax.get_xticks()
        span = ax.patches[0]
        assert span.get_x() == alpha


def test_the_legend_covers_no_panel_and_names_every_method(panels):
    _, figure = panels
    (legend,) = figure.legends
    box = legend.get_window_extent()
    for ax in figure.axes:
        assert not box.overlaps(ax.get_tightbbox())
    assert box.x0 >= 0
    assert box.x1 <= figure.bbox.width
    names = [text.get_text() for text in legend.get_texts()]
    assert {"WCE", "FOCAL", "DEFAULT", "feasible"} <= set(names)
    assert len(names) == len(set(names)) == 8 + 5


def places(ax):
    """Return where markers are drawn, in points from the panel's corner."""
    corner = ax.get_window_extent().p0
    pixels = [m.get_transform().transform(m.get_xydata())[0] for m in markers(ax)]
    return (np.array(pixels) - corner) * 72 / ax.get_figure().dpi


def crowd(n, x, y=0.5, alpha=0.95):
    names = [*LOOKS, "ssa", "rcr", "eq"][:n]
    return [Point("ade", alpha, "test", m, m.upper(), False, x, y, 0.0, 0.0) for m in names]


@pytest.mark.parametrize(
    ("n", "x"), [(2, 0.95), (9, 1.0), (17, 0.3), (17, 0.9499), (17, 0.95), (17, 0.9501), (17, 1.0)]
)
def test_markers_of_methods_that_coincide_are_drawn_side_by_side(n, x):
    far = Point("ade", 0.95, "test", "wce", "WCE", True, 0.1, 0.1, 0.0, 0.0)
    figure = figure_of_points([*crowd(n, x), far], "fpor")
    figure.draw_without_rendering()
    (ax,) = figure.axes
    found = places(ax)
    assert len(found) == n + 1
    gaps = np.linalg.norm(found[:, None] - found, axis=2)[~np.eye(n + 1, dtype=bool)]
    assert gaps.min() > 0.7 * APART
    # As near to its place as there is room, and never on the other side of the level.
    per_point, box = figure.dpi / 72, ax.get_window_extent()
    true = ax.transData.transform([(0.95, 0.5), *(m.get_xydata()[0] for m in markers(ax))])
    (level, _), *true = (true - box.p0) / per_point
    assert np.linalg.norm(found - true, axis=1).max() < 1.2 * APART * np.sqrt(n)
    for (at, _), (belongs, _) in zip(found, true, strict=True):
        assert at >= level - 0.01 if belongs >= level - 1e-6 else at <= level + 0.01
    assert (found >= -0.01).all()
    assert (found <= box.size / per_point + 0.01).all()


def test_a_method_may_cover_itself():
    before = crowd(3, 0.99)
    figure = figure_of_points([*before, *(replace(p, adjusted=True) for p in before)], "fpor")
    figure.draw_without_rendering()
    (ax,) = figure.axes
    found = {tuple(place) for place in places(ax).round(3)}
    assert len(markers(ax)) == 6
    assert len(found) == 3


def test_an_isolated_marker_is_drawn_at_its_values():
    ys = np.linspace(0.1, 0.9, 6)
    figure = figure_of_points([p for y in ys for p in crowd(1, 0.5, y)], "fpor")
    figure.draw_without_rendering()
    (ax,) = figure.axes
    true = ax.transData.transform([(0.5, y) for y in ys])
    assert (places(ax) * figure.dpi / 72 + ax.get_window_extent().p0) == pytest.approx(true)
    assert not ax.texts  # nor is a line drawn to it


def test_markers_that_were_moved_are_tied_to_their_place():
    figure = figure_of_points(crowd(5, 0.99), "fpor")
    (ax,) = figure.axes
    assert {text.xy for text in ax.texts} == {(0.99, 0.5)}
    assert 4 <= len(ax.texts) <= 5  # one may keep the place


def test_tick_labels_do_not_touch_each_other(panels):
    for ax in panels[1].axes:
        boxes = [label.get_window_extent() for label in ax.get_xticklabels()]
        for left, right in pairwise(boxes):
            assert left.x1 < right.x0


def test_panels_of_a_single_perfect_point_without_trials_and_without_adjustment_are_drawn():
    one = Point("a", 0.9, "train", "wce", "WCE", False, 1.0, 1.0, 0.0, 0.0)
    other = Point("b", 1.0, "validation", "own", "Own", True, 1.0, 0.0, 0.0, 0.0)
    figure = figure_of_points([one, other], "frop")
    figure.draw_without_rendering()
    titles = [ax.get_title(loc="left") for ax in figure.axes]
    assert titles == [f"{d}, $\\alpha={a}$, {p}" for p in ("train", "validation")
                      for d, a in (("a", 0.9), ("b", 1))]  # fmt: skip
    empty = [any(t.get_text() == "no trials" for t in ax.texts) for ax in figure.axes]
    assert empty == [False, True, True, False]
    assert figure.axes[-1].get_xlabel().startswith("recall")


def test_a_tidy_table_is_drawn_by_its_own_labels():
    results = trials(label="Mine")
    figure = stress_test.figure(results[results["method"] == "wce"], "fpor")
    assert len(figure.axes) == 8
    assert figure.legends[0].get_texts()[0].get_text() == "Mine"


def test_levels_stand_in_order_whatever_order_the_trials_have():
    shuffled = trials().sort_values("alpha", ascending=False)
    titles = [ax.get_title("left") for ax in stress_test.figure(shuffled, "fpor").axes]
    levels = [float(title.split("=")[1].split("$")[0]) for title in titles if "mura" in title]
    assert levels == [0.95, 0.99, 0.95, 0.99]  # two parts


# --- apart ----------------------------------------------------------------------------------------


SIZE = (200.0, 180.0)


def nearest(places):
    gaps = np.linalg.norm(places[:, None] - places, axis=2)
    return gaps[~np.eye(len(places), dtype=bool)].min()


def test_coinciding_markers_form_a_disc():
    for n in (2, 3, 14, 30):
        places = np.tile([100.0, 90.0], (n, 1))
        found = apart(places, 150.0, SIZE)
        assert nearest(found) > 0.98 * APART
        assert np.linalg.norm(found - places, axis=1).max() < 0.7 * APART * np.sqrt(n)


def test_only_crowded_markers_are_moved():
    places = np.array([[20.0, 20.0], [100.0, 90.0], [100.0, 90.0], [100.0, 90.0 + 2.5 * APART]])
    found = apart(places, 150.0, SIZE)
    assert found[[0, 3]].tolist() == places[[0, 3]].tolist()
    assert (found[[1, 2]] != places[[1, 2]]).all()
    assert apart(places[:1], 150.0, SIZE).tolist() == places[:1].tolist()
    assert apart(places[:0], 150.0, SIZE).shape == (0, 2)


def test_neighbours_keep_their_order_along_a_column():
    places = np.column_stack([np.full(8, 100.0), 60.0 + np.arange(8) * 0.9 * APART])
    found = apart(places, 150.0, SIZE)
    assert (np.diff(found[:, 1]) > 0).all()
    assert nearest(found) > 0.98 * APART


def test_none_crosses_the_wall_or_leaves_the_panel():
    for x in (149.9, 150.0, 150.1):
        found = apart(np.tile([x, 170.0], (20, 1)), 150.0, SIZE)
        assert ((found[:, 0] >= 150.0) if x >= 150 else (found[:, 0] <= 150.0)).all()
        assert (found >= 0).all()
        assert (found <= SIZE).all()
        assert nearest(found) > 0.7 * APART

"""The numbers behind the histograms of logits."""

import numpy as np
import pytest

from setpoint import choose_threshold
from setpoint.errors import SetpointError
from setpoint.paper.figures import logit_histograms
from setpoint.paper.figures.logit_histograms import (
    SCORE_EDGES,
    Logits,
    bin_edges,
    fraction_near,
    histogram,
    normalise,
    train_for_histograms,
)

GOAL = "max recall s.t. precision >= 0.8"


def test_logits_are_measured_from_the_threshold_in_deviations():
    assert normalise([1.0, 3.0], 2.5).tolist() == [-1.5, 0.5]
    logits = np.random.default_rng(0).normal(3, 7, 1000)
    got = normalise(logits, 1.0)
    assert got.std() == pytest.approx(1.0)
    assert np.array_equal(got > 0, logits > 1.0)
    assert normalise(10 * logits, 10.0) == pytest.approx(got)


def test_logits_that_cannot_be_normalised_raise():
    for logits, threshold, why in (
        ([1.0, np.nan], 0.0, "must be finite"),
        ([1.0, 2.0], np.inf, "must be finite"),
        ([], 0.0, "one number per sample"),
        ([[1.0, 2.0]], 0.0, "one number per sample"),
    ):
        with pytest.raises(SetpointError, match=why):
            normalise(logits, threshold)


def test_a_model_that_collapsed_can_still_be_drawn():
    assert normalise([0.1] * 3, 0.0).tolist() == [0.1] * 3  # whose computed deviation is not 0
    y = np.arange(10) < 2
    for at in (0.0, 0.1, -1e-9):
        collapsed = Logits(np.full(10, at), 0.0)
        figure = logit_histograms.figure(collapsed, collapsed, y)
        figure.draw_without_rendering()
        near = 100.0 if abs(at) < 0.1 else 0.0
        assert f"{near:.1f} % within" in figure.axes[1].get_title(loc="left")


def test_tiny_logits_that_differ_are_not_equal():
    assert normalise([1e-100, 3e-100], 0.0) == pytest.approx([1.0, 3.0])


def test_every_sample_is_counted_once_in_its_class():
    rng = np.random.default_rng(0)
    values, y = rng.standard_cauchy(5000), rng.random(5000) < 0.02
    edges = bin_edges(y, values)
    got = histogram(values, y, edges)
    assert got.positive.sum() == y.sum()
    assert got.negative.sum() == (~y).sum()
    assert (got.negative[0], got.negative[-1]) == (
        (values[~y] <= edges[1]).sum(),
        (values[~y] > edges[-2]).sum(),
    )


def test_the_threshold_is_an_edge_and_belongs_to_the_negative_side():
    values = np.array([-1.0, 0.0, np.nextafter(0, 1), 2.0])
    y = np.array([1, 0, 0, 1])
    edges = bin_edges(y, values)
    (zero,) = np.flatnonzero(edges == 0)
    got = histogram(values, y, edges)
    assert got.negative[:zero].sum() == 1
    assert got.negative[zero:].sum() == 1
    assert got.positive[:zero].sum() == got.positive[zero:].sum() == 1


def test_a_rare_class_far_off_is_not_swept_into_the_last_bin():
    """Of 10,000 samples the outer half per cent would be all 20 positives."""
    rng = np.random.default_rng(0)
    values = np.concatenate([rng.normal(0, 1, 9980), rng.uniform(8, 12, 20)])
    y = np.arange(10_000) >= 9980
    edges = bin_edges(y, values)
    assert edges[-1] > 11
    assert (histogram(values, y, edges).positive > 0).sum() > 5


def test_the_threshold_is_in_view_when_all_lie_on_one_side():
    for values in (np.array([1.0, 2.0, 3.0]), -np.array([1.0, 2.0, 3.0])):
        edges = bin_edges(np.array([0, 1, 1]), values)
        assert 0 in edges
        assert edges.min() <= values.min() + 0.1
        assert edges.max() >= values.max() - 0.1


def test_labels_of_one_class_and_logits_on_the_threshold_can_be_drawn():
    values = np.zeros(1000)
    values[0] = 5.0
    y = np.zeros(1000)
    got = histogram(values, y, bin_edges(y, values))
    assert got.negative.sum() == 1000
    assert got.positive.sum() == 0


def test_labels_of_another_length_raise():
    with pytest.raises(SetpointError, match="y has the shape"):
        histogram(np.zeros(3), [0, 1], np.linspace(-1, 1, 5))


def test_the_fraction_near_the_threshold():
    values = np.array([-0.2, -0.05, 0.0, 0.09, 3.0])
    assert fraction_near(values, 0.0) == 0.6
    assert fraction_near(values, 0.0, within=0.01) == 0.2
    assert fraction_near(values, 3.05) == 0.2


def test_the_figure_shows_fractions_of_each_class():
    from matplotlib.patches import StepPatch

    rng = np.random.default_rng(0)
    y = rng.random(400) < 0.1
    a, b = Logits(rng.normal(size=400) + 5 * y, 2.0), Logits(rng.normal(size=400), 0.0)
    figure = logit_histograms.figure(a, b, y, "data")
    edges = bin_edges(y, a.normalised, b.normalised)
    shown = [
        (model, *view)
        for model in (a, b)
        for view in ((model.scores, SCORE_EDGES, 0.5), (model.normalised, edges, 0.0))
    ]
    for ax, (_, values, own, threshold) in zip(figure.axes, shown, strict=True):
        negatives, _, positives, _ = (p for p in ax.patches if isinstance(p, StepPatch))
        counts = histogram(values, y, own)
        assert np.array_equal(negatives.get_data().values, counts.negative / (~y).sum())
        assert np.array_equal(positives.get_data().values, counts.positive / y.sum())
        assert ax.get_lines()[0].get_xdata() == [threshold, threshold]
        near = 100 * fraction_near(values, threshold)
        assert f"{near:.1f} % within 0.1" in ax.get_title(loc="left")


def test_scores_are_on_the_side_of_05_where_the_decision_is():
    model = Logits(np.array([-800.0, 1.9, 2.0, 2.5, 800.0]), 2.0)
    assert model.scores.tolist() == pytest.approx([0, 0.475, 0.5, 0.622, 1], abs=1e-3)
    assert np.array_equal(model.scores > 0.5, model.logits > 2.0)
    assert 0.5 in SCORE_EDGES


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    y = rng.random(400) < 0.2
    return rng.normal(size=(400, 3)) + 0.8 * y[:, None], y


def train(X, y, **changes):
    few = {"start": "random", "outer_iterations": 5, "inner_iterations": 20, "lr": 0.2}
    return train_for_histograms(X, y, GOAL, 0, **{**few, **changes})


@pytest.fixture(scope="module")
def pair(rows):
    return train(*rows)


def test_training_with_and_without_psi_differs_only_by_gamma(rows, pair):
    X, y = rows
    assert len(pair.with_psi.logits) == len(pair.without_psi.logits) == 400
    assert not np.array_equal(pair.with_psi.logits, pair.without_psi.logits)
    again = train(X, y.astype(int))
    assert np.array_equal(again.with_psi.logits, pair.with_psi.logits)
    none = train(X, y, gamma0=0.0, gamma_max=0.0)
    assert np.array_equal(none.with_psi.logits, none.without_psi.logits)
    assert np.array_equal(none.without_psi.logits, pair.without_psi.logits)


def test_the_threshold_is_that_of_the_last_iterate(rows, pair):
    y, model = rows[1], pair.with_psi
    alarm = model.logits > model.threshold
    assert (y & alarm).sum() / alarm.sum() >= 0.8
    point = choose_threshold(y, model.logits, GOAL)
    assert model.threshold == point.threshold


def test_psi_keeps_scores_away_from_the_threshold(pair):
    """What it is for: without it, the penalty is least where all scores are at the threshold."""
    assert fraction_near(pair.with_psi.scores, 0.5) < 0.1
    assert fraction_near(pair.without_psi.scores, 0.5) > 0.9


def test_float32_is_trained_in_float32_and_lists_are_taken(rows):
    X, y = rows
    short = {"start": "given", "outer_iterations": 1, "inner_iterations": 2}
    small = train(X.astype(np.float32), y, **short).with_psi.logits
    assert np.array_equal(small, small.astype(np.float32))
    assert train(X.tolist(), y.tolist(), **short).with_psi.logits == pytest.approx(small, abs=1e-3)

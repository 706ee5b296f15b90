"""The numbers behind the figure of the surrogates."""

import numpy as np
import pytest

from setpoint import choose_threshold, evaluate_threshold
from setpoint.paper.figures import surrogates
from setpoint.paper.figures.surrogates import METRICS, TEMPERATURES, curves, derivative


@pytest.fixture(scope="module")
def toy():
    return surrogates.toy_data()


@pytest.fixture(scope="module")
def found(toy):
    return curves(toy)


def test_the_data_are_as_the_paper_describes_them():
    many = surrogates.toy_data(seed=1, n=200_000)
    assert many.positive.mean() == pytest.approx(0.2, abs=0.004)
    for chosen, low, high in ((many.positive, -0.5, 2.0), (~many.positive, -2.0, 0.5)):
        x = many.x[chosen]
        assert low <= x.min() < low + 0.001
        assert high - 0.001 < x.max() <= high
        assert x.mean() == pytest.approx((low + high) / 2, abs=0.02)
        assert x.std() == pytest.approx((high - low) / 12**0.5, abs=0.02)


def test_there_are_500_points_which_depend_on_the_seed_alone(toy):
    assert len(toy.x) == len(toy.positive) == 500
    assert np.array_equal(surrogates.toy_data().x, toy.x)
    assert not np.array_equal(surrogates.toy_data(1).x, toy.x)


def test_true_curves_are_those_of_the_decisions(toy, found):
    for k in range(0, len(found.thresholds), 97):
        point = evaluate_threshold(toy.positive, toy.x, found.thresholds[k], "max f1")
        for name in METRICS:
            assert found.true[name][k] == pytest.approx(point.value(name))


def test_approximate_curves_by_hand():
    two = surrogates.Toy(np.array([1.0, 0.0]), np.array([True, False]))
    got = curves(two, np.array([0.0]))
    for T in TEMPERATURES:
        tp, fp = 1 / (1 + np.exp(-T)), 0.5
        assert got.approximate[T]["precision"][0] == pytest.approx(tp / (tp + fp))
        assert got.approximate[T]["recall"][0] == pytest.approx(tp)
        assert got.approximate[T]["f1"][0] == pytest.approx(2 * tp / (1 + tp + fp))


def test_at_temperature_2_the_approximate_precision_never_reaches_08(found):
    """As the paper says of its data; the true precision reaches 1."""
    assert 0.75 < found.approximate[2.0]["precision"].max() < 0.8
    assert found.true["precision"].max() == 1.0


def test_the_stars_are_at_the_best_approximate_f1(toy, found):
    best = choose_threshold(toy.positive, toy.x, "max f1").f1
    for T in TEMPERATURES:
        star = found.star(T)
        f1 = found.approximate[T]["f1"]
        assert star.approximate == f1.max()
        assert f1[found.thresholds == star.threshold] == [f1.max()]
        assert star.true == evaluate_threshold(toy.positive, toy.x, star.threshold, "max f1").f1
        assert star.true <= best
    assert found.star(1.0).true < best - 0.04
    assert found.star(10.0).approximate == pytest.approx(best, abs=0.05)


def test_the_slope_is_the_surrogates_derivative():
    x = np.linspace(-2, 2, 41)
    for T in TEMPERATURES:
        step = 1e-6
        sigmoid = [1 / (1 + np.exp(-T * (x + d))) for d in (-step, step)]
        assert derivative(x, T) == pytest.approx((sigmoid[1] - sigmoid[0]) / (2 * step), abs=1e-6)
        assert derivative(np.zeros(1), T) == pytest.approx(T / 4)


def test_the_figure_shows_the_numbers(found):
    figure = surrogates.figure()
    data, counts = figure.axes[0], figure.axes[-1]
    by_title = {ax.get_title(loc="left").split(",")[0]: ax for ax in figure.axes}
    assert len(figure.axes) == 7  # five panels, the legend, and the counts' own axis
    for name, letter in (("precision", "a"), ("recall", "b"), ("$F_1$", "c")):
        drawn = [line.get_ydata() for line in by_title[f"({letter}) {name}"].get_lines()[:4]]
        key = "f1" if "F" in name else name
        for line, T in zip(drawn, TEMPERATURES, strict=False):
            assert np.array_equal(line, found.approximate[T][key])
        assert np.array_equal(drawn[3], found.true[key])
    stars = [line for line in by_title["(c) $F_1$"].get_lines() if line.get_marker() == "*"]
    assert [line.get_xdata()[0] for line in stars] == [
        found.star(T).threshold for T in TEMPERATURES
    ]
    assert sum(patch.get_height() for patch in counts.patches) == 500
    assert [line.get_xdata()[0] for line in data.get_lines()] == [-2] * 4

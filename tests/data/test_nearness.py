"""Importances of rows."""

import pytest
import torch

from setpoint.data.sampling import Nearness
from setpoint.thresholds.histogram import ScoreHistogram


def seen(scales=(1.0, 100.0), n=5000, weight=None):
    """Return logits of models of very different scales, their labels and their histogram."""
    generator = torch.Generator().manual_seed(0)
    positive = torch.rand(n, generator=generator) < 0.1
    z = torch.randn(n, generator=generator) - 2 + 3 * positive
    logits = torch.stack([scale * z for scale in scales])
    histogram = ScoreHistogram(len(scales))
    histogram.add(logits, positive, weight)
    return logits, positive, histogram


def test_importances_of_a_class_sum_to_one():
    logits, positive, histogram = seen()
    q = Nearness.of(histogram, 0.1).importance(logits, positive)
    assert q.dtype == torch.float64
    for own in (positive, ~positive):
        assert q[own].sum() == pytest.approx(1.0, rel=0.01)
        assert q[own].min() >= 0.5 / own.sum() * 0.999  # none is forgotten


def test_weights_count_as_so_many_rows():
    weight = torch.arange(5000).double() % 4
    logits, positive, histogram = seen(weight=weight)
    q = Nearness.of(histogram, 0.1).importance(logits, positive) * weight
    assert q[positive].sum() == pytest.approx(1.0, rel=0.01)
    assert q[~positive].sum() == pytest.approx(1.0, rel=0.01)


def test_nearer_rows_matter_more():
    logits, positive, histogram = seen((1.0,))
    nearness = Nearness.of(histogram, 0.1)
    for own in (positive, ~positive):
        q = nearness.importance(logits[:, own], positive[own])
        order = logits[0, own].abs().argsort()
        assert (q[order].diff() <= 0).all()
        assert q[order][0] > 10 * q[order][-1]


def test_the_scale_of_a_model_does_not_matter():
    logits, positive, histogram = seen((1.0,))
    stretched, _, wide = seen((2.0**10,))
    first = Nearness.of(histogram, 0.1).importance(logits, positive)
    second = Nearness.of(wide, 0.1).importance(stretched, positive)
    assert (first / second - 1).abs().max() < 1e-3


def test_a_smaller_share_looks_nearer():
    logits, positive, histogram = seen((1.0,))
    few, many = (
        Nearness.of(histogram, share).importance(logits, positive) for share in (0.01, 1.0)
    )
    nearest = (logits[0].abs() < 0.05) & ~positive
    assert few[nearest].sum() > 2 * many[nearest].sum()


def test_each_model_has_its_say():
    generator = torch.Generator().manual_seed(1)
    positive = torch.rand(4000, generator=generator) < 0.3
    logits = 5 * torch.randn(2, 4000, generator=generator)
    histogram = ScoreHistogram(2)
    histogram.add(logits, positive)
    q = Nearness.of(histogram, 0.05).importance(logits, positive)
    near = logits.abs() < 0.1
    for k in range(2):
        assert q[near[k]].mean() > 5 * q[~near.any(dim=0)].mean()


@pytest.mark.parametrize("value", [0.0, 3e38, float("inf"), 1e-40])
def test_hopeless_scores_still_give_numbers(value):
    """All rows on the threshold, or beyond all numbers."""
    positive = torch.arange(100) % 2 == 0
    logits = torch.where(positive, value, -value)[None].float()
    histogram = ScoreHistogram(1)
    histogram.add(logits, positive)
    q = Nearness.of(histogram, 0.1).importance(logits, positive)
    assert q.isfinite().all()
    assert (q > 0).all()

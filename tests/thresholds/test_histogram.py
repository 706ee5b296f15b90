import numpy as np
import pytest
import torch

from setpoint import FPOR, FROP, OFOS, Goal, SetpointError, choose_threshold
from setpoint.errors import DivergedError
from setpoint.thresholds.histogram import BUCKETS, ScoreHistogram, bucket_values, from_keys, to_keys

GOALS = [
    FPOR(0.9),
    FPOR(0.2),
    FROP(0.8),
    OFOS(),
    Goal.parse("max recall s.t. alarm_rate <= 0.3"),
    Goal.parse("max recall s.t. recall >= 0.9, precision >= 0.95"),  # out of reach
]


def draw(seed, k=3, m=2000, share=0.2):
    rng = np.random.default_rng(seed)
    positive = rng.random(m) < share
    positive[:2] = True, False
    return (
        torch.from_numpy((rng.normal(size=(k, m)) + positive).astype(np.float32)),
        torch.from_numpy(positive),
        torch.from_numpy(rng.integers(0, 9, size=m) / 4),
    )


def rounded_down(scores):
    """Scores with the lower half of their keys gone: what a histogram can tell apart."""
    return from_keys(to_keys(scores.numpy()) & np.uint32(0xFFFF0000))


@pytest.mark.parametrize("goal", GOALS, ids=str)
@pytest.mark.parametrize("weighted", [False, True])
def test_the_best_edge_is_the_best_cut_of_scores_rounded_to_buckets(goal, weighted):
    scores, positive, weight = draw(0)
    histogram = ScoreHistogram(len(scores))
    for rows in torch.arange(scores.shape[1]).split(300):
        histogram.add(scores[:, rows], positive[rows], weight[rows] if weighted else None)
    w = weight.numpy() if weighted else None
    for own, cut in zip(scores, histogram.best(goal), strict=True):
        exact = choose_threshold(positive.numpy(), rounded_down(own), goal, sample_weight=w)
        assert (cut.tp, cut.fp) == (exact.tp, exact.fp)
        # The threshold gives these counts on the scores themselves, in float32.
        alarm = (own > cut.threshold).numpy()
        count = weight.numpy() if weighted else np.ones(len(alarm))
        assert count[alarm & positive.numpy()].sum() == cut.tp
        assert count[alarm & ~positive.numpy()].sum() == cut.fp


def test_scores_near_zero_are_told_apart_to_any_precision():
    scores = torch.tensor([[-3e-40, -1e-45, -0.0, 0.0, 1e-45, 2e-38]])
    for cut_at in range(1, 5):
        positive = scores[0] > scores[0, cut_at]
        if cut_at in (2, 3):  # both zeros are one score
            positive = scores[0] > 0
        histogram = ScoreHistogram(1)
        histogram.add(scores, positive)
        (cut,) = histogram.best(OFOS())
        alarm = scores[0] > cut.threshold
        assert (cut.tp, cut.fp) == (int((alarm & positive).sum()), int((alarm & ~positive).sum()))
    positive = scores[0] >= 0  # the edge between negative numbers and zero
    histogram = ScoreHistogram(1)
    histogram.add(scores, positive)
    assert histogram.best(OFOS())[0][1:] == (4.0, 0.0)
    assert torch.equal(scores[0] > histogram.best(OFOS())[0].threshold, positive)


def test_nothing_is_positive_where_that_is_best():
    for top in (1.0, 3.4e38, np.inf):
        scores = torch.tensor([[-np.inf, 0.5, top]])
        histogram = ScoreHistogram(1)
        histogram.add(scores, torch.tensor([True, True, False]))
        (cut,) = histogram.best(FPOR(0.99))
        assert (cut.tp, cut.fp) == (0, 0)
        assert cut.threshold >= top


def test_no_cut_lies_below_minus_infinity():
    histogram = ScoreHistogram(1)
    histogram.add(torch.tensor([[-np.inf, -np.inf, -3.4e38]]), torch.tensor([True, False, True]))
    (cut,) = histogram.best(Goal.parse("max recall"))
    assert cut == (-np.inf, 1.0, 0.0)


def test_parts_add_up():
    scores, positive, weight = draw(1)
    whole, left, right = (ScoreHistogram(3) for _ in range(3))
    whole.add(scores, positive, weight)
    left.add(scores[:, :700], positive[:700], weight[:700])
    right.add(scores[:, 700:], positive[700:], weight[700:])
    left.merge(right)
    left.all_reduce()  # a process alone has nobody to ask
    assert left.best(OFOS()) == whole.best(OFOS())
    np.testing.assert_array_equal(left.positive, whole.positive)
    assert whole.positive.shape == (3, BUCKETS)
    np.testing.assert_array_equal(whole.positive.sum(axis=1), float(weight[positive].sum()))
    np.testing.assert_array_equal(whole.negative.sum(axis=1), float(weight[~positive].sum()))


def test_a_bucket_is_known_by_a_score_inside_it():
    values = bucket_values()
    assert not np.isnan(values).any()
    assert (np.diff(values[np.isfinite(values)]) > 0).all()
    finite = values[np.isfinite(values)].astype(np.float32)
    np.testing.assert_array_equal(to_keys(finite) >> 16, np.flatnonzero(np.isfinite(values)))


def test_models_that_diverged_are_named():
    scores, positive, _ = draw(2)
    scores[1, 5] = np.nan
    histogram = ScoreHistogram(3)
    histogram.add(scores, positive)
    assert histogram.diverged == [1]
    with pytest.raises(DivergedError, match="1 of 3 models"):
        histogram.best(OFOS())


def test_what_cannot_be_counted_is_refused():
    scores, positive, _ = draw(3)
    histogram = ScoreHistogram(3)
    with pytest.raises(SetpointError, match=r"float32 of the shape \(3, 2000\)"):
        histogram.add(scores[:2], positive)
    with pytest.raises(SetpointError, match="they are float64"):
        histogram.add(scores.double(), positive)
    histogram.add(scores[:, ~positive], positive[~positive])
    with pytest.raises(SetpointError, match="no positive samples"):
        histogram.best(OFOS())


def test_gradients_do_not_pile_up():
    scores, positive, _ = draw(4)
    histogram = ScoreHistogram(3)
    histogram.add(scores.requires_grad_(), positive)
    assert not histogram._table.requires_grad

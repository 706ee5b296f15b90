import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from setpoint import FPOR, FROP, OFOS, Goal, SetpointError, choose_threshold
from setpoint.errors import DivergedError
from setpoint.goals.columns import GoalColumns
from setpoint.thresholds.histogram import (
    BUCKETS,
    ScoreHistogram,
    bucket_values,
    from_keys,
    largest_below,
    to_keys,
)

GOALS = [
    FPOR(0.9),
    FPOR(0.2),
    FROP(0.8),
    OFOS(),
    Goal.parse("max recall s.t. alarm_rate <= 0.3"),
    Goal.parse("max recall s.t. recall >= 0.9, precision >= 0.95"),  # out of reach
]


def draw(seed, k=3, m=2000):
    rng = np.random.default_rng(seed)
    positive = rng.random(m) < 0.2
    positive[:2] = True, False
    return (
        torch.from_numpy((rng.normal(size=(k, m)) + positive).astype(np.float32)),
        torch.from_numpy(positive),
        torch.from_numpy(rng.integers(0, 9, size=m) / 4),
    )


def rounded_down(scores):
    """Scores without the lower half of their keys: the resolution of a histogram."""
    return from_keys(to_keys(scores.numpy()) & np.uint32(0xFFFF0000))


@pytest.mark.parametrize("goal", GOALS, ids=str)
def test_the_best_edge_is_the_best_cut_of_scores_rounded_to_buckets(goal):
    scores, positive, weights = draw(0)
    y = positive.numpy()
    for weight in (None, weights):
        histogram = ScoreHistogram(len(scores))
        for rows in torch.arange(scores.shape[1]).split(300):
            histogram.add(scores[:, rows], positive[rows], None if weight is None else weight[rows])
        w = np.ones(len(y)) if weight is None else weight.numpy()
        for row, cut in zip(scores, histogram.best(goal), strict=True):
            exact = choose_threshold(y, rounded_down(row), goal, sample_weight=w)
            assert (cut.tp, cut.fp) == (exact.tp, exact.fp)
            # The threshold gives these counts on the scores themselves, in float32.
            alarm = (row > cut.threshold).numpy()
            assert (w[alarm & y].sum(), w[alarm & ~y].sum()) == (cut.tp, cut.fp)


TALLIED = [
    "min cost(fp=5, fn=amount)",
    "max recall[amount] s.t. precision >= 0.5",
    "max recall s.t. precision >= 0.3 for each region",
    "max recall s.t. alarms <= 40 per day",
]


@pytest.mark.parametrize("text", TALLIED)
def test_the_best_edge_in_several_tallies(text):
    scores, positive, weights = draw(5)
    y, n = positive.numpy(), len(positive)
    rng = np.random.default_rng(0)
    named = {
        "amounts": {"amount": rng.integers(1, 100, n) / 4},  # whose sums are exact
        "segments": {"region": rng.choice(["a", "b", "c"], n)},
        "times": rng.integers(0, 5, n),
    }
    goal = Goal.parse(text)
    columns = GoalColumns.of(goal, n, **named)
    goal = columns.bind(goal, y)
    counts = torch.from_numpy(columns.factors(goal.tallies).T) * weights[:, None]
    whole, parts = (ScoreHistogram(len(scores), len(goal.tallies)) for _ in range(2))
    whole.add(scores, positive, weights, counts)
    for i, rows in enumerate(torch.arange(n).split(300)):
        parts.add(scores[:, rows], positive[rows], weights[rows], counts[rows], shard=i % 2)
    parts.all_reduce()
    P, N = parts.totals()
    assert (counts[positive].sum(0).numpy() == P).all()
    assert (counts[~positive].sum(0).numpy() == N).all()
    found = zip(scores, parts.best(goal), whole.best(goal), strict=True)
    for row, cut, other in found:
        exact = choose_threshold(y, rounded_down(row), text, sample_weight=weights.numpy(), **named)
        tp, fp, *_ = exact.goal_counts
        assert (cut.tp == tp).all()
        assert (cut.fp == fp).all()
        assert cut.threshold == other.threshold
        alarm = row > cut.threshold
        assert (counts[alarm & positive].sum(0).numpy() == cut.tp).all()


def test_sums_in_several_tallies_do_not_depend_on_who_has_the_shards():
    """Amounts that do not add up exactly, by one process and by two."""
    scores, positive, weights = draw(6)
    counts = torch.stack([weights, torch.rand(len(weights)).double() * weights], dim=1)
    blocks = [(i % 4, rows) for i, rows in enumerate(torch.arange(len(weights)).split(100))]

    def histogram(*shards):
        found = ScoreHistogram(len(scores), 2)
        for shard, rows in blocks:
            if shard in shards:
                given = (positive[rows], weights[rows], counts[rows])
                found.add(scores[:, rows], *given, shard=shard)
        return found

    whole, first, second = histogram(0, 1, 2, 3), histogram(1, 3), histogram(0, 2)
    whole.all_reduce()
    for own, other in zip(first._tallied, second._tallied, strict=True):
        own.replace_by([own.shards(), other.shards()])
    for one, two in zip(whole._tallied, first._tallied, strict=True):
        assert all(torch.equal(a, b) for a, b in zip(one.sums(), two.sums(), strict=True))


def test_counts_are_needed_for_several_tallies():
    scores, positive, weights = draw(7)
    for counts in (None, weights[:, None]):
        with pytest.raises(SetpointError, match=r"counts must have the shape \(2000, 2\)"):
            ScoreHistogram(3, 2).add(scores, positive, weights, counts)


def test_scores_near_zero_are_distinguished_to_any_precision():
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


def test_blocks_add_up():
    scores, positive, weight = draw(1)
    whole, blocks = ScoreHistogram(3), ScoreHistogram(3)
    whole.add(scores, positive, weight)
    blocks.add(scores[:, :700], positive[:700], weight[:700])
    blocks.add(scores[:, 700:], positive[700:], weight[700:])
    blocks.all_reduce()  # a no-op in a single process
    assert blocks.best(OFOS()) == whole.best(OFOS())
    np.testing.assert_array_equal(blocks.positive, whole.positive)
    assert whole.positive.shape == (3, BUCKETS)
    np.testing.assert_array_equal(whole.positive.sum(axis=1), float(weight[positive].sum()))
    np.testing.assert_array_equal(whole.negative.sum(axis=1), float(weight[~positive].sum()))


def test_the_value_of_a_bucket_is_a_score_inside_it():
    values = bucket_values()
    assert not np.isnan(values).any()
    assert (np.diff(values[np.isfinite(values)]) > 0).all()
    finite = values[np.isfinite(values)].astype(np.float32)
    np.testing.assert_array_equal(to_keys(finite) >> 16, np.flatnonzero(np.isfinite(values)))


def test_diverged_models_are_reported():
    scores, positive, _ = draw(2)
    scores[1, 5] = np.nan
    histogram = ScoreHistogram(3)
    histogram.add(scores, positive)
    assert histogram.diverged == [1]
    with pytest.raises(DivergedError, match="1 of 3 models"):
        histogram.best(OFOS())


def test_invalid_scores_raise():
    scores, positive, _ = draw(3)
    histogram = ScoreHistogram(3)
    with pytest.raises(SetpointError, match=r"float32 of the shape \(3, 2000\)"):
        histogram.add(scores[:2], positive)
    with pytest.raises(SetpointError, match="they are float64"):
        histogram.add(scores.double(), positive)
    histogram.add(scores[:, ~positive], positive[~positive])
    with pytest.raises(SetpointError, match="no positive samples"):
        histogram.best(OFOS())


def test_gradients_are_not_tracked():
    scores, positive, _ = draw(4)
    histogram = ScoreHistogram(3)
    histogram.add(scores.requires_grad_(), positive)
    assert not histogram._table.requires_grad


# --- keys ----------------------------------------------------------------------------------------

DTYPES = {16: np.float16, 32: np.float32, 64: np.float64}


def edge_values(dtype):
    """Zeros, subnormal, largest and infinite numbers, and their neighbours."""
    info = np.finfo(dtype)
    upper = np.array([0, info.smallest_subnormal, info.tiny, info.eps, 1, info.max, np.inf], dtype)
    near = np.concatenate([upper, np.nextafter(upper[:-2], dtype(np.inf))])
    return np.concatenate([near, -near])


@pytest.mark.parametrize("width", DTYPES)
def test_keys_have_the_order_of_the_scores(width):
    scores = edge_values(DTYPES[width])
    keys = to_keys(scores)
    assert keys.dtype == f"uint{width}"
    np.testing.assert_array_equal(scores[:, None] < scores, keys[:, None] < keys)
    np.testing.assert_array_equal(scores[:, None] == scores, keys[:, None] == keys)


@given(st.sampled_from(list(DTYPES)), st.data())
def test_any_scores_keep_their_order_and_come_back(width, data):
    numbers = st.floats(allow_nan=False, width=width)
    scores = data.draw(hnp.arrays(DTYPES[width], st.integers(0, 30), elements=numbers))
    keys = to_keys(scores)
    np.testing.assert_array_equal(
        np.argsort(scores, kind="stable"), np.argsort(keys, kind="stable")
    )
    back = from_keys(keys)
    assert back.dtype == scores.dtype
    np.testing.assert_array_equal(back, scores)


def test_the_input_is_not_modified_and_may_be_a_view_or_read_only():
    scores = np.array([3.0, -0.0, -1.0, 2.0], dtype=np.float32)
    scores.setflags(write=False)
    keys = to_keys(scores[::-1])
    np.testing.assert_array_equal(from_keys(keys), [2, -1, 0, 3])
    assert np.signbit(scores[1])


def test_every_key_of_16_bits_comes_back():
    finite = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    finite = finite[~np.isnan(finite)]
    np.testing.assert_array_equal(from_keys(to_keys(finite)), finite)


def test_invalid_keys_raise():
    with pytest.raises(SetpointError, match="2 of 3 scores are NaN"):
        to_keys(np.array([np.nan, 1.0, -np.nan]))
    with pytest.raises(SetpointError, match="not int64"):
        to_keys(np.array([1, 2]))
    with pytest.raises(SetpointError, match="not float32"):
        from_keys(np.zeros(2, dtype=np.float32))


@pytest.mark.parametrize("score", [-1.5, -1e-45, 0.0, 1e-45, 1.0, 3e38, np.inf])
def test_a_threshold_just_below_a_key_makes_it_positive(score):
    score = np.float32(score)
    threshold = largest_below(int(to_keys(np.array(score))))
    assert np.float32(threshold) == threshold  # float32 compares it as it is
    assert score > np.float32(threshold)
    if np.isfinite(score):
        assert np.nextafter(np.float32(threshold), np.float32(np.inf)) == score
    else:
        assert threshold == np.finfo(np.float32).max

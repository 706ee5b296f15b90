import textwrap
from itertools import product

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from forked import run_script, run_together
from setpoint import (
    FPOR,
    FROP,
    OFOS,
    Goal,
    SetpointError,
    choose_threshold,
    define_metric,
    evaluate_threshold,
)
from setpoint.goals.goal import Constraint
from setpoint.goals.metrics import metric
from setpoint.thresholds import stream_search as cut_search
from setpoint.thresholds.stream import stream_evaluate, stream_threshold

PEAK = define_metric(  # best at an alarm rate in the middle; no corner of a range bounds it
    "stream_test_peak",
    lambda tp, fp, P, N: 1 - abs((tp + fp) / (P + N) - 0.4) - 0.1 * fp / N,
    d_tp=lambda tp, fp, P, N: 0.0 * tp,
    d_fp=lambda tp, fp, P, N: 0.0 * tp,
    monotone=False,
    bounds=(-1.0, 1.0),
)
MONOTONE = [
    FPOR(0.9),
    FPOR(0.5),
    FROP(0.8),
    OFOS(),
    Goal.parse("max precision"),
    Goal.parse("max recall"),
    Goal.parse("min fpr s.t. recall >= 0.7"),
    Goal.parse("max mcc"),
    Goal.parse("max gmean s.t. npv >= 0.9"),
    Goal.parse("max f1 s.t. recall >= 0.99, precision >= 0.99, fpr <= 0.001"),  # out of reach
    Goal.parse("min cost(fp=2, fn=7)"),
    Goal.parse("max recall s.t. cost(fp=2, fn=7) <= 0.9, precision >= 0.2"),
]
OTHERS = [
    Goal.parse("max recall s.t. alarm_rate <= 0.3"),
    Goal.parse("min alarm_rate s.t. precision >= 0.4"),
    Goal.parse("min alarm_rate s.t. recall >= 0.9, precision >= 0.9"),
    Goal.parse("max recall s.t. alarms <= 7"),
    Goal.parse("max precision s.t. cost(tp=300, fp=200, fn=700) <= 150, recall >= 0.9"),
    Goal(PEAK),
    Goal(metric("recall"), (Constraint(PEAK, 0.8),)),
]
GOALS = [*MONOTONE, *OTHERS]


class Scan:
    """Blocks of the same rows at each call, in blocks of these sizes; counts the calls."""

    def __init__(self, y, scores, weight=None, sizes=(7,)):
        self.columns, self.sizes, self.calls = (y, scores, weight), sizes, 0

    def __call__(self):
        self.calls += 1
        y, scores, weight = self.columns
        start, i = 0, 0
        while start < len(y):
            rows = slice(start, start + self.sizes[i % len(self.sizes)])
            yield y[rows], scores[rows], None if weight is None else weight[rows]
            start, i = rows.stop, i + 1


def limits(monkeypatch, collected, tables):
    monkeypatch.setattr(cut_search, "_COLLECTED", collected)
    monkeypatch.setattr(cut_search, "_TABLES", tables)


@st.composite
def rows(draw):
    """Labels, scores and weights whose sums are exact."""
    width = draw(st.sampled_from([16, 32, 64]))
    kind = {16: np.float16, 32: np.float32, 64: np.float64}[width]
    info = np.finfo(kind)
    few = [0.0, -0.0, 1.0, np.inf, -np.inf, float(info.max), float(info.smallest_subnormal)]
    near_one = [float(1 + i * info.eps) for i in range(4)]
    elements = draw(
        st.sampled_from(
            [
                st.floats(allow_nan=False, width=width),
                st.sampled_from(few),  # many ties, at the ends of the number line
                st.sampled_from(near_one),  # neighbours: one bucket, down to the last level
                st.just(0.25),
                st.floats(-8, 8, width=width),
            ]
        )
    )
    scores = draw(hnp.arrays(kind, st.integers(2, 40), elements=elements))
    y = draw(hnp.arrays(np.bool_, len(scores)))
    y[:2] = True, False
    weight = None
    if draw(st.booleans()):
        weight = draw(hnp.arrays(np.int64, len(scores), elements=st.integers(0, 5)))
        weight[:2] = 1
    sizes = draw(st.lists(st.integers(1, 9), min_size=1, max_size=3))
    return y, scores, weight, sizes


def check_equal(case, goal):
    y, scores, weight, sizes = case
    scan = Scan(y, scores, weight, sizes)
    found = stream_threshold(scan, goal, on="x")
    exact = choose_threshold(y, scores, goal, sample_weight=weight, on="x")
    assert found == exact
    assert type(found.threshold) is float
    return scan.calls


@given(rows(), st.sampled_from(GOALS))
@settings(max_examples=150)
def test_equals_the_sweep_in_memory(case, goal):
    assert check_equal(case, goal) <= 3


@pytest.mark.parametrize(("collected", "tables"), [(0, 1), (0, 64), (3, 2), (10, 1)])
@given(rows(), st.sampled_from(GOALS))
@settings(max_examples=40)
def test_refined_ranges_give_the_same_point(collected, tables, case, goal):
    with pytest.MonkeyPatch.context() as patch:
        limits(patch, collected, tables)
        calls = check_equal(case, goal)
    levels = case[1].itemsize // 2
    assert calls <= 2 + (levels - 1) * len(case[0])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_larger_data_with_and_without_ties(dtype):
    rng = np.random.default_rng(0)
    y = rng.random(30_000) < 0.05
    weight = rng.integers(0, 4, size=len(y))
    without_ties, with_ties = (
        rng.normal(size=len(y)) + 2 * y,
        (rng.normal(size=len(y)) + y).round(1),
    )
    for goal, scores, w in product(GOALS, (without_ties, with_ties), (None, weight)):
        assert check_equal((y, scores.astype(dtype), w, (4096, 1, 70_000)), goal) <= 3, str(goal)


# Any cut above all negatives has precision 1, so "max precision" alone needs all of those rows.
BOUNDED = [goal for goal in [*MONOTONE, *OTHERS[:3]] if str(goal) != "max precision"]


def test_few_rows_are_read_in_detail(monkeypatch):
    """For goals with bounds, alarm rates among them, most ranges are excluded at once."""
    taken = []
    resolve = cut_search.CutSearch.next_group

    def watched(self):
        group = resolve(self)
        taken.append(group.ranges.rows.sum())
        return group

    monkeypatch.setattr(cut_search.CutSearch, "next_group", watched)
    rng = np.random.default_rng(1)
    y = rng.random(40_000) < 0.05
    scores = (rng.normal(size=len(y)) + 2 * y).astype(np.float32)
    for goal in BOUNDED:
        taken.clear()
        assert check_equal((y, scores, None, (10_000,)), goal) <= 3, str(goal)
        assert sum(taken) < 0.1 * len(y), str(goal)


def test_the_limit_on_rows_in_memory_is_kept(monkeypatch):
    from setpoint.thresholds import stream as threshold

    limits(monkeypatch, 500, 2)
    held = []
    sum_by_key = threshold._sum_by_key

    def watched(parts):
        held.append(sum(len(part[0]) for part in parts))
        return sum_by_key(parts)

    monkeypatch.setattr(threshold, "_sum_by_key", watched)
    rng = np.random.default_rng(2)
    y = rng.random(5000) < 0.3
    for scores in (rng.normal(size=len(y)), rng.normal(size=len(y)).round(1)):
        calls = check_equal((y, scores.astype(np.float32), None, (999,)), Goal(PEAK))
        assert 400 < max(held) <= 500
        assert calls <= 2 + 5000 / 400


def test_five_passes_are_enough_for_crowded_float64(monkeypatch):
    limits(monkeypatch, 50, 64)
    rng = np.random.default_rng(3)
    y = rng.random(3000) < 0.3
    crowded = 1 + rng.integers(0, 5, size=len(y)) * np.finfo(np.float64).eps
    assert check_equal((y, crowded, None, (1000,)), OFOS()) <= 5


@pytest.mark.parametrize("collected", [0, 40])
def test_rows_between_the_open_ranges_are_left_out(collected, monkeypatch):
    """In one 16-bit range some subranges may hold the best cut, and those between them cannot."""
    limits(monkeypatch, collected, 64)
    rng = np.random.default_rng(8)
    part, inner = rng.integers(0, 9, size=4000), rng.integers(0, 5, size=4000)
    scores = 1 + part * 2.0**-19 + inner * 2.0**-33
    y = (part % 2 == 0) & (rng.random(4000) < 0.02 + 0.1 * part)
    for goal in GOALS:
        check_equal((y, scores, None, (1000,)), goal)


def test_weights_that_do_not_add_up_exactly_agree_to_rounding():
    rng = np.random.default_rng(4)
    for seed in range(20):
        y = rng.random(3000) < 0.2
        scores = (rng.normal(size=len(y)) + y).astype(np.float32)
        weight = rng.random(len(y)) * 10.0 ** rng.integers(-3, 3)
        goal = GOALS[seed % len(GOALS)]
        found = stream_threshold(Scan(y, scores, weight, (500,)), goal)
        exact = choose_threshold(y, scores, goal, sample_weight=weight)
        assert found.threshold == exact.threshold
        for name in ("tp", "fp", "fn", "tn"):
            assert getattr(found, name) == pytest.approx(getattr(exact, name), rel=1e-9, abs=1e-9)
        assert min(found.fn, found.tn) >= 0


def test_a_threshold_is_evaluated_in_one_pass():
    rng = np.random.default_rng(5)
    y, scores = rng.random(1000) < 0.3, rng.normal(size=1000).astype(np.float32)
    weight = rng.integers(0, 3, size=1000)
    for w in (None, weight):
        scan = Scan(y, scores, w, (64, 3))
        expected = evaluate_threshold(y, scores, 0.1, OFOS(), sample_weight=w, on="x")
        assert stream_evaluate(scan, 0.1, "max f1", on="x") == expected
        assert scan.calls == 1
    assert stream_evaluate(Scan(~y[y], scores[y]), 0.0, OFOS()).tp == 0  # one class is enough
    with pytest.raises(SetpointError, match="threshold is NaN"):
        stream_evaluate(scan, float("nan"), OFOS())
    with pytest.raises(SetpointError, match="no samples"):
        stream_evaluate(lambda: [], 0.0, OFOS())


def test_tensors_integers_and_read_only_arrays_are_accepted():
    rng = np.random.default_rng(6)
    y, scores = rng.random(300) < 0.3, rng.normal(size=300).astype(np.float32)
    exact = choose_threshold(y, scores, OFOS())
    frozen = [y.copy(), scores.copy(), np.ones(300)]
    for column in frozen:
        column.setflags(write=False)
    assert stream_threshold(Scan(*frozen), OFOS()) == exact
    tensors = torch.from_numpy(y), torch.from_numpy(scores)[:, None].requires_grad_()
    assert stream_threshold(Scan(*tensors), OFOS()) == exact
    half = tensors[1].bfloat16()
    assert stream_threshold(Scan(y, half), OFOS()) == choose_threshold(y, half, OFOS())
    whole = (4 * scores).astype(int)
    assert stream_threshold(Scan(y, whole), OFOS()) == choose_threshold(y, whole, OFOS())


def test_invalid_rows_raise():
    y, scores = np.array([True, False, True]), np.array([1.0, 2.0, 3.0])
    with pytest.raises(SetpointError, match="there are no samples"):
        stream_threshold(lambda: [], OFOS())
    with pytest.raises(SetpointError, match="no negative samples; a threshold needs both"):
        stream_threshold(Scan(y[:1], scores[:1]), OFOS())
    with pytest.raises(SetpointError, match="no positive samples of positive weight"):
        stream_threshold(Scan(y, scores, np.array([0.0, 1.0, 0.0])), OFOS())
    with pytest.raises(SetpointError, match="no positive samples of positive weight"):
        stream_threshold(Scan(y, scores, np.zeros(3)), OFOS())
    with pytest.raises(SetpointError, match=r"rows from 2 on, 1 of 1 scores are NaN"):
        stream_threshold(Scan(y, np.array([1.0, 2.0, np.nan]), sizes=(2,)), OFOS())
    with pytest.raises(SetpointError, match="differ in length"):
        stream_threshold(lambda: [(y, scores[:2], None)], OFOS())
    with pytest.raises(SetpointError, match="not negative"):
        stream_threshold(Scan(y, scores, np.array([1.0, -1.0, 1.0])), OFOS())
    with pytest.raises(SetpointError, match="one dtype, but are float32 and float64"):
        stream_threshold(lambda: [(y, scores, None), (y, scores.astype(np.float32), None)], OFOS())


def test_a_scan_that_gives_other_rows_each_time_raises():
    rng = np.random.default_rng(7)
    y = np.arange(400) % 3 == 0
    once = iter([(y, rng.normal(size=400), None)])
    with pytest.raises(SetpointError, match="pass 2 gave 0 rows .* the first pass 400"):
        stream_threshold(lambda: once, OFOS())
    with pytest.raises(SetpointError, match="pass 2 gave other scores"):
        stream_threshold(lambda: [(y, rng.normal(size=400), None)], OFOS())


@pytest.mark.parametrize(
    "goal", ["min cost(fp=5, fn=amount)", "max recall s.t. precision >= 0.9 for each region"]
)
def test_goals_that_name_columns_are_refused(goal):
    for find in (stream_threshold, lambda scan, goal: stream_evaluate(scan, 0.5, goal)):
        with pytest.raises(SetpointError, match="a stream of scores does not read; use choose"):
            find(lambda: [], goal)


PROCESS = """
    import sys
    import numpy as np
    import torch.distributed as dist
    from datetime import timedelta
    from setpoint import SetpointError, choose_threshold
    from setpoint.thresholds import stream_search as cut_search
    from setpoint.thresholds.histogram import ScoreHistogram
    from setpoint.thresholds.stream import stream_evaluate, stream_threshold
    import torch

    rank, store = int(sys.argv[1]), sys.argv[2]
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=2,
                            timeout=timedelta(seconds=30))
    rng = np.random.default_rng(0)
    y = rng.random(3000) < 0.2
    scores, weight = rng.normal(size=3000) + y, rng.integers(0, 4, size=3000)
    mine = (np.arange(3000) < 1000) == (rank == 0)
    goals = ("max recall s.t. precision >= 0.6", "max f1", "max recall s.t. alarm_rate <= 0.1",
             "max recall s.t. precision >= 1")
    for collected in (1 << 21, 20):
        cut_search._COLLECTED = collected
        for s, w in ((scores, None), (scores.astype(np.float32), weight), (scores.round(1), None)):
            own = None if w is None else w[mine]
            for goal in goals:
                found = stream_threshold(lambda: [(y[mine], s[mine], own)], goal)
                assert found == choose_threshold(y, s, goal, sample_weight=w), (rank, goal)
    # One process has no rows, or only one class, or invalid rows.
    alone = lambda: [(y, scores, None)] if rank else []
    exact = choose_threshold(y, scores, "max f1")
    assert stream_threshold(alone, "max f1") == exact
    assert stream_threshold(lambda: [(y[y == rank], scores[y == rank], None)], "max f1") == exact
    assert stream_evaluate(alone, exact.threshold, "max f1") == exact
    try:
        stream_threshold(lambda: [(y, scores if rank else scores * np.nan, None)], "max f1")
    except SetpointError as error:
        assert "3000 of 3000 scores are NaN" in str(error)
    else:
        raise AssertionError("no error")
    part, whole = ScoreHistogram(1), ScoreHistogram(1)
    tensors = [torch.from_numpy(a) for a in (scores.astype(np.float32)[None], y)]
    whole.add(*tensors)
    part.add(tensors[0][:, mine], tensors[1][mine])
    part.all_reduce()
    assert (part.positive == whole.positive).all() and (part.negative == whole.negative).all()
    dist.destroy_process_group()
"""


def test_two_processes_return_the_point_of_all_rows(tmp_path):
    script = tmp_path / "process.py"
    script.write_text(textwrap.dedent(PROCESS))
    codes = run_together(
        run_script, [(script, [r, tmp_path / "store"], {}, tmp_path, r) for r in range(2)]
    )
    assert codes == [0, 0], "\n".join((tmp_path / f"{r}.err").read_text() for r in range(2))

"""Problems whose rows come in blocks."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from setpoint import Goal, SetpointError, choose_threshold, define_metric
from setpoint.data import ArrayRows, ByChance, LoaderRows
from setpoint.data.sampling import PrioritySample, SamplingWeights
from setpoint.data.splits import CERTIFICATION, TRAINING, VALIDATION
from setpoint.errors import DivergedError
from setpoint.training import StreamProblem
from setpoint.training.bundle import make_bundle
from setpoint.training.stream_problem import Counter, first_pass, logits_above, scores_on, survey

GOAL = Goal.parse("max f1")


def rows(n=90, seed=0, **given):
    rng = np.random.default_rng(seed)
    return ArrayRows(
        rng.normal(size=(n, 2)).astype(np.float32), rng.random(n) < 0.3, block_rows=8, **given
    )


def counted(problem):
    counter = Counter()
    for block, part in problem.blocks():
        counter.add(block, part)
    return counter.totals(problem.has_validation)


def test_every_row_is_in_one_split_and_one_shard():
    problem = StreamProblem(rows(), GOAL, ByChance(validation=0.4), shards=3)
    seen = [(block.shard, block.number, part) for block, part in problem.blocks()]
    assert torch.cat([number for _, number, _ in seen]).sort().values.tolist() == list(range(90))
    assert [shard for shard, _, _ in seen] == [0] * 4 + [1] * 4 + [2] * 4
    by_part = {p: torch.cat([b.number for b in problem.part(p)]) for p in (TRAINING, VALIDATION)}
    assert len(by_part[TRAINING]) + len(by_part[VALIDATION]) == 90
    assert not torch.isin(by_part[TRAINING], by_part[VALIDATION]).any()
    assert len(torch.cat([b.number for b in problem.part(TRAINING, VALIDATION)])) == 90


def test_without_a_split_all_rows_are_training_rows():
    problem = StreamProblem(rows(), GOAL)
    assert not problem.has_validation
    assert all((part == TRAINING).all() for _, part in problem.blocks())
    assert sum(len(block) for block in problem.part(TRAINING)) == 90


@pytest.mark.parametrize(
    ("split", "validation", "apart"),
    [
        (None, None, False),
        (ByChance(certification=0.2), None, False),
        (ByChance(validation=0.2), None, True),
        (None, rows(seed=1), True),
    ],
)
def test_which_problems_have_validation_rows(split, validation, apart):
    assert StreamProblem(rows(), GOAL, split, validation).has_validation == apart


def test_all_rows_of_a_validation_source_are_validation_rows():
    problem = StreamProblem(rows(), GOAL, ByChance(certification=0.5), rows(40, seed=1))
    assert sum(len(block) for block in problem.part(VALIDATION)) == 40
    assert sum(len(block) for block in problem.part(TRAINING, CERTIFICATION)) == 90


def test_features_go_through_the_transform():
    problem = StreamProblem(rows(), GOAL, validation=rows(seed=1), transform=lambda X: 0 * X + 7)
    assert all((block.X == 7).all() for block, _ in problem.blocks())
    assert problem.row_shape() == (2,)


@pytest.mark.parametrize(("asked", "world", "found"), [(1, 1, 1), (4, 1, 4), (4, 2, 4), (4, 3, 6)])
def test_shards_are_a_multiple_of_the_processes(monkeypatch, asked, world, found):
    seen = []
    for rank in range(world):
        monkeypatch.setattr(
            "setpoint.training.stream_problem.rank_and_world_size", lambda rank=rank: (rank, world)
        )
        problem = StreamProblem(rows(), GOAL, shards=asked)
        assert problem.shard_count == found
        own = list(problem.blocks())
        assert {block.shard % world for block, _ in own} == {rank}
        seen += [block.number for block, _ in own]
    assert torch.cat(seen).sort().values.tolist() == list(range(90))


def test_a_loader_has_one_shard_for_each_process(monkeypatch):
    monkeypatch.setattr("setpoint.training.stream_problem.rank_and_world_size", lambda: (1, 2))
    batch = (torch.zeros(3, 2), torch.tensor([0, 1, 0]))
    problem = StreamProblem(LoaderRows([batch, batch]), GOAL, shards=4)
    assert problem.shard_count == 2
    assert [(block.shard, block.number.tolist()) for block, _ in problem.blocks()] == [
        (1, [1, 3, 5]),
        (1, [7, 9, 11]),
    ]


def test_a_process_without_rows_raises(monkeypatch):
    monkeypatch.setattr("setpoint.training.stream_problem.rank_and_world_size", lambda: (12, 13))
    with pytest.raises(SetpointError, match="use fewer processes"):
        StreamProblem(rows(), GOAL).row_shape()


def test_fingerprints_differ_between_problems():
    plain = StreamProblem(rows(), GOAL)
    others = [
        replace(plain, goal=Goal.parse("max recall s.t. precision >= 0.5")),
        replace(plain, source=rows(seed=1)),
        replace(plain, split=ByChance(validation=0.3)),
        replace(plain, split=ByChance(validation=0.3, seed=1)),
        replace(plain, validation=rows(seed=1)),
    ]
    found = [problem.fingerprint() for problem in (plain, *others)]
    assert len(set(found)) == len(found)
    assert StreamProblem(rows(), GOAL, shards=4).fingerprint() == found[0]


def test_a_metric_of_another_meaning_is_another_problem():
    found = []
    for weight in (1.0, 2.0):
        define_metric(
            "problem_test_gain",
            lambda tp, fp, P, N, weight=weight: tp / P - weight * fp / N,
            bounds=(-2.0, 1.0),
        )
        found.append(StreamProblem(rows(), Goal.parse("max problem_test_gain")).fingerprint())
    assert found[0] != found[1]


def test_totals():
    weight = np.arange(90) % 3
    problem = StreamProblem(rows(sample_weight=weight), GOAL, ByChance(validation=0.4))
    totals = counted(problem)
    X = {p: list(problem.part(p)) for p in (TRAINING, VALIDATION)}
    for own, found in ((TRAINING, totals.training), (VALIDATION, totals.judging)):
        for label, number in zip((True, False), found, strict=True):
            assert number == sum(
                int(((b.positive == label) & (b.weight > 0)).sum()) for b in X[own]
            )
    expected = [sum(float(b.weight[b.positive == c].sum()) for b in X[0]) for c in (True, False)]
    assert totals.training_weight == tuple(expected)


@pytest.mark.parametrize(
    ("positive", "weight", "judging", "message"),
    [
        ([True] * 4, 1.0, [True, False], "no negative training rows"),
        ([False] * 4, 1.0, [True, False], "no positive training rows"),
        ([True, False] * 2, 0.0, [True, False], "no positive training rows"),
        ([True, False] * 2, 1.0, [True, True], "no negative validation rows"),
        ([True, False] * 2, 1.0, [False, False], "no positive validation rows"),
    ],
)
def test_both_classes_are_needed_everywhere(positive, weight, judging, message):
    def loader(labels, w):
        n = len(labels)
        return LoaderRows([(torch.zeros(n, 1), torch.tensor(labels), torch.full((n,), w))])

    problem = StreamProblem(loader(positive, weight), GOAL, validation=loader(judging, 1.0))
    with pytest.raises(SetpointError, match=message):
        counted(problem)


# --- passes over all rows -------------------------------------------------------------------------


GOALS = ["max f1", "max recall s.t. precision >= 0.7", "max recall s.t. alarm_rate <= 0.1"]


def problem(goal="max f1", weights=False, **given):
    rng = np.random.default_rng(0)
    y = rng.random(2000) < 0.2
    X = (rng.normal(size=(2000, 3)) + 1.2 * y[:, None]).astype(np.float32)
    weight = rng.integers(0, 3, 2000) if weights else None
    source = ArrayRows(X, y, sample_weight=weight, block_rows=150)
    return StreamProblem(source, Goal.parse(goal), ByChance(validation=0.3), **given)


def linear_models(*weights, biases=None):
    module = torch.nn.Linear(3, 1)
    biases = [0.0] * len(weights) if biases is None else biases
    starts = [
        {"weight": torch.tensor([w]), "bias": torch.tensor([b])}
        for w, b in zip(weights, biases, strict=True)
    ]
    return make_bundle(module, starts)


TWO = ([1.0, 0.5, 0.0], [-1.0, 2.0, 1.0])


def rows_of(stream, part):
    blocks = list(stream.part(part))
    fields = ([getattr(b, name) for b in blocks] for name in ("X", "positive", "weight"))
    return [torch.cat(field).numpy() for field in fields]


@pytest.mark.parametrize("weights", [False, True], ids=["plain", "weighted"])
@pytest.mark.parametrize("goal", GOALS)
def test_counts_at_the_cuts_are_exact(goal, weights):
    stream = problem(goal, weights)
    bundle = linear_models(*TWO, biases=[-0.7, 1.5])
    seen = survey(stream, bundle)
    assert seen.alive == [True, True]
    assert seen.sample is None
    for part, view in ((TRAINING, seen.training), (VALIDATION, seen.validation)):
        X, y, w = rows_of(stream, part)
        scores = bundle.scores(torch.from_numpy(X)).numpy()
        for k, cut in enumerate(view.cuts(stream.goal)):
            # as the pass measures them: the shift taken off in float32
            above = scores[k] - view.shift[k].numpy() > np.float32(cut.threshold - view.shift[k])
            assert cut.tp == w[above & y].sum()
            assert cut.fp == w[above & ~y].sum()
        for cut, point in zip(
            view.cuts(stream.goal), view.points(stream.goal, "these rows"), strict=True
        ):
            assert (point.tp, point.fp) == (cut.tp, cut.fp)
            assert point.tp + point.fn == w[y].sum()
            assert point.fp + point.tn == w[~y].sum()
            assert point.on == "these rows"


def test_near_the_shift_the_cut_is_next_to_the_exact_one():
    stream = problem("max f1")
    X, y, _ = rows_of(stream, TRAINING)
    bundle = linear_models(TWO[0])
    scores = bundle.scores(torch.from_numpy(X)).numpy()[0]
    exact = choose_threshold(y, scores, "max f1")
    bundle.origins.fill_(exact.threshold)
    (point,) = survey(stream, bundle).training.points(stream.goal, "these rows")
    assert point.f1 == exact.f1
    bundle.origins.fill_(exact.threshold + 900.0)  # buckets out there are wide
    (rough,) = survey(stream, bundle).training.points(stream.goal, "these rows")
    assert rough.f1 < exact.f1


def test_shards_do_not_matter():
    one, many = (survey(problem(shards=s), linear_models(*TWO)) for s in (1, 5))
    np.testing.assert_array_equal(one.training.scores.positive, many.training.scores.positive)
    np.testing.assert_array_equal(one.validation.scores.negative, many.validation.scores.negative)


def test_diverged_models_are_dropped_alone():
    stream = problem()
    nan = float("nan")
    seen = survey(stream, linear_models(TWO[0], [nan, 0.0, 0.0], TWO[1]))
    assert seen.alive == [True, False, True]
    alone = survey(stream, linear_models(*TWO))
    cuts = seen.training.cuts(stream.goal)
    assert [cuts[0], cuts[2]] == alone.training.cuts(stream.goal)


def test_nothing_but_diverged_models_is_an_error():
    nan = float("nan")
    with pytest.raises(DivergedError, match="lower learning rate"):
        survey(problem(), linear_models([nan, 0.0, 0.0], [0.0, nan, 1.0]))


def test_infinite_scores_are_scores():
    seen = survey(problem(), linear_models([3e38, 3e38, 3e38], TWO[0]))
    assert seen.alive[1]


def test_a_sample_near_the_thresholds_stands_for_the_rows_that_train():
    stream = problem()
    bundle = linear_models(*TWO)
    first = survey(stream, bundle)
    weights = SamplingWeights.of(first.training.scores, 0.1)
    drawn = survey(stream, bundle, (PrioritySample(100, 300, (0, 1)), weights)).sample
    X, y, _ = rows_of(stream, TRAINING)
    assert len(drawn) == 400
    assert drawn.logits.shape == (400, 2)
    assert torch.equal(drawn.logits.T, logits_above(bundle, drawn.X, bundle.origins))
    for label, own in ((True, y), (False, ~y)):
        weight = float(drawn.weight[drawn.positive == label].sum())
        assert weight == pytest.approx(own.sum(), rel=0.15)
    inner = np.abs(bundle.scores(torch.from_numpy(X)).numpy()[0]) < 0.2
    near = drawn.logits[:, 0].abs() < 0.2
    assert near.double().mean() > 1.5 * inner.mean()  # more of them,
    assert drawn.weight[near].sum() == pytest.approx(inner.sum(), rel=0.2)  # with less weight
    numbers = torch.cat([block.number for block in stream.part(TRAINING)])
    assert torch.isin(drawn.number, numbers).all()


def test_heavy_rows_are_drawn_more_often():
    stream = problem()
    heavy = np.where(np.arange(2000) % 2, 50.0, 1.0)
    rows = [torch.cat([getattr(b, f) for b in stream.source.blocks()]) for f in ("X", "positive")]
    weighted = StreamProblem(ArrayRows(*rows, sample_weight=heavy), stream.goal)
    bundle = linear_models(TWO[0])
    weights = SamplingWeights.of(survey(weighted, bundle).training.scores, 0.1)
    drawn = survey(weighted, bundle, (PrioritySample(100, 300, (0, 1)), weights)).sample
    assert (drawn.number % 2).double().mean() > 0.9
    assert drawn.weight.sum() == pytest.approx(heavy.sum(), rel=0.1)


def test_points_estimated_from_a_sample():
    stream = problem()
    bundle = linear_models(*TWO)
    _, drawn = first_pass(stream, 800, (3,))
    found = scores_on(logits_above(bundle, drawn.X, bundle.origins), drawn, bundle)
    whole = survey(stream, bundle).training
    for a, b in zip(found.points(stream.goal, ""), whole.points(stream.goal, ""), strict=True):
        assert a.f1 == pytest.approx(b.f1, abs=0.05)
    broken = torch.full((2, len(drawn)), float("nan"))
    assert np.isfinite(
        [c.threshold for c in scores_on(broken, drawn, bundle).cuts(stream.goal)]
    ).all()


def test_the_first_pass_counts_and_draws_by_class():
    stream = problem(weights=True)
    totals, drawn = first_pass(stream, 400, (3,))
    _, y, w = rows_of(stream, TRAINING)
    assert totals.training == ((y & (w > 0)).sum(), (~y & (w > 0)).sum())
    assert totals.training_weight == (w[y].sum(), w[~y].sum())
    assert drawn.positive.sum() == min(200, totals.training[0])
    assert (~drawn.positive).sum() == 400
    assert drawn.weight.sum() == pytest.approx(w.sum(), rel=0.1)


def test_rows_of_one_class_raise():
    stream = StreamProblem(ArrayRows(np.zeros((9, 1)), [1] * 8 + [0]), Goal.parse("max f1"))
    first_pass(stream, 10, (0,))
    stream = StreamProblem(
        ArrayRows(np.zeros((9, 1)), [1] * 8 + [0], sample_weight=[1.0] * 8 + [0.0]), stream.goal
    )
    with pytest.raises(SetpointError, match="no negative training rows"):
        first_pass(stream, 10, (0,))

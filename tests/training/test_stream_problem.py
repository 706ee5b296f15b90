"""Problems whose rows come in blocks."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from setpoint import Goal, SetpointError, define_metric
from setpoint.data import ArrayRows, ByChance, LoaderRows
from setpoint.data.splits import CERTIFYING, JUDGING, TRAINING
from setpoint.training import StreamProblem
from setpoint.training.stream_problem import Counter

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
    return counter.totals(problem.judged_apart)


def test_every_row_is_of_one_part_and_one_shard():
    problem = StreamProblem(rows(), GOAL, ByChance(judging=0.4), shards=3)
    seen = [(block.shard, block.number, part) for block, part in problem.blocks()]
    assert torch.cat([number for _, number, _ in seen]).sort().values.tolist() == list(range(90))
    assert [shard for shard, _, _ in seen] == [0] * 4 + [1] * 4 + [2] * 4
    by_part = {p: torch.cat([b.number for b in problem.part(p)]) for p in (TRAINING, JUDGING)}
    assert len(by_part[TRAINING]) + len(by_part[JUDGING]) == 90
    assert not torch.isin(by_part[TRAINING], by_part[JUDGING]).any()
    assert len(torch.cat([b.number for b in problem.part(TRAINING, JUDGING)])) == 90


def test_without_a_parting_all_train_and_judge():
    problem = StreamProblem(rows(), GOAL)
    assert not problem.judged_apart
    assert all((part == TRAINING).all() for _, part in problem.blocks())
    assert sum(len(block) for block in problem.part(TRAINING)) == 90


@pytest.mark.parametrize(
    ("parting", "validation", "apart"),
    [
        (None, None, False),
        (ByChance(certifying=0.2), None, False),
        (ByChance(judging=0.2), None, True),
        (None, rows(seed=1), True),
    ],
)
def test_who_judges(parting, validation, apart):
    assert StreamProblem(rows(), GOAL, parting, validation).judged_apart == apart


def test_rows_of_a_validation_source_all_judge():
    problem = StreamProblem(rows(), GOAL, ByChance(certifying=0.5), rows(40, seed=1))
    assert sum(len(block) for block in problem.part(JUDGING)) == 40
    assert sum(len(block) for block in problem.part(TRAINING, CERTIFYING)) == 90


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


def test_a_process_without_rows_says_so(monkeypatch):
    monkeypatch.setattr("setpoint.training.stream_problem.rank_and_world_size", lambda: (12, 13))
    with pytest.raises(SetpointError, match="use fewer processes"):
        StreamProblem(rows(), GOAL).row_shape()


def test_fingerprints_tell_problems_apart():
    plain = StreamProblem(rows(), GOAL)
    others = [
        replace(plain, goal=Goal.parse("max recall s.t. precision >= 0.5")),
        replace(plain, source=rows(seed=1)),
        replace(plain, parting=ByChance(judging=0.3)),
        replace(plain, parting=ByChance(judging=0.3, seed=1)),
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
    problem = StreamProblem(rows(sample_weight=weight), GOAL, ByChance(judging=0.4))
    totals = counted(problem)
    X = {p: list(problem.part(p)) for p in (TRAINING, JUDGING)}
    for own, found in ((TRAINING, totals.training), (JUDGING, totals.judging)):
        for label, number in zip((True, False), found, strict=True):
            assert number == sum(
                int(((b.positive == label) & (b.weight > 0)).sum()) for b in X[own]
            )
    expected = [sum(float(b.weight[b.positive == c].sum()) for b in X[0]) for c in (True, False)]
    assert totals.training_weight == tuple(expected)


@pytest.mark.parametrize(
    ("positive", "weight", "judging", "message"),
    [
        ([True] * 4, 1.0, [True, False], "no negative rows to train on"),
        ([False] * 4, 1.0, [True, False], "no positive rows to train on"),
        ([True, False] * 2, 0.0, [True, False], "no positive rows to train on"),
        ([True, False] * 2, 1.0, [True, True], "no negative rows to judge by"),
        ([True, False] * 2, 1.0, [False, False], "no positive rows to judge by"),
    ],
)
def test_both_classes_are_needed_everywhere(positive, weight, judging, message):
    def loader(labels, w):
        n = len(labels)
        return LoaderRows([(torch.zeros(n, 1), torch.tensor(labels), torch.full((n,), w))])

    problem = StreamProblem(loader(positive, weight), GOAL, validation=loader(judging, 1.0))
    with pytest.raises(SetpointError, match=message):
        counted(problem)

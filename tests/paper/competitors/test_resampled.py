import sys
from dataclasses import dataclass, field

import numpy as np
import pytest
import torch
from problems import overlapping

from setpoint import GoalError, SetpointError
from setpoint.paper.competitors import Resampled
from setpoint.paper.competitors.resampled import balanced_rows
from setpoint.training import CrossEntropy, Lifted, LossTraining, make_problem, solve
from setpoint.training.models import build

GOAL = "max recall s.t. precision >= 0.7"


@dataclass(frozen=True)
class Spy:
    """Ordinary training that tells on which rows."""

    seen: list = field(default_factory=list, repr=False)
    outer_iterations: int = 2

    def prepare(self, problem, module):
        self.seen.append(problem)
        return LossTraining(outer_iterations=2, inner_iterations=3).prepare(problem, module)


def rows_trained_on(sampling, problem, **kwargs):
    """Return the problem that the inner solver got, whose first feature numbers the rows."""
    spy = Spy()
    with torch.random.fork_rng():
        module = build("linear", 2).double()
    solution = solve(problem, module, Resampled(sampling, spy), **kwargs)
    return spy.seen[-1], solution


def numbered(positives=12, n=60, goal=GOAL, weight=None, **kwargs):
    X = torch.stack([torch.arange(n) / n, torch.arange(n) % 7], dim=1).double()
    return make_problem(X, torch.arange(n) % 5 < positives * 5 / n, goal, weight, **kwargs)


@pytest.mark.parametrize("positives", [12, 48])  # the rarer class, and the more frequent one
@pytest.mark.parametrize("sampling", ["over", "under"])
def test_both_classes_are_equally_many_and_rows_are_real(sampling, positives):
    positive = torch.arange(60) % 5 < positives // 12
    assert positive.sum() == positives
    rows = balanced_rows(positive, sampling, seed=0)
    of_positives, of_negatives = rows[positive[rows]], rows[~positive[rows]]
    rare, many = (of_positives, of_negatives) if positives < 30 else (of_negatives, of_positives)
    assert len(of_positives) == len(of_negatives) == (48 if sampling == "over" else 12)
    assert set(rows.tolist()) <= set(range(60))
    assert len(set(rare.tolist())) == 12  # of the rarer class none is lost
    if sampling == "over":
        assert len(set(many.tolist())) == 48  # nor of the other; none of these is repeated
    else:
        assert len(set(rows.tolist())) == len(rows)  # none is repeated


@pytest.mark.parametrize("sampling", ["over", "under"])
def test_one_positive_is_enough(sampling):
    positive = torch.arange(50) == 17
    rows = balanced_rows(positive, sampling, seed=1)
    assert (rows == 17).sum() * 2 == len(rows)


@pytest.mark.parametrize("sampling", ["over", "under"])
def test_rows_keep_their_features_labels_and_weights(sampling):
    problem = numbered(weight=torch.arange(1, 61))
    drawn, _ = rows_trained_on(sampling, problem)
    number = (drawn.X[:, 0] * 60).round().long()
    assert torch.equal(drawn.X, problem.X[number])
    assert torch.equal(drawn.positive, problem.positive[number])
    assert torch.equal(drawn.sample_weight, problem.sample_weight[number])
    assert drawn.positive.sum() * 2 == len(number)


@pytest.mark.parametrize("sampling", ["over", "under"])
def test_iterates_are_judged_on_the_rows_as_they_were(sampling):
    problem = overlapping(GOAL)
    module = build("linear", 3).double()
    solution = solve(problem, module, Resampled(sampling, LossTraining(outer_iterations=2)))
    point = solution.operating_point
    assert point == problem.operating_point(module, point.threshold)
    assert point.tp + point.fp + point.fn + point.tn == 300
    assert point.on == "the training data"


def test_validation_rows_judge_where_there_are_any():
    held_out = overlapping(GOAL, n=111, seed=5)
    problem = overlapping(GOAL)
    problem = make_problem(problem.X, problem.positive, GOAL, validation=held_out)
    solution = solve(problem, build("linear", 3).double(), Resampled("under"))
    point = solution.operating_point
    assert point.tp + point.fp + point.fn + point.tn == 111


def test_repeating_positives_comes_close_to_balanced_weights():
    """A positive is drawn nine times on average, which is its balanced weight; roughly so."""
    problem = overlapping("max f1", n=2000, share=0.1)
    over, balanced = build("linear", 3).double(), build("linear", 3).double()
    solve(problem, over, Resampled("over", LossTraining(outer_iterations=2)))
    solve(problem, balanced, LossTraining(CrossEntropy(1.0), outer_iterations=2))
    plain = build("linear", 3).double()
    solve(problem, plain, LossTraining(outer_iterations=2))
    near = (over.weight - balanced.weight).abs().max() + (over.bias - balanced.bias).abs()
    far = (plain.weight - balanced.weight).abs().max() + (plain.bias - balanced.bias).abs()
    assert near < 0.35 < 1.5 < far


@pytest.mark.parametrize("sampling", ["over", "under"])
def test_the_seed_decides_which_rows(sampling):
    """Whatever torch's global generator does, which is left alone."""
    problem = numbered()
    drawn = []
    for stray, seed in ((1, 0), (2, 0), (1, 3)):
        torch.manual_seed(stray)
        before = torch.get_rng_state()
        drawn.append(rows_trained_on(sampling, problem, seed=seed)[0].X)
        assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(drawn[0], drawn[1])
    assert not torch.equal(drawn[0], drawn[2])


@pytest.mark.parametrize("seed", [0, None])
def test_a_stopped_run_goes_on_with_the_rows_it_had(seed, tmp_path):
    """Also without a seed, and whatever the global generator did in between."""
    problem, file = numbered(), tmp_path / "run.ckpt"

    def train(stray, **kwargs):
        torch.manual_seed(stray)
        return rows_trained_on("under", problem, seed=seed, **kwargs)

    straight, expected = train(5)
    train(5, checkpoint=file, callback=lambda r, _: "stop" if r.iteration == 1 else None)
    resumed, found = train(99, checkpoint=file)
    assert torch.equal(resumed.X, straight.X)
    assert found.history.records == expected.history.records
    assert torch.equal(found.module.weight, expected.module.weight)


def test_any_solver_can_train_on_what_is_drawn():
    problem = overlapping(GOAL)
    solver = Resampled("under", Lifted(outer_iterations=3, inner_iterations=5))
    assert solver.outer_iterations == 3
    solution = solve(problem, build("linear", 3).double(), solver)
    assert len(solution.history) == 4
    not_monotone = overlapping("max recall s.t. alarm_rate <= 0.1")
    with pytest.raises(GoalError, match="alarm_rate"):
        solve(
            not_monotone, build("linear", 3).double(), Resampled("over", Lifted(form="inequality"))
        )


@pytest.mark.parametrize(
    ("name", "sampling"),
    [("imblearn", "under"), ("imblearn.over_sampling", "over"), ("imblearn", "over"),
     ("imblearn.under_sampling", "under")],
)  # fmt: skip
def test_without_imbalanced_learn_the_message_says_what_to_install(name, sampling, monkeypatch):
    for known in list(sys.modules):
        if known == "imblearn" or known.startswith("imblearn."):
            monkeypatch.delitem(sys.modules, known)
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(SetpointError, match=r'pip install "setpoint\[experiments\]"'):
        Resampled(sampling).prepare(overlapping(GOAL), build("linear", 3).double())


def test_bad_parameters_are_refused():
    with pytest.raises(ValueError, match="sampling is 'over' or 'under', not 'both'"):
        Resampled("both")


def test_rows_are_drawn_evenly():
    """Every negative stays, and every positive is repeated, about as often as any other."""
    positive = torch.arange(20) < 5
    kept, repeats = np.zeros(20), np.zeros(20)
    for seed in range(200):
        kept[balanced_rows(positive, "under", seed).numpy()] += 1
        np.add.at(repeats, balanced_rows(positive, "over", seed).numpy(), 1)
    # 200 draws of 5 of 15 negatives: 67 +- 4 * 6.7; 10 more draws of 5 positives: 600 +- 4 * 18
    assert (np.abs(kept[5:] - 200 / 3) < 27).all()
    assert (np.abs(repeats[:5] - 600) < 72).all()
    assert kept[:5].tolist() == [200] * 5
    assert repeats[5:].tolist() == [200] * 15

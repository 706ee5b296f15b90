"""Losses, alone and in training, and resampling."""

import math
import sys
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import combinations, product

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from problems import overlapping
from sklearn.metrics import f1_score
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy

from setpoint import GoalError, SetpointError
from setpoint.paper.competitors import LDAM, Focal, Resampled, SigmoidF1, Tilted
from setpoint.paper.competitors.losses import balanced_rows
from setpoint.training import CrossEntropy, LabelledRows, Lifted, LossTraining, make_problem, solve
from setpoint.training.models import build

# --- losses ---------------------------------------------------------------------------------------


DECOMPOSABLE = [
    CrossEntropy(),
    CrossEntropy(1.0),
    Focal(),
    Focal(0.5, 0.9),
    LDAM(),
    LDAM(reweight_from=0.0),
    Tilted(0.0),
    Tilted(0.0, by_class=True),
]
LOSSES = [*DECOMPOSABLE, Tilted(), Tilted(-2.0), Tilted(1e-9), Tilted(3.0, by_class=True),
          SigmoidF1(), SigmoidF1(3.0, 0.5)]  # fmt: skip


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_slopes_are_right(loss, rows_of, sample):
    logits, positive, weight = sample
    rows = rows_of(positive, weight)
    z = (logits / 3).requires_grad_()  # LDAM multiplies by 30; torch's softplus has a step at 20
    assert torch.autograd.gradcheck(lambda x: loss(x, rows), (z,), atol=1e-6)


def test_a_better_logit_lowers_every_loss_and_order_does_not_matter(rows_of, sample):
    logits, positive, weight = sample
    for loss in LOSSES:
        turned = torch.randperm(40, generator=torch.Generator().manual_seed(1))
        here = loss(logits, rows_of(positive, weight))
        assert torch.allclose(here, loss(logits[turned], rows_of(positive[turned], weight[turned])))
        for row in (0, 1):  # a positive and a negative
            better = logits.clone()
            better[row] += 0.5 if positive[row] else -0.5
            if loss == Tilted(-2.0):  # it may give up a row
                continue
            assert loss(better, rows_of(positive, weight)) < here


def test_a_weight_of_2_is_the_row_twice():
    weighted = overlapping("max f1", n=60, weights=True)
    times = weighted.sample_weight.long()
    assert set(times.tolist()) == {1, 2, 3}
    repeated = make_problem(
        weighted.X.repeat_interleave(times, 0),
        weighted.positive.repeat_interleave(times),
        weighted.goal,
    )
    for loss in LOSSES:
        torch.manual_seed(0)
        module = build("mlp", 3).double()
        found = [LossTraining(loss).prepare(p, module).loss() for p in (weighted, repeated)]
        assert torch.allclose(*found, rtol=1e-12), loss
        for value in found:
            value.backward()


def test_batches_are_unbiased():
    """Over all batches of 5 of 9 rows, some of them without positives, the mean is the whole."""
    for weights, loss in product((False, True), DECOMPOSABLE):
        whole = overlapping("max f1", n=9, share=0.3, weights=weights)
        assert 0 < whole.positive.sum() < 5
        torch.manual_seed(0)
        run = LossTraining(loss).prepare(whole, build("mlp", 3).double())
        with torch.no_grad():
            parts = [run.loss(torch.tensor(rows)) for rows in combinations(range(9), 5)]
            assert torch.allclose(torch.stack(parts).mean(), run.loss(), rtol=1e-10)


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_training_lowers_it_in_the_problems_precision(loss):
    for dtype in (torch.float32, torch.float64):
        problem = overlapping("max f1", n=200, dtype=dtype)
        torch.manual_seed(0)
        module = build("mlp", 3).to(dtype)
        solver = LossTraining(loss, l2=0.0, outer_iterations=2, inner_iterations=20)
        run = solver.prepare(problem, module)
        assert run.loss().dtype == dtype
        with torch.no_grad():
            run._elapsed = 0.9
            before = float(run.loss())
        solution = solve(problem, module, solver)
        assert solution.history[-1].loss < before or solution.history[-1].loss < 1e-3
        assert all(p.isfinite().all() for p in module.parameters())


def test_parameters_are_all_in_the_name_and_frozen():
    """Checkpoints know a solver by its repr."""
    for loss in LOSSES:
        assert eval(repr(loss)) == loss
        assert hash(loss) == hash(eval(repr(loss)))
        with pytest.raises(AttributeError):
            loss.gamma = 1.0


# --- focal ----------------------------------------------------------------------------------------


def test_without_gamma_it_is_cross_entropy_weighted_by_alpha(rows_of, sample):
    logits, positive, weight = sample
    for alpha in (0.25, 0.9):
        by_class = torch.where(positive, alpha, 1 - alpha)
        sums = binary_cross_entropy_with_logits(
            logits, positive.double(), weight * by_class, reduction="sum"
        )
        found = Focal(gamma=0.0, alpha=alpha)(logits, rows_of(positive, weight))
        assert torch.allclose(found, sums / weight.sum(), rtol=1e-12)


def test_the_definition_row_by_row(rows_of, sample):
    """FL(p_t) = -alpha_t (1 - p_t)^gamma log(p_t), with nothing but the math module."""
    logits, positive, weight = sample
    for gamma in (0.0, 0.5, 1.0, 2.0, 5.0):
        total = 0.0
        for z, y, w in zip(logits.tolist(), positive.tolist(), weight.tolist(), strict=True):
            p = 1 / (1 + math.exp(-z))
            p_t = p if y else 1 - p
            total -= w * (0.3 if y else 0.7) * (1 - p_t) ** gamma * math.log(p_t)
        found = Focal(gamma, alpha=0.3)(logits, rows_of(positive, weight))
        assert float(found) == pytest.approx(total / float(weight.sum()), rel=1e-10)


def test_the_usual_recipe_of_libraries(rows_of, sample):
    """Cross-entropy times (1 - p_t)^gamma times alpha_t, as detection libraries compute it."""
    logits, positive, _ = sample
    y, p = positive.double(), torch.sigmoid(logits)
    p_t = p * y + (1 - p) * (1 - y)
    alpha_t = 0.25 * y + 0.75 * (1 - y)
    ce = binary_cross_entropy_with_logits(logits, y, reduction="none")
    expected = (alpha_t * ce * (1 - p_t) ** 2).mean()
    assert torch.allclose(Focal()(logits, rows_of(positive)), expected, rtol=1e-10)


def test_the_papers_own_examples(rows_of):
    """Section 3.2: with gamma = 2, p_t = 0.9 costs 100 times less than with cross-entropy.

    And p_t ~ 0.968 about 1000 times less, p_t <= 0.5 at most 4 times less.
    """
    for p, times, within in ((0.9, 100, 1e-9), (0.968, 1000, 0.03), (0.5, 4, 1e-9)):
        rows = rows_of([1, 1])
        logits = torch.full((2,), math.log(p / (1 - p)), dtype=torch.float64)
        ordinary = CrossEntropy()(logits, rows)
        focal = Focal(gamma=2.0, alpha=0.5)(logits, rows) / 0.5
        assert float(ordinary / focal) == pytest.approx(times, rel=within)


@pytest.mark.parametrize("gamma", [0.5, 2.0])
def test_the_slope_is_that_of_the_papers_appendix(gamma, rows_of, sample):
    """Appendix B: dFL/dx = y (1 - p_t)^gamma (gamma p_t log(p_t) + p_t - 1), y = +-1."""
    logits, positive, _ = sample
    logits.requires_grad_()
    Focal(gamma, alpha=0.5)(logits, rows_of(positive)).backward()
    z = logits.detach()
    sign = torch.where(positive, 1.0, -1.0)
    p_t = torch.sigmoid(sign * z)
    slope = sign * (1 - p_t) ** gamma * (gamma * p_t * p_t.log() + p_t - 1)
    assert torch.allclose(logits.grad, 0.5 * slope / len(z), rtol=1e-9)


def test_extreme_logits_have_finite_slopes_in_float32(rows_of):
    """(1 - p)^0.5 as a power has an infinite slope where p rounds to 1."""
    for gamma, size in product((0.0, 0.5, 2.0, 5.0), (30.0, 200.0, 1e30)):
        logits = torch.tensor([-size, size, -size, size], requires_grad=True)
        loss = Focal(gamma)(logits, rows_of([1, 0, 0, 1], dtype=torch.float32))
        loss.backward()
        assert loss.isfinite()
        # wrong rows pull with their whole weight, right ones (almost) not at all
        expected = torch.tensor([-0.25, 0.75, 0.0, 0.0]) / 4
        assert torch.allclose(logits.grad, expected, atol=1e-6)


def test_bad_parameters_raise():
    for parameters in (
        {"gamma": -0.1},
        {"gamma": float("nan")},
        {"gamma": float("inf")},
        {"alpha": 0.0},
        {"alpha": 1.0},
        {"alpha": float("nan")},
    ):
        with pytest.raises(ValueError, match="gamma must be >= 0 and alpha between 0 and 1"):
            Focal(**parameters)


# --- ldam -----------------------------------------------------------------------------------------


def test_margins_are_in_proportion_to_the_fourth_root():
    for P, N in ((10, 160), (160, 10), (1, 284_315), (0.5, 8.0)):
        of_positives, of_negatives = LDAM(max_margin=0.4).margins(P, N)
        assert max(of_positives, of_negatives) == pytest.approx(0.4)
        assert of_positives / of_negatives == pytest.approx((N / P) ** 0.25)
        assert (of_positives > of_negatives) == (P < N)


def test_margins_by_hand():
    """16 times as many negatives: half the margin."""
    assert LDAM().margins(10, 160) == pytest.approx((0.5, 0.25))


def test_it_is_the_two_class_softmax_with_the_margin_off_the_true_class(rows_of, sample):
    """However the difference z is shared between the two logits of the original."""
    logits, positive, _ = sample
    for scale in (1.0, 30.0):
        loss = LDAM(scale=scale)
        margin = torch.tensor(
            [0.5 * (30 / 10) ** -0.25, 0.5], dtype=torch.float64
        )  # N = 30, P = 10
        target = positive.long()
        for negatives_logit in (torch.zeros_like(logits), torch.cos(7 * logits)):
            both = torch.stack([negatives_logit, negatives_logit + logits], dim=1)
            both[torch.arange(40), target] -= margin[target]
            expected = cross_entropy(scale * both, target)
            assert torch.allclose(loss(logits, rows_of(positive)), expected, rtol=1e-9)


def test_without_margin_and_scale_it_is_cross_entropy(rows_of, sample):
    logits, positive, weight = sample
    rows = rows_of(positive, weight)
    found = LDAM(max_margin=0.0, scale=1.0)(logits, rows)
    assert torch.allclose(found, CrossEntropy()(logits, rows), rtol=1e-12)


def test_weights_are_the_inverse_effective_numbers():
    """(1 - beta) / (1 - beta^n), scaled to the sum 2, in exact rational arithmetic."""
    for beta, (P, N) in product((0.5, 0.99, 0.9999), ((1, 2), (10, 1000), (800, 50))):
        b = Fraction(beta)
        p, n = ((1 - b) / (1 - b**count) for count in (P, N))
        expected = float(2 * p / (p + n)), float(2 * n / (p + n))
        assert LDAM(beta=beta).weights(P, N) == pytest.approx(expected, rel=1e-12)


def test_beta_next_to_1_weighs_by_the_inverse_count():
    """The effective number tends to n; 1 - beta^n written out would be 0 or a single bit."""
    for P, N in ((1, 3), (0.25, 0.75), (1e-9, 3e-9)):
        assert LDAM(beta=float(np.nextafter(1, 0))).weights(P, N) == pytest.approx((1.5, 0.5))


def test_a_small_beta_weighs_both_classes_alike():
    assert LDAM(beta=1e-300).weights(3, 10_000) == pytest.approx((1.0, 1.0))
    assert LDAM(beta=0.9).weights(1e6, 1e12) == pytest.approx((1.0, 1.0))


@pytest.mark.parametrize("elapsed", [0.0, 0.5, math.nextafter(0.8, 0), 0.8, 0.99])
def test_reweighting_is_deferred(elapsed, rows_of, sample):
    logits, positive, _ = sample
    loss = LDAM(beta=0.9)
    early = loss(logits, rows_of(positive))
    found = loss(logits, rows_of(positive, elapsed=elapsed))
    if elapsed < 0.8:
        assert found == early
        return
    parts = [
        float(loss(torch.where(positive == kind, logits, 1e3 * (2 * positive - 1)),
                   rows_of(positive)))
        for kind in (True, False)
    ]  # fmt: skip
    effective = [(1 - 0.9) / (1 - 0.9**n) for n in (10, 30)]
    expected = sum(2 * c / sum(effective) * part for c, part in zip(effective, parts, strict=True))
    assert float(found) == pytest.approx(expected, rel=1e-9)
    assert float(found) != pytest.approx(float(early), rel=1e-3)


def test_reweight_from_1_is_never(rows_of, sample):
    logits, positive, _ = sample
    loss = LDAM(reweight_from=1.0)
    late = loss(logits, rows_of(positive, elapsed=math.nextafter(1, 0)))
    assert late == loss(logits, rows_of(positive))


def test_ldam_extreme_logits_have_finite_slopes_in_float32(rows_of):
    logits = torch.tensor([-200.0, 200.0, -1e30, 1e30], requires_grad=True)
    loss = LDAM()(logits, rows_of([1, 0, 0, 1], elapsed=0.9, dtype=torch.float32))
    loss.backward()
    assert loss.isfinite()
    assert logits.grad.tolist() == pytest.approx([-30 / 4, 30 / 4, 0.0, 0.0])


def test_ldam_rejects_bad_parameters():
    for parameters in (
        {"max_margin": -0.1},
        {"max_margin": float("nan")},
        {"max_margin": float("inf")},
        {"scale": 0.0},
        {"scale": float("nan")},
        {"scale": float("inf")},
        {"beta": 0.0},
        {"beta": 1.0},
        {"reweight_from": -0.1},
        {"reweight_from": 1.1},
        {"reweight_from": float("nan")},
    ):
        with pytest.raises(ValueError, match=f"{next(iter(parameters))} (must be|>|between)"):
            LDAM(**parameters)


# --- sigmoid f1 -----------------------------------------------------------------------------------


def test_a_high_temperature_is_f1_at_the_threshold(rows_of, sample):
    for weighted, offset in product((False, True), (-2.0, 0.0, 0.7, 3.0)):
        logits, positive, weight = sample
        weight = weight if weighted else torch.ones(40, dtype=torch.float64)
        assert (logits + offset).abs().min() > 1e-3  # no row on the threshold
        expected = f1_score(positive, logits.numpy() > -offset, sample_weight=weight.numpy())
        found = SigmoidF1(temperature=1e6, offset=offset)(logits, rows_of(positive, weight))
        assert float(found) == pytest.approx(1 - expected, abs=1e-12)


def test_sigmoid_f1_the_definition_row_by_row(rows_of, sample):
    """Counts of sigmoids, with the false negatives counted for themselves."""
    logits, positive, weight = sample
    tp = fp = fn = 0.0
    for z, y, w in zip(logits.tolist(), positive.tolist(), weight.tolist(), strict=True):
        decided = 1 / (1 + np.exp(-2.5 * (z - 0.3)))
        tp += w * decided * y
        fp += w * decided * (not y)
        fn += w * (1 - decided) * y
    found = SigmoidF1(temperature=2.5, offset=-0.3)(logits, rows_of(positive, weight))
    assert float(found) == pytest.approx(1 - 2 * tp / (2 * tp + fp + fn), rel=1e-12)


def test_a_batch_without_positives_is_finite():
    """Even where all alarms round to 0: the quotient is then 0/0."""
    for dtype, size in product((torch.float32, torch.float64), (0.0, 5.0, -200.0, -1e30)):
        rows = LabelledRows(
            torch.zeros(4, dtype=torch.bool), torch.full((4,), 0.25, dtype=dtype), 3, 9
        )
        logits = torch.full((4,), size, dtype=dtype, requires_grad=True)
        loss = SigmoidF1()(logits, rows)
        loss.backward()
        assert float(loss.detach()) == 1.0
        assert logits.grad.tolist() == [0.0] * 4


def test_bounds(rows_of, sample):
    logits, positive, _ = sample
    sure = torch.where(positive, 200.0, -200.0)
    assert float(SigmoidF1()(sure, rows_of(positive, dtype=torch.float32))) == pytest.approx(0.0)
    assert float(SigmoidF1()(-sure, rows_of(positive, dtype=torch.float32))) == 1.0
    assert 0 < float(SigmoidF1()(logits, rows_of(positive))) < 1


def test_sigmoid_f1_rejects_bad_parameters():
    for parameters in (
        {"temperature": 0.0},
        {"temperature": -1.0},
        {"temperature": float("nan")},
        {"temperature": float("inf")},
        {"offset": float("nan")},
        {"offset": float("inf")},
    ):
        with pytest.raises(ValueError, match=f"{next(iter(parameters))} must be"):
            SigmoidF1(**parameters)


# --- tilted ---------------------------------------------------------------------------------------


def cross_entropies(logits, positive):
    return binary_cross_entropy_with_logits(logits, positive.double(), reduction="none")


def test_tilted_the_definition_row_by_row(rows_of, sample):
    logits, positive, weight = sample
    for t in (-3.0, 0.5, 2.0):
        q = (weight / weight.sum()).tolist()
        losses = cross_entropies(logits, positive).tolist()
        expected = (
            math.log(math.fsum(a * math.exp(t * x) for a, x in zip(q, losses, strict=True))) / t
        )
        found = Tilted(t)(logits, rows_of(positive, weight))
        assert float(found) == pytest.approx(expected, rel=1e-12)


def test_no_tilt_is_the_mean(rows_of, sample):
    logits, positive, weight = sample
    rows = rows_of(positive, weight)
    assert Tilted(0.0)(logits, rows) == CrossEntropy()(logits, rows)


def test_a_small_tilt_is_the_mean_and_half_the_variance(rows_of, sample):
    """log(E exp(tL)) / t = E L + t/2 Var L + O(t^2), in whatever precision there is."""
    logits, positive, weight = sample
    for dtype, t in product(
        (torch.float64, torch.float32), (1e-2, 1e-4, 1e-7, 1e-12, 1e-18, 1e-300, -1e-4, -1e-12)
    ):
        losses = cross_entropies(logits, positive)
        q = weight / weight.sum()
        mean = float((q * losses).sum())
        variance = float((q * (losses - mean) ** 2).sum())
        third = float((q * (losses - mean).abs() ** 3).sum())
        found = Tilted(t)(logits.to(dtype), rows_of(positive, weight, dtype=dtype))
        rounding = 10 * torch.finfo(dtype).eps * float(losses.max())
        assert abs(float(found) - (mean + t / 2 * variance)) <= t * t * third + rounding


def test_large_tilts_come_close_to_the_extremes(rows_of, sample):
    """Within log(n) / |t| of it, on the inner side."""
    logits, positive, _ = sample
    for t, extreme in ((300.0, max), (-3000.0, min)):
        end = extreme(cross_entropies(logits, positive).tolist())
        found = float(Tilted(t)(logits, rows_of(positive)))
        assert abs(found - end) <= math.log(40) / abs(t) + 1e-12
        assert (found - end) * t <= 1e-12


@given(
    logits=st.lists(st.floats(-60, 60), min_size=2, max_size=8),
    tilts=st.lists(st.floats(-100, 100), min_size=2, max_size=2),
    seed=st.integers(0, 99),
)
def test_more_tilt_is_never_less(logits, tilts, seed):
    """And every tilted mean lies between the least and the largest loss."""
    rng = np.random.default_rng(seed)
    positive = torch.tensor(rng.random(len(logits)) < 0.5)
    share = torch.tensor(rng.dirichlet(np.ones(len(logits)))).clamp_min(1e-12)
    rows = LabelledRows(positive, share / share.sum(), 1.0, 1.0)
    z = torch.tensor(logits, dtype=torch.float64)
    losses = cross_entropies(z, positive)
    low, high = (float(Tilted(t)(z, rows)) for t in sorted(tilts))
    rounding = 1e-8 + 1e-13 * float(losses.max())  # torch's softplus is linear from 20 on
    assert low <= high + rounding
    assert losses.min() - rounding <= low
    assert high <= losses.max() + rounding


def test_slopes_are_those_of_the_rows_by_their_softmax(rows_of, sample):
    """Lemma 1 of the original: row i counts q_i exp(t L_i) / sum_j q_j exp(t L_j)."""
    logits, positive, weight = sample
    for t in (-2.0, 1e-9, 0.0, 1.0, 40.0):
        q = weight / weight.sum()
        pull = torch.softmax(t * cross_entropies(logits, positive) + q.log(), dim=0)
        expected = pull * (torch.sigmoid(logits) - positive.double())
        z = logits.clone().requires_grad_()
        Tilted(t)(z, rows_of(positive, weight)).backward()
        assert torch.allclose(z.grad, expected, rtol=1e-7, atol=1e-15)


def test_classes_can_be_tilted_instead_of_rows(rows_of, sample):
    logits, positive, weight = sample
    for t in (-1.0, 0.0, 1e-9, 3.0):
        losses = cross_entropies(logits, positive)
        means = [np.average(losses[k], weights=weight[k]) for k in (positive, ~positive)]
        expected = (
            sum(means) / 2
            if abs(t) < 1e-6
            else math.log((math.exp(t * means[0]) + math.exp(t * means[1])) / 2) / t
        )
        found = Tilted(t, by_class=True)(logits, rows_of(positive, weight))
        assert float(found) == pytest.approx(expected, rel=1e-7)


def test_by_class_the_worse_class_decides_however_rare(rows_of):
    """One positive of a thousand rows that is wrong: rows barely see it, classes do."""
    positive = torch.arange(1000) == 0
    logits = torch.full((1000,), -5.0, dtype=torch.float64)
    assert Tilted(1.0, by_class=True)(logits, rows_of(positive)) > 4
    assert Tilted(0.0)(logits, rows_of(positive)) < 0.02


def test_no_overflow(rows_of):
    for by_class, dtype, t in product(
        (False, True), (torch.float32, torch.float64), (100.0, -100.0, 1e30)
    ):
        logits = torch.tensor([-50.0, 50.0, -50.0, 50.0], dtype=dtype, requires_grad=True)
        loss = Tilted(t, by_class)(logits, rows_of([1, 0, 0, 1], dtype=dtype))
        loss.backward()
        # half of either class costs 50, half nothing; the mean of a class is 25
        expected = 25.0 if by_class else 50.0 if t > 0 else 0.0
        assert float(loss.detach()) == pytest.approx(expected, abs=math.log(2) / abs(t) + 1e-5)
        assert logits.grad.isfinite().all()


def test_a_batch_without_one_class_is_finite(rows_of):
    for t in (1e-9, 2.0, -2.0):
        rows = LabelledRows(torch.zeros(3, dtype=torch.bool), torch.full((3,), 0.4), 2.0, 10.0)
        for by_class in (False, True):
            logits = torch.tensor([-3.0, 0.0, 3.0], requires_grad=True)
            loss = Tilted(t, by_class)(logits, rows)
            loss.backward()
            assert loss.isfinite()
            assert logits.grad.isfinite().all()


def test_tilted_rejects_bad_parameters():
    for t in (float("nan"), float("inf"), -float("inf")):
        with pytest.raises(ValueError, match="t must be a finite number"):
            Tilted(t)


# --- resampled ------------------------------------------------------------------------------------


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


def test_both_classes_are_equally_many_and_rows_are_real():
    for positives, sampling in product((12, 48), ("over", "under")):
        positive = torch.arange(60) % 5 < positives // 12
        assert positive.sum() == positives
        rows = balanced_rows(positive, sampling, seed=0)
        of_positives, of_negatives = rows[positive[rows]], rows[~positive[rows]]
        rare, many = (
            (of_positives, of_negatives) if positives < 30 else (of_negatives, of_positives)
        )
        assert len(of_positives) == len(of_negatives) == (48 if sampling == "over" else 12)
        assert set(rows.tolist()) <= set(range(60))
        assert len(set(rare.tolist())) == 12  # of the rarer class none is lost
        if sampling == "over":
            assert len(set(many.tolist())) == 48  # nor of the other; none of these is repeated
        else:
            assert len(set(rows.tolist())) == len(rows)  # none is repeated


def test_one_positive_is_enough():
    for sampling in ("over", "under"):
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
def test_iterates_are_evaluated_on_the_original_rows(sampling):
    problem = overlapping(GOAL)
    module = build("linear", 3).double()
    solution = solve(problem, module, Resampled(sampling, LossTraining(outer_iterations=2)))
    point = solution.operating_point
    assert point == problem.operating_point(module, point.threshold)
    assert point.tp + point.fp + point.fn + point.tn == 300
    assert point.on == "the training rows"


def test_validation_rows_are_used_for_selection_if_there_are_any():
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
def test_an_interrupted_run_continues_with_the_same_rows(seed, tmp_path):
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
def test_without_imbalanced_learn_the_error_names_the_extra(name, sampling, monkeypatch):
    for known in list(sys.modules):
        if known == "imblearn" or known.startswith("imblearn."):
            monkeypatch.delitem(sys.modules, known)
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(SetpointError, match=r'pip install "setpoint\[paper\]"'):
        Resampled(sampling).prepare(overlapping(GOAL), build("linear", 3).double())


def test_resampled_rejects_bad_parameters():
    with pytest.raises(ValueError, match="sampling must be 'over' or 'under', not 'both'"):
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

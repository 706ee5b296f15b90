import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from setpoint.solvers.working_set import near


def problem(n=200, share=0.3, k=3, seed=0):
    """Labels, weights (whole numbers, so that sums are exact) and logits without ties."""
    torch.manual_seed(seed)
    positive = torch.rand(n, dtype=torch.float64) < share
    positive[:2] = torch.tensor([True, False])
    weight = torch.randint(1, 5, (n,)).double()
    return positive, weight, torch.randn(k, n, dtype=torch.float64)


sizes = st.integers(8, 120)
problems = st.builds(
    problem,
    n=st.integers(121, 200),
    share=st.sampled_from([0.02, 0.1, 0.5, 0.9, 0.99]),
    k=st.integers(1, 4),
    seed=st.integers(0, 10_000),
)


def near_part(chosen):
    return chosen.rows[chosen.counted > 0]


@pytest.mark.parametrize("size", [50, 51])
def test_a_small_problem_comes_back_whole(size):
    positive, weight, logits = problem(n=50)
    chosen = near(positive, weight, logits, size)
    assert chosen.rows.tolist() == list(range(50))
    assert (chosen.weight == weight).all()
    assert (chosen.counted == weight).all()
    assert ((chosen.sign > 0) == positive).all()
    assert chosen.rest_tp.tolist() == chosen.rest_fp.tolist() == [0, 0, 0]


@given(problems, sizes)
def test_the_size_is_kept_and_no_row_comes_twice(given_problem, size):
    positive, weight, logits = given_problem
    chosen = near(positive, weight, logits, size)
    assert len(chosen.rows) == size
    assert len(chosen.rows.unique()) == size
    of_positives = (chosen.sign > 0).sum()
    assert ((chosen.sign > 0) == positive[chosen.rows]).all()
    # Half for each class, or all of a class that is smaller.
    assert of_positives >= min(size // 2, positive.sum())
    assert size - of_positives >= min(size // 2, (~positive).sum())


@given(problems, sizes)
def test_each_class_keeps_its_weight(given_problem, size):
    positive, weight, logits = given_problem
    chosen = near(positive, weight, logits, size)
    for sign, own in ((1, positive), (-1, ~positive)):
        total = chosen.weight[chosen.sign == sign].sum()
        torch.testing.assert_close(total, weight[own].sum())


@given(problems, sizes)
def test_near_rows_are_the_nearest_of_their_class_to_any_threshold(given_problem, size):
    positive, weight, logits = given_problem
    chosen = near(positive, weight, logits, size)
    distance = logits.abs().min(dim=0).values
    kept = near_part(chosen)
    for own in (positive, ~positive):
        rows = own.nonzero().squeeze(1)
        count = int(own[kept].sum())
        drawn = int(own[chosen.rows].sum()) - count
        # A whole class is near; of a larger one three quarters of its room are.
        assert count == len(rows) if not drawn else count == (count + drawn) * 3 // 4
        nearest = rows[distance[rows].argsort()[:count]]
        assert set(nearest.tolist()) == set(kept[own[kept]].tolist())


@given(problems, sizes)
def test_near_rows_weigh_what_they_weigh_and_sampled_ones_do_not_count(given_problem, size):
    positive, weight, logits = given_problem
    chosen = near(positive, weight, logits, size)
    counts = chosen.counted > 0
    assert (chosen.counted[counts] == weight[chosen.rows][counts]).all()
    assert (chosen.weight[counts] == weight[chosen.rows][counts]).all()
    # Sampled rows come last and are raised by one factor for each class.
    assert (counts == (torch.arange(size) < counts.sum())).all()
    factor = (chosen.weight / weight[chosen.rows])[~counts]
    for sign in (1, -1):
        own = factor[chosen.sign[~counts] == sign]
        assert (own >= 1).all()
        torch.testing.assert_close(own, own[:1].expand_as(own))


@given(problems, sizes)
def test_the_counts_of_near_rows_and_of_the_rest_are_those_of_all(given_problem, size):
    positive, weight, logits = given_problem
    chosen = near(positive, weight, logits, size)
    alarm = (logits > 0).double().T
    here = alarm[chosen.rows]
    of_positives = chosen.sign > 0
    tp = chosen.rest_tp + (chosen.counted * of_positives) @ here
    fp = chosen.rest_fp + (chosen.counted * ~of_positives) @ here
    assert (tp == (weight * positive) @ alarm).all()
    assert (fp == (weight * ~positive) @ alarm).all()


@pytest.mark.parametrize("rare", [True, False])
def test_three_rows_of_a_class_are_all_kept(rare):
    positive, weight, logits = problem(n=500)
    positive[:] = not rare
    positive[[7, 70, 400]] = rare
    logits[:, [7, 70, 400]] = 100.0  # however far they are
    chosen = near(positive, weight, logits, 60)
    kept = near_part(chosen)
    assert sorted(kept[positive[kept] == rare].tolist()) == [7, 70, 400]
    assert len(chosen.rows) == 60


def test_near_positives_come_first_and_the_rest_is_drawn_by_the_seed():
    positive, weight, logits = problem()
    drawn = []
    for seed in (0, 0, 1):
        torch.manual_seed(seed)
        chosen = near(positive, weight, logits, 60)
        signs = chosen.sign[chosen.counted > 0]
        assert (signs == signs.sort(descending=True).values).all()
        drawn.append(chosen.rows[chosen.counted == 0].tolist())
    assert drawn[0] == drawn[1] != drawn[2]


def test_the_least_size_still_stands_for_both_classes():
    positive, weight, logits = problem()
    chosen = near(positive, weight, logits, 2)
    assert sorted(chosen.sign.tolist()) == [-1, 1]
    assert chosen.weight.sum() == pytest.approx(float(weight.sum()))


def test_the_weights_precision_is_kept():
    positive, weight, logits = problem()
    chosen = near(positive, weight.float(), logits, 60)
    parts = (chosen.weight, chosen.sign, chosen.counted)
    assert {part.dtype for part in parts} == {torch.float32}
    assert chosen.rest_tp.dtype == chosen.rest_fp.dtype == torch.float64  # counts may be large

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from problems import overlapping

from setpoint.training import working_set
from setpoint.training.working_set import near, sample


def problem(n=200, share=0.3, k=3, seed=0):
    """Labels, weights (whole numbers, so that sums are exact) and distances without ties."""
    torch.manual_seed(seed)
    positive = torch.rand(n, dtype=torch.float64) < share
    positive[:2] = torch.tensor([True, False])
    weight = torch.randint(1, 5, (n,)).double()
    return positive, weight, torch.randn(k, n, dtype=torch.float64).abs().amin(dim=0)


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
    positive, weight, distance = problem(n=50)
    chosen = near(positive, weight, distance, size)
    assert chosen.rows.tolist() == list(range(50))
    assert (chosen.weight == weight).all()
    assert (chosen.counted == weight).all()
    assert ((chosen.sign > 0) == positive).all()
    assert chosen.whole


@given(problems, sizes)
def test_the_size_is_kept_and_rows_are_distinct(given_problem, size):
    positive, weight, distance = given_problem
    chosen = near(positive, weight, distance, size)
    assert len(chosen.rows) == size
    assert len(chosen.rows.unique()) == size
    of_positives = (chosen.sign > 0).sum()
    assert ((chosen.sign > 0) == positive[chosen.rows]).all()
    # Half for each class, or all of a class that is smaller.
    assert of_positives >= min(size // 2, positive.sum())
    assert size - of_positives >= min(size // 2, (~positive).sum())


@given(problems, sizes)
def test_each_class_keeps_its_weight(given_problem, size):
    positive, weight, distance = given_problem
    chosen = near(positive, weight, distance, size)
    for sign, own in ((1, positive), (-1, ~positive)):
        total = chosen.weight[chosen.sign == sign].sum()
        torch.testing.assert_close(total, weight[own].sum())


@given(problems, sizes)
def test_near_rows_are_the_nearest_of_their_class_to_any_threshold(given_problem, size):
    positive, weight, distance = given_problem
    chosen = near(positive, weight, distance, size)
    assert not chosen.whole
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
def test_near_rows_keep_their_weight_and_sampled_ones_are_not_counted(given_problem, size):
    positive, weight, distance = given_problem
    chosen = near(positive, weight, distance, size)
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


@pytest.mark.parametrize("rare", [True, False])
def test_three_rows_of_a_class_are_all_kept(rare):
    positive, weight, distance = problem(n=500)
    positive[:] = not rare
    positive[[7, 70, 400]] = rare
    distance[[7, 70, 400]] = 100.0  # however far they are
    chosen = near(positive, weight, distance, 60)
    kept = near_part(chosen)
    assert sorted(kept[positive[kept] == rare].tolist()) == [7, 70, 400]
    assert len(chosen.rows) == 60


def test_near_positives_come_first_and_the_rest_is_drawn_by_the_seed():
    positive, weight, distance = problem()
    drawn = []
    for seed in (0, 0, 1):
        torch.manual_seed(seed)
        chosen = near(positive, weight, distance, 60)
        signs = chosen.sign[chosen.counted > 0]
        assert (signs == signs.sort(descending=True).values).all()
        drawn.append(chosen.rows[chosen.counted == 0].tolist())
    assert drawn[0] == drawn[1] != drawn[2]


def test_the_least_size_still_stands_for_both_classes():
    positive, weight, distance = problem()
    chosen = near(positive, weight, distance, 2)
    assert sorted(chosen.sign.tolist()) == [-1, 1]
    assert chosen.weight.sum() == pytest.approx(float(weight.sum()))


def test_the_weights_precision_is_kept():
    positive, weight, distance = problem()
    chosen = near(positive, weight.float(), distance, 60)
    parts = (chosen.weight, chosen.sign, chosen.counted)
    assert {part.dtype for part in parts} == {torch.float32}


@given(problems, sizes)
def test_equally_distant_rows_do_not_exceed_the_size(given_problem, size):
    positive, weight, distance = given_problem
    tied = (2 * distance).floor()
    chosen = near(positive, weight, tied, size)
    assert len(chosen.rows.unique()) == len(chosen.rows) == size
    kept = near_part(chosen)
    for own in (positive, ~positive):
        inside, outside = tied[kept[own[kept]]], own.clone()
        outside[kept] = False
        if len(inside) and outside.any():
            assert inside.max() <= tied[outside].min()


def test_rows_are_drawn_evenly_from_all_blocks(monkeypatch):
    monkeypatch.setattr(working_set, "_BLOCK", 7)
    positive, weight, distance = problem(n=100)
    drawn = torch.zeros(100)
    for seed in range(400):
        torch.manual_seed(seed)
        chosen = near(positive, weight, distance, 40)
        drawn[chosen.rows[chosen.counted == 0]] += 1
    for own in (positive, ~positive):
        far = own.clone()
        far[chosen.rows[chosen.counted > 0]] = False
        share = 400 * 5 / far.sum()  # a quarter of the room of 20
        assert (drawn[far] > 0.6 * share).all()
        assert (drawn[far] < 1.5 * share).all()
        assert not drawn[own & ~far].any()


@pytest.mark.parametrize("weights", [False, True])
def test_a_sample_has_both_classes_and_the_weight_of_all_rows(weights):
    problem = overlapping("max f1", n=1000, weights=weights)
    positive, weight = problem.positive, problem.sample_weight
    torch.manual_seed(0)
    rows = sample(positive, weight, 100)
    assert len(set(rows.rows.tolist())) == 100
    assert int((rows.sign > 0).sum()) == 50
    assert torch.equal(rows.sign > 0, positive[rows.rows])
    for own, all_own in ((rows.sign > 0, positive), (rows.sign < 0, ~positive)):
        assert float(rows.weight[own].sum()) == pytest.approx(float(weight[all_own].sum()))
        ratio = rows.weight[own] / weight[rows.rows[own]]
        assert ratio.numpy() == pytest.approx(float(ratio[0]))
    other = sample(positive, weight, 100)
    assert set(other.rows.tolist()) != set(rows.rows.tolist())
    torch.manual_seed(0)
    assert torch.equal(sample(positive, weight, 100).rows, rows.rows)


def test_a_rare_class_is_in_the_sample_as_a_whole():
    positive = torch.zeros(1000, dtype=torch.bool)
    positive[:7] = True
    rows = sample(positive, torch.ones(1000), 100)
    assert rows.rows[rows.sign > 0].tolist() == list(range(7))
    assert rows.weight[rows.sign > 0].tolist() == [1.0] * 7
    assert len(rows.rows) == 100


def test_few_rows_are_all_taken():
    problem = overlapping("max f1", n=100)
    assert sample(problem.positive, problem.sample_weight, 100).whole
    assert not sample(problem.positive, problem.sample_weight, 99).whole

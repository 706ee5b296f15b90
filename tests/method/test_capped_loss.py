import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from setpoint import FPOR, FROP, OFOS, Goal, Metric
from setpoint.goals.columns import GoalColumns
from setpoint.method.capped_loss import capped_loss, capped_slope, prices, tallied_prices
from setpoint.method.reformulation import eta, psi

numbers = st.floats(-8, 8).filter(lambda v: abs(v) > 1e-3)


def lifted_contribution(margin, is_positive, s, price, lam, gamma):
    """The contribution of one sample to F(theta, s, t, lambda), by the paper's functions."""
    z = torch.tensor([margin if is_positive else -margin], dtype=torch.float64)
    s = torch.tensor([s], dtype=torch.float64)
    tie = eta(z.sigmoid(), s, 0.5, torch.tensor([is_positive])).relu()
    metric = -price * s if is_positive else price * s  # the Lagrangian, linear in the counts
    regulariser = psi(z, s, torch.ones(1, dtype=torch.float64))
    constant = price if is_positive else 0.0  # so that both classes have a price per mistake
    return float(constant + metric + lam * tie - gamma * regulariser)


@given(numbers, st.booleans(), st.floats(0, 1), st.floats(0.1, 1000), st.floats(0, 2))
def test_the_lifted_variables_are_eliminated_exactly(margin, is_positive, price, lam, gamma):
    grid = np.linspace(0, 1, 101)
    lifted = [lifted_contribution(margin, is_positive, s, price, lam, gamma) for s in grid]
    v = torch.tensor([margin], dtype=torch.float64)
    assert float(capped_loss(v, price, lam, gamma)) == pytest.approx(min(lifted), abs=1e-9)
    assert min(lifted) == pytest.approx(min(lifted[0], lifted[-1]), abs=1e-9)  # at 0 or 1


@given(numbers, st.floats(0, 1), st.floats(0.1, 1000), st.floats(0, 2))
def test_the_slope_is_the_derivative(margin, price, lam, gamma):
    v = torch.tensor([margin], dtype=torch.float64, requires_grad=True)
    h = 1e-6
    left, here, right = (capped_loss(v + d, price, lam, gamma) for d in (-h, 0.0, h))
    one_sided = sorted([float((right - here).detach()) / h, float((here - left).detach()) / h])
    slope = float(capped_slope(v.detach(), price, lam, gamma))
    if one_sided[1] - one_sided[0] < 1e-3 * max(1.0, lam):  # not at the cap's edge
        assert slope == pytest.approx(one_sided[0], rel=1e-3, abs=1e-3)
        here.backward()
        assert slope == pytest.approx(float(v.grad), rel=1e-9, abs=1e-12)


def test_with_lambda_the_loss_becomes_the_count():
    margins = torch.tensor([-3.0, -0.5, -0.01, 0.01, 2.0])
    price = torch.tensor([0.2, 1.0, 0.7, 1.0, 0.3])
    mistakes = price * (margins < 0)
    for lam, tolerance in ((1.0, 1.0), (100.0, 0.5), (1e4, 1e-6)):
        assert torch.allclose(capped_loss(margins, price, lam, 0.0), mistakes, atol=tolerance)


def test_without_regulariser_most_slopes_are_exactly_zero():
    margins = torch.linspace(-5, 5, 1001)
    slopes = capped_slope(margins, 1.0, 100.0, 0.0)
    moving = margins[slopes != 0]
    assert moving.min() > -0.05
    assert moving.max() < 0.0


def one(goal, tp, fp, P=100.0, N=900.0, multipliers=()):
    m = np.array([[float(m)] for m in multipliers]).reshape(len(multipliers), 1)
    worth, cost = prices(Goal.parse(goal), np.array([float(tp)]), np.array([float(fp)]), P, N, m)
    return float(worth[0]), float(cost[0])


@given(st.integers(1, 100), st.integers(0, 900))
def test_the_prices_of_f1_are_dinkelbachs(tp, fp):
    f1 = 2 * tp / (100 + tp + fp)
    worth, cost = one(OFOS(), tp, fp)
    assert cost / worth == pytest.approx(f1 / (2 - f1))
    assert max(worth, cost) == 1


def test_the_prices_of_a_precision_floor_follow_its_multiplier():
    assert one(FPOR(0.9), 50, 5, multipliers=[0.0]) == (1.0, 0.0)  # only recall counts
    worth, cost = one(FPOR(0.9), 50, 5, multipliers=[9.0])
    assert worth / cost == pytest.approx((1 + 9 * 0.1 / 0.9) / 9)
    worth, cost = one(FPOR(0.9), 50, 5, multipliers=[1e6])
    assert worth / cost == pytest.approx(1 / 9, rel=1e-3)  # nine true alarms pay for a false one


def test_a_recall_floor_raises_the_price_of_positives():
    low, high = (one(FROP(0.9), 50, 500, multipliers=[m]) for m in (0.1, 10.0))
    assert high[0] / high[1] > low[0] / low[1]


def test_several_constraints_add_up():
    goal = "max recall s.t. fpr <= 0.01, precision >= 0.5"
    worth, cost = one(goal, 50, 5, multipliers=[2.0, 3.0])
    assert cost / worth == pytest.approx((2 + 3) / (1 + 3))


@given(
    st.sampled_from(
        ["max recall s.t. alarm_rate <= 0.05", "max mcc", "max gmean s.t. npv >= 0.9", "max npv"]
    ),
    st.integers(0, 100),
    st.integers(0, 900),
    st.floats(1e-3, 1e3),
)
def test_prices_are_finite_and_never_negative(goal, tp, fp, multiplier):
    many = [multiplier] * len(Goal.parse(goal).constraints)
    worth, cost = one(goal, tp, fp, multipliers=many)
    assert 0 <= worth <= 1
    assert 0 <= cost <= 1


def test_a_negative_price_becomes_zero():
    assert one("max recall s.t. alarm_rate <= 0.05", 50, 500, multipliers=[1e3]) == (0.0, 1.0)


def test_constant_and_infinite_derivatives():
    cliff = Metric(
        "cliff", lambda tp, fp, P, N: tp / P, lambda tp, fp, P, N: np.inf, lambda tp, fp, P, N: -1
    )
    counts = np.array([5.0, 7.0])
    worth, cost = prices(Goal(cliff), counts, counts, 10.0, 20.0, np.empty((0, 2)))
    assert (worth.tolist(), cost.tolist()) == ([0.0, 0.0], [1.0, 1.0])


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=10)
def test_against_the_coupled_problem_the_gap_is_at_most_one_sample(seed):
    """Fixed scores, FPOR: the dual is a sum of capped losses, and at most one s is fractional."""
    rng = np.random.default_rng(seed)
    n, lam, alpha = 40, 2.0, 0.8
    y = rng.random(n) < 0.4
    a = rng.random(n)
    P = y.sum()
    # s = 1 compared with s = 0: the metric, and the ends of each concave tie
    ties = np.where(y, lam * np.maximum(0.5 - a, 0), -lam * np.maximum(a - 0.5, 0))
    objective = np.where(y, -1.0, 0.0) + ties
    constraint = np.where(y, -(1 - alpha), alpha)
    at_zero = (lam * np.maximum(a - 0.5, 0))[~y].sum()  # negatives at s = 0 pay their ties
    relaxed = linprog(objective, constraint[None], [0.0], bounds=(0, 1), method="highs-ds")
    fractional = (relaxed.x > 1e-9) & (relaxed.x < 1 - 1e-9)
    assert fractional.sum() <= 1
    rounded = np.where(fractional, y, relaxed.x > 0.5)  # a positive to 1, a negative to 0
    assert constraint @ rounded <= 1e-12  # as any monotone constraint is

    mu = -float(relaxed.ineqlin.marginals[0])
    margin = torch.from_numpy(np.where(y, 1, -1) * np.log(a / (1 - a)))
    price = torch.from_numpy(np.where(y, 1 + mu * (1 - alpha), mu * alpha))
    losses = float(capped_loss(margin, price, lam, 0.0).sum())
    dual = losses - P * (1 + mu * (1 - alpha))  # the constant of the lemma
    assert dual == pytest.approx(relaxed.fun + at_zero, abs=1e-9)
    gap = objective @ rounded + at_zero - dual
    assert -1e-9 <= gap <= float(price[fractional].sum()) + 1e-9


# --- a price for each row -------------------------------------------------------------------------

OBJECTIVES = [
    "min cost(fp=5, fn=amount)",
    "max profit(tp=amount, fp=-3, tn=0.5)",
    "min cost(tp=2, fp=fee, fn=amount)",  # not monotone
    "max recall[amount]",
    "max f1",
    "max f1[amount]",
]
CONSTRAINTS = [
    "recall >= 0.7",
    "precision >= 0.6 for each region",
    "recall[amount] >= 0.5",
    "precision[amount] >= 0.7 for each region",
    "cost(fp=fee, fn=amount) <= 9",
    "fpr <= 0.3 for each region",
]


class Tallied:
    """Random rows of a random goal, with weights, amounts and regions, and decisions on them."""

    def __init__(self, seed, objective, constraints, n=30):
        rng = np.random.default_rng(seed)
        self.rng, self.n = rng, n
        self.positive = rng.random(n) < 0.4
        self.positive[:2] = True, False
        self.weight = rng.integers(1, 4, n).astype(float)
        text = f"{objective} s.t. {', '.join(constraints)}" if constraints else objective
        goal = Goal.parse(text)
        columns = GoalColumns.of(
            goal,
            n,
            amounts={"amount": rng.lognormal(2, 1, n), "fee": rng.exponential(3, n)},
            segments={"region": rng.choice(["a", "b"], n)},
        )
        self.goal = columns.bind(goal, self.positive)
        self.factors = columns.factors(self.goal.tallies).T  # (n, tallies)
        self.alarm = rng.random(n) < 0.5
        self.multipliers = rng.lognormal(0, 1, (len(self.goal.constraints), 1))

    def counts(self, alarm):
        """TP, FP, P and N in each tally, where rows are an alarm to this degree."""
        found = [
            (self.weight * degree * own) @ self.factors
            for degree in (alarm, np.ones(self.n))
            for own in (self.positive, ~self.positive)
        ]
        return found[0], found[1], found[2], found[3]

    def row_prices(self):
        """The price of each row by the method's function."""
        tp, fp, P, N = self.counts(self.alarm)
        worth, cost = tallied_prices(
            self.goal, tp[:, None], fp[:, None], P, N, self.multipliers
        )  # (tallies, 1) each
        return np.where(self.positive, self.factors @ worth[:, 0], self.factors @ cost[:, 0])

    def terms(self, alarm):
        """The gain, then every constraint, cleared of its denominator."""
        at = self.counts(alarm)
        constraints = self.goal.constraints
        cleared = [c.cleared(*self.goal.counts_of(c.metric, *at)) for c in constraints]
        return np.array([self.goal.gain(*at), *(-value for value in cleared)])


def tallied_rows():
    constraints = st.lists(st.sampled_from(CONSTRAINTS), max_size=3, unique=True)
    return st.builds(
        Tallied, st.integers(0, 2**32 - 1), st.sampled_from(OBJECTIVES), constraints
    ).filter(lambda rows: not rows.goal.is_plain)


@given(tallied_rows())
@settings(max_examples=60)
def test_the_price_of_a_row_is_what_its_decision_changes(rows):
    """Flip each decision: the Lagrangian changes by the row's price, up to one positive scale.

    In the Lagrangian the gain and each constraint are divided by the mean price of the positives or
    of the negatives that they concern, the higher one.
    """
    goal, step = rows.goal, 1e-6  # of a flip, since a quotient is not linear in the counts
    sign = np.where(rows.positive, 1, -1)  # a right decision on a negative takes an alarm away
    changed = []
    for i in range(rows.n):
        up, down = rows.alarm.astype(float), rows.alarm.astype(float)
        up[i], down[i] = up[i] + step, down[i] - step
        slope = (rows.terms(up) - rows.terms(down)) / (2 * step)
        changed.append(sign[i] * slope / rows.weight[i])
    changed = np.array(changed).T  # (1 + constraints, n): the value of a right decision
    for term, which in enumerate(goal.metrics):
        own = [goal.tallies.index(tally.rows) for tally in which.tallies]
        concerned = rows.factors[:, own].max(axis=1) > 0
        sizes = [
            abs(np.average(changed[term][part], weights=rows.weight[part])) if part.any() else 0.0
            for part in (concerned & rows.positive, concerned & ~rows.positive)
        ]
        changed[term] /= max(*sizes, 1e-300)
    total = changed[0] + rows.multipliers[:, 0] @ changed[1:]
    prices_of_rows = rows.row_prices()
    scale = np.abs(total).max() / np.abs(prices_of_rows).max()
    assert prices_of_rows * scale == pytest.approx(total, rel=1e-4, abs=1e-5 * np.abs(total).max())


@given(tallied_rows(), st.floats(0.1, 100), st.floats(0, 2))
@settings(max_examples=30)
def test_lifted_variables_with_a_price_for_each_row_are_eliminated_exactly(rows, lam, gamma):
    """The lemma in docs/theory.md: the minimum of the Lagrangian over all s, on a grid."""
    tp, fp, P, N = rows.counts(rows.alarm)
    at = tp[:, None], fp[:, None], P, N
    worth, cost = (prices[:, 0] for prices in tallied_prices(rows.goal, *at, rows.multipliers))
    price = np.where(rows.positive, rows.factors @ worth, rows.factors @ cost)
    positive = torch.from_numpy(rows.positive)
    z = torch.from_numpy(rows.rng.normal(size=rows.n) * 3)
    weight = torch.from_numpy(rows.weight)

    def lagrangian(s):  # of the lifted counts in all tallies, row by row
        counted = rows.weight * s.numpy()
        in_counts = -(counted * rows.positive) @ rows.factors @ worth
        in_counts += (counted * ~rows.positive) @ rows.factors @ cost
        ties = (weight * eta(z.sigmoid(), s, 0.5, positive).relu()).sum()
        return float(in_counts + lam * ties - gamma * psi(z, s, weight))

    best = torch.zeros(rows.n, dtype=torch.float64)
    for i in range(rows.n):  # rows are coupled by nothing: one coordinate at a time is enough
        values = []
        for value in (0.0, 0.3, 0.7, 1.0):
            best[i] = value
            values.append(lagrangian(best))
        best[i] = (0.0, 0.3, 0.7, 1.0)[int(np.argmin(values))]
    margin = torch.where(positive, z, -z)
    losses = capped_loss(margin, torch.from_numpy(price), lam, gamma)
    constant = float(weight[positive] @ torch.from_numpy(price)[positive])
    found = float(losses @ weight) - constant
    assert found == pytest.approx(lagrangian(best), rel=1e-9, abs=1e-9)
    if (price >= 0).all():  # at an end of the interval
        assert ((best == 0) | (best == 1)).all()


@given(st.integers(0, 2**32 - 1), st.integers(1, 3))
@settings(max_examples=15)
def test_with_floors_in_segments_the_gap_is_at_most_one_row_for_each(seed, segments):
    """Recall of amounts, with precision floors of amounts in each segment and one for all rows."""
    rng = np.random.default_rng(seed)
    n, lam = 60, 2.0
    y, a = rng.random(n) < 0.4, rng.random(n)
    y[:segments], segment = True, rng.integers(0, segments, n)
    amount = rng.lognormal(1, 1, n)
    alphas = rng.uniform(0.5, 0.9, segments + 1)
    ties = np.where(y, lam * np.maximum(0.5 - a, 0), -lam * np.maximum(a - 0.5, 0))
    objective = np.where(y, -amount, 0.0) + ties
    inside = [segment == j for j in range(segments)] + [np.ones(n, dtype=bool)]
    h = np.array([
        own * amount * np.where(y, -(1 - alpha), alpha)
        for own, alpha in zip(inside, alphas, strict=True)
    ])  # fmt: skip
    at_zero = (lam * np.maximum(a - 0.5, 0))[~y].sum()
    relaxed = linprog(objective, h, np.zeros(len(h)), bounds=(0, 1), method="highs-ds")
    fractional = (relaxed.x > 1e-9) & (relaxed.x < 1 - 1e-9)
    assert fractional.sum() <= len(h)
    rounded = np.where(fractional, y, relaxed.x > 0.5)
    assert (h @ rounded <= 1e-9).all()  # keeping a row relaxes every constraint

    mu = -relaxed.ineqlin.marginals
    price = np.where(y, amount, 0.0) + np.abs(mu @ h)  # a row's own
    margin = torch.from_numpy(np.where(y, 1, -1) * np.log(a / (1 - a)))
    losses = float(capped_loss(margin, torch.from_numpy(price), lam, 0.0).sum())
    dual = losses - price[y].sum()  # the constant of the lemma
    assert dual == pytest.approx(relaxed.fun + at_zero, abs=1e-6)
    gap = objective @ rounded + at_zero - dual
    assert -1e-6 <= gap <= price[fractional].sum() + 1e-6
    # Each term is paid by the constraints alone: the reduced cost of a fractional row is zero.
    assert np.abs(objective[fractional]) == pytest.approx(np.abs(mu @ h)[fractional], abs=1e-6)

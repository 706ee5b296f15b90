import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from certificate_rows import outcomes, p_value_by_hand
from setpoint import Goal, certify, evaluate_threshold
from setpoint.certificates.certify import certify_best
from setpoint.certificates.nested import is_nested
from setpoint.certificates.sequence import Rows
from setpoint.certificates.simultaneous import certified_thresholds

NESTED = [
    "max precision s.t. recall >= 0.6",
    "max f1 s.t. recall >= 0.35",
    "min fpr s.t. fnr <= 0.4",
    "max mcc s.t. recall >= 0.3, fnr <= 0.6",
    "max recall s.t. fpr <= 0.3",
    "max precision s.t. specificity >= 0.6",
    "max recall s.t. alarm_rate <= 0.45",
    "max recall s.t. fpr <= 0.4, alarm_rate <= 0.5",
    "max npv s.t. specificity >= 0.5, alarm_rate <= 0.6",
]
NOT_NESTED = [
    "max f1",
    "max recall s.t. precision >= 0.9",
    "max f1 s.t. recall >= 0.5, fpr <= 0.1",
    "max recall s.t. fpr <= 0.1, precision >= 0.5",
    "max f1 s.t. recall >= 0.5, alarm_rate <= 0.1",
    "max recall s.t. mcc >= 0.5",
    "max recall s.t. accuracy >= 0.5",
]


def case(seed):
    """Return a few dozen rows, with or without ties."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 80))
    y = rng.random(n) < rng.choice([0.2, 0.5, 0.8])
    y[:2] = True, False
    scores = rng.normal(size=n) + rng.choice([0.5, 2.0]) * y
    return y, np.round(scores) if rng.random() < 0.5 else scores


def test_goals_are_nested_if_all_constraints_are_safe_on_one_side_of_the_threshold():
    assert all(is_nested(Goal.parse(goal)) for goal in NESTED)
    assert not any(is_nested(Goal.parse(goal)) for goal in NOT_NESTED)


@given(st.integers(0, 100_000), st.sampled_from(NESTED))
def test_exactly_the_thresholds_that_pass_are_certified_and_the_best_is_chosen(seed, goal):
    """Brute force: a threshold at every score, tested with scipy's binomial distribution."""
    goal, alpha = Goal.parse(goal), 0.1234
    y, scores = case(seed)
    found = certified_thresholds(Rows.of(y, scores), goal, None, alpha)
    gains = []
    for threshold in [-np.inf, *np.unique(scores)]:
        alarm = scores > threshold
        passes = p_value_by_hand(goal, alarm, y) <= alpha
        assert (threshold in found.thresholds) == passes
        if passes:
            at = (alarm & y).sum(), (alarm & ~y).sum(), y.sum(), (~y).sum()
            with np.errstate(all="ignore"):
                gains.append(float(goal.gain(*map(np.float64, at))))
    assert (found.best is not None) == bool(gains)
    if gains:
        point = evaluate_threshold(y, scores, found.best, goal)
        assert found.best in found.thresholds
        assert goal.objective.sign * point.objective == pytest.approx(np.nanmax(gains))


@settings(max_examples=40)
@given(st.integers(0, 100_000), st.sampled_from(NESTED))
def test_certify_uses_all_rows_whatever_the_method_and_the_seed(seed, goal):
    y, scores = case(seed)
    found = certify(y, scores, goal, confidence=0.8765)
    assert found == certify(y, scores, goal, confidence=0.8765, method="split", random_state=7)
    assert found.choice == "any"
    assert found.tested is None
    assert found.operating_point.tp + found.operating_point.fn == y.sum()
    alarm = scores > found.threshold
    assert found.certified == (p_value_by_hand(found.goal, alarm, y) <= 1 - 0.8765)


@pytest.mark.parametrize(
    ("goal", "alarms"),
    [("max precision s.t. recall >= 0.9", 6), ("max recall s.t. fpr <= 0.01", 1)],
)
def test_where_nothing_passes_it_is_the_safest_that_finds_a_positive(goal, alarms):
    y = np.array([False, True, True, False, True, False])
    scores = np.array([0.0, 0.0, 1.0, 2.0, 4.0, 3.0])
    found = certify(y, scores, goal)
    assert not found.certified
    assert (scores > found.threshold).sum() == alarms


@given(st.sampled_from(NESTED))
def test_without_the_class_that_counts_nothing_is_certified(goal):
    goal = Goal.parse(goal)
    counts_positives = all(c.metric.population == "positives" for c in goal.constraints)
    missing = Rows.of(np.full(30, not counts_positives), np.arange(30.0))
    if any(c.metric.name == "alarm_rate" for c in goal.constraints):
        return  # it counts both
    assert not certified_thresholds(missing, goal, None, 0.1).thresholds
    found = certified_thresholds(
        Rows.of(np.full(30, counts_positives), np.arange(30.0)), goal, None, 0.1
    )
    assert found.thresholds


# --- exact validity ------------------------------------------------------------------------------

VALUES = np.array([0.0, 1.0, 2.0, 3.0])


@pytest.mark.parametrize("level", [0.3 + 1e-9, 0.61, 0.8 + 1e-9])
def test_a_recall_floor_is_falsely_certified_no_more_often_than_allowed(level):
    """All outcomes of eleven positives: at 0.8 and 0.3 a cut just misses its floor."""
    chances, confidence = np.array([0.2, 0.1, 0.4, 0.3]), 0.75
    goal = Goal.parse(f"max precision s.t. recall >= {level}")
    negatives = np.array([0.0, 1.0, 1.0, 2.0])
    false = certified = 0.0
    for counts, chance in zip(*outcomes(11, chances), strict=True):
        scores = np.concatenate([np.repeat(VALUES, counts), negatives])
        rows = Rows.of(np.arange(len(scores)) < 11, scores)
        found = certify_best(rows, rows, goal, confidence, on="all")
        true = chances[found.threshold < VALUES].sum()
        false += chance * (found.certified and true < level)
        certified += chance * found.certified
    assert false <= 1 - confidence + 1e-9
    assert certified > 0.1


@pytest.mark.parametrize("level", [0.05, 0.3 - 1e-9, 0.45])
def test_an_fpr_ceiling_is_falsely_certified_no_more_often_than_allowed(level):
    """All outcomes of ten negatives: at 0.3 a cut just misses its ceiling."""
    chances, confidence = np.array([0.4, 0.3, 0.2, 0.1]), 0.75
    goal = Goal.parse(f"max recall s.t. fpr <= {level}")
    positives = np.array([0.0, 1.0, 2.0, 3.0, 4.0])
    false = certified = 0.0
    for counts, chance in zip(*outcomes(10, chances), strict=True):
        scores = np.concatenate([positives, np.repeat(VALUES, counts)])
        rows = Rows.of(np.arange(len(scores)) < 5, scores)
        found = certify_best(rows, rows, goal, confidence, on="all")
        true = chances[found.threshold < VALUES].sum()
        false += chance * (found.certified and true > level)
        certified += chance * found.certified
    assert false <= 1 - confidence + 1e-9
    if level < 0.1:
        assert certified == 0  # ten rows cannot prove so little
        return
    assert certified > 0.2
    assert false > (0.05 if level < 0.4 else 0.001)

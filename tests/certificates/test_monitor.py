import itertools
import json
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.stats import binom, binomtest

from certificate_rows import rows_with_counts
from setpoint import Constraint, Goal, OperatingPoint, SetpointError, certify
from setpoint.certificates.monitor import (
    _draws,
    check_guarantees,
    evidence_against,
    exact_p_value,
    staked,
)
from setpoint.certificates.rates import rate_of
from setpoint.goals.metrics import metric

RNG = np.random.default_rng(0)
Y = RNG.random(3000) < 0.3
SCORES = RNG.normal(size=3000) + 2.5 * Y
rows = partial(rows_with_counts, threshold=1.5)


def certificate(goal="max recall s.t. precision >= 0.8", threshold=1.5):
    """Return a certificate that was issued."""
    found = certify(Y, SCORES, goal, threshold=threshold)
    assert found.certified
    return found


# --- the evidence --------------------------------------------------------------------------------


@given(st.integers(0, 60), st.integers(0, 60), st.floats(0.02, 0.98))
def test_the_evidence_is_the_mean_likelihood_ratio_of_all_smaller_fractions(k, failures, p):
    """With q = sin(x)^2 the prior Beta(1/2, 1/2) is uniform in x."""
    end = np.arcsin(np.sqrt(p))

    def ratio(x):
        q = np.sin(x) ** 2
        return np.exp(k * np.log(max(q, 1e-300) / p) + failures * np.log((1 - q) / (1 - p)))

    peak = np.arcsin(np.sqrt(min(p, k / max(k + failures, 1))))
    points = [peak] if 0 < peak < end else None
    expected = quad(ratio, 0, end, points=points, limit=200)[0] / end
    assert evidence_against(k, k + failures, p) == pytest.approx(expected, rel=1e-6)


@given(st.sampled_from([0.05, 0.3, 0.5, 0.8, 0.99]))
def test_the_expected_evidence_against_a_guarantee_that_holds_is_at_most_1(p):
    """All outcomes of up to 30 draws: exactly 1 at the guaranteed fraction, less above it."""
    for n in (1, 2, 3, 5, 8, 13, 20, 30):
        evidence = np.array([evidence_against(k, n, p) for k in range(n + 1)])
        for true in (p, (1 + 2 * p) / 3, (1 + p) / 2, 1.0):
            expected = float(binom.pmf(np.arange(n + 1), n, true) @ evidence)
            assert expected <= 1 + 1e-9
            if true == p:
                assert expected == pytest.approx(1)


@pytest.mark.parametrize("p", [0.5, 0.9])
def test_checks_after_every_draw_seldom_contradict_a_guarantee_that_just_holds(p):
    """The exact chance that the evidence ever reaches 1 / level in 50 draws."""
    level = 0.1
    alive, broken = np.array([1.0]), 0.0  # the chance of each number of successes, not yet broken
    for n in range(1, 51):
        alive = np.append(alive * (1 - p), 0) + np.append(0, alive * p)
        beyond = np.array([evidence_against(k, n, p) for k in range(n + 1)]) >= 1 / level
        broken += alive[beyond].sum()
        alive[beyond] = 0
    assert broken + alive.sum() == pytest.approx(1)
    assert 0.01 < broken <= level


@given(st.integers(1, 300), st.data(), st.floats(0.02, 0.98))
def test_one_success_less_is_never_less_evidence(n, data, p):
    k = data.draw(st.integers(1, n))
    assert evidence_against(k - 1, n, p) >= evidence_against(k, n, p) * (1 - 1e-9)


@given(st.integers(0, 10**7), st.integers(0, 10**7), st.floats(0, 1))
def test_the_evidence_is_never_nan_nor_negative(k, failures, p):
    assert evidence_against(k, k + failures, p) >= 0


def test_the_evidence_at_the_limits_of_fractions():
    assert evidence_against(0, 0, 0.5) == 1
    assert evidence_against(0, 100, 0.0) == 1
    assert evidence_against(100, 100, 1.0) == 1
    assert evidence_against(99, 100, 1.0) == np.inf


# --- checks --------------------------------------------------------------------------------------

GOALS = {
    "max recall s.t. precision >= 0.8": 1.5,
    "max precision s.t. recall >= 0.8": 1.0,
    "max recall s.t. fpr <= 0.1": 1.8,
    "max recall s.t. precision >= 0.6, fpr <= 0.2": 1.5,
    "max f1": 1.3,
}


def against(guarantee, *verdicts):
    """The evidence of the cases of the last verdict that are not in the first one, if two."""
    k, n = np.array([v.draws(guarantee) for v in verdicts]).T
    k, n = k[-1] - (k[0] if len(k) > 1 else 0), n[-1] - (n[0] if len(n) > 1 else 0)
    rate = rate_of(guarantee.metric)
    p = rate.to_fraction(guarantee.level)
    return evidence_against(
        *((k, n, p) if guarantee.metric.direction == "max" else (n - k, n, 1 - p))
    )


@given(st.sampled_from(sorted(GOALS)), st.integers(0, 10_000), st.integers(1, 59))
def test_two_checks_have_the_counts_of_one_and_a_restart_between_them(goal, seed, at):
    certified = certificate(goal, GOALS[goal])
    rng = np.random.default_rng(seed)
    y, scores = rng.random(60) < 0.5, rng.normal(1, 1, size=60)
    first = certified.check(y[:at], scores[:at])
    second = certified.check(y[at:], scores[at:], after=first)
    whole = certified.check(y, scores)
    assert second.operating_point == whole.operating_point
    enough = any(first.draws(g)[1] >= 10 for g in first.guarantees)
    for g, before, now, at_once in zip(
        first.guarantees, first.evidence, second.evidence, whole.evidence, strict=True
    ):
        assert before == pytest.approx(against(g, first) / 2 + 1 / 2)
        assert at_once == pytest.approx(against(g, whole) / 2 + 1 / 2)
        restarted = against(g, first, second) / 4 + 1 / 4 if enough else 1 / 2
        assert now == pytest.approx(max(before, against(g, whole) / 2 + restarted))
    assert second.broken == any(e >= second.alarm_at for e in second.evidence)
    assert (first.checks, second.checks, whole.checks) == (1, 2, 1)


@given(st.sampled_from(sorted(GOALS)), st.integers(0, 10_000))
def test_the_order_of_the_rows_does_not_matter(goal, seed):
    certified = certificate(goal, GOALS[goal])
    rng = np.random.default_rng(seed)
    y, scores = rng.random(60) < 0.5, rng.normal(1, 1, size=60)
    order = rng.permutation(60)
    assert certified.check(y, scores) == certified.check(y[order], scores[order])


def test_guarantees_have_separate_evidence_and_divide_the_level():
    certified = certificate("max recall s.t. precision >= 0.6, fpr <= 0.2")
    found = certified.check(*rows(tp=30, fp=10, fn=5, tn=60), level=0.1)
    assert found.evidence[0] == pytest.approx((evidence_against(30, 40, 0.6) + 1) / 2)
    assert found.evidence[1] == pytest.approx((evidence_against(60, 70, 0.8) + 1) / 2)
    assert found.guarantees == certified.guarantees == certified.goal.constraints
    assert found.alarm_at == 20


def test_a_guarantee_is_broken_from_an_evidence_of_one_over_level():
    guarantee = (Constraint(metric("recall"), 0.9),)
    evidence = (evidence_against(14, 20, 0.9) + 1) / 2
    for level, broken in ((1.001 / evidence, True), (0.999 / evidence, False)):
        assert (
            check_guarantees(guarantee, 1.5, *rows(14, 0, 6, 9), None, level, None).broken == broken
        )


def test_of_two_guarantees_each_needs_twice_the_evidence():
    guarantees = (Constraint(metric("recall"), 0.9), Constraint(metric("fpr"), 0.5))
    evidence = (evidence_against(14, 20, 0.9) + 1) / 2
    for level, broken in ((2.001 / evidence, True), (1.999 / evidence, False)):
        assert (
            check_guarantees(guarantees, 1.5, *rows(14, 0, 6, 9), None, level, None).broken
            == broken
        )


@pytest.mark.parametrize(
    ("goal", "batch"),
    [
        ("max recall s.t. precision >= 0.8", {"tp": 12, "fp": 8, "fn": 2, "tn": 60}),
        ("max precision s.t. recall >= 0.8", {"tp": 12, "fp": 0, "fn": 8, "tn": 60}),
        ("max recall s.t. fpr <= 0.1", {"tp": 12, "fp": 20, "fn": 2, "tn": 60}),
        ("max recall s.t. precision >= 0.6, fpr <= 0.2", {"tp": 10, "fp": 10, "fn": 2, "tn": 60}),
        ("max f1", {"tp": 5, "fp": 10, "fn": 5, "tn": 60}),
    ],
)
def test_a_guarantee_that_is_clearly_missed_is_broken_and_stays_broken(goal, batch):
    certified = certificate(goal, GOALS[goal])
    verdict = None
    for _ in range(20):
        verdict = certified.check(*rows(**batch, threshold=GOALS[goal]), after=verdict)
    assert verdict.broken
    assert verdict.checks == 20
    assert verdict.message.startswith("BROKEN: ")
    assert "Certify again" in str(verdict)
    good = rows(tp=3000, fp=0, fn=0, tn=3000, threshold=GOALS[goal])
    assert certified.check(*good, after=verdict).broken


def test_a_guarantee_that_holds_is_not_broken():
    certified = certificate()
    verdict = None
    for _ in range(30):
        verdict = certified.check(*rows(tp=9, fp=1, fn=2, tn=20), after=verdict)
        assert not verdict.broken
    assert str(verdict) == (
        "Consistent with the certificate so far: precision is 0.900 (270 of 300; guaranteed: "
        ">= 0.8), with no evidence against it. These rows alone: p = 0.893 (exact test; valid "
        "only if this is the only planned check)."
    )


def test_rows_that_miss_the_guarantee_do_not_agree_with_it():
    """Even if the evidence is below 1, since such a small deviation is likely."""
    certified = certificate("max recall s.t. precision >= 0.3", 1.5)
    verdict = certified.check(*rows(tp=212, fp=533, fn=2, tn=60))
    assert verdict.evidence[0] < 1
    assert str(verdict) == (
        "Not broken so far: precision is 0.285 (212 of 745; guaranteed: >= 0.3), which "
        "is not enough evidence to contradict it. These rows alone: p = 0.19 (exact test; valid "
        "only if this is the only planned check)."
    )
    two = certificate("max recall s.t. precision >= 0.6, fpr <= 0.2")
    text = str(two.check(*rows(tp=60, fp=10, fn=2, tn=37)))  # 10 of 47
    assert text.startswith("Not broken so far: precision is 0.857")
    assert "(60 of 70; guaranteed: >= 0.6), with no evidence against it; fpr is 0.213 " in text
    assert "(10 of 47; guaranteed: <= 0.2), which is not enough evidence" in text


def test_the_message_states_how_unlikely_the_counts_are():
    certified = certificate()
    verdict = certified.check(*rows(tp=12, fp=8, fn=2, tn=60))
    assert str(verdict) == (
        "Not broken so far: precision is 0.600 (12 of 20; guaranteed: >= 0.8); if the guarantee "
        f"held, such results would have a probability of at most 1 in {verdict.evidence[0]:.3g} "
        "(broken at 1 in 20). These rows alone: p = 0.0321 (exact test; valid only if this is the "
        "only planned check, which would then contradict the certificate)."
    )
    assert verdict.contradicted == ()
    broken = certified.check(*rows(tp=120, fp=800, fn=2, tn=60))
    assert str(broken) == (
        "BROKEN: precision is 0.130 (120 of 920; guaranteed: >= 0.8); if the guarantee held, "
        "such results would have a probability of less than 1 in 1,000,000 (broken at 1 in 20). "
        "Certify again on recent rows before relying on it. These rows alone: p < 0.0001 (exact "
        "test; valid only if this is the only planned check)."
    )
    assert broken.contradicted == broken.guarantees


def test_one_look_is_an_exact_test_of_the_rows_of_the_check():
    certified = certificate("max recall s.t. precision >= 0.6, fpr <= 0.2")
    first = certified.check(*rows(tp=48, fp=52, fn=2, tn=300))
    expected = (binomtest(48, 100, 0.6, "less"), binomtest(52, 352, 0.2, "greater"))
    assert first.p_values == pytest.approx([test.pvalue for test in expected])
    assert first.p_values[0] < 0.025  # half of the level
    assert not first.broken
    assert "for fpr (exact test; valid only if" in first.one_look
    assert "would then contradict the certificate" in first.one_look
    second = certified.check(*rows(tp=9, fp=1, fn=2, tn=30), after=first)
    assert second.p_values[0] == pytest.approx(binomtest(9, 10, 0.6, "less").pvalue)
    assert "would then" not in str(second)
    nothing = certified.check([], [], after=second)
    assert (nothing.p_values, nothing.one_look) == ((), "")
    assert json.dumps(second.to_dict()["p_values"])


def test_one_look_at_levels_that_a_single_case_decides():
    certified = certificate("max recall s.t. precision >= 0.8")
    point = certified.check(*rows(tp=3, fp=1, fn=0, tn=9)).operating_point
    for level, p_value in ((1.0, 0.0), (0.0, 1.0)):
        assert exact_p_value(Constraint("precision", level), point) == p_value


def test_the_contradicted_guarantee_of_several_is_identified():
    certified = certificate("max recall s.t. precision >= 0.6, fpr <= 0.2")
    verdict = certified.check(*rows(tp=10, fp=90, fn=2, tn=6000))
    assert [str(guarantee) for guarantee in verdict.contradicted] == ["precision >= 0.6"]
    assert "(broken at 1 in 40)" in str(verdict)


def test_before_the_first_draw_there_is_no_evidence():
    verdict = certificate().check(*rows(tp=0, fp=0, fn=3, tn=20))
    assert verdict.evidence == (1.0,)
    assert not verdict.broken
    assert str(verdict) == (
        "Consistent with the certificate so far: 'precision >= 0.8' has no observations yet."
    )
    assert "nan" not in str(verdict)


def test_a_batch_of_one_class_is_counted():
    certified = certificate("max recall s.t. precision >= 0.6, fpr <= 0.2")
    for label, counts in ((True, (2, 0)), (False, (0, 2))):
        verdict = certified.check([label] * 4, [3.0, 3.0, 0.0, 0.0])
        assert (verdict.operating_point.tp, verdict.operating_point.fp) == counts
        assert "nan" not in str(verdict)


def test_a_goal_without_constraints_guarantees_the_bound_of_its_objective():
    certified = certificate("max f1", 1.3)
    (guarantee,) = certified.guarantees
    assert guarantee.metric.name == "f1"
    assert guarantee.level <= certified.bounds[-1].bound < guarantee.level + 1e-4
    fraction = guarantee.level / (2 - guarantee.level)
    found = certified.check(*rows(20, 10, 10, 50, threshold=1.3))
    assert found.evidence == pytest.approx(((evidence_against(20, 40, fraction) + 1) / 2,))


# --- restarts -------------------------------------------------------------------------------------


def followed(certified, batches, after=None):
    """Return the verdict after batches of (tp, fp)."""
    for tp, fp in batches:
        after = certified.check(*rows(tp, fp, 2, 20), after=after)
    return after


GOOD, BAD = (18, 2), (13, 7)  # alarms; precision >= 0.8 is guaranteed


def test_a_late_change_is_found_nearly_as_soon_as_an_early_one():
    certified = certificate()
    verdict, checks = followed(certified, [GOOD] * 150), 0
    assert not verdict.broken
    while not verdict.broken:
        verdict, checks = followed(certified, [BAD], verdict), checks + 1
    assert checks <= 20  # 400 alarms after 3,000 good ones
    before = 150 * (20 + 22)
    assert verdict.since[0] == pytest.approx(before, rel=0.05)
    assert f"mostly because of those after the first {verdict.since[0]:,} cases" in str(verdict)
    assert verdict.operating_point.precision > 0.85  # over all cases it still holds


def test_the_number_of_restarts_grows_with_the_logarithm_of_the_draws():
    certified = certificate()
    starts = [len(followed(certified, [(10 * n, 0)] * 100).starts) for n in (1, 10, 100)]
    assert starts[0] < 100
    assert starts[0] <= starts[1] == starts[2] <= 100  # batches of 1 % are too small later on
    many = followed(certified, [(1, 0)] * 1000)
    assert 50 <= len(many.starts) <= 100


def test_the_expected_evidence_with_restarts_is_1():
    """All outcomes of four checks with ten alarms each, at the guaranteed precision."""
    certified = certificate()
    chance = binom.pmf(np.arange(11), 10, 0.8)
    rate = Constraint(metric("precision"), 0.8)
    total = 0.0
    for a, b, c in itertools.product(range(0, 11), repeat=3):
        point = point_with(a + b + c, 30 - a - b - c)
        starts = ((a, 10.0 - a, 0.0, 0.0), (a + b, 20.0 - a - b, 0.0, 0.0))
        evidence, _ = staked(evidence_against(*_draws(rate, point, starts)))
        total += chance[a] * chance[b] * chance[c] * evidence
    assert total == pytest.approx(1.0)
    assert certified.check(*rows(8, 2, 0, 0)).reserve == (1.0,)


def point_with(tp, fp):
    goal = Goal.parse("max recall s.t. precision >= 0.8")
    return OperatingPoint(1.5, float(tp), float(fp), 0.0, 0.0, goal, "later data")


def test_a_verdict_of_an_earlier_version_goes_on_with_the_stake_it_had():
    certified = certificate()
    new = followed(certified, [GOOD] * 50)
    old = replace(new, starts=(), reserve=None, since=(), evidence=(1.0,))
    again = followed(certified, [GOOD], old)
    stake = evidence_against(900, 1000, 0.8)
    assert 0 < stake < 0.01
    assert again.reserve == pytest.approx((float(stake),))
    broken = followed(certified, [BAD] * 60, old)
    assert broken.broken
    long = replace(old, operating_point=point_with(90_000, 10_000))
    assert evidence_against(90_000, 100_000, 0.8) == 0  # in floating-point numbers
    (reserve,) = followed(certified, [GOOD], long).reserve
    assert 1e-7 < reserve < 1e-4


# --- labels that are not final --------------------------------------------------------------------


def test_only_matured_rows_count():
    certified = certificate()
    y, scores = rows(40, 5, 3, 40)
    matured = np.arange(len(y)) % 2 == 0
    found = certified.check(y, scores, matured=matured)
    assert found.operating_point == certified.check(y[matured], scores[matured]).operating_point
    assert found.pending == 44
    assert "(44 cases are pending)" in str(found)
    later = certified.check(y[~matured], scores[~matured], after=found)
    assert later.operating_point == certified.check(y, scores).operating_point
    assert later.pending == 0
    assert "pending" not in str(later)
    none = certified.check(y, scores, matured=np.zeros(len(y), bool), after=later)
    assert (none.pending, none.operating_point) == (88, later.operating_point)


@pytest.mark.parametrize("matured", [[True], np.ones(88), ["yes"] * 88])
def test_matured_is_a_mask_of_the_rows(matured):
    with pytest.raises(SetpointError, match="matured has one True or False for each row"):
        certificate().check(*rows(40, 5, 3, 40), matured=matured)


def test_labels_of_any_kind_can_be_checked():
    certified = certificate()
    y, scores = rows(20, 5, 3, 40)
    texts = np.where(y, "fraud", "fine")
    assert certified.check(texts, scores, pos_label="fraud") == certified.check(y, scores)


# --- what cannot be checked ----------------------------------------------------------------------


def test_a_certificate_that_was_refused_cannot_be_checked():
    found = certify(Y, SCORES, "max recall s.t. precision >= 0.999", threshold=0.0)
    with pytest.raises(SetpointError, match="nothing was certified"):
        found.check(Y, SCORES)


def test_an_estimate_is_not_a_guarantee_to_check():
    found = certify(Y, SCORES, "max mcc", threshold=1.5)
    assert found.guarantees == ()
    with pytest.raises(SetpointError, match="nothing was certified"):
        found.check(Y, SCORES)


def test_former_names_of_attributes_are_deprecated():
    verdict = certificate().check(Y, SCORES)
    with pytest.warns(DeprecationWarning, match="now guarantees"):
        assert verdict.promises == verdict.guarantees
    with pytest.warns(DeprecationWarning, match="now checks"):
        assert verdict.looks == verdict.checks
    assert verdict.to_dict()["looks"] == 1  # keys of JSON keep their names
    assert verdict.to_dict()["promises"] == ["precision >= 0.8"]


def test_a_different_level_than_before_raises():
    certified = certificate()
    verdict = certified.check(*rows(9, 1, 2, 20), level=0.01)
    with pytest.raises(SetpointError, match=r"had the level 0.01, not 0.05"):
        certified.check(*rows(9, 1, 2, 20), after=verdict)


@pytest.mark.parametrize(
    ("goal", "threshold"),
    [("max recall s.t. precision >= 0.8", 1.6), ("max recall s.t. precision >= 0.7", 1.5)],
)
def test_the_verdict_of_another_certificate_raises(goal, threshold):
    verdict = certificate(goal, threshold).check(*rows(9, 1, 2, 20))
    with pytest.raises(SetpointError, match="belongs to another certificate"):
        certificate().check(*rows(9, 1, 2, 20), after=verdict)


def test_a_level_must_lie_between_0_and_1():
    for level in (0.0, 1.0, -0.1, 1.5, float("nan")):
        with pytest.raises(SetpointError, match="level must lie between 0 and 1"):
            certificate().check(Y, SCORES, level=level)


def test_invalid_rows_raise():
    for y, scores in [
        ([], []),
        ([1, 0], [0.5, np.nan]),
        ([1, np.nan], [0.5, 0.2]),
        ([1, 0], [0.5]),
        ([1, 2], [0, 1]),
    ]:
        with pytest.raises(SetpointError):
            certificate().check(y, scores)


def test_no_rows_count_as_a_check():
    found = certificate()
    first = found.check(Y, SCORES)
    assert found.check([], [], after=first) == replace(first, checks=2, p_values=())


def test_the_verdict_of_another_model_raises_even_if_goal_and_threshold_are_the_same():
    one, other = (
        certify(Y[rows], SCORES[rows], "max recall s.t. precision >= 0.8", threshold=2.0)
        for rows in (slice(0, 1500), slice(1500, None))
    )
    with pytest.raises(SetpointError, match="another certificate"):
        other.check(Y, SCORES, after=one.check(Y, SCORES))

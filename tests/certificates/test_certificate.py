import json
from dataclasses import FrozenInstanceError, replace

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from certificate_rows import clopper_pearson, normal, rows_with_counts
from setpoint import Certificate, Goal, SetpointError, certify
from setpoint.certificates.certify import certify_best
from setpoint.certificates.sequence import Rows, plan, worst_p_value
from setpoint.certificates.threshold_set import ThresholdSet


def given_beforehand(counts, goal, confidence=0.9):
    """Return the certificate of the threshold 0.5 at these counts."""
    return certify(*rows_with_counts(*counts), goal, 0.5, confidence)


# --- guarantees ----------------------------------------------------------------------------------


def test_the_guarantees_are_the_constraints_that_were_certified():
    found = given_beforehand((90, 5, 10, 95), "max recall s.t. precision >= 0.8, fpr <= 0.2")
    assert found.certified
    assert found.guarantees == found.goal.constraints
    missed = given_beforehand((90, 5, 10, 95), "max recall s.t. precision >= 0.99")
    assert not missed.certified
    assert missed.guarantees == ()
    with pytest.warns(DeprecationWarning, match="it is now guarantees"):
        assert found.promises == found.guarantees


@given(st.tuples(*[st.integers(1, 80)] * 4), st.sampled_from(["max f1", "max accuracy", "min fpr"]))
def test_without_constraints_the_bound_of_the_objective_is_guaranteed_rounded_conservatively(
    counts, goal
):
    found = given_beforehand(counts, goal)
    (guarantee,) = found.guarantees
    room = found.goal.objective.sign * (found.bounds[-1].bound - guarantee.level)
    assert -1e-12 <= room < 1.0001e-4
    assert len(str(guarantee.level)) <= 6
    assert str(guarantee) in found.message


# --- how many more labels are needed -------------------------------------------------------------

FALLING_SHORT = [
    ((9, 0, 3, 30), "max recall s.t. precision >= 0.9"),
    ((12, 1, 3, 30), "max recall s.t. precision >= 0.9"),
    ((19, 3, 2, 200), "max precision s.t. recall >= 0.88"),
    ((19, 3, 1, 200), "max recall s.t. fpr <= 0.018"),
    ((45, 3, 10, 20), "max f1 s.t. precision >= 0.9, recall >= 0.8"),
    ((45, 3, 10, 20), "max recall s.t. alarm_rate <= 0.63, recall >= 0.5"),
    ((45, 3, 10, 200), "max recall s.t. f1 >= 0.86"),
]


@pytest.mark.parametrize(("counts", "goal"), FALLING_SHORT)
def test_the_stated_number_of_more_positives_is_enough_and_far_fewer_are_not(counts, goal):
    found = given_beforehand(counts, goal)
    assert not found.certified
    P = counts[0] + counts[2]
    times = (P + found.more_positives) / P

    def issued(times):
        return given_beforehand([times * c for c in counts], goal).certified

    assert issued(int(np.ceil(times)))
    assert not issued(int(0.9 * times))
    assert f"about {found.more_positives:,} more labelled positives" in found.message


@given(
    st.tuples(*[st.integers(0, 40)] * 4),
    st.sampled_from([0.5, 0.8, 0.9]),
    st.sampled_from(["max recall s.t. precision >= {}", "max precision s.t. recall >= {}"]),
)
def test_more_positives_are_suggested_only_where_they_would_help(counts, level, goal):
    tp, fp, fn, _ = counts
    assume(tp + fn > 0)
    found = given_beforehand(counts, goal.format(level))
    k, n = (tp, tp + fp) if "precision >=" in goal else (tp, tp + fn)
    if found.certified:
        assert found.more_positives is None
    elif n == 0 or k / n <= level:
        assert found.more_positives is None
        assert "more labelled positives" not in found.message
    else:
        assert found.more_positives >= 1
        times = int(np.ceil((tp + fn + found.more_positives) / (tp + fn)))
        assert given_beforehand([times * c for c in counts], goal.format(level)).certified


def test_the_stated_number_of_more_positives_certifies_a_planned_threshold():
    y, scores = normal(n=120, gap=3.0)
    planning = Rows.of(*normal(1, n=60, gap=3.0))
    goal = Goal.parse("max recall s.t. precision >= 0.95")
    found = certify_best(planning, Rows.of(y, scores), goal, 0.9, on="May", method="sequence")
    assert not found.certified
    times = int(np.ceil((y.sum() + found.more_positives) / y.sum()))
    testing = Rows.of(np.tile(y, times), np.tile(scores, times))
    tp, fp = testing.counts(plan(planning, goal, len(y), 0.1))
    assert worst_p_value(goal, tp, fp, *testing.totals).min() <= 0.1


def test_without_positives_no_number_of_positives_is_suggested():
    """A ceiling on fpr lacks negatives here; no multiple of zero positives helps."""
    found = certify(np.zeros(10), np.arange(10.0), "max recall s.t. fpr <= 0.05")
    assert not found.certified
    assert found.more_positives is None
    assert "labelled positives" not in found.message


# --- messages ------------------------------------------------------------------------------------


def test_the_message_of_a_certificate_with_constraints():
    found = given_beforehand((90, 5, 10, 95), "max recall s.t. precision >= 0.8, fpr <= 0.2")
    assert found.message == (
        "Certified at 90 % confidence: precision >= 0.8 and fpr <= 0.2. "
        "On the certification rows recall is 0.900."
    )
    assert str(found).startswith(found.message + "\nthreshold 0.5 (given beforehand);")
    for assumption in found.assumptions:
        assert assumption in str(found)


def test_the_message_of_a_certificate_without_constraints():
    found = given_beforehand((90, 5, 10, 95), "max f1")
    J = clopper_pearson(90, 105, 0.9)
    bound = np.floor(1e4 * 2 * J / (1 + J)) / 1e4
    assert found.message == (
        f"Certified at 90 % confidence: f1 >= {bound}. On the certification rows f1 is 0.923."
    )


def test_a_refusal_states_the_constraint_and_its_counts():
    found = given_beforehand((17, 3, 10, 95), "max recall s.t. precision >= 0.9")
    assert found.refusal in found.message
    assert found.message == (
        "Not certified at 90 % confidence: precision is 0.850 (17 of 20), not enough to certify "
        "'precision >= 0.9'; more labels at this rate would not help. On the certification rows "
        "recall is 0.630."
    )


def test_a_refusal_for_an_objective_that_is_zero():
    """F1 was observed, but its lower bound is 0, which holds anyway."""
    found = given_beforehand((0, 5, 10, 95), "max f1")
    assert (
        found.refusal == "the exact bound is only f1 >= 0.0000 (observed 0.0000, 0 of 15; exact)."
    )
    assert found.message == (
        f"Not certified at 90 % confidence: {found.refusal} On the certification rows f1 is 0.000."
    )


def test_a_refusal_names_the_least_certain_of_several_constraints():
    found = given_beforehand((40, 1, 30, 200), "max f1 s.t. precision >= 0.8, recall >= 0.7")
    assert "recall is 0.571 (40 of 70), not enough to certify 'recall >= 0.7'" in found.message


def test_messages_name_the_rows_as_given():
    found = certify(
        *normal(n=1500, gap=2.0), "max recall s.t. precision >= 0.7", on="the data of May"
    )
    assert "On the data of May recall is 0." in found.message


def test_the_text_states_how_the_threshold_was_chosen():
    for goal, way, words in [
        ("max recall s.t. precision >= 0.7", {}, "the best of all that pass"),
        ("max recall s.t. precision >= 0.7", {"method": "sequence"}, "planned on other rows"),
        ("max recall s.t. f1 >= 0.5", {}, "planned on other rows"),
        ("max recall s.t. precision >= 0.7", {"method": "split"}, "chosen on other rows"),
        ("max precision s.t. recall >= 0.7", {}, "the best of all that pass"),
        ("max recall s.t. precision >= 0.7", {"threshold": 1.5}, "given beforehand"),
    ]:
        assert words in str(certify(*normal(n=1500, gap=2.0), goal, **way))


def test_the_text_states_all_certified_thresholds():
    y, scores = normal(n=1500, gap=2.0)
    found = certify(y, scores, "max recall s.t. precision >= 0.7")
    assert f"certified thresholds, any of which may be used: {found.certified_thresholds}" in str(
        found
    )
    assert len(found.to_dict()["certified_thresholds"]) == len(found.certified_thresholds)
    given = certify(y, scores, "max recall s.t. precision >= 0.7", threshold=1.5)
    assert "any of which" not in str(given)
    assert given.certified_thresholds == ThresholdSet.of_points([1.5])
    refused = certify(y, scores, "max recall s.t. precision >= 0.999")
    assert not refused.certified_thresholds
    assert "any of which" not in str(refused)


def test_a_refusal_says_if_the_threshold_would_pass_had_it_been_fixed_beforehand():
    """15 of 15: the p-value at 0.855 is 0.095, but other thresholds might have been chosen."""
    y, scores = rows_with_counts(15, 0, 0, 40)
    goal = "max recall s.t. precision >= 0.855"
    assert certify(y, scores, goal, threshold=0.5).certified
    rng = np.random.default_rng(0)
    planning_rows = rng.random(40) < 0.5, rng.normal(size=40)
    found = certify(y, scores, goal, planning_rows=planning_rows)
    assert not found.certified
    assert "at a threshold that is chosen on the same rows" in found.refusal


def test_a_refusal_names_the_missing_class():
    found = certify(np.ones(100), np.arange(100.0), "max recall s.t. precision >= 0.5")
    assert found.refusal == "all rows are positive; precision needs both classes."


def test_metrics_that_were_not_observed_are_not_printed_as_nan():
    for goal in ("max precision s.t. recall >= 0.9", "max f1 s.t. precision >= 0.9, recall >= 0.5"):
        found = certify(np.zeros(20), np.linspace(0, 1, 20), goal, threshold=2.0)
        assert not found.certified
        assert "nan" not in str(found)


def test_without_alarms_precision_is_not_reported_as_observed():
    """Precision is 1 by convention where nothing is predicted positive: nothing was observed."""
    found = given_beforehand((0, 0, 20, 80), "max recall s.t. precision >= 0.9")
    assert not found.certified
    assert "precision is 1.000" not in found.message
    assert "observed 1.0000" not in str(found)


def test_an_objective_without_observations_is_not_called_an_estimate():
    """Precision has an exact bound, but there was not a single alarm."""
    found = given_beforehand((0, 0, 20, 80), "max precision")
    assert not found.certified
    assert "there is no exact bound" not in found.message
    assert "bootstrap" not in found.message
    assert found.refusal == "no row counts towards precision at the threshold."


# --- plain values --------------------------------------------------------------------------------


def test_a_certificate_can_be_written_as_json():
    found = given_beforehand((90, 5, 10, 95), "max recall s.t. precision >= 0.8")
    values = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert values["goal"] == "max recall s.t. precision >= 0.8"
    assert values["certified"] is True
    assert (values["threshold"], values["confidence"], values["tested"]) == (0.5, 0.9, 1)
    assert values["choice"] == "beforehand"
    assert values["more_positives"] is None
    assert values["message"] == found.message
    assert values["operating_point"]["tp"] == 90
    precision, recall = values["bounds"]
    assert precision["bound"] == pytest.approx(clopper_pearson(90, 95, 0.9))
    assert (precision["metric"], precision["level"]) == ("precision", 0.8)
    assert (precision["successes"], precision["trials"]) == (90, 95)
    assert recall["level"] is None


def test_a_metric_that_was_not_observed_is_null():
    found = certify(np.zeros(20), np.linspace(0, 1, 20), "max precision s.t. recall >= 0.9", 2.0)
    assert found.to_dict()["bounds"][0]["value"] is None


def test_a_certificate_cannot_be_changed():
    found = given_beforehand((90, 5, 10, 95), "max f1")
    with pytest.raises(FrozenInstanceError):
        found.certified = False
    assert isinstance(replace(found, confidence=0.5), Certificate)


# --- another prevalence --------------------------------------------------------------------------


def test_precision_at_another_prevalence_follows_from_recall_and_fpr():
    found = given_beforehand((180, 10, 20, 790), "max recall s.t. precision >= 0.5")
    there = found.at_prevalence(0.02)
    recall = clopper_pearson(180, 200, 0.95)
    fpr = 1 - clopper_pearson(790, 800, 0.95)
    expected = 0.02 * recall / (0.02 * recall + 0.98 * fpr)
    assert there.bounds[0].bound == pytest.approx(expected, abs=1e-9)
    assert there.certified == (expected >= 0.5)
    assert there.bounds[0].value == pytest.approx(0.018 / (0.018 + 0.98 / 80))
    assert there.bounds[1] == found.bounds[1]  # recall is what it was


@given(
    st.sampled_from(["max recall s.t. fpr <= 0.1", "min fpr s.t. recall >= 0.8"]),
    st.sampled_from([None, 0.5]),
)
def test_metrics_that_do_not_depend_on_the_prevalence_are_certified_at_any(goal, threshold):
    found = certify(*rows_with_counts(180, 10, 20, 790), goal, threshold)
    there = found.at_prevalence(0.001)
    assert found.certified
    assert there.certified
    assert there.bounds == found.bounds


def test_guarantees_that_do_not_depend_on_the_prevalence_stay():
    goal = "max precision s.t. recall >= 0.6, fpr <= 0.3"
    for method in ("simultaneous", "sequence"):
        found = certify(*normal(n=1500, gap=2.0), goal, method=method)
        there = found.at_prevalence(0.01)
        assert found.certified
        assert there.certified
        assert there.bounds[:2] == found.bounds[:2]
        assert there.certified_thresholds == found.certified_thresholds


def test_elsewhere_only_the_chosen_threshold_is_certified_if_the_metric_depends_on_prevalence():
    rows = normal(n=1500, gap=2.0)
    found = certify(*rows, "max recall s.t. alarm_rate <= 0.3")
    there = found.at_prevalence(0.1)
    assert found.certified
    assert there.certified
    assert found.threshold - 0.1 not in found.certified_thresholds
    assert found.threshold + 0.1 in found.certified_thresholds
    assert found.threshold in there.certified_thresholds
    assert found.threshold + 0.1 not in there.certified_thresholds
    assert not found.at_prevalence(0.9).certified_thresholds
    recall = certify(*rows, "max precision s.t. recall >= 0.7")
    assert recall.at_prevalence(0.1).certified_thresholds == recall.certified_thresholds


def test_the_bound_on_precision_rises_with_the_prevalence():
    found = given_beforehand((180, 10, 20, 790), "max recall s.t. precision >= 0.5")
    prevalences = (0.001, 0.01, 0.1, 0.5, 0.9)
    bounds = [found.at_prevalence(prevalence).bounds[0].bound for prevalence in prevalences]
    assert bounds == sorted(bounds)
    assert not found.at_prevalence(0.001).certified
    assert found.at_prevalence(0.5).certified


def test_a_certificate_for_another_prevalence_states_it():
    found = given_beforehand((180, 10, 20, 790), "max recall s.t. precision >= 0.5")
    for prevalence, start in ((0.5, "Certified at 90 %"), (0.001, "Not certified at 90 %")):
        there = found.at_prevalence(prevalence)
        assert there.message.startswith(start)
        assert there.certified == (there.refusal is None)
        assert f"where {100 * prevalence:g} % of the cases are positive" in there.message
        assert f"{100 * prevalence:g} % of the cases are positive" in there.assumptions[-1]
        assert "the prevalence stays the same" not in str(there)
        json.dumps(there.to_dict(), allow_nan=False)


def test_at_another_prevalence_even_an_estimated_metric_has_a_bound():
    found = given_beforehand((180, 10, 20, 790), "max mcc")
    there = found.at_prevalence(0.1)
    assert not found.certified
    assert there.certified
    assert "mcc >= 0." in there.message


def test_a_prevalence_must_lie_between_0_and_1():
    found = given_beforehand((180, 10, 20, 790), "max f1")
    for prevalence in (0, 1, -0.5, 2, float("nan")):
        with pytest.raises(SetpointError, match="prevalence must lie between 0 and 1"):
            found.at_prevalence(prevalence)


def test_later_rows_are_checked_against_a_certificate_for_another_prevalence():
    found = given_beforehand((180, 10, 20, 790), "max recall s.t. precision >= 0.3")
    there = found.at_prevalence(0.05)
    assert there.certified
    assert not there.check(*rows_with_counts(50, 10, 5, 900)).broken
    assert there.check(*rows_with_counts(10, 190, 5, 900)).broken


# --- groups --------------------------------------------------------------------------------------


def test_a_certificate_of_groups_states_its_assumption():
    found = given_beforehand((90, 5, 10, 95), "max recall s.t. precision >= 0.8")
    grouped = replace(found, one_per_group=True)
    assert "one row of a new group" in str(grouped)
    assert "one row of a new group" not in str(found)
    assert "one row of a new group" in str(grouped.at_prevalence(0.3))
    assert grouped.to_dict()["one_per_group"]


def test_a_check_uses_one_row_of_each_group():
    """Ten copies of a row are one case."""
    found = given_beforehand((90, 5, 10, 95), "max recall s.t. precision >= 0.8")
    y, scores = np.array([1, 1, 0, 0, 0]), found.threshold + np.array([1.0, 1.0, 1.0, -1.0, -1.0])
    whole = found.check(np.repeat(y, 10), np.repeat(scores, 10), groups=np.repeat(np.arange(5), 10))
    assert whole == found.check(y, scores)


def test_a_refusal_mentions_a_safer_threshold_that_failed():
    """In a sequence the first failure ends it, whatever comes after."""
    passing = given_beforehand((90, 5, 10, 95), "max recall s.t. precision >= 0.8")
    unlucky = replace(passing, certified=False, choice="planned", tested=5)
    assert "a safer one before it failed" in unlucky.message

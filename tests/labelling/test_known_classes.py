"""Certificates from samples that were drawn by class."""

import numpy as np
import pytest
from scipy.stats import norm

from setpoint import certify
from setpoint.errors import SetpointError
from setpoint.labelling import certify_known_classes

RNG = np.random.default_rng(0)
POSITIVES, NEGATIVES = RNG.normal(3, 1, 400), RNG.normal(0, 1, 4000)


def test_positives_alone_certify_recall():
    found = certify_known_classes("max precision s.t. recall >= 0.9", POSITIVES)
    same = certify(np.ones(400), POSITIVES, "max specificity s.t. recall >= 0.9")
    assert found.certified
    assert found.threshold == same.threshold
    assert norm.sf(found.threshold - 3) > 0.9
    text = " ".join(found.assumptions)
    assert "independent draws from all positives" in text
    assert "negatives" not in text


def test_negatives_alone_certify_fpr():
    found = certify_known_classes("max recall s.t. fpr <= 0.05", POSITIVES, NEGATIVES)
    assert found.certified
    assert norm.sf(found.threshold) < 0.05
    assert "known negatives" in " ".join(found.assumptions)


def test_without_positives_as_many_alarms_as_allowed_are_raised():
    found = certify_known_classes("max recall s.t. fpr <= 0.05", None, NEGATIVES)
    assert found.certified
    assert 0.03 < norm.sf(found.threshold) < 0.05


def test_a_prevalence_does_not_matter_for_recall():
    goal = "max precision s.t. recall >= 0.9"
    found = certify_known_classes(goal, POSITIVES, prevalence=0.1)
    assert str(found) == str(certify_known_classes(goal, POSITIVES))
    assert "known positives" in " ".join(found.at_prevalence(0.2).assumptions)


def test_both_certify_precision_at_a_stated_prevalence():
    goal = "max recall s.t. precision >= 0.8"
    found = certify_known_classes(goal, POSITIVES, NEGATIVES, prevalence=0.1)
    assert found.certified
    recall, fpr = norm.sf(found.threshold - 3), norm.sf(found.threshold)
    assert 0.1 * recall / (0.1 * recall + 0.9 * fpr) > 0.8
    assert "10 % of the cases are positive" in " ".join(found.assumptions)
    assert "where 10 % of the cases are positive" in found.message
    rare = certify_known_classes(goal, POSITIVES, NEGATIVES, prevalence=0.0001)
    assert not rare.certified
    given = certify_known_classes(goal, POSITIVES, NEGATIVES, prevalence=0.1, threshold=2.5)
    assert given.threshold == 2.5
    assert given.choice == "beforehand"


def test_the_rate_of_false_certificates_at_a_prevalence():
    """The threshold is planned on some of the cases, and certified on the others."""
    rng, false = np.random.default_rng(1), 0
    for seed in range(200):
        found = certify_known_classes(
            "max recall s.t. precision >= 0.8", rng.normal(2, 1, 150), rng.normal(0, 1, 600),
            prevalence=0.3, seed=seed,
        )  # fmt: skip
        recall, fpr = norm.sf(found.threshold - 2), norm.sf(found.threshold)
        false += found.certified and 0.3 * recall < 0.8 * (0.3 * recall + 0.7 * fpr)
    assert false / 200 <= 0.1


@pytest.mark.parametrize(
    ("goal", "options", "expected"),
    [
        ("max recall s.t. precision >= 0.8", {}, "needs both classes and prevalence="),
        ("max recall s.t. fpr <= 0.1", {"negatives": None}, "needs negatives"),
        ("max specificity s.t. recall >= 0.9", {"positives": None}, "needs positives"),
        ("max specificity s.t. recall >= 0.9", {"positives": []}, "needs positives"),
        ("max precision s.t. recall >= 0.9", {}, "give prevalence="),
        ("max recall", {}, "no constraint"),
        ("max recall s.t. fpr <= 0.1 for each region", {}, "segments or periods .'region'"),
        ("max specificity s.t. recall >= 0.9", {"positives": [np.nan]}, "positives: .*NaN"),
        ("max f1 s.t. precision >= 0.9", {"prevalence": 2}, "prevalence must lie between"),
    ],
)
def test_what_cannot_be_certified(goal, options, expected):
    given = {"positives": POSITIVES, "negatives": NEGATIVES, **options}
    with pytest.raises(SetpointError, match=expected):
        certify_known_classes(goal, **given)


def test_one_case_of_each_class_certifies_nothing():
    goal = "max recall s.t. precision >= 0.8"
    assert not certify_known_classes(goal, [1.0], [0.0], prevalence=0.5).certified

"""The least numbers of labels, and what is expected."""

import math

import pytest

from setpoint.labelling.limits import Expectation, least_for_precision, least_for_recall


@pytest.mark.parametrize("level", [0.5, 0.8, 0.9, 0.99])
@pytest.mark.parametrize("alpha", [0.1, 0.05])
def test_fewer_labels_cannot_certify_precision(level, alpha):
    least = least_for_precision(level, alpha)
    assert level**least <= alpha + 1e-12
    assert level ** (least - 1) > alpha


def test_fewer_labels_cannot_certify_recall():
    n = least_for_recall(48_000, 150, 0.1)
    assert (1 - 150 / 48_000) ** n == pytest.approx(0.1)
    assert n == pytest.approx(48_000 * math.log(10) / 150, rel=0.01)
    assert least_for_recall(10, 20, 0.1) == 0
    assert least_for_recall(10, -1, 0.1) == math.inf


def test_expectations_are_sentences():
    text = str(Expectation(120, 300, 0.8, 22))
    assert "About 120 labels" in text
    assert "at most 300" in text
    assert "80%" in text
    assert "fewer than 22" in text
    assert "cannot be predicted" in str(Expectation(None, None, None, 22))

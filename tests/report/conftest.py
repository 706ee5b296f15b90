"""Rows and reports for the tests."""

import numpy as np
import pytest

from setpoint import certify, choose_threshold
from setpoint.report import Report, Rows
from setpoint.training.candidates import Candidate, Candidates
from setpoint.training.history import History, Record

GOAL = "max recall s.t. precision >= 0.8"
FRAUD = {"positive": "fraud", "positives": "frauds"}


@pytest.fixture(scope="session")
def rows():
    """Return rows of two classes with normal scores and ties."""
    rng = np.random.default_rng(0)
    y = rng.random(3000) < 0.1
    return Rows(y, np.round(rng.normal(size=3000) + 3 * y, 2), "the test rows", unseen=True)


@pytest.fixture(scope="session")
def certified(rows):
    rng = np.random.default_rng(1)
    y = rng.random(4000) < 0.1
    scores = np.round(rng.normal(size=4000) + 3 * y, 2)
    certificate = certify(y, scores, GOAL, confidence=0.9)
    assert certificate.certified
    return Report(GOAL, rows, certificate.threshold, certificate=certificate, **FRAUD)


@pytest.fixture(scope="session")
def history(rows):
    point = choose_threshold(rows.y, rows.scores, GOAL)
    found = History([Record.of(i, point, 1.0, 2.0) for i in range(5)])
    found.best_iteration = 3
    return found


@pytest.fixture(scope="session")
def candidates(rows):
    point = choose_threshold(rows.y, rows.scores, GOAL, on="validation data")
    return Candidates([Candidate("ordinary", point, 0), Candidate("for the goal", point, 3, "x")])


@pytest.fixture
def counted():
    """Return a function that makes a report with given counts at its threshold."""

    def make(tp, fp, fn, tn, goal=GOAL, **more):
        y = np.repeat([True, False, True, False], [tp, fp, fn, tn])
        scores = np.repeat([0.9, 0.8, 0.2, 0.1], [tp, fp, fn, tn])
        return Report(goal, Rows(y, scores, "the test rows"), 0.5, **{**FRAUD, **more})

    return make

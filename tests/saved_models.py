"""Data and fitted models that several tests use and none changes."""

import numpy as np
import pytest

from setpoint import SetpointClassifier

GOAL = "max recall s.t. precision >= 0.7"


def make_rows(n=400, d=5, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.random(n) < 0.3
    X = rng.standard_normal((n, d))
    X[:, 0] += 2 * y
    return X * 10.0 ** rng.integers(-3, 3, d) + 7, y


@pytest.fixture(scope="session")
def rows():
    return make_rows()


@pytest.fixture(scope="session")
def linear(rows):
    return SetpointClassifier(GOAL, solver="cross_entropy", random_state=0).fit(*rows)


@pytest.fixture(scope="session")
def other_linear(rows):
    X, y = rows
    return SetpointClassifier("max f1", solver="cross_entropy", random_state=1).fit(X[::2], y[::2])

"""Data, fitted models and forged files that several tests use."""

import hashlib
import json

import numpy as np
import pytest

from setpoint import SetpointClassifier
from setpoint.saving.document import _digest

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


def forge(folder, change=None, part=None, data=None):
    """Change model.json, or one of its files, and make all checksums match."""
    path = folder / "model.json"
    content = json.loads(path.read_bytes())
    content.pop("sha256")
    if change is not None:
        change(content["model"])
    if part is not None:
        described = content["files"][part]
        data = data((folder / described["name"]).read_bytes()) if callable(data) else data
        (folder / described["name"]).write_bytes(data)
        described |= {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    content["sha256"] = _digest(content)
    path.write_text(json.dumps(content))
    return folder

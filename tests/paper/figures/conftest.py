"""Points as crowded as in a real stress test."""

import pytest

from setpoint.paper.figures.stress_test import METRICS, Point
from setpoint.paper.paper_values import paper_value, paper_values


@pytest.fixture(scope="session")
def printed_points():
    """Return a function of the kind: what the paper prints for the levels 0.95 and 0.99."""

    def points(kind):
        constraint, objective = METRICS[kind]
        found = []
        for e in paper_values():
            if e.table != f"{kind}-alpha" or e.metric != constraint:
                continue
            place = (e.table, e.dataset, kind, e.alpha, e.method, e.part, objective, e.adjusted)
            x, y = e.value, paper_value(*place)
            method = {"ero": "default"}.get(e.method, e.method)
            found.append(
                Point(
                    e.dataset, e.alpha, e.part, method, method.upper(), e.adjusted,
                    x.mean, y.mean, x.deviation, y.deviation,
                )
            )  # fmt: skip
        return found

    return points

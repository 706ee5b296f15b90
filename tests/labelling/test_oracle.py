"""``certify_pool``: oracles, also those that fail."""

import numpy as np
import pytest

from labelling_pool import BOTH, PLANNING, PRECISION, SCORES, Y
from setpoint.errors import SetpointError
from setpoint.labelling import LabellingSession, certify_pool


class Failing:
    """An oracle that fails at some calls, and counts what it was asked."""

    def __init__(self, *fails):
        self.fails, self.calls, self.asked = fails, 0, []

    def __call__(self, rows):
        self.calls += 1
        if self.calls in self.fails:
            raise ConnectionError("the service is down")
        self.asked += rows.tolist()
        return Y[rows]


@pytest.mark.parametrize("goal", [PRECISION, BOTH])
def test_an_oracle_that_fails_loses_nothing(goal, tmp_path):
    oracle, state = Failing(2, 5), tmp_path / "state.json"
    options = {"planning": PLANNING, "state": state, "batch": 15}
    for _ in range(2):
        with pytest.raises(ConnectionError):
            certify_pool(SCORES, goal, oracle, **options)
    found = certify_pool(SCORES, goal, oracle, **options)
    assert len(oracle.asked) == len(set(oracle.asked)) == found.labels
    assert found == certify_pool(SCORES, goal, lambda rows: Y[rows], planning=PLANNING, batch=15)
    # Once it is done, nothing is asked again.
    assert certify_pool(SCORES, goal, Failing(1), **options) == found


def test_a_session_keeps_its_goal_and_confidence(tmp_path):
    state = tmp_path / "state.json"
    LabellingSession.start(SCORES, PRECISION).save(state)
    with pytest.raises(SetpointError, match="started with the goal 'max recall s.t. precision"):
        certify_pool(SCORES, "max recall s.t. precision >= 0.7", lambda rows: Y[rows], state=state)
    with pytest.raises(SetpointError, match="started with the confidence '0.9', not '0.95'"):
        certify_pool(SCORES, PRECISION, lambda rows: Y[rows], confidence=0.95, state=state)
    found = certify_pool(SCORES, PRECISION, lambda rows: Y[rows], budget=40, state=state)
    assert found.labels == 40


@pytest.mark.parametrize("answer", [np.array([1]), [2] * 20, None])
def test_an_oracle_that_does_not_answer_what_was_asked(answer):
    with pytest.raises(SetpointError):
        certify_pool(SCORES, PRECISION, lambda rows: answer, batch=20)


def test_a_batch_is_a_whole_number():
    with pytest.raises(SetpointError, match="batch must be a whole number"):
        certify_pool(SCORES, PRECISION, lambda rows: Y[rows], batch=0)

"""Hypothesis strategies for values that model files hold."""

import numpy as np
from hypothesis import strategies as st

from setpoint.goals.goal import Goal
from setpoint.thresholds.operating_point import OperatingPoint

goals = st.sampled_from(
    ["max recall s.t. precision >= 0.9", "max fbeta(0.1)", "min fpr s.t. recall >= 0.1, mcc >= 0"]
).map(Goal.parse)
counts = st.floats(0, 1e300) | st.integers(0, 10**30) | st.sampled_from([0.0, 0.1, 2.0**53 + 1])
points = st.builds(
    OperatingPoint, st.floats(allow_nan=False), counts, counts, counts, counts, goals, st.text()
)
labels = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.text()
    | st.floats(allow_nan=False)
    | st.integers(-9, 9).map(np.int64)
    | st.booleans().map(np.bool_)
    | st.just(np.str_("größer"))
)

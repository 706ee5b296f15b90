"""Settings for all tests."""

import pytest
import torch
from hypothesis import HealthCheck, settings

# Shared machines are slow at times: a deadline per example would only make tests flaky.
settings.register_profile(
    "setpoint", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("setpoint")


@pytest.fixture(autouse=True)
def one_thread():
    """Small tensors are faster on one thread, and sums do not depend on the machine's cores."""
    torch.set_num_threads(1)

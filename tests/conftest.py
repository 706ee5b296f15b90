"""Settings for all tests."""

import os

import pytest

from loss_rows import rows_of, sample  # noqa: F401

# Before numpy and torch are loaded, here and in the processes that tests start: small arrays are
# faster on one thread, threads of several test processes wait for each other, and sums then do
# not depend on the machine's cores.
os.environ.setdefault("OMP_NUM_THREADS", "1")


def pytest_configure(config):
    """Load hypothesis and its settings where tests run, which is not where xdist deals them out."""
    if config.getoption("numprocesses", None) and not hasattr(config, "workerinput"):
        return
    from hypothesis import HealthCheck, settings

    # Shared machines are slow at times: a deadline per example would only make tests flaky.
    settings.register_profile(
        "setpoint", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
    )
    settings.load_profile("setpoint")


@pytest.fixture(autouse=True)
def one_thread():
    """A test may have asked torch for more threads, or a machine's settings."""
    import torch

    torch.set_num_threads(1)


@pytest.fixture
def short_ordinary(monkeypatch):
    """Let modules train ordinarily in a tenth of the steps, for what is tested comes after that."""
    from setpoint.training import network_path

    monkeypatch.setattr(network_path, "_EVALUATIONS", 2)
    monkeypatch.setattr(network_path, "_LEAST_STEPS", 25)
    monkeypatch.setattr(network_path, "_LONGER", 1)


@pytest.fixture
def without_cost_path(monkeypatch):
    """Leave out cost-weighted models: a hinge's slope jumps, so rounding changes their training."""
    from setpoint.training import ordinary

    monkeypatch.setattr(
        ordinary, "cost_weighted_models", lambda problems, *_, **__: [[] for _ in problems]
    )

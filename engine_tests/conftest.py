"""Tests with MLflow, Spark and Ray, which ``make test-engines`` installs and runs.

Without them the tests fail; they are never skipped.
"""

import os
from pathlib import Path

import pytest

# Before numpy and torch are loaded, here and in the processes that the engines start.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ["MLFLOW_DISABLE_TELEMETRY"] = "true"


def pytest_collection_modifyitems(items):
    """Raise warnings of setpoint as errors, as everywhere, but not those of the engines."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.filterwarnings("ignore", "error:::setpoint"))

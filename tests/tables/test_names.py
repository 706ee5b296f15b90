"""Former names, and what importing the package needs."""

import importlib
import subprocess
import sys

import pytest

from setpoint import tables as tabular


@pytest.mark.parametrize(
    ("former", "name"),
    [
        ("Smell", "setpoint.tables.LeakageWarning"),
        ("find_smells", "setpoint.tables.find_leakage"),
        ("Ordinary", "setpoint.report.Baseline"),
    ],
)
def test_former_names_are_deprecated(former, name):
    with pytest.warns(DeprecationWarning, match=f"tables.{former} is deprecated; it is now {name}"):
        found = getattr(tabular, former)
    package, _, own = name.rpartition(".")
    assert found is getattr(importlib.import_module(package), own)


def test_reading_a_file_does_not_import_torch():
    code = "import sys; from setpoint.data import read_table; print('torch' in sys.modules)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "False"

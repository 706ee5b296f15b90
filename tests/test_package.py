"""The package's face: its public names, and how quickly it can be looked at."""

import subprocess
import sys
from importlib import import_module

import pytest

import setpoint


def test_every_public_name_is_that_of_its_module():
    assert set(setpoint.__all__) == set(setpoint._HOME)
    for name, module in setpoint._HOME.items():
        assert getattr(setpoint, name) is getattr(import_module(module), name)
        assert name in dir(setpoint)


def test_a_name_that_does_not_exist_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'SetpointClasifier'"):
        _ = setpoint.SetpointClasifier
    with pytest.raises(ImportError, match="SetpointClasifier"):
        pass


def test_importing_the_package_or_its_errors_imports_nothing_heavy():
    code = (
        "import sys, setpoint, setpoint.errors; "
        "print([m for m in ('torch', 'sklearn', 'scipy', 'pandas') if m in sys.modules])"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"

"""The names of the package, which are imported on first use."""

import importlib
import subprocess
import sys

import pytest

from setpoint import tables as tabular


def test_every_name_exists():
    for name in tabular.__all__:
        assert getattr(tabular, name) is not None
    assert (
        set(tabular.__all__)
        == set({n for names in tabular._HOMES.values() for n in names})
        <= set(dir(tabular))
    )
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        tabular.nothing  # noqa: B018


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

"""The names of the package, which are imported when they are asked for."""

import subprocess
import sys

import pytest

from setpoint import tables as tabular


def test_every_name_is_there():
    for name in tabular.__all__:
        assert getattr(tabular, name) is not None
    assert (
        set(tabular.__all__)
        == set({n for names in tabular._HOMES.values() for n in names})
        <= set(dir(tabular))
    )
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        tabular.nothing  # noqa: B018


def test_reading_a_file_does_not_import_torch():
    code = "import sys; from setpoint.data import read_table; print('torch' in sys.modules)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "False"

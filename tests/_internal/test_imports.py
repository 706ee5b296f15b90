"""An error about a missing module names the extra that installs it."""

import sys

import pytest

from setpoint._internal.imports import need
from setpoint.errors import MissingExtraError, SetpointError


def test_an_installed_module_is_returned():
    assert need("json.decoder", "experiments", "reading") is sys.modules["json.decoder"]


@pytest.mark.parametrize("error", [SetpointError, ImportError, MissingExtraError])
def test_a_missing_module_is_an_error_of_both_kinds(error, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(error, match=r'^a table needs pandas: pip install "setpoint\[demo\]" \('):
        need("pandas.not_there", "demo", "a table")


def test_the_cause_is_reported_and_kept(monkeypatch, tmp_path):
    """A package may be there, and fail because another one is not."""
    (tmp_path / "half_installed.py").write_text("import no_such_module_at_all\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(
        MissingExtraError, match="No module named 'no_such_module_at_all'"
    ) as caught:
        need("half_installed", "features", "x")
    assert isinstance(caught.value.__cause__, ModuleNotFoundError)


def test_other_errors_of_a_module_are_not_changed(monkeypatch, tmp_path):
    (tmp_path / "broken_module.py").write_text("1 / 0\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ZeroDivisionError):
        need("broken_module", "features", "x")

"""The public names of the package, its version, and how little importing it needs."""

import subprocess
import sys
from importlib import import_module, metadata
from pathlib import Path

import pytest

import setpoint
from setpoint.cli import app

HEAVY = ("torch", "sklearn", "scipy", "numpy", "pandas")


def imported_by(code):
    """Run code in a new process; return which heavy modules it has imported."""
    code = f"{code}\nimport sys; print([m for m in {HEAVY} if m in sys.modules], file=sys.stderr)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return found.stderr.strip()


def test_every_public_name_is_that_of_its_module():
    assert set(setpoint.__all__) == {n for names in setpoint._HOMES.values() for n in names}
    for module, names in setpoint._HOMES.items():
        for name in names:
            assert getattr(setpoint, name) is getattr(import_module(f"setpoint.{module}"), name)
            assert name in dir(setpoint)


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'SetpointClasifier'"):
        _ = setpoint.SetpointClasifier
    with pytest.raises(ImportError, match="SetpointClasifier"):
        from setpoint import SetpointClasifier  # noqa: F401


def test_the_version_is_that_of_the_metadata_and_written_nowhere_else():
    version = metadata.version("setpoint")
    assert setpoint.__version__ == version
    for file in Path(setpoint.__file__).parent.rglob("*.py"):
        assert f'"{version}"' not in file.read_text("utf-8"), file


def test_importing_the_package_or_its_errors_imports_nothing_heavy():
    assert imported_by("import setpoint, setpoint.errors") == "[]"


@pytest.mark.parametrize("command", ["", *app.COMMANDS[:6], "demo"])
def test_help_imports_nothing_heavy(command):
    arguments = [*command.split(), "--help"]
    assert imported_by(f"from setpoint.cli import main; main({arguments})") == "[]"


def test_the_demo_runs_with_its_extra_alone(tmp_path):
    """With matplotlib, rich and typer, but without what the extra ``cli`` adds."""
    code = f"""
import sys
from importlib.machinery import PathFinder

class Finder(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        if name.partition(".")[0] not in ("pandas", "pyarrow", "skrub", "skops", "safetensors"):
            return super().find_spec(name, path, target)

sys.meta_path[sys.meta_path.index(PathFinder)] = Finder
from setpoint.cli import main
sys.exit(main(["demo", "--quiet", "--folder", {str(tmp_path)!r}]))
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=300)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["setpoint-demo.html", "setpoint-demo.png"]

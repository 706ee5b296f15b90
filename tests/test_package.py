"""The public names of the package, its version, and how little importing it needs."""

import ast
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


@pytest.mark.parametrize("package", ["", ".data", ".tables", ".thresholds"])
def test_names_that_are_imported_on_first_use(package):
    """They are those of their modules, and those that a type checker sees."""
    home = import_module(f"setpoint{package}")
    tree = ast.parse(Path(home.__file__).read_text("utf-8"))
    imports = next(node for node in tree.body if isinstance(node, ast.If)).body
    typed = {alias.asname: node.module for node in imports for alias in node.names}
    assert sorted(typed) == home.__all__
    for name, module in typed.items():
        assert getattr(home, name) is getattr(import_module(module), name)
        assert name in dir(home)
    with pytest.raises(AttributeError, match=f"'setpoint{package}' has no attribute 'Gaol'"):
        _ = home.Gaol
    with pytest.raises(ImportError, match="Gaol"):
        exec(f"from setpoint{package} import Gaol")


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


@pytest.mark.parametrize(
    "arguments",
    [
        ["fit", "no.csv", "--target", "y", "--goal", "max recall", "--out", "model"],
        ["predict", "no.model", "no.csv", "--out", "scores.csv"],
    ],
)
def test_commands_import_torch_without_full_garbage_collections(arguments, tmp_path):
    """They would take half a second, as they look through all that has been imported."""
    code = f"""
import gc, sys
full = []
gc.callbacks.append(lambda phase, info: full.append(phase) if info["generation"] == 2 else None)
from setpoint.cli import main
assert main({arguments}) == 1  # there is no such file
print("torch" in sys.modules, len(full), file=sys.stderr)
"""
    found = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path, check=True
    )
    assert found.stderr.splitlines()[-1] == "True 0", found.stderr


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

"""The public names of the package, its version, and how little importing it needs."""

import ast
import os
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


FIT = ["fit", "table.csv", "--target", "y", "--out", "model"]
MISTAKES = [  # a part of the message, and the arguments
    ("did you mean recall", [*FIT, "--goal", "max recal"]),
    ("it is given 2 times", [*FIT, "--goal", "max f1", "--goal", "max recall"]),
    ("between 0 and 1", [*FIT, "--goal", "max f1", "--confidence", "2"]),
    ("'xgb'", [*FIT, "--goal", "max f1", "--model", "xgb"]),
    ("'gpu'", [*FIT, "--goal", "max f1", "--model", "mlp", "--device", "gpu"]),
    ("trained on the CPU", [*FIT, "--goal", "max f1", "--device", "cuda", "--model", "hgb"]),
    ("one threshold", [*FIT, "--goal", "min review_rate s.t. npv(clear) >= 0.9", "--model", "mlp"]),
    ("names no amounts", [*FIT, "--goal", "max f1", "--cap", "a=5", "--confidence", "0.9"]),
    ("needs --confidence", [*FIT, "--goal", "max f1", "--cap", "a=5"]),
    ("both --cost-alarm", [*FIT, "--goal", "max f1", "--cost-alarm", "5"]),
    ("at least 0", [*FIT, "--goal", "max f1", "--cost-alarm", "-5", "--cost-miss", "5"]),
    ("not a folder", [*FIT[:-1], "table.csv", "--goal", "max f1"]),
    ("not the report", [*FIT, "--goal", "max f1", "--report", "page.html"]),
    ("no file no.csv", ["fit", "no.csv", *FIT[2:], "--goal", "max f1"]),
    ("Did you mean 'a'", [*FIT, "--goal", "max f1", "--drop", "aa"]),
    ("'z' (the target)", [*FIT, "--goal", "max f1", "--target", "z"]),
    ("names 'b'", [*FIT, "--goal", "min cost(fp=5, fn=b)"]),
    ("work with", [*FIT, "--target", "a", "--goal", "max f1", "--model", "linear"]),
    ("no model at nowhere", ["predict", "nowhere", "table.csv", "--out", "s.csv"]),
    ("contains no model.json", ["predict", "folder", "table.csv", "--out", "s.csv"]),
    ("known by the ending", ["predict", "nowhere", "table.csv", "--out", "s.doc"]),
    ("a period is one of", ["predict", "m", "table.csv", "--out", "s.csv", "--top=2", "--per=x"]),
    ("no model at nowhere", ["evaluate", "nowhere", "table.csv"]),
    ("no model at nowhere", ["export", "nowhere", "model.onnx"]),
    ("no format", ["export", "nowhere", "model.onnx", "--format", "pmml"]),
    ("no column 'p'", ["certify", "table.csv", "--label", "y", "--score", "p", "--goal", "max f1"]),
    ("'xgb'", ["compare", "table.csv", "--target", "y", "--goal", "max f1", "--model", "xgb"]),
    ("did you mean recall", ["compare", "table.csv", "--target", "y", "--goal", "max recal"]),
    ("no column 'p'", ["label", "table.csv", "--score", "p", "--goal", "max f1 s.t. recall>=0.9"]),
]  # fmt: skip


def test_mistakes_that_need_no_data_are_reported_without_importing_torch(tmp_path):
    """They are then reported in less than half a second, and not in several."""
    (tmp_path / "table.csv").write_text("a,y\n1,0\n2,1\n")
    (tmp_path / "page.html").write_text("<p>mine</p>")
    (tmp_path / "folder").mkdir()
    code = f"""
import contextlib, io, sys
from setpoint.cli import main
for words, arguments in {MISTAKES!r}:
    with contextlib.redirect_stderr(io.StringIO()) as told, contextlib.redirect_stdout(told):
        code = main(arguments)
    told = " ".join(told.getvalue().replace("│", " ").split())
    heavy = [name for name in ("torch", "sklearn", "scipy", "pandas") if name in sys.modules]
    if code not in (1, 2) or words not in told or heavy:
        sys.exit(str((arguments, code, told, heavy)))
"""
    found = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path,
        env={**os.environ, "COLUMNS": "300"},
    )  # fmt: skip
    assert found.returncode == 0, found.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ["fit", "table.csv", "--target", "y", "--goal", "max recall", "--out", "model"],
        ["certify", "table.csv", "--label", "y", "--score", "x", "--goal", "max recall"],
    ],
)
def test_commands_import_torch_without_full_garbage_collections(arguments, tmp_path):
    """They would take half a second, as they look through all that has been imported."""
    (tmp_path / "table.csv").write_text("x,y\n1,\n2,1\n")
    code = f"""
import gc, sys
full = []
gc.callbacks.append(lambda phase, info: full.append(phase) if info["generation"] == 2 else None)
from setpoint.cli import main
assert main({arguments}) == 1  # a label is missing
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

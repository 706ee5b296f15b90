"""Every example and every code block of the README and the docs runs."""

import importlib.util
import re
import runpy
import shlex
import sys
from dataclasses import replace
from pathlib import Path

import matplotlib
import numpy as np
import pytest

from setpoint.cli import main
from setpoint.data import file_formats
from setpoint.estimators import fitting as _fitting
from setpoint.training import Lifted, get_solver
from tutorial_tables import STAND_INS

ROOT = Path(__file__).parent.parent
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
# Packages that are not installed for development; `make test-engines` runs these examples.
NEEDS = {"lightning_module.py": "pytorch_lightning", "hugging_face_trainer.py": "accelerate"}
SHORTER = {"fine_tune.py": ["--quick"]}
CODE = re.compile(r"^```(python|console)\n(.*?)^```", re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda p: p.name)
def test_example_runs(path, capsys, tmp_path, monkeypatch):
    if path.name in NEEDS and importlib.util.find_spec(NEEDS[path.name]) is None:
        pytest.skip(f"needs {NEEDS[path.name]}")
    matplotlib.use("Agg")
    monkeypatch.chdir(tmp_path)  # they draw pictures
    monkeypatch.setattr(sys, "argv", [str(path), *SHORTER.get(path.name, [])])
    runpy.run_path(str(path), run_name="__main__")
    assert capsys.readouterr().out


@pytest.fixture
def short_lifted(monkeypatch):
    """Let Algorithm 1 take few steps; the paper's may be a million and a half."""

    def short(solver):
        found = get_solver(solver)
        if not isinstance(found, Lifted):
            return found
        steps = min(found.inner_iterations, 200)
        return replace(found, outer_iterations=5, inner_iterations=steps)

    monkeypatch.setattr(_fitting, "get_solver", short)


@pytest.mark.parametrize("page", [p for p in PAGES if CODE.search(p.read_text())], ids=str)
def test_code_blocks_run(page, tmp_path, monkeypatch, short_lifted):
    """The blocks of a page run one after the other, as a reader would type them.

    Commands find small generated tables under the names of the real ones.
    """
    matplotlib.use("Agg")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(file_formats, "FORMATS", file_formats.FORMATS.copy())  # a page adds one
    np.random.seed(0)  # noqa: NPY002 (scikit-learn's convention, where a page names no seed)
    namespace = {}
    for kind, block in CODE.findall(page.read_text()):
        if kind == "python":
            exec(compile(block, str(page), "exec"), namespace)
            continue
        for line in block.splitlines():
            assert line.startswith("$ setpoint "), line
            for name, write in STAND_INS.items():
                if name in line and not (tmp_path / name).exists():
                    write(tmp_path / name)
            assert main(shlex.split(line)[2:]) == 0, line


def test_there_are_examples_and_pages():
    assert EXAMPLES
    assert len(PAGES) > 1

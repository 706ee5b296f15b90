"""Every example and every code block of the README and the docs runs."""

import re
import runpy
from pathlib import Path

import matplotlib
import pytest

ROOT = Path(__file__).parent.parent
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
CODE = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda p: p.name)
def test_example_runs(path, capsys, tmp_path, monkeypatch):
    matplotlib.use("Agg")
    monkeypatch.chdir(tmp_path)  # they draw pictures
    runpy.run_path(str(path), run_name="__main__")
    assert capsys.readouterr().out


@pytest.mark.parametrize("page", [p for p in PAGES if "```python" in p.read_text()], ids=str)
def test_code_blocks_run(page, tmp_path, monkeypatch):
    """The blocks of a page run one after the other, as a reader would type them."""
    matplotlib.use("Agg")
    monkeypatch.chdir(tmp_path)
    namespace = {}
    for block in CODE.findall(page.read_text()):
        exec(compile(block, str(page), "exec"), namespace)


def test_there_are_examples_and_pages():
    assert EXAMPLES
    assert len(PAGES) > 1


@pytest.mark.parametrize("page", PAGES, ids=str)
def test_links_between_pages_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text()):
        if not target.startswith("http"):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"

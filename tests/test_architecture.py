"""The architecture page names every module, and its links and layers are those of the package."""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "src" / "setpoint"
PAGE = (ROOT / "docs" / "architecture.md").read_text()
LINKS = re.findall(r"\[`([^`]+)`\]\(\.\./src/setpoint/([^)]+)\)", PAGE)


def test_every_module_is_on_the_page():
    files = {file.relative_to(PACKAGE).as_posix() for file in PACKAGE.rglob("*.py")}
    linked = {path for _, path in LINKS}
    assert files - linked == {"__init__.py", "__main__.py"}
    assert linked <= files


def test_links_lead_to_the_modules_they_name():
    for name, path in LINKS:
        assert path == (f"{name}__init__.py" if name.endswith("/") else name)


def test_folders_are_listed_in_the_order_of_the_layers():
    table = PAGE.partition("## Layers")[2].partition("|---|---|\n")[2].partition("\n\n")[0]
    first_cells = " ".join(row.split("|")[1] for row in table.splitlines())
    listed = re.findall(r"`(\w+)(?:/|\.py)`", first_cells)
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    layers = contracts["contracts"][0]["layers"][::-1]
    assert listed == [layer for layer in layers if layer != "__main__"]

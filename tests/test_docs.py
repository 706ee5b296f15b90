"""The documentation: all public names are in the reference, and links lead somewhere."""

import importlib.util
import re
from fnmatch import fnmatch
from importlib import import_module
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PAGES = sorted(page.relative_to(DOCS).as_posix() for page in DOCS.rglob("*.md"))
SETTINGS = yaml.safe_load((ROOT / "mkdocs.yml").read_text())
PACKAGES = [
    ".".join(file.parent.relative_to(ROOT / "src").parts)
    for file in sorted((ROOT / "src").rglob("__init__.py"))
    if "__all__" in file.read_text() and file.parent.name != "gpu"  # internal
]


def load_tooling():
    """Return docs/tooling/links.py, which mkdocs calls and no package holds."""
    spec = importlib.util.spec_from_file_location("links", DOCS / "tooling" / "links.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


links = load_tooling()


# --- the reference --------------------------------------------------------------------------------

DIRECTIVE = re.compile(r"^::: ([\w.]+)(?:\n    options:\n      heading: ([\w.]+))?", re.MULTILINE)
ENTRIES = [
    entry for page in sorted((DOCS / "api").glob("*.md"))
    for entry in DIRECTIVE.findall(page.read_text())
]  # fmt: skip


def object_at(path):
    """Return what the reference shows for a path: the module, where a function is named like it."""
    parts = path.split(".")
    for cut in range(len(parts), 0, -1):
        try:
            found = import_module(".".join(parts[:cut]))
        except ModuleNotFoundError:
            continue
        for name in parts[cut:]:
            found = getattr(found, name)
        return found
    raise AssertionError(f"there is no {path}")


def test_the_packages_with_public_names_are_found():
    assert {"setpoint", "setpoint.training", "setpoint.tables"} <= set(PACKAGES)


@pytest.mark.parametrize("package", PACKAGES)
def test_every_public_name_is_in_the_reference(package):
    shown = [object_at(path) for path, _ in ENTRIES]
    home = import_module(package)
    missing = [name for name in home.__all__ if not any(getattr(home, name) is s for s in shown)]
    assert not missing, f"docs/api has no '::: {package}.NAME' for {', '.join(missing)}"


def test_nothing_is_in_the_reference_twice():
    paths = [path for path, _ in ENTRIES]
    assert len(paths) == len(set(paths))


def test_a_function_that_is_named_like_its_module_is_given_in_full():
    """Otherwise the reference shows the module, for it follows files, not what Python imports."""
    for path, _ in ENTRIES:
        name = path.rsplit(".", 1)[1]
        home = getattr(object_at(path), "__module__", None) or ""
        if home.endswith(f".{name}"):
            assert path == f"{home}.{name}"


def test_headings_are_paths_to_import_from():
    renamed = [(path, heading) for path, heading in ENTRIES if heading]
    assert renamed
    for path, heading in renamed:
        package, name = heading.rsplit(".", 1)
        assert getattr(import_module(package), name) is object_at(path)


# --- pages and links ------------------------------------------------------------------------------


def in_navigation(entry):
    """Yield the pages of a part of the navigation."""
    if isinstance(entry, str):
        yield entry
    else:
        for part in entry if isinstance(entry, list) else entry.values():
            yield from in_navigation(part)


def test_every_page_is_in_the_navigation_once():
    named = list(in_navigation(SETTINGS["nav"]))
    apart = SETTINGS["not_in_nav"].split()
    lost = [
        page for page in PAGES
        if page not in named and not any(fnmatch(f"/{page}", f"{pattern}*") for pattern in apart)
    ]  # fmt: skip
    assert not lost, f"give them a place in mkdocs.yml: {lost}"
    assert len(named) == len(set(named))
    for page in named:
        assert (ROOT / links.origin_of(page)).is_file(), f"mkdocs.yml names {page}"


def without_code(text):
    """Return Markdown without its code blocks."""
    return re.sub(r"^( *)```.*?^\1```$", "", text, flags=re.MULTILINE | re.DOTALL)


def anchors_of(text):
    """Return the anchors of a page's headings, as code-hosting pages name them."""
    found, seen = set(), {}
    for heading in re.findall(r"^#{1,6} +(.+?) *$", without_code(text), re.MULTILINE):
        words = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower()
        anchor = re.sub(r"[^\w\- ]", "", words).replace(" ", "-")
        again = seen[anchor] = seen.get(anchor, -1) + 1
        found.add(f"{anchor}-{again}" if again else anchor)
    return found | {path for path, _ in DIRECTIVE.findall(text)}


def test_anchors_are_those_of_code_hosting_pages():
    text = "# `fit`, and *more*\n## A [link](x.md): x_y\n## Same\n## Same\n```\n# no heading\n```\n"
    assert anchors_of(text) == {"fit-and-more", "a-link-x_y", "same", "same-1"}


@pytest.mark.parametrize("page", [ROOT / "README.md", *(DOCS / page for page in PAGES)], ids=str)
def test_links_lead_to_files_and_headings_that_exist(page):
    for target in re.findall(r"\]\(([^()\s]+)\)", without_code(page.read_text())):
        if re.match(r"[a-z]+:", target):
            assert target.startswith("https://"), f"{page.name} links to {target}"
            continue
        path, _, anchor = target.partition("#")
        file = page.parent / path if path else page
        assert file.exists(), f"{page.name} links to {target}"
        if anchor:
            assert anchor in anchors_of(file.read_text()), f"{page.name} links to {target}"


# --- links out of docs/ ---------------------------------------------------------------------------


@pytest.fixture
def repository(tmp_path):
    """Return a small repository whose pages link to each other in every way."""
    files = {
        "docs/a/page.md": "[x](../../tool.py) [y](../../other/README.md#part)",
        "docs/api/losses.md": "",
        "tool.py": "x = '[no](link.md)'\n",
        "other/README.md": "[back](../docs/a/page.md) [on](more.md) [code](../tool.py)",
        "other/more.md": "",
        "CHANGELOG.md": "",
        "CONTRIBUTING.md": "",
        "src/setpoint/losses/__init__.py": "",
        "src/setpoint/other/__init__.py": "",
        "picture.png": "",
    }
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path


@pytest.mark.parametrize(
    ("markdown", "expected"),
    [
        ("[x](../../tool.py)", "[x](../repository/tool.py.md)"),
        ("[`f[0]`](../../tool.py)", "[`f[0]`](../repository/tool.py.md)"),
        ("[x](../../other/README.md#part)", "[x](../repository/other/README.md#part)"),
        ("[x](../../other)", "[x](../repository/other/README.md)"),
        ("[x](../../other/)", "[x](../repository/other/README.md)"),
        ("[x](../../src/setpoint/losses)", "[x](../api/losses.md)"),
        ("[x](../../README.md)", "[x](../index.md)"),
        ("a [folder](../../src/setpoint/other) b", "a folder b"),
        ("a [file](../../nowhere.txt) and [one](../../picture.png)", "a file and one"),
        ("[x](../api/losses.md#y) [z](#here)", "[x](../api/losses.md#y) [z](#here)"),
        ("[x](https://example.org/a.py)", "[x](https://example.org/a.py)"),
        ("![x](../../picture.png)", "![x](../../picture.png)"),
    ],
)
def test_links_out_of_the_docs_lead_to_pages_of_the_site(repository, markdown, expected):
    assert links.rewritten(markdown, "a/page.md", repository) == expected


def test_pages_are_made_of_all_files_that_are_linked_to(repository):
    assert sorted(links.needed(["a/page.md"], repository)) == [
        "repository/CHANGELOG.md", "repository/CONTRIBUTING.md", "repository/other/README.md",
        "repository/other/more.md", "repository/tool.py.md",
    ]  # fmt: skip


def test_links_of_such_a_page_are_led_back(repository):
    page = "repository/other/README.md"
    text = links.rewritten(links.text_of(page, repository), page, repository)
    assert text == "[back](../../a/page.md) [on](more.md) [code](../tool.py.md)"


def test_code_is_shown_as_it_is(repository):
    text = links.text_of("repository/tool.py.md", repository)
    assert links.rewritten(text, "repository/tool.py.md", repository) == text
    assert "python\nx = '[no](link.md)'\n`" in text
    code = "[x](../../tool.py)\n```python\n[x](../../tool.py)\n```\n[x](../../tool.py)"
    assert links.rewritten(code, "a/page.md", repository).count("../../tool.py") == 1

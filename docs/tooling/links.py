"""Links out of docs/, followed by the site.

A page may link to ``../examples/own_training_loop.py``: on a code-hosting page that is a file like
any other, but the site is made of docs/ alone. So every file that a page links to becomes a page of
the site as well, under ``repository/``: Markdown as it is, code as a block. A folder of the package
is the reference's page about it, any other folder its README. What has no page is no link there.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
ALWAYS = ("CHANGELOG.md", "CONTRIBUTING.md")  # the navigation names them
CODE = {".py": "python", ".toml": "toml", ".txt": "text", ".json": "json", ".sh": "bash"}
LINK = re.compile(r"(?<!!)\[((?:[^\[\]]|\[[^\[\]]*\])*)\]\(([^()\s#]+)(#[^()\s]*)?\)")
BLOCK = re.compile(r"^( *)(`{3,})[^\n]*\n.*?^\1\2 *$", re.MULTILINE | re.DOTALL)


def page_of(target: str, root: Path = ROOT) -> str | None:
    """Return the site's page for a path of the repository, or None where there is none.

    >>> page_of("docs/goals.md"), page_of("examples/text_model.py"), page_of("src/setpoint/report")
    ('goals.md', 'repository/examples/text_model.py.md', 'api/report.md')
    """
    if target == "README.md":
        return "index.md"
    if target.startswith("docs/"):
        return target.removeprefix("docs/")
    path = root / target
    if path.is_dir():
        about = f"api/{path.name}.md"
        if target.startswith("src/setpoint/") and (root / "docs" / about).exists():
            return about
        readme = f"{target}/README.md"
        return page_of(readme, root) if (root / readme).exists() else None
    if not path.is_file():
        return None
    if path.suffix == ".md":
        return f"repository/{target}"
    return f"repository/{target}.md" if path.suffix in CODE else None


def origin_of(page: str) -> str:
    """Return the path in the repository that a page of the site is made of."""
    if not page.startswith("repository/"):
        return f"docs/{page}"
    path = page.removeprefix("repository/")
    return path.removesuffix(".md") if Path(path).stem.endswith(tuple(CODE)) else path


def outside(markdown: str, page: str) -> Iterator[tuple[re.Match[str], str]]:
    """Yield a page's links to other places than docs/, each with its path in the repository.

    The links of a page that is made of a file outside of docs/ are all of that kind.
    """
    origin = origin_of(page)
    text = BLOCK.sub(lambda code: " " * len(code[0]), markdown)  # there are no links in code
    for link in LINK.finditer(text):
        if re.match(r"[a-z]+:", link[2]):
            continue
        target = posixpath.normpath(posixpath.join(posixpath.dirname(origin), link[2]))
        if not (origin.startswith("docs/") and target.startswith("docs/")):
            yield link, target


def rewritten(markdown: str, page: str, root: Path = ROOT) -> str:
    """Return a page's text, its links to other places than docs/ led to the site's pages."""
    parts, done = [], 0
    for link, target in outside(markdown, page):
        to = page_of(target, root)
        parts += [markdown[done : link.start()], link[1]]
        if to is not None:
            to = posixpath.relpath(to, posixpath.dirname(page))
            parts[-1] = f"[{link[1]}]({to}{link[3] or ''})"
        done = link.end()
    return "".join([*parts, markdown[done:]])


def text_of(page: str, root: Path = ROOT) -> str:
    """Return the Markdown of a page."""
    origin = origin_of(page)
    text = (root / origin).read_text(encoding="utf-8")
    if origin.endswith(".md"):
        return text
    fence = "`" * 8  # longer than any in the code
    return (
        f"---\nsearch:\n  exclude: true\n---\n\n# {origin}\n\n"
        f"{fence}{CODE[Path(origin).suffix]}\n{text}{fence}\n"
    )


def needed(pages: Iterable[str], root: Path = ROOT) -> list[str]:
    """Return the pages to make of files outside of docs/, and of those that these link to."""
    found: dict[str, None] = dict.fromkeys(f"repository/{name}" for name in ALWAYS)
    queue = [*pages, *found]
    while queue:
        page = queue.pop()
        for _, target in outside(text_of(page, root), page):
            to = page_of(target, root)
            if to is not None and to.startswith("repository/") and to not in found:
                found[to] = None
                queue.append(to)
    return list(found)


def on_files(files: Any, config: Any) -> Any:
    """Add the pages; mkdocs calls this once it knows what is in docs/."""
    from mkdocs.structure.files import File

    own = [file.src_uri for file in files.documentation_pages()]
    for page in needed(own):
        files.append(File.generated(config, page, content=text_of(page)))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Lead a page's links there; mkdocs calls this before it renders the page.

    ``0.9 ± 0.1`` stays on one line, also in a narrow column.
    """
    return re.sub(r"(?<=\d) ± (?=\d)", "\u00a0±\u00a0", rewritten(markdown, page.file.src_uri))

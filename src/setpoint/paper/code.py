"""The digest of the code that decides a training's result.

Finished jobs carry it, so that trainings of different code are never mixed in one table. It covers
every module that :mod:`setpoint.paper.trial` imports, directly or not, so a new module counts by
itself. Comments, docstrings, layout and error messages do not count.

A refactoring changes the digest even if it moves no number. ``code_digests.json`` therefore names
the digest of the present sources and those of earlier sources that gave the same numbers; results
with any of them count as results of the present code. The earlier ones end as soon as the present
sources change. After a change to these modules:

1. Compare the numbers: ``python benchmarks/same_numbers.py`` before and after.
2. If they are equal bit for bit, run ``python -m setpoint.paper.code same "what changed"``: the
   former digest stays accepted.
3. If they differ, run ``python -m setpoint.paper.code changed``: jobs must be trained again.
"""

from __future__ import annotations

import ast
import hashlib
import json
import sys
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

import setpoint
from setpoint._internal.files import write_atomically

ROOT = "setpoint.paper.trial"
# Compared in other ways: results name their job, and their solver with all its parameters.
COMPARED_BY_VALUE = ("setpoint.paper.jobs", "setpoint.paper.methods")
# Not followed: modules that present results, and the reading of data, which results name.
WITHOUT_INFLUENCE = (
    "setpoint.errors.",
    "setpoint._internal.files.",
    "setpoint._internal.notebook.",
    "setpoint.cli.",
    "setpoint.report.",
    "setpoint.paper.datasets.files.",
    "setpoint.paper.figures.",
)


_parsed = cache(ast.parse)


def _package() -> Path:
    return Path(setpoint.__file__).parent


def table_path() -> Path:
    """Return the file of accepted digests."""
    return _package() / "paper" / "code_digests.json"


@cache  # once, at the start: an edit during a run changes the files, not the code that runs
def digest() -> str:
    """Return a digest of the code that decides a training's result."""
    total = hashlib.sha256()
    for module, source in deciding_modules().items():
        total.update(f"{module}\n{meaning(source)}".encode())
    return total.hexdigest()[:12]


@cache
def accepted() -> frozenset[str]:
    """Return the digests of code that gives the same numbers as the present code."""
    table = json.loads(table_path().read_text("utf-8"))
    earlier = table["equal"] if table["present"] == digest() else ()
    return frozenset({digest(), *earlier})


def deciding_modules() -> dict[str, str]:
    """Return the sources of the modules that decide a result: ``ROOT`` and all that it imports."""
    sources: dict[str, str] = {}
    todo = [ROOT]
    while todo:
        module = todo.pop()
        file = _file(module)
        if file is None or module in sources or f"{module}.".startswith(WITHOUT_INFLUENCE):
            continue
        sources[module] = file.read_text("utf-8")
        tree = _parsed(sources[module])
        todo += _imported(tree)
        if file.name == "__init__.py":  # its names may be imported on first use: `lazy`
            values = (node.value for node in ast.walk(tree) if isinstance(node, ast.Constant))
            strings = (value for value in values if isinstance(value, str))
            todo += [f"{module}.{name}" for name in strings if name.isidentifier()]
    return {name: sources[name] for name in sorted(sources) if name not in COMPARED_BY_VALUE}


def _file(module: str) -> Path | None:
    path = _package().parent.joinpath(*module.split("."))
    if module == "setpoint" or not module.startswith("setpoint."):
        return None  # the package's own names are those of its modules
    found = (path.with_suffix(".py"), path / "__init__.py")
    return next((file for file in found if file.is_file()), None)


def _imported(tree: ast.AST) -> Iterator[str]:
    """Yield the modules that are imported anywhere in a file, but for type checkers alone."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING"):
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                yield inner if _file(inner) else node.module
        yield from _imported(node)


@cache
def meaning(source: str) -> str:
    """Return a text that is equal for sources that differ only in words or layout."""
    return _text(_parsed(source))


def _text(node: object) -> str:
    """Return a syntax tree as text; unlike ``ast.dump``, the same in all versions of Python."""
    if isinstance(node, list):
        return f"[{','.join(_text(each) for each in node if not _is_docstring(each))}]"
    if not isinstance(node, ast.AST):
        return repr(node)
    if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
        node = ast.Raise(exc=node.exc.func, cause=None)  # without the message
    # Newer versions have more fields, which are empty where older sources are read.
    fields = [(name, value) for name, value in ast.iter_fields(node) if value not in (None, [])]
    return f"{type(node).__name__}({','.join(f'{name}={_text(v)}' for name, v in fields)})"


def _is_docstring(node: object) -> bool:
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )


def record(equal: str | None) -> None:
    """Make the digest of the present sources the accepted one.

    Parameters
    ----------
    equal : str or None
        Why the numbers are those of the former digest, which then stays accepted together with
        its predecessors. None: the numbers changed, and no earlier digest stays.
    """
    digest.cache_clear()
    accepted.cache_clear()
    table = json.loads(table_path().read_text("utf-8"))
    earlier = {} if equal is None else dict(table["equal"])
    if equal is not None and table["present"]:
        earlier[table["present"]] = equal
    earlier.pop(digest(), None)
    table = {"present": digest(), "equal": earlier}
    write_atomically(table_path(), json.dumps(table, indent=2) + "\n")


def main(arguments: Sequence[str]) -> int:
    """Run ``python -m setpoint.paper.code``; return the exit code."""
    match arguments:
        case ["same", why] if why.strip():
            record(why)
        case ["changed"]:
            record(None)
        case _:
            print('usage: python -m setpoint.paper.code same "what changed" | changed')
            return 2
    print(f"{table_path()}: {digest()}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

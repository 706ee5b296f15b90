"""Docstrings as the reference shows them.

- Names in them, such as ``:class:`Goal` ``, are links; without a place in the reference, code.
- Types such as ``int, RandomState or None`` and ``path-like`` are shown as they are written, not as
  the tuple and the difference that Python would read.
- A default is that of the signature, and so is a type that the docstring leaves out. Griffe takes
  the first of ``{"a", "b"}`` for the default, and for ``low, high`` those of ``low`` for both.
"""

from __future__ import annotations

import re
from typing import Any

from griffe import (
    Alias,
    DocstringSectionKind,
    ExprTuple,
    Extension,
    Module,
    NameResolutionError,
    Object,
)

ROLE = re.compile(r":(?:class|func|meth|mod):`([\w.]+)`")


class Docstrings(Extension):  # type: ignore[misc]
    """Goes through a package once it is read; griffe calls it."""

    def on_package(self, *, pkg: Module, **kwargs: Any) -> None:
        """Change every docstring of a package."""
        _change(pkg)


def _change(obj: Object | Alias) -> None:
    if obj.is_alias:
        return
    if obj.docstring:
        obj.docstring.value = ROLE.sub(lambda role: _link(obj, role[1]), obj.docstring.value)
        for section in obj.docstring.parsed:
            for item in section.value if isinstance(section.value, list) else ():
                annotation = getattr(item, "annotation", None)
                if isinstance(annotation, ExprTuple):
                    annotation.implicit = True
                if " - " in str(annotation):
                    item.annotation = str(annotation).replace(" - ", "-")
                if section.kind is DocstringSectionKind.parameters and item.name in obj.parameters:
                    own = obj.parameters[item.name]
                    item.default = own.default
                    if any(item.annotation is other.annotation for other in obj.parameters):
                        item.annotation = own.annotation
    for member in obj.members.values():
        _change(member)


def _link(obj: Object, name: str) -> str:
    first, *rest = name.split(".")
    try:
        path = ".".join((obj.resolve(first), *rest))
    except NameResolutionError:  # a name in full, or one of another module
        path = name
    return f'<autoref identifier="{path}" optional><code>{name}</code></autoref>'

"""Tables, lists and paragraphs of the page."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape


class Raw(str):
    """A text that is HTML already."""

    __slots__ = ()


def cell(content: str, kind: str = "td", **attributes: str) -> str:
    """Return one cell; what is not HTML already is escaped."""
    inner = content if isinstance(content, Raw) else escape(content)
    given = "".join(f' {name.strip("_").replace("_", "-")}="{escape(value)}"'
                    for name, value in attributes.items())  # fmt: skip
    return f"<{kind}{given}>{inner}</{kind}>"


def table(
    caption: str,
    head: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    kind: str = "numbers",
    screen: int | None = None,
) -> str:
    """Return a table in a box in which it can be scrolled where it is too wide.

    The first cell of every row is its head. ``screen`` names a column that is not printed.
    """

    def shown_on(column: int) -> dict[str, str]:
        return {"class_": "screen here"} if column == screen else {}

    heads = "".join(cell(text, "th", scope="col", **shown_on(i)) for i, text in enumerate(head))
    body = []
    for first, *others in rows:
        cells = [cell(first, "th", scope="row")]
        cells += [
            text if isinstance(text, Raw) and text.startswith("<td") else cell(text, **shown_on(i))
            for i, text in enumerate(others, start=1)
        ]
        body.append(f"<tr>{''.join(cells)}</tr>")
    return (
        f'<div class="scroll"><table class="{kind}"><caption>{escape(caption)}</caption>'
        f"<thead><tr>{heads}</tr></thead><tbody>{''.join(body)}</tbody></table></div>"
    )


def paragraph(text: str, kind: str = "") -> str:
    """Return an escaped paragraph."""
    given = f' class="{kind}"' if kind else ""
    return f"<p{given}>{escape(text)}</p>"


def bullets(items: tuple[str, ...] | list[str]) -> str:
    """Return an escaped list."""
    return f"<ul>{''.join(f'<li>{escape(item)}</li>' for item in items)}</ul>"

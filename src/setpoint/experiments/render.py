"""Tables as Markdown and as LaTeX, in the paper's layout, the paper's own figures beside ours."""

from __future__ import annotations

from collections.abc import Callable

from setpoint.experiments.tables import METRICS, Line, Table, Value

Style = Callable[[Value | None, str], str]


def markdown(table: Table, blocks: list[list[Line]]) -> str:
    """Return a table for reading: underlined is feasible, bold is best, in parentheses after TA."""
    head = ["data", "method"]
    for part, metric in table.columns:
        head += [f"{part} {metric}{_role(table, metric)}", "paper"]
    lines = [_row(head), _row(["---"] * len(head))]
    for block in blocks:
        for line in block:
            label = f"*{line.label}*" if line.method.ours else line.label
            cells = [_name(line), label]
            for column in table.columns:
                cell = line.cells[column]
                cells.append(_pair(cell["before"], cell["after"], table.adjusts, _marked))
                cells.append(_pair(cell["paper before"], cell["paper after"], True, _marked))
            lines.append(_row(cells))
    return "\n".join(lines) + "\n"


def latex(table: Table, blocks: list[list[Line]]) -> str:
    """Return a tabular for a paper; it needs the packages xcolor, colortbl and booktabs."""
    head = ["dataset", "method"]
    for part, metric in table.columns:
        head += [f"{part} {metric}{_role(table, metric)}", "paper"]
    lines = [
        rf"\begin{{tabular}}{{ll{'cc' * len(table.columns)}}}",
        r"\toprule",
        " & ".join(head).replace("f1", "$F_1$") + r" \\",
    ]
    for block in blocks:
        lines.append(r"\midrule")
        for number, line in enumerate(block):
            cells = [_escaped(_name(line)) if number == 0 else "", _escaped(line.label)]
            for column in table.columns:
                cell = line.cells[column]
                cells.append(_pair(cell["before"], cell["after"], table.adjusts, _coloured))
                cells.append(_pair(cell["paper before"], cell["paper after"], True, _coloured))
            shade = r"\rowcolor[gray]{0.85} " if line.method.ours else ""
            lines.append(shade + " & ".join(cells) + r" \\")
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}"]) + "\n"


def _role(table: Table, metric: str) -> str:
    metrics = METRICS[table.kind]
    if len(metrics) == 1 or metric not in metrics:
        return ""
    return " (floor)" if metric == metrics[0] else " (objective)"


def _name(line: Line) -> str:
    alpha = line.target.alpha
    return line.dataset if alpha is None else f"{line.dataset}, {alpha:g}"


def _pair(before: Value | None, after: Value | None, adjusts: bool, style: Style) -> str:
    if before is None:
        return ""
    if after is None or not adjusts:
        return style(before, "before")
    return f"{style(before, 'before')} ({style(after, 'after')})"


def _marked(value: Value | None, when: str) -> str:
    if value is None:
        return ""
    text = f"{value.mean:.3f} ± {value.deviation:.3f}"
    text = f"<u>{text}</u>" if value.feasible else text
    return f"**{text}**" if value.best else text


def _coloured(value: Value | None, when: str) -> str:
    if value is None:
        return ""
    text = rf"{value.mean:.3f} $\pm$ {{\tiny {value.deviation:.3f}}}"
    text = rf"\underline{{{text}}}" if value.feasible else text
    colour = "red" if when == "before" else "blue"
    return rf"\textcolor{{{colour}}}{{{text}}}" if value.best else text


def _escaped(text: str) -> str:
    """Return the text with what LaTeX would take for a command made harmless."""
    words = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
    return "".join(words.get(c, rf"\{c}" if c in "&%$#_{}" else c) for c in text)


def _row(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"

"""Tables as Markdown and as LaTeX, in the paper's layout, the paper's own figures beside ours."""

from __future__ import annotations

from collections.abc import Callable

from setpoint.experiments.tables import METRICS, Line, Table, Value

Style = Callable[[Value], str]
REMARK = "In some trials there are no alarms; there precision counts as 1."


def note(table: Table, scale: str, split: str, trials: int) -> str:
    """Return what a table is about and how it is to be read."""
    counted = "1 trial" if trials == 1 else f"{trials} trials"
    best = "bold: best, after that adjustment."
    if len(METRICS[table.kind]) > 1:
        best = "underlined: the floor is held; bold: best of those, after that adjustment."
    return (
        f"{table.title}. {scale} scale, {counted}, {split} split. Mean and deviation; in "
        f"parentheses after the threshold is adjusted; {best}"
    )


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
                cells.append(_own(line, column, _marked))
                cells.append(_pair(cell["paper before"], cell["paper after"], _marked))
            lines.append(_row(cells))
    if _has_silent_trials(blocks):
        lines += ["", f"° {REMARK}"]
    return "\n".join(lines) + "\n"


def latex(table: Table, blocks: list[list[Line]]) -> str:
    """Return a tabular for a paper; it needs the packages colortbl and booktabs."""
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
                cells.append(_own(line, column, _typeset))
                cells.append(_pair(cell["paper before"], cell["paper after"], _typeset))
            shade = r"\rowcolor[gray]{0.85} " if line.method.ours else ""
            lines.append(shade + " & ".join(cells) + r" \\")
    lines.append(r"\bottomrule")
    if _has_silent_trials(blocks):
        remark = rf"{{\footnotesize $^\circ$ {REMARK}}}"
        lines.append(rf"\multicolumn{{{len(head)}}}{{l}}{remark} \\")
    return "\n".join([*lines, r"\end{tabular}"]) + "\n"


def _role(table: Table, metric: str) -> str:
    metrics = METRICS[table.kind]
    if len(metrics) == 1 or metric not in metrics:
        return ""
    return " (floor)" if metric == metrics[0] else " (objective)"


def _name(line: Line) -> str:
    alpha = line.target.alpha
    return line.dataset if alpha is None else f"{line.dataset}, {alpha:g}"


def _own(line: Line, column: tuple[str, str], style: Style) -> str:
    cell = line.cells[column]
    return _pair(cell["before"], cell["after"], style) if line.trials else "diverged"


def _pair(before: Value | None, after: Value | None, style: Style) -> str:
    if before is None:
        return ""
    return style(before) if after is None else f"{style(before)} ({style(after)})"


def _marked(value: Value) -> str:
    if value.no_alarms:
        return "no alarms"
    text = f"{value.mean:.3f} ± {value.deviation:.3f}"
    text = f"<u>{text}</u>" if value.feasible else text
    text = f"**{text}**" if value.best else text
    return f"{text}°" if value.without_alarms else text


def _typeset(value: Value) -> str:
    if value.no_alarms:
        return "no alarms"
    text = rf"{value.mean:.3f} $\pm$ {{\tiny {value.deviation:.3f}}}"
    text = rf"\underline{{{text}}}" if value.feasible else text
    text = rf"\textbf{{{text}}}" if value.best else text
    return rf"{text}$^\circ$" if value.without_alarms else text


def _has_silent_trials(blocks: list[list[Line]]) -> bool:
    """Whether some trials of a mean, not all, are without alarms."""
    return any(
        value is not None and 0 < value.without_alarms < value.trials
        for block in blocks
        for line in block
        for cell in line.cells.values()
        for value in cell.values()
    )


def _escaped(text: str) -> str:
    """Return the text with what LaTeX would take for a command made harmless."""
    words = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
    return "".join(words.get(c, rf"\{c}" if c in "&%$#_{}" else c) for c in text)


def _row(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"

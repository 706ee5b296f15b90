"""Tables as Markdown and as LaTeX, in the paper's layout, the paper's own figures beside ours."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np

from setpoint.data.standardize import Standardizer
from setpoint.paper import figures
from setpoint.paper.data import obtain
from setpoint.paper.jobs import Target
from setpoint.paper.methods import METHODS, SCALES
from setpoint.paper.store import digest
from setpoint.paper.tables import METRICS, Line, Table, Value

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


HISTOGRAM_TARGET = Target("fpor", 0.9)
HISTOGRAM_DATA = "eyepacs"


def narrowed(
    table: Table, scale: str, datasets: tuple[str, ...], methods: tuple[str, ...], trials: int
) -> str:
    """Return what a file's name must tell, so that less is never written over more."""
    parts = list(table.chosen(datasets))
    if set(parts) == set(table.datasets):
        parts = []
    own = [method.name for method in table.methods]
    if methods and not set(own) <= set(methods):
        parts += [name for name in own if name in methods]
    if trials != SCALES[scale].trials:
        parts.append(f"{trials}-trials")
    return "".join(f"_{part}" for part in parts)


def write_parquet(frame: Any, path: Path) -> Path:
    """Write all trials, without the level that stands for none."""
    published = frame.assign(alpha=frame["alpha"].where(frame["kind"] != "ofos"))
    published.to_parquet(path, index=False, compression="zstd", compression_level=19)
    return path


def write_about(results: Iterable[dict[str, Any]], path: Path, scale: str, split: str) -> Path:
    """Write what was run, when and on which machines."""
    results = list(results)
    lines = [f"{len(results):,} trainings, {scale} scale, {split} split."]
    diverged = sum(result.get("diverged") is True for result in results)
    if diverged:
        lines.append(f"{diverged:,} of them diverged and rank last.")
    others = sum(result.get("code") != digest() for result in results)
    if others:
        lines.append(f"{others:,} of them are of other code than this version's.")
    codes = sorted({str(result.get("code", "unknown")) for result in results})
    lines += ["", f"Digest of the code that decides a training: {', '.join(codes)}."]
    lines += ["", "| trainings | dates | machine |", "|---|---|---|"]
    for name, count in sorted(Counter(result["machine"] for result in results).items()):
        dates = sorted({result["date"] for result in results if result["machine"] == name})
        span = dates[0] if len(dates) == 1 else f"{dates[0]} to {dates[-1]}"
        lines.append(f"| {count:,} | {span} | {name} |")
    path.write_text("\n".join(lines) + "\n", "utf-8")
    return path


def write_table(table: Table, blocks: list[list[Line]], stem: Path, how: str) -> list[Path]:
    """Write a table as Markdown and LaTeX, below a note on how it was made."""
    stem.parent.mkdir(parents=True, exist_ok=True)
    text, tex = stem.with_suffix(".md"), stem.with_suffix(".tex")
    text.write_text(f"{how}\n\n{markdown(table, blocks)}", "utf-8")
    tex.write_text(f"% {how}\n{latex(table, blocks)}", "utf-8")
    return [text, tex]


def draw_stress_test(best: Any, folder: Path, ending: str) -> list[Path]:
    """Draw every method once: competitors at their best, which is trained to convergence."""
    converged = best["method"].map(lambda name: "converged" in METHODS[name].variants)
    once = best[(best["variant"] == "converged") == converged]
    shown = once[(once["alpha"] > 0.9) & ~once["three"] & once["rule"].isin(["own", "train"])]
    shown = shown.assign(adjusted=shown["rule"] == "train")
    selects = shown["method"].map(lambda name: METHODS[name].selects).astype(bool)
    shown = shown[~(selects & shown["adjusted"])]  # its threshold is set on rows of its own
    written = []
    for kind in shown["kind"].unique():
        drawn = figures.stress_test.figure(shown, kind)
        written += figures.save(drawn, folder, f"stress-test-{kind}-{ending}")
    return written


def draw_histograms(folder: Path, scale: str) -> list[Path]:
    """Train with and without the regulariser, and draw the scores."""
    size = SCALES[scale]
    dataset = obtain(HISTOGRAM_DATA, folder / "data", stand_ins=size.stand_ins)
    # From ordinary training, at exact thresholds, logits keep away from them without psi, too.
    changes: dict[str, Any] = {"start": "random", "threshold": "fixed"}
    changes["outer_iterations"] = size.outer
    if size.inner is not None:
        changes["inner_iterations"] = size.inner
    X = Standardizer.fit(dataset.X, np.ones(len(dataset))).transform(dataset.X)
    trained = figures.logit_histograms.train_for_histograms(
        X, dataset.y, HISTOGRAM_TARGET.goal, seed=0, **changes
    )
    title = (
        f"{dataset.name}, {HISTOGRAM_TARGET.goal}: last iterates of Lifted() from random starts at "
        "t = 0.5, training rows"
    )
    drawn = figures.logit_histograms.figure(trained.with_psi, trained.without_psi, dataset.y, title)
    return figures.save(drawn, folder / "figures", "logit-histograms")


# DOC of experiments.outputs: The files that a reproduction leaves: all trials, how they were made, tables and figures.

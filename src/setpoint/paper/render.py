"""Output files: tables as Markdown and LaTeX with the paper's values beside ours, and figures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np

from setpoint.data.standardize import Standardizer
from setpoint.paper import figures
from setpoint.paper.code import accepted
from setpoint.paper.datasets import obtain
from setpoint.paper.jobs import Target
from setpoint.paper.methods import METHODS, SCALES
from setpoint.paper.tables import METRICS, Line, Table, Value

Style = Callable[[Value], str]
REMARK = "Some trials have no alarms; their precision counts as 1."
HISTOGRAM_TARGET = Target("fpor", 0.9)
HISTOGRAM_DATA = "eyepacs"

# --- tables ---------------------------------------------------------------------------------------


def note(table: Table, scale: str, split: str, trials: int) -> str:
    """Return the caption of a table: what it shows and what the marks mean."""
    best = "Bold: best, after adjustment."
    if len(METRICS[table.kind]) > 1:
        best = "Underlined: the floor is met; bold: best of these, after adjustment."
    return (
        f"{table.title}. Scale {scale}, {trials} trial{'s' if trials > 1 else ''}, {split} split. "
        f"Mean and standard deviation; in parentheses after threshold adjustment. {best}"
    )


def markdown(table: Table, blocks: list[list[Line]]) -> str:
    """Return a table in Markdown."""
    head = ["data", *_head(table)]
    rows = [head, ["---"] * len(head)]
    for line in (line for block in blocks for line in block):
        label = f"*{line.label}*" if line.method.ours else line.label
        rows.append([_name(line), label, *_cells(table, line, _marked)])
    text = "".join(f"| {' | '.join(row)} |\n" for row in rows)
    return f"{text}\n° {REMARK}\n" if _has_silent_trials(blocks) else text


def latex(table: Table, blocks: list[list[Line]]) -> str:
    """Return a table as a tabular in LaTeX; it needs the packages colortbl and booktabs."""
    head = ["dataset", *_head(table)]
    lines = [
        rf"\begin{{tabular}}{{ll{'cc' * len(table.columns)}}}",
        r"\toprule",
        " & ".join(head).replace("f1", "$F_1$") + r" \\",
    ]
    for block in blocks:
        lines.append(r"\midrule")
        for number, line in enumerate(block):
            cells = [_escaped(_name(line)) if number == 0 else "", _escaped(line.label)]
            shade = r"\rowcolor[gray]{0.85} " if line.method.ours else ""
            lines.append(shade + " & ".join([*cells, *_cells(table, line, _typeset)]) + r" \\")
    lines.append(r"\bottomrule")
    if _has_silent_trials(blocks):
        remark = rf"{{\footnotesize $^\circ$ {REMARK}}}"
        lines.append(rf"\multicolumn{{{len(head)}}}{{l}}{remark} \\")
    return "\n".join([*lines, r"\end{tabular}"]) + "\n"


def _head(table: Table) -> list[str]:
    metrics = METRICS[table.kind]
    roles = dict(zip(metrics, (" (floor)", " (objective)"), strict=True)) if metrics[1:] else {}
    head = ["method"]
    for part, metric in table.columns:
        head += [f"{part} {metric}{roles.get(metric, '')}", "paper"]
    return head


def _name(line: Line) -> str:
    alpha = line.target.alpha
    return line.dataset if alpha is None else f"{line.dataset}, {alpha:g}"


def _cells(table: Table, line: Line, style: Style) -> list[str]:
    """Return, for every column, this package's value and the paper's."""
    cells = []
    for cell in (line.cells[column] for column in table.columns):
        ours = _pair(cell["before"], cell["after"], style) if line.trials else "diverged"
        cells += [ours, _pair(cell["paper before"], cell["paper after"], style)]
    return cells


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
    """Return whether some trials of a mean, but not all, are without alarms."""
    return any(
        value is not None and 0 < value.without_alarms < value.trials
        for block in blocks
        for line in block
        for cell in line.cells.values()
        for value in cell.values()
    )


def _escaped(text: str) -> str:
    """Return the text with LaTeX's special characters escaped."""
    words = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
    return "".join(words.get(c, rf"\{c}" if c in "&%$#_{}" else c) for c in text)


# --- files ----------------------------------------------------------------------------------------


def restriction_suffix(
    table: Table, scale: str, datasets: tuple[str, ...], methods: tuple[str, ...], trials: int
) -> str:
    """Return a suffix that names restrictions, so that no table overwrites a more complete one."""
    parts = list(table.chosen(datasets))
    if set(parts) == set(table.datasets):
        parts = []
    names = [method.name for method in table.methods]
    if methods and not set(names) <= set(methods):
        parts += [name for name in names if name in methods]
    if trials != SCALES[scale].trials:
        parts.append(f"{trials}-trials")
    return "".join(f"_{part}" for part in parts)


def write_parquet(frame: Any, path: Path) -> Path:
    """Write all trials; goals without a level have none in the file."""
    published = frame.assign(alpha=frame["alpha"].where(frame["kind"] != "ofos"))
    published.to_parquet(path, index=False, compression="zstd", compression_level=19)
    return path


def write_about(results: Iterable[dict[str, Any]], path: Path, scale: str, split: str) -> Path:
    """Write what was trained, when, by which code and on which machines."""
    results = list(results)
    lines = [f"{len(results):,} trainings, scale {scale}, {split} split."]
    diverged = sum(result.get("diverged") is True for result in results)
    if diverged:
        lines.append(f"{diverged:,} of them diverged and rank last.")
    others = sum(result.get("code") not in accepted() for result in results)
    if others:
        lines.append(f"{others:,} of them were trained by code other than this version's.")
    codes = sorted({str(result.get("code", "unknown")) for result in results})
    lines += ["", f"Digest of the training code: {', '.join(codes)}."]
    lines += ["", "| trainings | dates | machine |", "|---|---|---|"]
    for name, count in sorted(Counter(result["machine"] for result in results).items()):
        dates = sorted({result["date"] for result in results if result["machine"] == name})
        span = dates[0] if len(dates) == 1 else f"{dates[0]} to {dates[-1]}"
        lines.append(f"| {count:,} | {span} | {name} |")
    path.write_text("\n".join(lines) + "\n", "utf-8")
    return path


def write_table(table: Table, blocks: list[list[Line]], stem: Path, how: str) -> list[Path]:
    """Write a table as Markdown and LaTeX below its caption."""
    stem.parent.mkdir(parents=True, exist_ok=True)
    text, tex = stem.with_suffix(".md"), stem.with_suffix(".tex")
    text.write_text(f"{how}\n\n{markdown(table, blocks)}", "utf-8")
    tex.write_text(f"% {how}\n{latex(table, blocks)}", "utf-8")
    return [text, tex]


def draw_stress_test(best: Any, folder: Path, ending: str) -> list[Path]:
    """Draw every method once; competitors as trained to convergence, their best."""
    converged = best["method"].map(lambda name: "converged" in METHODS[name].variants)
    once = best[(best["variant"] == "converged") == converged]
    shown = once[(once["alpha"] > 0.9) & ~once["three"] & once["rule"].isin(["own", "train"])]
    shown = shown.assign(adjusted=shown["rule"] == "train")
    selects = shown["method"].map(lambda name: METHODS[name].selects).astype(bool)
    shown = shown[~(selects & shown["adjusted"])]  # their threshold is set on held-out rows
    written = []
    for kind in shown["kind"].unique():
        drawn = figures.stress_test.figure(shown, kind)
        written += figures.save(drawn, folder, f"stress-test-{kind}-{ending}")
    return written


def draw_histograms(folder: Path, scale: str) -> list[Path]:
    """Train with and without the regulariser, and draw the scores."""
    size = SCALES[scale]
    dataset = obtain(HISTOGRAM_DATA, folder / "data", stand_ins=size.stand_ins)
    # After ordinary training, logits are far from exact thresholds even without psi.
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

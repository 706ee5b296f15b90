"""The files that a reproduction leaves: all trials, how they were made, tables and figures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from setpoint._standardize import Standardizer
from setpoint.experiments import figures
from setpoint.experiments.code import digest
from setpoint.experiments.data import obtain
from setpoint.experiments.jobs import Target
from setpoint.experiments.methods import METHODS
from setpoint.experiments.render import latex, markdown
from setpoint.experiments.scale import SCALES
from setpoint.experiments.tables import Line, Table

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

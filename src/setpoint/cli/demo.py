"""``make demo``: three goals on real data, next to logistic regression with a tuned threshold.

The data ship inside scikit-learn: 1,797 handwritten digits, of which 180 are nines. A linear model
is to find them from eight numbers per image, its principal components, which is too little to find
all: it has to choose. 45 % of the rows train, 15 % choose and set the threshold, 40 % test. The
data were chosen because the effect shows on them; README.md says how others fared.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import PredefinedSplit, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from setpoint import FPOR, FROP, OFOS, Goal, OperatingPoint, SetpointClassifier
from setpoint._internal.provenance import __version__
from setpoint.cli import options as o
from setpoint.cli.output import Output
from setpoint.errors import SetpointError
from setpoint.thresholds.operating_point import choose_threshold, evaluate_threshold
from setpoint.training.history import Record

GOALS = (FPOR(0.9), FROP(0.9), OFOS())


@dataclass(frozen=True)
class Outcome:
    """What a method did for one goal: where its threshold was chosen, on test rows; its scores."""

    method: str
    chosen: OperatingPoint
    test: OperatingPoint
    test_scores: NDArray[np.floating]
    classifier: SetpointClassifier | None = None


def nines() -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Return eight principal components per image, and whether it shows a nine."""
    images, digit = load_digits(return_X_y=True)
    return PCA(8, random_state=0).fit_transform(images), digit == 9


@dataclass(frozen=True)
class Parts:
    """Rows to train, to choose the threshold, and to test."""

    X: NDArray[np.float64]
    y: NDArray[np.bool_]
    X_test: NDArray[np.float64]
    y_test: NDArray[np.bool_]
    held_out: NDArray[np.bool_]

    @classmethod
    def of(cls, X: NDArray[np.float64], y: NDArray[np.bool_]) -> Parts:
        """Split the rows."""
        X, X_test, y, y_test = train_test_split(X, y, test_size=0.4, stratify=y, random_state=0)
        _, held = train_test_split(np.arange(len(y)), test_size=0.25, stratify=y, random_state=0)
        return cls(X, y, X_test, y_test, np.isin(np.arange(len(y)), held))


def logistic_regression(goal: Goal, parts: Parts) -> Outcome:
    """Train as usual; take the ridge and the threshold that are best on the held-out rows."""
    held = parts.held_out
    tried = []
    for C in (1e-4, 1e-3, 1e-2, 0.1, 1.0, 10.0, 1000.0):
        model = make_pipeline(StandardScaler(), LogisticRegression(C=C, max_iter=2000))
        model.fit(parts.X[~held], parts.y[~held])
        scores = model.decision_function(parts.X[held])
        point = choose_threshold(parts.y[held], scores, goal, on="the validation part")
        tried.append((point, model))
    chosen, model = max(tried, key=lambda pair: pair[0].rank)
    scores = model.decision_function(parts.X_test)
    test = evaluate_threshold(parts.y_test, scores, chosen.threshold, goal, on="the test part")
    return Outcome("logistic regression", chosen, test, scores)


def setpoint(goal: Goal, parts: Parts, callback: Any = None) -> Outcome:
    """Train for the goal."""
    clf = SetpointClassifier(
        goal,
        validation=PredefinedSplit(np.where(parts.held_out, 0, -1)),
        random_state=0,
        callback=callback,
    ).fit(parts.X, parts.y)
    test = clf.evaluate(parts.X_test, parts.y_test, on="the test part")
    return Outcome("setpoint", clf.operating_point_, test, clf.positive_scores(parts.X_test), clf)


def run(quiet: bool = False) -> tuple[dict[Goal, list[Outcome]], NDArray[np.bool_]]:
    """Train everything, with a progress bar, and return the outcomes and the test labels."""
    from rich.console import Console
    from rich.progress import Progress

    parts = Parts.of(*nines())
    outcomes = {}
    with Progress(transient=True, console=Console(stderr=True), disable=quiet) as progress:
        for goal in GOALS:
            task = progress.add_task(str(goal))

            def show(record: Record, total: int, task: Any = task) -> None:
                progress.update(task, completed=record.iteration, total=total)

            outcomes[goal] = [logistic_regression(goal, parts), setpoint(goal, parts, show)]
    return outcomes, parts.y_test


def print_table(outcomes: dict[Goal, list[Outcome]], n_test: int) -> None:
    """Print the operating points where they were chosen and on test rows, side by side."""
    from rich.console import Console
    from rich.table import Table

    table = Table(
        title="Nines among handwritten digits, from eight components: linear models",
        box=None,
        padding=(0, 2, 0, 0),
    )
    table.add_column("goal", no_wrap=True)
    table.add_column("method", no_wrap=True)
    for part in ("valid.", "test"):
        for name in ("prec.", "recall", "f1", "met"):
            table.add_column(f"{part}\n{name}", justify="right", no_wrap=True)
    for goal, rows in outcomes.items():
        objective, _, constraints = str(goal).partition(" s.t. ")
        lines = [objective, f"s.t. {constraints}" if constraints else ""]
        for line, outcome in zip(lines, rows, strict=True):
            cells = []
            for point in (outcome.chosen, outcome.test):
                cells += [f"{v:.3f}" for v in (point.precision, point.recall, point.f1)]
                cells.append("yes" if point.feasible else "no")
            table.add_row(line, outcome.method, *cells)
        table.add_row()
    console = Console()
    console = console if console.width >= 104 else Console(width=104)  # rows are not folded
    console.print(table)
    console.print(
        "Both methods are chosen, and get their exact threshold, on the same validation rows. The "
        f"{n_test} test\nrows are new: a floor that was only just met before can be missed there, "
        "whatever the method."
    )


def draw(outcomes: dict[Goal, list[Outcome]], y_test: NDArray[np.bool_], path: Path) -> None:
    """Draw precision-recall curves of the test part with the chosen points."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    from setpoint._internal.provenance import picture_metadata
    from setpoint.report.data import Steps
    from setpoint.report.figures import MODEL, Curve, draw_precision_recall

    looks = {"logistic regression": ("#7a7a7a", "s", "--"), "setpoint": (MODEL, "o", "-")}
    figure, axes = plt.subplots(1, len(outcomes), figsize=(12, 4.2), layout="constrained")
    for ax, (goal, rows) in zip(axes, outcomes.items(), strict=True):
        curves = []
        for outcome in rows:
            color, marker, line = looks[outcome.method]
            label = f"{outcome.method}: {goal.objective} {outcome.test.objective:.3f}"
            points = ((outcome.test, marker, label),)
            steps = Steps.of(y_test, outcome.test_scores)
            curves.append(Curve(steps, color, line, points=points))
        draw_precision_recall(ax, goal, curves)
        ax.set_title(str(goal))
        ax.legend(loc="lower left", frameon=False)
        ax.spines[["top", "right"]].set_visible(False)
    figure.suptitle("Test part: curves, and the operating points chosen on validation rows "
                    "(shaded: the goal is not met)")  # fmt: skip
    figure.savefig(path, dpi=130, metadata=picture_metadata("png"))
    plt.close(figure)


def report(outcomes: dict[Goal, list[Outcome]], y_test: NDArray[np.bool_], path: Path) -> None:
    """Write the page about the first goal."""
    from setpoint.report.content import Baseline, Report, Rows
    from setpoint.report.page import write_report

    goal, (ordinary, trained) = next(iter(outcomes.items()))
    assert trained.classifier is not None
    page = Report(
        goal,
        Rows(y_test, trained.test_scores, on="the test part", unseen=True),
        trained.test.threshold,
        baseline=Baseline(ordinary.method, ordinary.test_scores, ordinary.test.threshold),
        history=trained.classifier.history_,
        candidates=trained.classifier.candidates_,
        title="Nines among handwritten digits",
        positive="nine",
        positives="nines",
        facts={"data": "scikit-learn's digits, eight principal components", "seed": "0",
               "model": "linear, trained for the goal", "setpoint": __version__},
    )  # fmt: skip
    write_report(page, path)


def show(folder: Path, quiet: bool = False) -> dict[str, Any]:
    """Print the table, draw the picture, write the report, and say where they are.

    Returns the same as plain values, ready for JSON; ``quiet`` prints nothing.
    """
    from setpoint.cli.overwriting import check_demo

    check_demo(folder)
    folder.mkdir(exist_ok=True)
    picture, page = folder / "setpoint-demo.png", folder / "setpoint-demo.html"
    outcomes, y_test = run(quiet)
    if not quiet:
        print_table(outcomes, len(y_test))
    draw(outcomes, y_test, picture)
    report(outcomes, y_test, page)
    if not quiet:
        print(f"Picture: {picture.resolve()}\nReport:  {page.resolve()}")
    compared = [
        {
            "goal": str(goal),
            "method": outcome.method,
            "threshold_set_on": outcome.chosen.to_dict(),
            "test": outcome.test.to_dict(),
        }
        for goal, rows in outcomes.items()
        for outcome in rows
    ]
    return {"compared": compared, "picture": str(picture), "report": str(page)}


def main(argv: list[str] | None = None) -> None:
    """Run the demo from the command line."""
    parser = argparse.ArgumentParser(prog="python -m setpoint.cli.demo", description=__doc__)
    parser.add_argument("--folder", type=Path, default=Path(), help="for picture and report")
    try:
        show(parser.parse_args(argv).folder)
    except SetpointError as error:
        raise SystemExit(f"error: {error}") from error


if __name__ == "__main__":
    main()


def demo(
    folder: Annotated[Path, typer.Option(help="Where picture and report go.")] = Path(),
    as_json: o.Json = False,
    quiet: o.Quiet = False,
    debug: o.Debug = False,
) -> None:
    """Train for three goals on real data; print a table, draw a picture, write a report."""

    Output(as_json).result(show(folder, quiet or as_json))


def add_to(app: Any) -> None:
    """Add the command."""
    app.command()(demo)


# DOC of cli.demo: ``setpoint demo``.

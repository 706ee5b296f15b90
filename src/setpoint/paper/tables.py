"""The paper's tables: their rows and columns, the jobs behind them, and the values of cells."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any

from setpoint.paper.datasets import paper_name
from setpoint.paper.jobs import OFOS_TARGET, Job, Target, jobs_of
from setpoint.paper.methods import ABLATIONS, COMPETITORS, OURS, SCALES, Method
from setpoint.paper.paper_values import paper_value
from setpoint.paper.results import SLACK

METRICS = {"fpor": ("precision", "recall"), "frop": ("recall", "precision"), "ofos": ("f1",)}
MAIN = ("creditcard", "ade", "eyepacs")
STRESSED = ("ade", "eyepacs")  # the paper has MURA in place of eyepacs


@dataclass(frozen=True)
class Table:
    """One of the paper's tables.

    Attributes
    ----------
    name, title : str
        The name in commands and files; the title above the table.
    targets : tuple of Target
        Its goals, all of one kind.
    methods : tuple of Method
        Its rows.
    datasets : tuple of str
        Its blocks by default.
    three : bool
        Whether there are validation rows, on which thresholds are adjusted.
    printed_as : str
        The name of the paper's table, if different.
    """

    name: str
    title: str
    targets: tuple[Target, ...]
    methods: tuple[Method, ...] = (*COMPETITORS, *OURS)
    datasets: tuple[str, ...] = MAIN
    three: bool = False
    printed_as: str = ""

    def chosen(self, datasets: tuple[str, ...]) -> tuple[str, ...]:
        """Return those of the data sets that belong in the table; by default all of its own."""
        known = {*self.datasets, "mura"}
        return tuple(d for d in datasets or self.datasets if paper_name(d) in known)

    @property
    def kind(self) -> str:
        """The kind of its goals."""
        return self.targets[0].kind

    @property
    def columns(self) -> list[tuple[str, str]]:
        """Subset of the data and metric of every column."""
        metrics = METRICS[self.kind]
        parts = ["train", *(["validation"] if self.three else []), "test"]
        columns = [(part, metric) for part in parts for metric in metrics]
        return columns if "f1" in metrics else [*columns, ("test", "f1")]

    def jobs(self, datasets: tuple[str, ...], split: str, scale: str, trials: int) -> list[Job]:
        """Return the jobs behind the table for these data sets."""
        return [
            job
            for dataset in self.chosen(datasets)
            for method in self.methods
            for job in jobs_of(method, dataset, split, self.three, trials, self.targets, scale)
        ]


def _targets(kind: str, *alphas: float) -> tuple[Target, ...]:
    return tuple(Target(kind, alpha) for alpha in alphas)


# Ablations compare results on the training rows; methods that select hold some of them out.
_ABLATED = (*ABLATIONS, *(m for m in OURS if not m.selects))
_KINDS = ("fpor", "frop")
_ALL = (
    Table("fpor", "FPOR: max recall s.t. precision >= 0.9", _targets("fpor", 0.9)),
    Table("frop", "FROP: max precision s.t. recall >= 0.9", _targets("frop", 0.9)),
    Table("ofos", "OFOS: max F1", (OFOS_TARGET,)),
    *(
        Table(
            f"{kind}-alpha",
            f"{kind.upper()}, stricter levels",
            _targets(kind, 0.95, 0.99),
            datasets=STRESSED,
        )
        for kind in _KINDS
    ),
    *(
        Table(
            f"ablation-{kind}",
            f"Ablations, {kind.upper()}",
            _targets(kind, 0.9),
            _ABLATED,
            STRESSED,
            printed_as="ablation",
        )
        for kind in _KINDS
    ),
    *(
        Table(
            f"three-split-{kind}",
            f"Three splits, {kind.upper()}: thresholds adjusted on validation rows",
            _targets(kind, 0.9, 0.95, 0.99),
            datasets=STRESSED,
            three=True,
        )
        for kind in _KINDS
    ),
)
TABLES = {table.name: table for table in _ALL}


@dataclass(frozen=True)
class Value:
    """Mean and standard deviation over trials, and whether the value is feasible or best.

    For a precision, ``without_alarms`` counts the trials without alarms, where it is 1 by
    convention.
    """

    mean: float
    deviation: float
    feasible: bool = False
    best: bool = False
    trials: int = 1
    without_alarms: int = 0

    @property
    def no_alarms(self) -> bool:
        """Whether no trial has alarms."""
        return self.without_alarms == self.trials


@dataclass(frozen=True)
class Line:
    """A row: a method on a data set for a goal.

    Each cell has the values "before" and "after" threshold adjustment, and the paper's. With
    ``trials=0`` every training diverged, and only the paper's values exist.
    """

    dataset: str
    target: Target
    method: Method
    label: str
    trials: int = 1
    cells: dict[tuple[str, str], dict[str, Value | None]] = field(default_factory=dict)


def lines_of(table: Table, frame: Any, datasets: tuple[str, ...], split: str) -> list[list[Line]]:
    """Return the blocks of a table, one per data set and goal, from the selected results."""
    rows = frame[(frame["split"] == split) & (frame["three"] == table.three)]
    blocks = []
    for dataset in table.chosen(datasets):
        for target in table.targets:
            alpha = -1.0 if target.alpha is None else target.alpha
            here = rows[
                (rows["dataset"] == dataset)
                & (rows["kind"] == target.kind)
                & (rows["alpha"] == alpha)
            ]
            block = list(_block(table, here, dataset, target))
            if block:
                blocks.append(_marked(block, target))
    return blocks


def _block(table: Table, here: Any, dataset: str, target: Target) -> Iterator[Line]:
    adjusted = "validation" if table.three else "train"
    all_trials = here["trial"].nunique()
    for method in table.methods:
        # Methods that select have set their threshold on held-out rows.
        settled = method.selects and not table.three
        for variant in method.variants:
            rows = here[(here["method"] == method.name) & (here["variant"] == variant)]
            if rows.empty:
                continue
            trials = rows.loc[~rows["diverged"], "trial"].nunique()
            label = method.label_of(variant)
            if 0 < trials < all_trials:
                label += f" ({trials} of {all_trials} trials)"
            line = Line(dataset, target, method, label, trials)
            by = dict(list(rows.groupby(["rule", "part"])))
            for part, metric in table.columns:
                before, after = (_printed(line, table, part, metric, ta) for ta in (False, True))
                line.cells[part, metric] = {
                    "before": _value(by.get(("own", part)), metric),
                    "after": None if settled else _value(by.get((adjusted, part)), metric),
                    "paper before": before,
                    "paper after": after,
                }
            yield line


def _value(rows: Any, metric: str) -> Value | None:
    if rows is None:
        return None
    silent = (rows["tp"] + rows["fp"] == 0) & (metric == "precision")
    # The population standard deviation, as in the paper.
    mean, deviation = float(rows[metric].mean()), float(rows[metric].std(ddof=0))
    return Value(mean, deviation, trials=len(rows), without_alarms=int(silent.sum()))


def _printed(line: Line, table: Table, part: str, metric: str, adjusted: bool) -> Value | None:
    if line.method.paper is None:
        return None
    name, dataset = table.printed_as or table.name, paper_name(line.dataset)
    goal = line.target.kind, line.target.alpha
    found = paper_value(name, dataset, *goal, line.method.paper, part, metric, adjusted)
    return None if found is None else Value(found.mean, found.deviation)


def _marked(block: list[Line], target: Target) -> list[Line]:
    """Mark feasible values, among these the best objective, and the best F1 on test rows.

    The best is marked only after threshold adjustment: before it, some methods use a threshold
    found in training and some use 0.5, which is not comparable.
    """
    constraint, objective = (*METRICS[target.kind], None)[:2] if target.alpha else (None, "f1")
    for part in ("train", "validation", "test"):
        if (part, objective) not in block[0].cells:
            continue
        able = block
        if constraint is not None:
            for line, when in product(block, ("before", "after")):
                _mark(line, (part, constraint), when, feasible=_meets(line, part, when))
            able = [x for x in block if _meets(x, part, _last(x, (part, constraint)))]
        _mark_best(able, (part, str(objective)))
    if constraint is not None:
        _mark_best(block, ("test", "f1"))
    return block


def _meets(line: Line, part: str, when: str) -> bool:
    """Return whether the constraint holds; without any alarms it does not."""
    value = line.cells[part, METRICS[line.target.kind][0]][when]
    assert line.target.alpha is not None
    return value is not None and not value.no_alarms and value.mean >= line.target.alpha - SLACK


def _last(line: Line, column: tuple[str, str]) -> str:
    """Return which value of a row is compared: the adjusted one, if there is one."""
    return "before" if line.cells[column]["after"] is None else "after"


def _mark_best(lines: list[Line], column: tuple[str, str]) -> None:
    last = [(line, _last(line, column)) for line in lines]
    found = [(line, when, v.mean) for line, when in last if (v := line.cells[column][when])]
    for line, when, mean in found:
        if mean >= max(m for _, _, m in found) - SLACK:
            _mark(line, column, when, best=True)


def _mark(line: Line, column: tuple[str, str], when: str, **marks: bool) -> None:
    value = line.cells[column][when]
    if value is not None:
        line.cells[column][when] = replace(value, **marks)


def all_jobs(
    tables: tuple[Table, ...],
    scale: str,
    split: str,
    datasets: tuple[str, ...] = (),
    trials: int | None = None,
    methods: tuple[str, ...] = (),
) -> list[Job]:
    """Return the jobs of several tables without repeats."""
    jobs: dict[Job, None] = {}
    for table in tables:
        for job in table.jobs(datasets, split, scale, trials or SCALES[scale].trials):
            if not methods or job.method in methods:
                jobs[job] = None
    return list(jobs)

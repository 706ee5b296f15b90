"""The paper's tables: what is in them, and their cells."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any

from setpoint.paper.data import paper_name
from setpoint.paper.jobs import OFOS_TARGET, Job, Target, jobs_of
from setpoint.paper.methods import ABLATIONS, COMPETITORS, OURS, SCALES, Method
from setpoint.paper.paper_values import paper_value
from setpoint.paper.results import SLACK

METRICS = {"fpor": ("precision", "recall"), "frop": ("recall", "precision"), "ofos": ("f1",)}
MAIN = ("creditcard", "ade", "eyepacs")
STRESSED = ("ade", "eyepacs")  # the paper's second one is MURA


@dataclass(frozen=True)
class Table:
    """One of the paper's tables.

    Attributes
    ----------
    name, title : str
        In commands and files; above the table.
    targets : tuple of Target
        Its goals, all of one kind.
    methods : tuple of Method
        Its rows.
    datasets : tuple of str
        Its blocks, where no others are asked for.
    three : bool
        Whether there is a validation part, on which thresholds are adjusted.
    printed_as : str
        The paper's table, if it has another name there.
    """

    name: str
    title: str
    targets: tuple[Target, ...]
    methods: tuple[Method, ...] = (*COMPETITORS, *OURS)
    datasets: tuple[str, ...] = MAIN
    three: bool = False
    printed_as: str = ""

    def chosen(self, datasets: tuple[str, ...]) -> tuple[str, ...]:
        """Return which of these data sets it is about; without any, its own."""
        known = {*self.datasets, "mura"}
        return tuple(d for d in datasets or self.datasets if paper_name(d) in known)

    @property
    def kind(self) -> str:
        """The goals' kind."""
        return self.targets[0].kind

    @property
    def columns(self) -> list[tuple[str, str]]:
        """Part and metric of every column."""
        metrics = METRICS[self.kind]
        parts = ["train", *(["validation"] if self.three else []), "test"]
        columns = [(part, metric) for part in parts for metric in metrics]
        return columns if "f1" in metrics else [*columns, ("test", "f1")]

    def jobs(self, datasets: tuple[str, ...], split: str, scale: str, trials: int) -> list[Job]:
        """Return all that must be trained for it on these data sets."""
        return [
            job
            for dataset in self.chosen(datasets)
            for method in self.methods
            for job in jobs_of(method, dataset, split, self.three, trials, self.targets, scale)
        ]


def _targets(kind: str, *alphas: float) -> tuple[Target, ...]:
    return tuple(Target(kind, alpha) for alpha in alphas)


# They are about what training reaches on its rows; what selects keeps some of them back.
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
    """Mean and deviation over trials, and how it stands among its rivals.

    ``without_alarms`` counts, for a precision, the trials that have no alarms, where it is 1 by
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
        """Whether no trial has any."""
        return self.without_alarms == self.trials


@dataclass(frozen=True)
class Line:
    """A row: a method on a data set for a goal; cells are before, after, paper before, after.

    Without ``trials`` it has no values of ours, because every training diverged.
    """

    dataset: str
    target: Target
    method: Method
    label: str
    trials: int = 1
    cells: dict[tuple[str, str], dict[str, Value | None]] = field(default_factory=dict)


def lines_of(table: Table, frame: Any, datasets: tuple[str, ...], split: str) -> list[list[Line]]:
    """Return the blocks of a table, one per data set and goal, from selected results."""
    own = frame[(frame["split"] == split) & (frame["three"] == table.three)]
    blocks = []
    for dataset in table.chosen(datasets):
        for target in table.targets:
            alpha = -1.0 if target.alpha is None else target.alpha
            here = own[
                (own["dataset"] == dataset) & (own["kind"] == target.kind) & (own["alpha"] == alpha)
            ]
            block = list(_block(table, here, dataset, target))
            if block:
                blocks.append(_marked(block, target))
    return blocks


def _block(table: Table, here: Any, dataset: str, target: Target) -> Iterator[Line]:
    adjusted = "validation" if table.three else "train"
    wanted = here["trial"].nunique()
    for method in table.methods:
        # What selects has set its threshold on rows that it was not trained on.
        settled = method.selects and not table.three
        for variant in method.variants:
            own = here[(here["method"] == method.name) & (here["variant"] == variant)]
            if own.empty:
                continue
            trials = own.loc[~own["diverged"], "trial"].nunique()
            label = method.label_of(variant)
            if 0 < trials < wanted:
                label += f" ({trials} of {wanted} trials)"
            line = Line(dataset, target, method, label, trials)
            of = dict(list(own.groupby(["rule", "part"])))
            for part, metric in table.columns:
                line.cells[part, metric] = {
                    "before": _value(of.get(("own", part)), metric),
                    "after": None if settled else _value(of.get((adjusted, part)), metric),
                    "paper before": _printed(table, dataset, target, method, part, metric, False),
                    "paper after": _printed(table, dataset, target, method, part, metric, True),
                }
            yield line


def _value(rows: Any, metric: str) -> Value | None:
    if rows is None:
        return None
    mute = (rows["tp"] + rows["fp"] == 0) & (metric == "precision")
    # The paper's deviations are those of the population.
    mean, deviation = float(rows[metric].mean()), float(rows[metric].std(ddof=0))
    return Value(mean, deviation, trials=len(rows), without_alarms=int(mute.sum()))


def _printed(
    table: Table,
    dataset: str,
    target: Target,
    method: Method,
    part: str,
    metric: str,
    adjusted: bool,
) -> Value | None:
    if method.paper is None:
        return None
    found = paper_value(
        table.printed_as or table.name,
        paper_name(dataset),
        target.kind,
        target.alpha,
        method.paper,
        part,
        metric,
        adjusted,
    )
    return None if found is None else Value(found.mean, found.deviation)


def _marked(block: list[Line], target: Target) -> list[Line]:
    """Mark what is feasible and, among that, the best objective; and the best F1 on test rows.

    The best is sought once, after the threshold is adjusted: before that some methods stand at a
    threshold that they found in training and some at 0.5, which does not compare.
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
    """Whether the floor is held; with no alarms at all it is not held by anything."""
    value = line.cells[part, METRICS[line.target.kind][0]][when]
    assert line.target.alpha is not None
    return value is not None and not value.no_alarms and value.mean >= line.target.alpha - SLACK


def _last(line: Line, column: tuple[str, str]) -> str:
    """Return when a row competes: after the adjustment, if there is one."""
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
    """Return the jobs of several tables, each once."""
    jobs: dict[Job, None] = {}
    for table in tables:
        for job in table.jobs(datasets, split, scale, trials or SCALES[scale].trials):
            if not methods or job.method in methods:
                jobs[job] = None
    return list(jobs)

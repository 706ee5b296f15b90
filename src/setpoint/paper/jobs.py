"""The smallest pieces of work: one solver trained once."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any

from setpoint.goals.goal import FPOR, FROP, OFOS, Goal
from setpoint.paper.competitors.lagrangian import Lagrangian
from setpoint.paper.data import MODELS
from setpoint.paper.methods import METHODS, SCALES, Method, Variant
from setpoint.training.loop import Solver


@dataclass(frozen=True)
class Target:
    """A goal by the paper's name for it."""

    kind: str
    alpha: float | None = None

    @property
    def goal(self) -> Goal:
        """The goal."""
        if self.alpha is None:
            return OFOS()
        return {"fpor": FPOR, "frop": FROP}[self.kind](self.alpha)

    def __str__(self) -> str:
        return self.kind if self.alpha is None else f"{self.kind}{self.alpha:g}"


OFOS_TARGET = Target("ofos")
TARGETS = (
    *(Target(kind, alpha) for kind in ("fpor", "frop") for alpha in (0.9, 0.95, 0.99)),
    OFOS_TARGET,
)


@dataclass(frozen=True)
class Job:
    """One solver, one training, evaluated for one goal or, if it sees none, for all.

    Attributes
    ----------
    dataset, split : str
        Which rows; ``split`` is "paper" or "honest".
    three : bool
        Whether there is a validation part.
    trial : int
        From 0; decides split and starting weights.
    method, variant, configuration
        Which solver: a method, how it is trained, and the place in its grid.
    target : Target or None
        The goal that is trained for; None for methods that see none.
    scale : str
        How much work.
    """

    dataset: str
    split: str
    three: bool
    trial: int
    method: str
    variant: Variant
    configuration: int
    target: Target | None
    scale: str

    @property
    def name(self) -> str:
        """A file name that no other job has."""
        parts = (
            self.dataset,
            self.split,
            "3" if self.three else "2",
            f"trial{self.trial}",
            self.method,
            self.variant,
            str(self.configuration),
            str(self.target or "any"),
        )
        return "_".join(parts)

    @property
    def linear(self) -> bool:
        """Whether the model is linear."""
        return MODELS.get(self.dataset, "linear") == "linear"

    @property
    def solver(self) -> Solver:
        """The solver."""
        method, scale = METHODS[self.method], SCALES[self.scale]
        return method.solvers(self.variant, scale, self.linear)[self.configuration]

    @property
    def targets(self) -> tuple[Target, ...]:
        """The goals for which the result is evaluated."""
        return TARGETS if self.target is None else (self.target,)

    def to_dict(self) -> dict[str, Any]:
        """Return all fields, for JSON."""
        return asdict(self)


def jobs_of(
    method: Method,
    dataset: str,
    split: str,
    three: bool,
    trials: int,
    targets: tuple[Target, ...],
    scale: str,
) -> list[Job]:
    """Return the jobs behind a method's rows in a table."""
    linear = MODELS.get(dataset, "linear") == "linear"
    jobs = []
    for variant in method.variants:
        solvers = method.solvers(variant, SCALES[scale], linear)
        for target in targets if method.sees_goal else (None,):
            seen = set()
            for number, solver in enumerate(solvers):
                same = solver
                if target == OFOS_TARGET and isinstance(solver, Lagrangian):
                    # Without constraints there is no dual player, whatever its learning rate.
                    same = replace(solver, formulation="lagrangian", dual_scale=1.0)
                if same in seen:
                    continue
                seen.add(same)
                jobs += [
                    Job(dataset, split, three, t, method.name, variant, number, target, scale)
                    for t in range(trials)
                ]
    return jobs

"""Jobs, the smallest units of work: one solver trained once."""

from __future__ import annotations

from dataclasses import dataclass, replace

from setpoint.goals.goal import FPOR, FROP, OFOS, Goal
from setpoint.paper.competitors.lagrangian import Lagrangian
from setpoint.paper.methods import METHODS, SCALES, Method, Variant, model_of
from setpoint.training.loop import Solver

COUNTS = ("tp", "fp", "fn", "tn")


@dataclass(frozen=True)
class Target:
    """A goal by the paper's name: "fpor" or "frop" with a level alpha, or "ofos"."""

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
    """One training with one solver, evaluated for its goal or, without one, for all goals.

    Attributes
    ----------
    dataset, split : str
        The data set and how it is split: "paper" or "honest".
    three : bool
        Whether there are validation rows.
    trial : int
        From 0; the seed of split and starting weights.
    method, variant, configuration
        The solver: a method, how it is trained, and the index in its grid.
    target : Target or None
        The goal to train for; None for methods that do not see the goal.
    scale : str
        A key of ``SCALES``.
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
        """A unique file name."""
        subsets = "3" if self.three else "2"
        return (
            f"{self.dataset}_{self.split}_{subsets}_trial{self.trial}_{self.method}_{self.variant}_"
            f"{self.configuration}_{self.target or 'any'}"
        )

    @property
    def solver(self) -> Solver:
        """The solver."""
        linear = model_of(self.dataset) == "linear"
        solvers = METHODS[self.method].solvers(self.variant, SCALES[self.scale], linear)
        return solvers[self.configuration]

    @property
    def targets(self) -> tuple[Target, ...]:
        """The goals for which the result is evaluated."""
        return TARGETS if self.target is None else (self.target,)


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
    jobs = []
    for variant in method.variants:
        solvers = method.solvers(variant, SCALES[scale], model_of(dataset) == "linear")
        for target in targets if method.sees_goal else (None,):
            seen = set()
            for index, solver in enumerate(solvers):
                same = solver
                if target == OFOS_TARGET and isinstance(solver, Lagrangian):
                    # Without constraints there is no dual player, whatever its learning rate.
                    same = replace(solver, formulation="lagrangian", dual_scale=1.0)
                if same in seen:
                    continue
                seen.add(same)
                jobs += [
                    Job(dataset, split, three, t, method.name, variant, index, target, scale)
                    for t in range(trials)
                ]
    return jobs

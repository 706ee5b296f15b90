"""The methods of the comparison with their grids, and how much work each scale does.

Every competitor has two rows in a table: trained as in the paper, whose stopping rule leaves most
of them far from their minimum, and trained to convergence.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

from setpoint.paper.competitors.lagrangian import Augmented, Lagrangian
from setpoint.paper.competitors.losses import LDAM, Focal, Resampled, SigmoidF1, Tilted
from setpoint.training.lifted import Lifted
from setpoint.training.loop import Solver
from setpoint.training.loss_training import CrossEntropy, Loss, LossTraining
from setpoint.training.network_path import NETWORK_RIDGES
from setpoint.training.ordinary import RIDGES, Ordinary
from setpoint.training.projected import Projected

Model = Literal["linear", "mlp"]
Variant = Literal["paper", "converged"]
LARGE_BATCH = 2**14

MODELS: dict[str, Model] = {"creditcard": "mlp"}
"""The model for a data set, where it is not linear."""


def model_of(dataset: str) -> Model:
    """Return which model is trained on a data set."""
    return MODELS.get(dataset, "linear")


@dataclass(frozen=True)
class Scale:
    """How much work a reproduction does; methods, goals and tables are the same at every scale.

    Attributes
    ----------
    trials : int
        Number of random splits and starts.
    stand_ins : bool
        Whether small generated data replace the real data.
    configurations : int or None
        How many points of each grid are tried; None: all.
    steps : int
        Most steps of a competitor with the paper's stopping rule.
    subproblem_steps : int
        Most steps of a subproblem of Algorithm 1 as printed, with the same rule.
    rounds : int
        Length of a training to convergence. Linear models: this many times 50 steps of L-BFGS.
        Others: five times as many passes over the rows or, if the loss is not a mean over rows,
        this many times 100 steps on large batches, and at least ``steps``.
    lagrangian_steps : int
        Steps of the paper's TFCO; to convergence eight times as many, three times for models that
        are not linear.
    outer, inner : int
        Outer iterations of this package's solvers, and steps in each.
    """

    trials: int
    stand_ins: bool
    configurations: int | None
    steps: int
    subproblem_steps: int
    rounds: int
    lagrangian_steps: int
    outer: int
    inner: int | None


SCALES = {
    "smoke": Scale(
        trials=1,
        stand_ins=True,
        configurations=2,
        steps=10,
        subproblem_steps=10,
        rounds=1,
        lagrangian_steps=20,
        outer=2,
        inner=3,
    ),
    "small": Scale(
        trials=3,
        stand_ins=False,
        configurations=None,
        steps=3_000,
        subproblem_steps=500,
        rounds=10,
        lagrangian_steps=1_000,
        outer=50,
        inner=None,
    ),
}
SCALES["full"] = replace(
    SCALES["small"], trials=10, steps=30_000, subproblem_steps=30_000, rounds=40
)

Grid = Callable[[Variant, Scale, bool], list[Solver]]


@dataclass(frozen=True)
class Method:
    """One row of a table, or two.

    Attributes
    ----------
    name, label : str
        The name in commands and files; the label in tables.
    grid : callable
        ``grid(variant, scale, linear)`` returns the solvers to try.
    variants : tuple
        How it is trained.
    sees_goal : bool
        Whether training depends on the goal. If not, one training serves all goals.
    paper : str or None
        Its name in :mod:`setpoint.paper.paper_values`.
    ours : bool
        Whether it is one of this package's methods; their rows are shaded.
    selects : bool
        Whether some of the training rows are held out to select models and set the threshold.
    """

    name: str
    label: str
    grid: Grid
    variants: tuple[Variant, ...] = ("paper", "converged")
    sees_goal: bool = True
    paper: str | None = None
    ours: bool = False
    selects: bool = False

    def solvers(self, variant: Variant, scale: Scale, linear: bool) -> list[Solver]:
        """Return the grid, limited to the scale's number of configurations."""
        return self.grid(variant, scale, linear)[: scale.configurations]

    def label_of(self, variant: Variant) -> str:
        """Return the label of a row."""
        return f"{self.label}, converged" if variant == "converged" else self.label


# --- competitors that do not see the goal ---------------------------------------------------------


def _trainings(losses: list[Loss], variant: Variant, scale: Scale, linear: bool) -> list[Solver]:
    if variant == "paper":
        rounds = max(scale.steps // 1000, 1)
        steps = {"outer_iterations": rounds, "inner_iterations": scale.steps // rounds}
        return [LossTraining.paper(loss, **steps) for loss in losses]
    # The ridges of this package's own baseline, and as there the simplest model first.
    ridges = RIDGES if linear else (*NETWORK_RIDGES, 0.0)
    return [_converged(loss, ridge, scale, linear) for ridge in ridges for loss in losses]


def _converged(loss: Loss, ridge: float, scale: Scale, linear: bool) -> LossTraining:
    training = LossTraining(loss, ridge, outer_iterations=scale.rounds)
    if linear:
        return training
    if isinstance(loss, CrossEntropy | Focal | LDAM):
        return replace(training, outer_iterations=5 * scale.rounds)  # of Adam, on batches
    # These are not means over rows; a batch with three positives estimates them poorly.
    steps = max(scale.steps, 100 * scale.rounds)
    return replace(training, batch_size=LARGE_BATCH, inner_iterations=steps // scale.rounds)


def _of_losses(*losses: Loss, converged: tuple[Loss, ...] = ()) -> Grid:
    def grid(variant: Variant, scale: Scale, linear: bool) -> list[Solver]:
        chosen = list(converged or losses) if variant == "converged" else list(losses)
        return _trainings(chosen, variant, scale, linear)

    return grid


def _of_sampling(sampling: Literal["over", "under"]) -> Grid:
    def grid(variant: Variant, scale: Scale, linear: bool) -> list[Solver]:
        solvers = _trainings([CrossEntropy()], variant, scale, linear)
        return [Resampled(sampling, solver) for solver in solvers]

    return grid


# Lin et al., Table 1b: each gamma with its best alpha.
FOCAL = tuple(
    Focal(gamma, alpha)
    for gamma, alpha in (
        (2.0, 0.25), (0.5, 0.5), (1.0, 0.25), (5.0, 0.25), (0.1, 0.75), (0.2, 0.75), (0.0, 0.75),
    )
)  # fmt: skip
TILTS = (Tilted(1.0), Tilted(10.0, by_class=True), Tilted(0.1), Tilted(5.0), Tilted(10.0))
SIGMOIDS = tuple(SigmoidF1(t, b) for t in (1.0, 10.0, 20.0, 30.0) for b in (0.0, 1.0, 2.0))
MARGINS = (LDAM(scale=30.0), LDAM(scale=10.0), LDAM(scale=1.0))


# --- methods that see the goal --------------------------------------------------------------------


def _lagrangian(variant: Variant, scale: Scale, linear: bool) -> list[Solver]:
    if variant == "paper":
        return [
            Lagrangian(
                lr=lr,
                dual_scale=dual_scale,
                threshold="fixed",
                inner_iterations=_steps_per_round(scale),
            )
            for lr in (0.1, 0.01, 1.0, 0.001, 0.0001, 0.00001)
            for dual_scale in (1.0, 0.1, 10.0)
        ]
    longer = 8 if linear else 3
    games: tuple[tuple[Literal["sigmoid", "hinge"], float], ...]
    games = (("sigmoid", 0.1), ("hinge", 0.1), ("hinge", 0.3), ("hinge", 1.0))
    if not linear:
        games = (("sigmoid", 0.03), ("hinge", 0.01), ("hinge", 0.1))
    return [
        Lagrangian(
            formulation,
            proxy,
            lr=lr,
            dual_scale=dual_scale,
            inner_iterations=longer * _steps_per_round(scale),
        )
        for proxy, lr in games
        for dual_scale in ((1.0, 10.0) if proxy == "hinge" else (1.0,))
        for formulation in ("proxy_lagrangian", "lagrangian")
    ]


def _steps_per_round(scale: Scale) -> int:
    return max(scale.lagrangian_steps // Lagrangian.outer_iterations, 1)


def _printed(scale: Scale) -> Lifted:
    return Lifted.printed(outer_iterations=scale.outer, inner_iterations=scale.subproblem_steps)


def _preset(scale: Scale) -> Lifted:
    return Lifted(
        outer_iterations=scale.outer, inner_iterations=scale.inner or Lifted.inner_iterations
    )


def _augmented(variant: Variant, scale: Scale, linear: bool) -> list[Solver]:
    steps = scale.inner or Augmented.inner_iterations
    return [
        Augmented(lam0=lam0, start_s=start_s, outer_iterations=scale.outer, inner_iterations=steps)
        for start_s in ("random", "labels")
        for lam0 in (1.0, 10.0)
    ]


def _projected(**changes: float) -> Grid:
    def grid(variant: Variant, scale: Scale, linear: bool) -> list[Solver]:
        solver = Projected(**changes)  # type: ignore[arg-type]
        if scale.inner is not None:
            solver = replace(
                solver,
                outer_iterations=scale.outer,
                inner_iterations=scale.inner,
                restarts=1,
                line_search=0,
            )
        return [solver]

    return grid


def _ordinary(variant: Variant, scale: Scale, linear: bool) -> list[Solver]:
    return [Ordinary()]


def _of_lifted(base: Callable[[Scale], Lifted], **changes: object) -> Grid:
    def grid(variant: Variant, scale: Scale, linear: bool) -> list[Solver]:
        return [replace(base(scale), **changes)]  # type: ignore[arg-type]

    return grid


_ONE: tuple[Variant, ...] = ("paper",)
_NO_PSI = {"gamma0": 0.0, "gamma_max": 0.0}

COMPETITORS = (
    Method(
        "wce",
        "WCE",
        _of_losses(
            CrossEntropy(1.0), converged=(CrossEntropy(1.0), CrossEntropy(), CrossEntropy(0.5))
        ),
        sees_goal=False,
        paper="wce",
    ),
    Method("focal", "Focal", _of_losses(*FOCAL), sees_goal=False, paper="focal"),
    Method("ldam", "LDAM", _of_losses(*MARGINS), sees_goal=False, paper="ldam"),
    Method("term", "TERM", _of_losses(*TILTS), sees_goal=False, paper="term"),
    Method("sigmoidf1", "SigmoidF1", _of_losses(*SIGMOIDS), sees_goal=False, paper="sigmoidf1"),
    Method("ros", "ROS", _of_sampling("over"), sees_goal=False, paper="ros"),
    Method("rus", "RUS", _of_sampling("under"), sees_goal=False, paper="rus"),
    Method("tfco", "DMO+TFCO", _lagrangian, paper="tfco"),
    Method("alm", "DMO+ALM", _augmented, _ONE),
    Method("ordinary", "cross-entropy, selected", _ordinary, _ONE, selects=True),
)
OURS = (
    Method("printed", "DMO+ERO, as printed", _of_lifted(_printed), _ONE, paper="ero", ours=True),
    Method("lifted", "DMO+ERO, lifted", _of_lifted(_preset), _ONE, paper="ero", ours=True),
    Method("projected", "DMO+ERO, projected", _projected(), _ONE, paper="ero", ours=True),
    Method("default", "setpoint, default", _projected(), _ONE, ours=True, selects=True),
)
ABLATIONS = (
    *(
        Method(
            f"{name}-{preset}", f"{label}, {remark}", _of_lifted(base, **changes), _ONE, paper=name
        )
        for preset, base, remark in (
            ("printed", _printed, "as printed"),
            ("lifted", _preset, "lifted"),
        )
        for name, label, changes in (
            ("ssa", "SSA", {"form": "smooth"}),
            ("rcr", "RCR", _NO_PSI),
            ("eq", "EQ", {"form": "equality"}),
        )
    ),
    Method("rcr-projected", "RCR, projected", _projected(gamma=0.0), _ONE, paper="rcr"),
)

METHODS = {method.name: method for method in (*COMPETITORS, *OURS, *ABLATIONS)}

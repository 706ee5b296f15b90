"""Every method has a grid at every scale for every model, and supports the goals of its tables."""

import itertools
import re

import pytest
import torch

from setpoint.paper.competitors import Lagrangian, SigmoidF1
from setpoint.paper.jobs import TARGETS
from setpoint.paper.methods import COMPETITORS, METHODS, MODELS, OURS, SCALES
from setpoint.paper.tables import TABLES
from setpoint.training import LossTraining, make_problem
from setpoint.training.models import build
from setpoint.training.ordinary import RIDGES

ROWS = [(method, variant) for method in METHODS.values() for variant in method.variants]
EVERYWHERE = [(scale, linear) for scale in SCALES for linear in (True, False)]


def test_every_method_has_a_grid_without_repeats():
    for scale, linear in EVERYWHERE:
        for method, variant in ROWS:
            texts = [repr(s) for s in method.solvers(variant, SCALES[scale], linear)]
            assert texts, (method.name, variant)
            assert len(texts) == len(set(texts)), (method.name, variant)
            # Finished results are known by these texts: no addresses, the same every time.
            assert not any(re.search("0x|object at|<", text) for text in texts), texts
            assert texts == [repr(s) for s in method.solvers(variant, SCALES[scale], linear)]


def test_only_the_smoke_scale_cuts_grids_and_it_keeps_their_beginning():
    for method, variant in ROWS:
        for linear in (True, False):
            grids = {s: method.grid(variant, SCALES[s], linear) for s in SCALES}
            cut = {s: method.solvers(variant, SCALES[s], linear) for s in SCALES}
            assert len(cut["smoke"]) == min(2, len(grids["smoke"]))
            assert cut["smoke"] == grids["smoke"][:2]
            assert cut["small"] == grids["small"]
            assert cut["full"] == grids["full"]
            assert len(grids["smoke"]) == len(grids["small"]) == len(grids["full"])


@pytest.mark.parametrize("table", TABLES.values(), ids=TABLES)
def test_every_solver_accepts_the_goals_and_models_of_its_tables(table):
    """Otherwise a grid would fail on another machine, hours later."""
    X = torch.randn(12, 3)
    y = torch.arange(12) % 3 == 0
    models = {MODELS.get(dataset, "linear") for dataset in table.datasets}
    for method, name in itertools.product(table.methods, models):
        for variant in method.variants:
            for solver in method.solvers(variant, SCALES["full"], name == "linear"):
                for target in table.targets if method.sees_goal else TARGETS:
                    run = solver.prepare(make_problem(X, y, target.goal), build(name, 3))
                    assert callable(run.advance)


@pytest.mark.parametrize("scale", ["small", "full"])
def test_the_papers_grids(scale):
    def grid(name, variant="paper"):
        return METHODS[name].solvers(variant, SCALES[scale], True)

    rates = itertools.product((0.1, 0.01, 0.001, 0.0001, 0.00001, 1.0), (0.1, 1.0, 10.0))
    assert {(s.lr, s.dual_scale) for s in grid("tfco")} == set(rates)
    assert len(grid("tfco")) == 18
    assert all(isinstance(s, Lagrangian) and s.threshold == "fixed" for s in grid("tfco"))

    losses = [SigmoidF1(t, b) for t in (1.0, 10.0, 20.0, 30.0) for b in (0.0, 1.0, 2.0)]
    assert [s.loss for s in grid("sigmoidf1")] == losses
    assert {s.loss for s in grid("sigmoidf1", "converged")} == set(losses)

    assert len(grid("wce")) == 1
    assert grid("wce")[0].loss.balance == 1.0
    assert {s.loss.gamma for s in grid("focal")} == {0.0, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0}
    for name in ("wce", "ros", "rus", "focal", "ldam", "term", "sigmoidf1"):
        ridges = [getattr(s, "solver", s).l2 for s in grid(name, "converged")]
        # As wide a choice as our own baseline has; the first, which wins ties, the simplest.
        assert tuple(dict.fromkeys(ridges)) == RIDGES
        assert len(ridges) >= len(RIDGES) * len(grid(name))


def test_the_papers_trainings_take_the_scales_steps_and_its_stopping_rule():
    for scale in SCALES:
        size = SCALES[scale]
        for method in COMPETITORS:
            for solver in method.solvers("paper", size, True):
                solver = getattr(solver, "solver", solver)
                if isinstance(solver, LossTraining):
                    assert solver.outer_iterations * solver.inner_iterations == size.steps
                    assert (solver.patience, solver.batch_size, solver.l2) == (10, None, 0.0)
                    assert (solver.optimizer, solver.threshold) == ("adam", "fixed")
                elif isinstance(solver, Lagrangian):
                    assert (
                        solver.outer_iterations * solver.inner_iterations == size.lagrangian_steps
                    )
        (printed,) = METHODS["printed"].solvers("paper", size, True)
        assert printed.inner_iterations == size.subproblem_steps
        assert (printed.patience, printed.start, printed.threshold) == (10, "random", "fixed")
        for name in ("printed", "ssa-printed", "rcr-printed", "eq-printed"):
            (solver,) = METHODS[name].solvers("paper", size, True)
            limit = 0.0 if name == "rcr-printed" else 10.0
            assert (solver.scaling, solver.gamma_max) == ("paper", limit)


def test_the_sampling_methods_differ_in_their_sampling_alone():
    for variant in ("paper", "converged"):
        over, under = (METHODS[n].solvers(variant, SCALES["full"], True) for n in ("ros", "rus"))
        assert {s.sampling for s in over} == {"over"}
        assert {s.sampling for s in under} == {"under"}
        assert [s.solver for s in over] == [s.solver for s in under]


def test_the_default_is_the_projected_solver_with_selection_rows():
    for scale in SCALES.values():
        assert METHODS["default"].solvers("paper", scale, True) == METHODS[
            "projected"
        ].solvers("paper", scale, True)  # fmt: skip
    assert [m.name for m in METHODS.values() if m.selects] == ["ordinary", "default"]
    assert METHODS["default"].sees_goal  # what selects must know for what
    assert METHODS["ordinary"].sees_goal


def test_nothing_is_trained_to_convergence_for_less_long_than_with_the_papers_rule():
    def steps(solver):
        solver = getattr(solver, "solver", solver)
        return solver.outer_iterations * solver.inner_iterations

    for size in SCALES.values():
        for method in COMPETITORS:
            if "converged" not in method.variants:
                continue
            for solver in method.solvers("converged", size, False):
                if getattr(getattr(solver, "solver", solver), "batch_size", None) is None:
                    longest = max(steps(s) for s in method.solvers("paper", size, False))
                    assert steps(solver) >= longest, (method.name, solver)


def test_names_are_unique_and_labels_too_within_a_table():
    names = [m.name for m in (*COMPETITORS, *OURS)]
    assert len(names) == len(set(names))
    assert all(METHODS[name].name == name for name in METHODS)
    for table in TABLES.values():
        labels = [m.label_of(v) for m in table.methods for v in m.variants]
        assert len(labels) == len(set(labels)), table.name
        own = [m.name for m in table.methods]
        assert len(own) == len(set(own))


def test_every_table_has_both_of_our_solvers_and_every_one_but_the_ablations_the_default():
    for table in TABLES.values():
        own = {m.name for m in table.methods if m.ours}
        assert {"printed", "lifted", "projected"} <= own, table.name
        # An ablation is about what training reaches on its rows; the default keeps some back.
        assert ("default" in own) == (not table.name.startswith("ablation")), table.name
        if not table.name.startswith("ablation"):
            assert {m.name for m in COMPETITORS} <= {m.name for m in table.methods}


def test_every_competitor_of_the_paper_is_trained_in_both_ways():
    for method in COMPETITORS:
        if method.paper is not None:
            assert method.variants == ("paper", "converged")
            assert method.label_of("paper") != method.label_of("converged")

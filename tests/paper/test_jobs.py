"""Jobs: each training once, under a unique name."""

import json
import re
from collections import Counter
from dataclasses import asdict

import torch

from setpoint.goals.goal import FPOR, FROP, OFOS
from setpoint.paper.datasets import stand_in
from setpoint.paper.jobs import OFOS_TARGET, TARGETS, Job, Target, jobs_of
from setpoint.paper.methods import METHODS, SCALES
from setpoint.paper.tables import TABLES, all_jobs
from setpoint.training import make_problem, solve
from setpoint.training.models import linear, scores_of

EVERY = tuple(TABLES.values())
DATA = ("creditcard", "ade", "eyepacs", "ade-bert", "eyepacs-dinov2", "mura-dinov2")


def of(method, targets=TARGETS, dataset="ade", scale="full", trials=1, three=False):
    return jobs_of(METHODS[method], dataset, "honest", three, trials, tuple(targets), scale)


def test_names_are_unique_over_all_tables_splits_and_data():
    for scale in SCALES:
        jobs = [
            job
            for split in ("honest", "paper")
            for job in all_jobs(EVERY, scale, split, DATA, trials=2)
        ]
        names = Counter(job.name for job in jobs)
        assert len(jobs) > 1000
        assert set(names.values()) == {1}
        assert len({name.lower() for name in names}) == len(names)  # for file systems without case


def test_names_are_names_of_files_everywhere():
    for job in all_jobs(EVERY, "full", "honest", DATA):
        assert re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.\-]*[A-Za-z0-9]", job.name), job.name
        assert len(f"{job.name}.json.1234567") < 120


def test_a_name_contains_everything_but_the_scale():
    job = Job("ade", "honest", True, 3, "tfco", "converged", 7, Target("frop", 0.95), "full")
    assert job.name == "ade_honest_3_trial3_tfco_converged_7_frop0.95"
    blind = Job("ade", "paper", False, 0, "wce", "paper", 0, None, "smoke")
    assert blind.name == "ade_paper_2_trial0_wce_paper_0_any"
    everything = Job("ade", "honest", False, 0, "default", "paper", 0, OFOS_TARGET, "small")
    assert everything.name == "ade_honest_2_trial0_default_paper_0_ofos"


def test_targets_are_the_papers_goals():
    assert [str(t) for t in TARGETS] == [
        "fpor0.9", "fpor0.95", "fpor0.99", "frop0.9", "frop0.95", "frop0.99", "ofos",
    ]  # fmt: skip
    assert Target("fpor", 0.95).goal == FPOR(0.95)
    assert Target("frop", 0.99).goal == FROP(0.99)
    assert OFOS_TARGET.goal == OFOS()


def test_a_method_that_does_not_see_the_goal_is_trained_once_for_all_goals():
    for method in ("wce", "focal", "ldam", "term", "sigmoidf1", "ros", "rus"):
        once, all_goals = of(method, TARGETS[:1]), of(method, TARGETS)
        assert once == all_goals
        assert {job.target for job in once} == {None}
        assert all(job.targets == TARGETS for job in once)


def test_tables_share_their_jobs():
    def names(*tables):
        return {job.name for job in all_jobs(tuple(TABLES[t] for t in tables), "full", "honest")}

    # Goal-blind trainings of the main tables serve the stricter levels as well.
    alone, both = names("fpor"), names("fpor", "fpor-alpha")
    assert alone < both
    assert not any("_wce_" in name for name in both - alone)
    # The ablations' full methods are those of the main table.
    assert {n for n in names("ablation-fpor") if "_printed_paper_" in n} <= alone
    # With a validation part the training rows are fewer: nothing is shared.
    assert not names("fpor", "fpor-alpha") & names("three-split-fpor")


def test_a_method_that_sees_the_goal_is_trained_for_each_and_each_trial():
    jobs = of("lifted", trials=3)
    assert len(jobs) == 3 * len(TARGETS)
    assert {(job.target, job.trial) for job in jobs} == {(t, k) for t in TARGETS for k in range(3)}
    assert all(job.targets == (job.target,) for job in jobs)


def test_without_constraints_tfco_is_not_repeated_over_its_dual_player():
    """Without constraints there is no dual player, whatever its rate or its formulation."""
    constrained, free = of("tfco", TARGETS[:1]), of("tfco", [OFOS_TARGET])
    count = Counter(job.variant for job in constrained)
    assert count == {"paper": 18, "converged": 14}
    assert Counter(job.variant for job in free) == {"paper": 6, "converged": 4}
    assert len({job.solver.lr for job in free if job.variant == "paper"}) == 6
    kept = [job.solver for job in free if job.variant == "converged"]
    assert [(s.proxy, s.lr) for s in kept] == [
        ("sigmoid", 0.1), ("hinge", 0.1), ("hinge", 0.3), ("hinge", 1.0),
    ]  # fmt: skip


def test_configurations_left_out_without_constraints_are_equal():
    """The reason for leaving it out, tried on real trainings."""
    dataset = stand_in("ade")
    problem = make_problem(torch.from_numpy(dataset.X), torch.from_numpy(dataset.y), OFOS())

    def scores(solver):
        module = linear(dataset.X.shape[1])
        solve(problem, module, solver)
        return scores_of(module, problem.X)

    games = METHODS["tfco"].grid("converged", SCALES["smoke"], True)
    assert (games[0].formulation, games[1].formulation) == ("proxy_lagrangian", "lagrangian")
    assert torch.equal(scores(games[0]), scores(games[1]))
    assert games[2].dual_scale != games[4].dual_scale
    assert torch.equal(scores(games[2]), scores(games[4]))
    assert not torch.equal(scores(games[2]), scores(games[6]))  # another learning rate
    printed = METHODS["tfco"].grid("paper", SCALES["smoke"], True)
    assert printed[0].dual_scale != printed[1].dual_scale
    assert torch.equal(scores(printed[0]), scores(printed[1]))


def test_the_job_finds_its_solver_in_the_grid_of_its_model():
    for job in all_jobs((TABLES["ofos"],), "full", "honest", trials=1):
        linear = job.dataset != "creditcard"
        grid = METHODS[job.method].solvers(job.variant, SCALES["full"], linear)
        assert job.solver == grid[job.configuration]


def test_a_job_survives_json():
    for job in (*of("tfco"), *of("wce")):
        fields = json.loads(json.dumps(asdict(job)))
        target = fields.pop("target")
        assert Job(**fields, target=None if target is None else Target(**target)) == job


def test_a_table_takes_of_the_data_sets_asked_for_those_it_is_about():
    for table, asked, chosen in (
        ("fpor", (), ("creditcard", "ade", "eyepacs")),
        ("fpor", ("eyepacs",), ("eyepacs",)),
        ("fpor", ("eyepacs", "ade"), ("eyepacs", "ade")),  # in the order asked for
        ("fpor", ("mura-dinov2", "ade-bert"), ("mura-dinov2", "ade-bert")),
        ("fpor-alpha", (), ("ade", "eyepacs")),
        ("fpor-alpha", ("creditcard", "ade"), ("ade",)),
        ("fpor-alpha", ("creditcard",), ()),  # not its own instead
        ("ablation-frop", ("eyepacs-dinov2",), ("eyepacs-dinov2",)),
        ("three-split-fpor", ("creditcard", "mura-dinov2"), ("mura-dinov2",)),
    ):
        assert TABLES[table].chosen(asked) == chosen
        jobs = all_jobs((TABLES[table],), "smoke", "honest", asked)
        assert tuple(dict.fromkeys(job.dataset for job in jobs)) == chosen


def test_all_jobs_can_be_cut_to_methods_and_trials():
    jobs = all_jobs((TABLES["fpor"],), "full", "honest", ("ade",), methods=("wce", "default"))
    assert {job.method for job in jobs} == {"wce", "default"}
    assert {job.trial for job in jobs} == set(range(10))
    jobs = all_jobs((TABLES["fpor"],), "full", "honest", ("ade",), 2, ("default",))
    assert [job.trial for job in jobs] == [0, 1]
    assert {job.split for job in all_jobs((TABLES["fpor"],), "smoke", "paper")} == {"paper"}
    assert {job.three for job in all_jobs((TABLES["three-split-frop"],), "smoke", "paper")} == {
        True
    }

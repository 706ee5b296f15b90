"""Which of several models is chosen, and how they are listed."""

import math

import pytest

from setpoint import Goal, OperatingPoint
from setpoint.training.model_candidates import ModelCandidate, ModelCandidates

GOAL = "max recall s.t. precision >= 0.5"


def point(tp=5, fp=1, goal=GOAL):
    return OperatingPoint(0.0, tp, fp, 10 - tp, 90 - fp, Goal.parse(goal), "the held-out rows")


def candidate(name, behind=0.0, error=0.0, loss=0.0, loss_error=0.0, **others):
    fields = {"average": 0.8 - behind, "log_loss": 0.1 + loss}
    return ModelCandidate(
        name, point(), behind=behind, error=error, log_loss_behind=loss, log_loss_error=loss_error,
        **fields | others,
    )  # fmt: skip


def chosen(*candidates):
    return ModelCandidates(candidates).winner.name


def test_the_simplest_within_one_standard_error_is_chosen():
    best = candidate("trees")
    assert chosen(candidate("line", 0.02, 0.03), best) == "line"
    assert chosen(candidate("line", 0.03, 0.03), best) == "line"
    assert chosen(candidate("line", 0.031, 0.03), best) == "trees"
    assert chosen(candidate("line", 0.05, 0.03), candidate("few", 0.01, 0.02), best) == "few"


def test_a_simpler_model_must_be_close_in_loss_as_well():
    best = candidate("trees")
    assert chosen(candidate("line", 0.02, 0.03, loss=0.02, loss_error=0.01), best) == "trees"
    assert chosen(candidate("line", 0.02, 0.03, loss=0.01, loss_error=0.02), best) == "line"


def test_if_none_is_close_in_both_the_best_for_the_goal_is_chosen():
    found = [
        candidate("line", 0.2, 0.1),
        candidate("trees", 0.0, 0.0, loss=0.2, loss_error=0.1),
        candidate("stack", 0.2, 0.1),
    ]
    assert chosen(*found) == "trees"


def test_models_that_were_not_fitted_are_listed_and_never_chosen():
    missing = ModelCandidate("line", None, note="not fitted: over the time limit of 3 s")
    found = ModelCandidates([missing, candidate("trees")])
    assert found.winner.name == "trees"
    assert found.table()[1] == ["line", *["–"] * 5, "not fitted: over the time limit of 3 s"]
    assert "★ chosen" in found.table()[2][-1]
    line, trees = found.to_dict()
    assert (line["chosen"], line["operating_point"], line["behind"]) == (False, None, None)
    assert trees["chosen"]


def test_the_table_says_which_goals_are_missed():
    poor = ModelCandidate("line", point(1, 9), 0.0, 0.9, 0.1, 0.2, 0.1, 0.01)
    found = ModelCandidates([poor, candidate("trees", seconds=1.26)])
    assert "✗ goal not met" in found.table()[1][-1]
    assert found.table()[2][-2] == "1.3"
    assert str(found).splitlines()[0] == f"'{GOAL}' on the held-out rows"
    assert repr(found) == str(found)
    assert "trees was chosen" in found._repr_html_()


def test_it_is_a_sequence():
    found = ModelCandidates([candidate("a"), candidate("b")])
    assert len(found) == 2
    assert [c.name for c in found] == ["a", "b"] == [c.name for c in found[:]]
    assert found == ModelCandidates([candidate("a"), candidate("b")])
    assert found != ModelCandidates([candidate("b"), candidate("a")])
    with pytest.raises(TypeError):
        hash(found)
    assert math.isnan(ModelCandidate("a", None).average)

"""Checkpoints of earlier versions, and former names of parameters."""

from dataclasses import replace

import pytest
import torch
from problems import TALLIED, overlapping, tallied

import setpoint.training
from setpoint.training import Lifted, Projected, Stochastic, TrainedModel, solve
from setpoint.training.models import build

SHORT = Projected(outer_iterations=3, inner_iterations=5, restarts=1, line_search=0)


def train(**given):
    return solve(overlapping("max f1"), build("linear", 3).double(), SHORT, **given)


def test_an_unfinished_run_of_an_earlier_version_continues(tmp_path):
    """There, proximity was called nearness: in the solver's text and in names of models."""
    file = tmp_path / "run.pt"
    train(checkpoint=file, callback=lambda record, _: "stop" if record.iteration == 1 else None)
    content = torch.load(file, weights_only=True)
    assert not content["finished"]
    assert "nearness" in content["run"]  # the key of the format
    old = {"solver": content["solver"].replace("proximity=", "nearness=")}
    old["run"] = {**content["run"], "names": [_old(n) for n in content["run"]["names"]]}
    old["candidates"] = [(_old(name), *rest) for name, *rest in content["candidates"]]
    assert old["run"]["names"] != content["run"]["names"]
    torch.save({**content, **old}, file)
    continued, whole = train(checkpoint=file), train()
    assert continued.operating_point == whole.operating_point
    assert continued.history == whole.history
    assert continued.candidates == whole.candidates


@pytest.mark.parametrize("stop_at", [0, 2])
def test_candidates_of_an_earlier_version_have_no_averages(tmp_path, stop_at):
    file = tmp_path / "run.pt"
    problem = replace(overlapping("max f1"), validation=overlapping("max f1", seed=1))

    def fit(**given):
        return solve(problem, build("linear", 3).double(), SHORT, checkpoint=file, **given)

    first = fit(callback=lambda record, _: "stop" if record.iteration == stop_at else None)
    assert first.candidates.winner.average is not None
    content = torch.load(file, weights_only=True)
    assert [c[4] for c in content["candidates"]] == [c.average for c in first.candidates]
    content["candidates"] = [c[:4] for c in content["candidates"]]
    torch.save(content, file)
    continued = fit()
    assert not continued.history.interrupted
    old = [c for c in continued.candidates if c.iteration <= stop_at]
    assert old
    assert all(c.average is None for c in old)
    assert any(c.average is not None for c in continued.candidates if c.iteration > stop_at)


def test_averages_survive_an_interruption(tmp_path):
    file = tmp_path / "run.pt"
    problem = replace(overlapping("max f1"), validation=overlapping("max f1", seed=1))

    def fit(**given):
        return solve(problem, build("linear", 3).double(), SHORT, **given)

    fit(checkpoint=file, callback=lambda record, _: "stop" if record.iteration == 1 else None)
    continued, whole = fit(checkpoint=file), fit()
    assert continued.candidates == whole.candidates
    assert any(c.average is not None for c in whole.candidates if c.iteration == 0)


@pytest.mark.parametrize("solver", [SHORT, Lifted(outer_iterations=3, inner_iterations=5)])
@pytest.mark.parametrize("goal", [TALLIED[0], TALLIED[5]])
def test_points_of_goals_with_several_tallies_survive_an_interruption(tmp_path, goal, solver):
    file = tmp_path / "run.pt"
    problem = replace(tallied(goal), validation=tallied(goal, seed=1, days=6))

    def fit(**given):
        return solve(problem, build("linear", 3).double(), solver, **given)

    fit(checkpoint=file, callback=lambda record, _: "stop" if record.iteration == 1 else None)
    continued, whole = fit(checkpoint=file), fit()
    assert continued.operating_point == whole.operating_point
    assert continued.candidates == whole.candidates
    assert continued.operating_point.tallied


def _old(name):
    return name.replace("; proximity ", "; nearness ")


@pytest.mark.parametrize("solver", [Projected, Stochastic])
def test_the_former_name_of_proximity_is_accepted(solver):
    with pytest.warns(DeprecationWarning, match="nearness is deprecated; it is now proximity"):
        given = solver(nearness=(0.5,))
    assert given == solver(proximity=(0.5,))
    with pytest.warns(DeprecationWarning, match="proximity"):
        assert replace(solver(), nearness=(0.5,)) == given
    with pytest.warns(DeprecationWarning, match="proximity"):
        assert given.nearness == (0.5,)
    assert "nearness" not in repr(given)


def test_the_former_name_of_trained_models_is_accepted():
    with pytest.warns(DeprecationWarning, match="now called TrainedModel"):
        assert setpoint.training.Contender is TrainedModel

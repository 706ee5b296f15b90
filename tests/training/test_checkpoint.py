"""Checkpoints of earlier versions, and former names of parameters."""

from dataclasses import replace

import pytest
import torch
from problems import overlapping

import setpoint.training
from setpoint.training import Projected, Stochastic, TrainedModel, solve
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

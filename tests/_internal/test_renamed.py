"""Former names and parameters, which warn."""

import pytest
import torch

import setpoint.data
import setpoint.errors
import setpoint.tables
from setpoint._internal.renamed import renamed_parameters
from setpoint.data import ByChance, LoaderRows
from setpoint.goals.goal import Goal
from setpoint.training import StreamProblem, train


@pytest.mark.parametrize(
    ("module", "former", "today"),
    [
        (setpoint.errors, "PartsError", setpoint.errors.SplitError),
        (setpoint.tables, "Parts", setpoint.data.Split),
        (setpoint.tables, "part_rows", setpoint.data.split_rows),
    ],
)
def test_former_names_warn(module, former, today):
    with pytest.warns(DeprecationWarning, match=f"{former} is deprecated; it is now"):
        assert getattr(module, former) is today
    with pytest.raises(AttributeError, match="no_such_name"):
        module.no_such_name  # noqa: B018


def test_former_parameters_warn():
    @renamed_parameters(old="new")
    def twice(new):
        return 2 * new

    assert twice(3) == twice(new=3) == 6
    with pytest.warns(DeprecationWarning, match="parameter old is deprecated; it is now new") as w:
        assert twice(old=3) == 6
    assert w[0].filename == __file__
    with (
        pytest.warns(DeprecationWarning, match="old"),
        pytest.raises(TypeError, match="new is given twice, also as old"),
    ):
        twice(old=3, new=3)


def test_a_split_may_be_called_parting():
    generator = torch.Generator().manual_seed(0)
    X = torch.randn(200, 2, generator=generator)
    rows, split = LoaderRows([(X, X[:, 0] > 1)]), ByChance(validation=0.3)
    goal = Goal.parse("max f1")
    with pytest.warns(DeprecationWarning, match="parting"):
        assert StreamProblem(rows, goal, parting=split) == StreamProblem(rows, goal, split)
    with pytest.warns(DeprecationWarning, match="parting"):
        solution = train(torch.nn.Linear(2, 1), rows, goal, parting=split)
    assert solution.operating_point.on == "the validation data"

import copy
import pickle

import numpy as np
import pytest
import torch

from forked import run_script, run_together
from setpoint import (
    ExactPenalty,
    Goal,
    GoalError,
    Metric,
    choose_threshold,
    define_metric,
    metric_names,
)
from setpoint.goals.metrics import metric


def profit_value(tp, fp, P, N):
    return (50 * tp - fp) / (50 * P)


@pytest.fixture
def profit():
    return define_metric("profit", profit_value, bounds=(-1e9, 1.0))


def test_custom_metric_is_part_of_the_language(profit):
    assert metric("profit") is profit
    assert "profit" in metric_names()
    assert profit.d_tp(3.0, 2.0, 5.0, 9.0) == pytest.approx(1 / 5)
    assert profit.d_fp(3.0, 0.0, 5.0, 9.0) == pytest.approx(-1 / 250)  # at the edge of the domain


def test_custom_metric_can_be_unpickled_in_another_process(tmp_path):
    """A process that has not defined the metric: the pickle contains its functions."""
    (tmp_path / "mine.py").write_text("def gain(tp, fp, P, N):\n    return tp / P - fp / N\n")
    here = f"import os, sys; os.chdir({str(tmp_path)!r}); sys.path.insert(0, {str(tmp_path)!r}); "
    write = (
        "import pickle, mine; from setpoint import Goal, define_metric; "
        "define_metric('gain', mine.gain, bounds=(-1, 1)); "
        "pickle.dump(Goal.parse('max gain s.t. recall >= 0.5'), open('goal.pkl', 'wb'))"
    )
    read = (
        "import pickle; goal = pickle.load(open('goal.pkl', 'rb')); "
        "from setpoint import Goal; assert Goal.parse(str(goal)) == goal; "
        "print(goal.objective.value(4.0, 1.0, 8.0, 4.0))"
    )
    for name, code in (("write", write), ("read", read)):
        script = tmp_path / f"{name}.py"
        script.write_text(here + code)
        codes = run_together(run_script, [(script, [], {}, tmp_path, name)])
        assert codes == [0], (tmp_path / f"{name}.err").read_text()
    assert (tmp_path / "read.out").read_text().strip() == "0.25"


def test_equal_metrics_have_equal_functions_and_not_only_equal_names(profit):
    before = Goal.parse("max profit")
    after = define_metric("profit", lambda tp, fp, P, N: tp / P)
    assert Goal.parse("max profit") != before
    assert before.objective.value(0.0, 5.0, 5.0, 9.0) < 0 == after.value(0.0, 5.0, 5.0, 9.0)
    assert copy.deepcopy(before).objective is profit
    assert pickle.loads(pickle.dumps(before)) == before
    assert Metric("recall", _value, _value, _value) != metric("recall")


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (lambda tp, fp, P, N: tp / (tp + fp), "value is nan at TP=0, FP=0"),
        (lambda tp, fp, P, N: np.divide(tp, tp + fp), "value is nan at TP=0, FP=0"),
        (lambda tp, fp, P, N: 1.0 if tp > fp else 0.0, "does not accept numpy arrays"),
        (lambda tp, fp, P, N: tp - fp, "outside its bounds"),
        (lambda tp, fp, P, N: None, "value fails at TP=0, FP=0"),
    ],
)
def test_custom_metric_must_be_a_number_everywhere(value, expected):
    with pytest.raises(GoalError, match=expected):
        define_metric("broken", value)
    with pytest.raises(GoalError, match="unknown metric 'broken'"):
        metric("broken")


def test_zero_over_zero_may_be_replaced_by_numpy_where():
    """The remedy in the error message works: in the definition, the sweep and training."""
    define_metric("chosen", lambda tp, fp, P, N: np.where(tp + fp > 0, tp / (tp + fp), 1.0))
    y, scores = [0, 1, 1, 0], [1, 2, 3, 4]
    assert choose_threshold(y, scores, "max chosen s.t. recall >= 0.5").value("chosen") == 2 / 3
    penalty = ExactPenalty("max chosen", torch.tensor(y))
    with torch.no_grad():
        penalty.s.zero_()
    assert torch.isfinite(penalty(torch.zeros(4)))


def test_a_constant_is_a_metric():
    assert define_metric("half", lambda tp, fp, P, N: 0.5).monotone


def test_custom_metric_must_be_monotone_if_declared_so():
    with pytest.raises(GoalError, match=r"not monotone: at TP=0.*worse.*monotone=False"):
        define_metric("negated", lambda tp, fp, P, N: 1 - tp / P)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("recall",), "taken"),
        (("tpr",), "taken"),
        (("and",), "word of the goal language"),
        (("Not A Name",), "lower-case"),
    ],
)
def test_custom_metric_needs_a_free_name(arguments, expected):
    with pytest.raises(GoalError, match=expected):
        define_metric(*arguments, lambda tp, fp, P, N: tp / P)


def test_custom_metric_needs_bounds_and_direction():
    with pytest.raises(GoalError, match="not in order"):
        define_metric("odd", lambda tp, fp, P, N: tp / P, bounds=(1.0, 0.0))
    with pytest.raises(GoalError, match="'max' or 'min'"):
        define_metric("odd", lambda tp, fp, P, N: tp / P, direction="up")


def _value(tp, fp, P, N):
    return tp / P


def test_unregistered_metric_pickles_by_its_functions():
    own = Metric("mine", _value, _value, _value)
    assert pickle.loads(pickle.dumps(own)) == own

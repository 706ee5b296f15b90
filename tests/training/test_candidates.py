import pytest
from hypothesis import given
from hypothesis import strategies as st

from setpoint import Goal, OperatingPoint
from setpoint.training.candidates import Candidate, Candidates, Selection, TrainedModel


def point(tp, fp, goal="max recall s.t. precision >= 0.5"):
    return OperatingPoint(0.0, tp, fp, 10 - tp, 90 - fp, Goal.parse(goal), "the validation rows")


def test_each_name_keeps_its_best_and_ties_keep_the_simpler():
    candidates = Candidates()
    candidates.see(TrainedModel("a", point(3, 1), {}), 0)
    candidates.see(TrainedModel("b", point(5, 2), {}, "a"), 1)
    candidates.see(TrainedModel("b", point(4, 1), {}, "a"), 2)
    candidates.see(TrainedModel("c", point(5, 2), {}, "a"), 2)
    assert [(c.name, c.point.tp, c.iteration, c.start) for c in candidates] == [
        ("a", 3, 0, None), ("b", 5, 1, "a"), ("c", 5, 2, "a"),
    ]  # fmt: skip
    assert candidates.winner.name == "b"  # c is no better


def test_of_equal_objectives_the_one_with_fewer_false_alarms_is_better():
    candidates = Candidates([Candidate("a", point(5, 4), 0), Candidate("b", point(5, 1), 0)])
    assert candidates.winner.name == "b"


def test_in_files_of_earlier_versions_goal_training_must_win_by_a_margin():
    ordinary, better = Candidate("a", point(5, 1), 0), Candidate("b", point(6, 1), 3, "a")
    assert 0.1 < ordinary.point.standard_error < 0.2
    assert Candidates([ordinary, better]).winner is better
    assert Candidates([ordinary, better], margin=1.0).winner is ordinary
    much_better = Candidate("c", point(8, 1), 3, "a")
    assert Candidates([ordinary, better, much_better], margin=1.0).winner is much_better
    infeasible = Candidate("d", point(5, 50), 0)  # then meeting the goal is enough
    assert Candidates([infeasible, better], margin=1.0).winner is better


def test_a_goal_that_is_met_beats_a_better_objective():
    candidates = Candidates([Candidate("met", point(3, 1), 0), Candidate("not", point(9, 50), 0)])
    assert candidates.winner.name == "met"


def test_the_table_marks_the_winner_and_infeasible_candidates():
    candidates = Candidates([Candidate("met", point(3, 1), 0), Candidate("not", point(9, 50), 4)])
    lines = str(candidates).splitlines()
    assert lines[0] == "'max recall s.t. precision >= 0.5' on the validation rows"
    assert lines[1].split() == ["candidate", "recall", "precision", "iteration"]
    assert lines[2].split() == ["met", "0.300", "0.750", "0", "★", "chosen"]
    assert lines[3].split()[:4] == ["not", "0.900", "0.153", "4"]
    assert lines[3].endswith("goal not met")
    assert str(Candidates()) == "no candidates"


def test_candidates_are_a_sequence():
    one, two = Candidate("a", point(3, 1), 0), Candidate("b", point(4, 1), 0)
    candidates = Candidates([one, two])
    assert len(candidates) == 2
    assert candidates[-1] is two
    assert candidates[:1] == [one]
    assert candidates == Candidates([one, two])
    assert candidates != Candidates([two])


# --- averages -------------------------------------------------------------------------------------


def test_candidates_are_compared_by_their_averages_before_their_points():
    low, high = point(5, 1), point(6, 1)
    assert Candidate("a", low, 0, average=0.7).sort_key == (0.0, 0.7, 0.5, 5.0, -1.0)
    assert Candidate("a", low, 0).sort_key == (0.0, 0.5, 0.5, 5.0, -1.0)
    candidates = Candidates([Candidate("a", high, 0, None, 0.5), Candidate("b", low, 0, None, 0.7)])
    assert candidates.winner.name == "b"
    infeasible = Candidate("c", point(9, 50), 0, None, 0.99)
    assert Candidates([*candidates, infeasible]).winner.name == "b"


def test_of_equal_averages_the_better_point_wins_and_then_the_simpler_model():
    a, b, c = (Candidate(n, point(tp, 1), 0, None, 0.7) for n, tp in (("a", 5), ("b", 6), ("c", 6)))
    assert Candidates([a, b, c]).winner is b
    assert Candidates([a, c, b]).winner is c


def test_a_name_keeps_the_model_with_the_best_average():
    candidates = Candidates()
    candidates.see(TrainedModel("a", point(5, 1), {}), 0, 0.6)
    candidates.see(TrainedModel("a", point(6, 1), {}), 1, 0.5)
    assert (candidates[0].iteration, candidates[0].average) == (0, 0.6)
    candidates.see(TrainedModel("a", point(4, 1), {}), 2, 0.65)
    assert (candidates[0].iteration, candidates[0].average) == (2, 0.65)


@given(st.floats(0, 3), st.floats(0, 1), st.integers(1, 9))
def test_the_margin_is_in_standard_errors_of_the_best_ordinary_model(margin, ahead, tp):
    ordinary = Candidate("a", point(tp, 1), 0, None, 0.4)
    worse = Candidate("w", point(9, 1), 0, None, 0.3)
    trained = Candidate("b", point(tp, 1), 3, "a", 0.4 + ahead)
    winner = Candidates([worse, ordinary, trained], margin=margin).winner
    clear = (0.4 + ahead) - 0.4 > margin * ordinary.point.standard_error
    assert winner is (trained if clear else ordinary)


def test_an_ordinary_model_needs_no_margin():
    a, b = Candidate("a", point(5, 1), 0, "s", 0.4), Candidate("b", point(5, 1), 0, None, 0.41)
    assert Candidates([a, b], margin=9.0).winner is b
    assert Candidates([a], margin=9.0).winner is a


def model(name, at, start=None):
    return TrainedModel(name, at, {"named": name}, start)


def selection_with(averages, **given_):
    """Return a selection with these averages, and the names whose averages were asked for."""
    asked = []

    def average(weights):
        asked.append(weights["named"])
        return averages[weights["named"]]

    return Selection(average=average, **given_), asked


def test_only_models_near_the_leader_get_an_average():
    leader, close, far = point(8, 1), point(6, 1), point(5, 1)
    assert 0.2 < 2 * leader.standard_error < 0.3
    selection, asked = selection_with({"leader": 0.4, "close": 0.65, "infeasible": 1.0})
    models = [model("far", far), model("close", close), model("leader", leader)]
    selection.update([*models, model("infeasible", point(9, 50))], 0.0, 0.0)
    assert sorted(asked) == ["close", "leader"]
    assert [c.average for c in selection.candidates] == [
        None,
        pytest.approx(0.625),
        pytest.approx(0.6),
        None,
    ]
    assert selection.best == (close, {"named": "close"})
    assert selection.history[0].objective == leader.objective


def test_a_far_model_does_not_win_for_want_of_an_average():
    """The leader misses the goal on some halves, which lowers its average below the far gain."""
    goal = "max recall s.t. precision >= 0.5, fpr <= 0.05"
    models = [model("far", point(5, 1, goal)), model("leader", point(8, 1, goal))]
    selection, asked = selection_with({"leader": 0.1, "far": 0.3})
    selection.update(models, 0.0, 0.0)
    assert selection.best[1]["named"] == "leader"
    assert sorted(asked) == ["far", "leader"]
    selection, _ = selection_with({"leader": 0.1, "far": 0.45})
    selection.update(models, 0.0, 0.0)
    assert selection.best[1]["named"] == "far"


def test_without_averages_points_are_compared():
    selection = Selection()
    selection.update([model("a", point(5, 1)), model("b", point(6, 1))], 0.0, 0.0)
    assert [c.average for c in selection.candidates] == [None, None]
    assert selection.best[0] == point(6, 1)


def test_goal_trained_and_ordinary_models_compete_on_equal_terms():
    for ahead, winner in ((0.0, "a"), (1e-3, "b")):
        selection, _ = selection_with({"a": 0.5, "b": 0.5 + ahead})
        selection.update([model("a", point(5, 1))], 0.0, 0.0)
        selection.update([model("b", point(5, 1), "a")], 0.0, 0.0)
        assert selection.best[1]["named"] == winner
        assert selection.history.best_iteration == (winner == "b")


def test_a_model_from_another_training_is_compared_by_its_average():
    selection, asked = selection_with({"a": 0.6, "b": 0.1, "c": 0.9})
    selection.update([model("a", point(5, 1))], 0.0, 0.0)
    selection.offer(model("b", point(9, 1)))
    assert selection.best[1]["named"] == "a"
    assert len(selection.history) == 1
    selection.offer(model("c", point(4, 1)))
    assert selection.best == (point(4, 1), {"named": "c"})
    assert (len(selection.history), selection.history.best_iteration) == (2, 1)
    assert asked == ["a", "b", "c"]


def test_one_candidate_is_taken_by_its_points():
    """On these rows another model may have a better average."""
    take = Candidate("b", point(5, 1), 1, "a")
    selection, _ = selection_with({"a": 0.1, "b": 0.2, "c": 0.9}, take=take)
    selection.update([model("a", point(4, 1)), model("c", point(8, 1))], 0.0, 0.0)
    selection.update([model("b", point(5, 1), "a"), model("c", point(8, 1))], 0.0, 0.0)
    assert selection.best == (point(5, 1), {"named": "b"})


def test_a_restored_selection_goes_on_with_candidates_without_averages():
    """Those of an earlier version."""
    candidates = Candidates([Candidate("a", point(5, 1), 0)], margin=0.0)
    selection, _ = selection_with({"b": 0.39, "c": 0.41})
    first = Selection()
    first.update([model("a", point(5, 1))], 0.0, 0.0)
    selection.restore(first.best, first.history, candidates)
    selection.update([model("b", point(6, 1))], 0.0, 0.0)
    assert selection.best[1]["named"] == "a"
    selection.update([model("c", point(6, 1))], 0.0, 0.0)
    assert selection.best[1]["named"] == "c"

from setpoint import Goal, OperatingPoint
from setpoint.training.candidates import Candidate, Candidates, TrainedModel


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


def test_goal_training_must_win_by_a_margin_where_there_is_one():
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

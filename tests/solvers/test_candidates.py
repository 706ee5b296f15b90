from setpoint import Goal, OperatingPoint
from setpoint.solvers.candidates import Candidate, Candidates, Contender


def point(tp, fp, goal="max recall s.t. precision >= 0.5"):
    return OperatingPoint(0.0, tp, fp, 10 - tp, 90 - fp, Goal.parse(goal), "the validation data")


def test_each_name_keeps_its_best_and_ties_keep_the_earlier():
    candidates = Candidates()
    candidates.see(Contender("a", point(3, 1), {}), 0)
    candidates.see(Contender("b", point(5, 2), {}), 1)
    candidates.see(Contender("b", point(4, 1), {}), 2)
    candidates.see(Contender("c", point(5, 3), {}), 2)
    assert [(c.name, c.point.tp, c.iteration) for c in candidates] == [
        ("a", 3, 0), ("b", 5, 1), ("c", 5, 2),
    ]  # fmt: skip
    assert candidates.winner.name == "b"  # c is no better


def test_a_goal_that_is_met_beats_a_better_objective():
    candidates = Candidates([Candidate("met", point(3, 1), 0), Candidate("not", point(9, 50), 0)])
    assert candidates.winner.name == "met"


def test_the_table_says_what_won_and_what_failed():
    candidates = Candidates([Candidate("met", point(3, 1), 0), Candidate("not", point(9, 50), 4)])
    lines = str(candidates).splitlines()
    assert lines[0] == "'max recall s.t. precision >= 0.5' on the validation data"
    assert lines[1].split() == ["candidate", "recall", "precision", "iteration"]
    assert lines[2].split() == ["met", "0.300", "0.750", "0", "won"]
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

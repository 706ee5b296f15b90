"""Labelling sessions: rows, answers, certificates, files, and input that must be refused."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labelling_pool import BOTH, GOALS, PLANNING, PRECISION, RECALL, SCORES, Y, rows
from setpoint.errors import GoalError, SetpointError
from setpoint.labelling import LabellingSession, PoolCertificate, certify_pool


def start(goal=PRECISION, **options):
    return LabellingSession.start(SCORES, goal, **{"planning": PLANNING, **options})


def finish(session, batch=50):
    while len(asked := session.next(batch)):
        session.add(asked, Y[asked])
    return session.certificate


@pytest.mark.parametrize("goal", GOALS)
def test_a_pool_is_certified_with_few_labels(goal):
    session = start(goal, seed=2)  # about four of five seeds are certified for both floors
    found = finish(session)
    assert found.certified
    assert found.labels == session.labelled < 2000
    assert found.threshold in found.certified_thresholds
    assert session.done
    new_y, new = rows(200_000, seed=2)
    alarms = new > found.threshold
    if "precision >=" in goal:
        assert new_y[alarms].mean() > 0.5
    if "recall >=" in goal:
        assert alarms[new_y].mean() > 0.5
        assert found.recall == pytest.approx(alarms[new_y].mean(), abs=0.15)
    assert "Certified at 90 %" in found.message
    assert str(found).startswith(found.message)
    assert found.to_dict()["certified"] is True
    assert json.loads(json.dumps(found.to_dict(), allow_nan=False))["rows"] == 4000
    assert "Certified" in found._repr_html_()


@pytest.mark.parametrize("goal", GOALS)
def test_the_same_rows_are_asked_until_they_are_answered(goal):
    session = start(goal)
    first = session.next(30)
    assert session.next(30).tolist() == first.tolist()
    session.add(first[::2], Y[first[::2]])
    again = session.next(30)
    assert again[:15].tolist() == first[1::2].tolist()
    assert len(set(again.tolist()) & set(first[::2].tolist())) == 0


@settings(max_examples=15, deadline=None)
@given(st.sampled_from(GOALS), st.integers(0, 1000))
def test_the_order_of_answers_does_not_matter(goal, seed):
    session, other = start(goal), start(goal)
    asked = session.next(300)
    shuffled = np.random.default_rng(seed).permutation(asked)
    session.add(asked, Y[asked])
    for some in np.array_split(shuffled, 7):
        other.add(some, Y[some])
    assert session.certificate == other.certificate
    assert session.next(20).tolist() == other.next(20).tolist()


@pytest.mark.parametrize("goal", GOALS)
def test_a_saved_session_continues(goal, tmp_path):
    session, path = start(goal, budget=1500), tmp_path / "state.json"
    for _ in range(4):
        session.save(path)
        session = LabellingSession.load(path, SCORES)
        asked = session.next(40)
        session.add(asked, Y[asked])
    straight = start(goal, budget=1500)
    for _ in range(4):
        asked = straight.next(40)
        straight.add(asked, Y[asked])
    assert session.certificate == straight.certificate
    assert session.expectation == straight.expectation
    assert session.next(40).tolist() == straight.next(40).tolist()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["state.json"]


def test_a_guess_sets_rows_aside_that_are_never_asked(tmp_path):
    chances = 1 / (1 + np.exp(-(SCORES * 3 - 6.7)))
    session = start(BOTH, planning=None, eta=chances)
    aside = set(session._aside.tolist())
    assert len(aside) == 400
    assert aside.isdisjoint(session._design.rows.tolist())
    assert finish(session).certified
    assert start(planning=None, eta=lambda s: np.clip(s / 6, 0, 1)).next(5).tolist()
    session.save(tmp_path / "s.json")
    loaded = LabellingSession.load(tmp_path / "s.json", SCORES)
    assert loaded.certificate == session.certificate


def test_a_useless_guess_costs_labels_only():
    found = certify_pool(
        SCORES, PRECISION, lambda rows: Y[rows], planning=(1 - PLANNING[0], PLANNING[1])
    )
    assert isinstance(found, PoolCertificate)


def test_without_a_plan_the_floor_on_precision_is_certified_too():
    session = start(planning=None)
    assert session.expectation.labels is None
    assert "cannot be predicted" in str(session.expectation)
    found = finish(session)
    assert found.certified
    assert found.recall is None
    assert "Nothing is known about recall" in found.message


def test_a_budget_is_kept_and_may_be_raised_where_the_plan_does_not_need_it():
    session = start(budget=60, planning=None)
    found = finish(session, 25)
    assert found.labels == 60
    assert session.done
    assert session.may_change_budget
    assert finish(start(budget=60), 25).labels <= 60
    assert not start(BOTH, budget=400).may_change_budget


def test_a_refusal_gives_its_reason():
    assert "more labels are needed" in start().certificate.message
    assert (
        "budget of 5 labels is spent"
        in finish(start("max recall s.t. precision >= 0.99", budget=5)).message
    )
    session = LabellingSession.start(SCORES, PRECISION)
    while len(asked := session.next(50)):
        session.add(asked, np.zeros(len(asked), dtype=int))
    assert "unlikely to help" in session.certificate.message
    assert session.labelled < 500
    both = start(BOTH)
    while len(asked := both.next(50)):
        both.add(asked, np.zeros(len(asked), dtype=int))
    assert "new attempt needs rows" in both.certificate.message


# --- answers that cannot be used ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        ([2, 0], "labels must be 0 or 1; row"),
        ([0.5, 1], "labels must be 0 or 1"),
        ([np.nan, 1], "labels must be 0 or 1"),
        ([None, 1], "labels must be 0 or 1"),
        (["yes", "no"], "labels must be 0 or 1"),
        ([1], "one label for each row"),
    ],
)
def test_labels_that_are_not_labels(labels, expected):
    session = start()
    asked = session.next(2)
    with pytest.raises(SetpointError, match=expected):
        session.add(asked, labels)
    assert session.labelled == 0


def test_contradictions_are_refused_and_corrections_are_explicit():
    session = start()
    a, b, c = session.next(3)
    session.add([a, b], [1, 0])
    session.add([a, b], [True, False])  # once more
    with pytest.raises(SetpointError, match=f"row {a} has the labels 1 and 0.*replace=True"):
        session.add([c, a], [1, 0])
    with pytest.raises(SetpointError, match="has the labels 0 and 1; decide"):
        session.add([c, c], [0, 1])
    assert session.labelled == 2  # nothing was added
    assert session.label_of(c) is None
    session.add([a], [0], replace=True)
    assert session.label_of(a) == 0
    session.add([], [])


def test_rows_that_were_not_asked_for():
    session = start(BOTH)
    other = next(row for row in range(4000) if not session.may_ask(row))
    with pytest.raises(SetpointError, match="was not asked for"):
        session.add([other], [1])
    for wrong in ([-1], [4000], [0.5], ["a"]):
        with pytest.raises(SetpointError, match="indices from 0 to 3,999"):
            session.add(wrong, [1])


# --- arguments that cannot be used ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("scores", "expected"),
    [
        ([], "no rows"),
        ([0.1, np.nan], "NaN"),
        ([[0.1, 0.2], [0.3, 0.4]], "one number per sample"),
        (["a", "b"], "must be numbers"),
    ],
)
def test_scores_that_are_not_scores(scores, expected):
    with pytest.raises(SetpointError, match=expected):
        LabellingSession.start(scores, PRECISION)


@pytest.mark.parametrize(
    ("goal", "expected"),
    [
        ("max recall s.t. fpr <= 0.1", "cannot be certified from a partly labelled pool"),
        ("max f1", "has no floor"),
        ("max recall s.t. precision >= 0.9 for each region", r"segments or periods \('region'\)"),
        ("max recall[amount] s.t. precision >= 0.9", r"is about amounts, .* \('amount'\)"),
        ("max recall s.t. precision >= 1", "a floor of 1 cannot be certified"),
        ("max precision s.t. fnr <= 1", "a floor of 0 cannot be certified"),
        ("max recall s.t. precision > 2", "precision"),
    ],
)
def test_goals_that_cannot_be_certified(goal, expected):
    with pytest.raises(GoalError, match=expected):
        start(goal)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"confidence": 1.0}, "confidence must lie between 0 and 1"),
        ({"budget": 0}, "budget must be a whole number"),
        ({"seed": -1}, "seed must be a whole number"),
        ({"eta": np.ones(4000) / 2}, "not both"),
        ({"planning": None, "eta": np.ones(3)}, "one entry per row"),
        ({"planning": None, "eta": np.full(4000, 1.5)}, "between 0 and 1"),
        ({"planning": None, "eta": np.full(4000, np.nan)}, "between 0 and 1"),
        ({"planning": None, "eta": np.zeros(4000)}, "0 everywhere"),
        ({"planning": PLANNING[0]}, "pair of labels and scores"),
        ({"planning": (np.zeros(9), np.arange(9.0))}, "no positives"),
    ],
)
def test_options_that_cannot_be_used(options, expected):
    with pytest.raises(SetpointError, match=expected):
        start(**options)


def test_a_floor_on_recall_needs_something_to_plan_with():
    with pytest.raises(SetpointError, match="needs labelled rows of another time"):
        start(RECALL, planning=None)
    with pytest.raises(SetpointError, match="no threshold, together"):
        start("max f1 s.t. precision >= 0.99, recall >= 0.99")
    with pytest.raises(SetpointError, match="raise the budget"):
        start(BOTH, budget=1)


def test_a_guess_without_positives_among_the_rows_set_aside():
    session = start(planning=None, eta=np.full(4000, 0.1))
    eta = np.zeros(4000)
    eta[next(row for row in range(4000) if row not in session._aside)] = 0.5
    assert finish(start(planning=None, eta=eta)).certified  # as if there were no guess
    with pytest.raises(SetpointError, match="no threshold"):
        start(RECALL, planning=None, eta=eta)


def test_unusual_pools():
    for scores in ([0.5] * 50, [np.inf, -np.inf, 0.0] * 10, [-np.inf] * 30):
        session = LabellingSession.start(scores, PRECISION)
        while len(asked := session.next(7)):
            session.add(asked, np.ones(len(asked)))
        found = session.certificate
        assert found.certified is (max(scores) > -np.inf)
        assert found.labels <= len(scores)
    for scores in ([1.0], np.arange(10.0)):
        with pytest.raises(SetpointError, match="needs at least 11 labels"):
            LabellingSession.start(scores, PRECISION)
    with pytest.raises(SetpointError, match="needs at least 23,025,8"):
        LabellingSession.start(np.arange(10.0), "max recall s.t. precision >= 0.9999999")
    with pytest.raises(SetpointError, match="one number per row"):
        LabellingSession.start(3.0, PRECISION)
    with pytest.raises(SetpointError, match="too few to set one in 10 aside"):
        LabellingSession.start([0.1, 0.2], RECALL, eta=[0.1, 0.2])


# --- files ----------------------------------------------------------------------------------------


def test_files_of_other_scores_are_refused(tmp_path):
    path = tmp_path / "s.json"
    start().save(path)
    with pytest.raises(SetpointError, match="it has 4,000 rows, and this one 3,999"):
        LabellingSession.load(path, SCORES[1:])
    with pytest.raises(SetpointError, match="a score or their order has changed"):
        LabellingSession.load(path, SCORES[::-1])


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: text[: len(text) // 2],
        lambda text: "",
        lambda text: "[1, 2]",
        lambda text: '{"format": "other"}',
        lambda text: text.replace('"labels": "', '"labels": "1'),
        lambda text: text.replace('"design"', '"desing"'),
        lambda text: text.replace('"kind": "top-down"', '"kind": "unknown"'),
    ],
)
def test_damaged_files_are_refused(tmp_path, damage):
    path = tmp_path / "s.json"
    session = start()
    asked = session.next(10)
    session.add(asked, Y[asked])
    session.save(path)
    path.write_text(damage(path.read_text()))
    with pytest.raises(SetpointError, match="is not the file of a labelling session, or"):
        LabellingSession.load(path, SCORES)


def test_files_that_are_missing_or_of_another_version(tmp_path):
    with pytest.raises(SetpointError, match="there is no file"):
        LabellingSession.load(tmp_path / "none.json", SCORES)
    with pytest.raises(SetpointError, match="is a folder"):
        LabellingSession.load(tmp_path, SCORES)
    path = tmp_path / "s.json"
    start().save(path)
    path.write_text(path.read_text().replace('"version": 1', '"version": 9'))
    with pytest.raises(SetpointError, match="another version of setpoint"):
        LabellingSession.load(path, SCORES)

"""``setpoint label``: batches, answers, interruptions, and files that must be refused."""

import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pandas as pd
import pytest
from cli_tables import failure, printed, run

from labelling_pool import BOTH, PLANNING, PRECISION, SCORES, Y

IDS = [f"C{i:04d}" for i in range(len(Y))]
TRUTH = dict(zip(IDS, Y.astype(int).tolist(), strict=True))


@pytest.fixture
def pool(tmp_path):
    """The table of scores, in a folder of its own."""
    path = tmp_path / "claims.csv"
    text = [f"claim {i}" for i in range(len(Y))]
    pd.DataFrame({"claim": IDS, "score": SCORES, "text": text}).to_csv(path, index=False)
    pd.DataFrame({"fraud": PLANNING[0].astype(int), "score": PLANNING[1]}).to_csv(
        tmp_path / "last-year.csv", index=False
    )
    return path


def command(pool, *more, goal=PRECISION):
    return ["label", pool, "--score", "score", "--id", "claim", "--goal", goal, *more]


def batch_of(pool):
    return pool.with_name("claims.batch.csv")


def fill(pool, rows=None, positive=1, negative=0):
    """Fill in the labels of a batch, or of its first rows."""
    path = batch_of(pool)
    batch = pd.read_csv(path, dtype=str)
    labels = [positive if TRUTH[c] else negative for c in batch.claim]
    batch["label"] = [str(v) if rows is None or i < rows else "" for i, v in enumerate(labels)]
    batch.to_csv(path, index=False)
    return batch


def test_from_a_table_without_labels_to_a_certificate(pool, capsys):
    planned = ("--planning", pool.with_name("last-year.csv"), "--target", "fraud")
    call = command(pool, *planned, "--batch", 60)
    assert run(*call) == 0
    out = capsys.readouterr().out
    assert "labels are expected to be needed" in out
    assert "No method that assumes nothing" in out
    assert "60 rows in" in out
    batch = pd.read_csv(batch_of(pool))
    assert batch.columns.tolist() == ["claim", "label"]  # no score
    assert batch.claim.is_monotonic_increasing  # nor its order
    for _ in range(20):
        fill(pool)
        assert run(*call) == 0
        out = capsys.readouterr().out
        if "Assumptions" in out:
            break
    assert "Certified at 90 % confidence: precision >= 0.8" in out
    assert run(*call, "--json", "--strict") == 0
    found = printed(capsys)
    assert found["done"]
    assert found["batch"] is None
    assert found["certificate"]["certified"]
    assert found["certificate"]["labels"] == found["labels"] < 600


def test_answers_may_be_partial_and_come_in_other_files(pool, tmp_path, capsys):
    call = command(pool, "--batch", 30, "--keep", "text", "--json")
    assert run(*call) == 0
    first = printed(capsys)
    assert first["batch_rows"] == 30
    assert first["expectation"]["least"] == 11
    filled = fill(pool, rows=10)
    assert filled.text.str.startswith("claim ").all()
    assert run(*call) == 0
    assert printed(capsys)["new_labels"] == 10
    waiting = pd.read_csv(batch_of(pool)).claim
    assert set(filled.claim[:10]).isdisjoint(waiting)
    others = tmp_path / "monday.csv"
    answers = pd.DataFrame({"is fraud": [TRUTH[c] for c in waiting], "claim": waiting})
    answers.sample(frac=1, random_state=0)[:15].to_csv(others, index=False)
    assert run(*call, "--answers", others, "--label", "is fraud") == 0
    assert printed(capsys)["labels"] == 25
    assert run(*call, "--answers", others, "--label", "is fraud") == 0  # once more
    assert printed(capsys)["new_labels"] == 0


def test_labels_may_be_words(pool, capsys):
    call = command(pool, "--positive", "fraud", "--json")
    assert run(*call) == 0
    fill(pool, positive="fraud", negative="ok")
    capsys.readouterr()
    assert run(*call) == 0
    assert printed(capsys)["labels"] == 20
    fill(pool, rows=5, positive="fruad", negative="ok")
    before = pool.with_name("claims.labelling.json").read_bytes()
    assert run(*call) == 1
    assert "is 'fruad' a misspelling of 'fraud'?" in capsys.readouterr().err
    assert pool.with_name("claims.labelling.json").read_bytes() == before
    assert run(*call, "--negative", "ok") == 1
    assert "is neither 'fraud' (positive) nor 'ok'" in capsys.readouterr().err
    fill(pool, positive="fraud", negative="ok")
    assert run(*call, "--negative", "ok") == 0


def test_files_are_named_after_the_table(pool, capsys):
    table = pool.with_name("june.claims.csv.gz")
    pd.read_csv(pool).to_csv(table, index=False)
    assert run(*command(table)) == 0
    assert pool.with_name("june.claims.batch.csv").exists()
    assert pool.with_name("june.claims.labelling.json").exists()


def test_without_identifiers_rows_are_numbered(pool, capsys):
    call = [a for a in command(pool, "--json") if a not in ("--id", "claim")]
    assert run(*call) == 0
    batch = pd.read_csv(batch_of(pool))
    assert batch.columns.tolist() == ["row", "label"]
    assert SCORES[batch.row - 1].min() > np.sort(SCORES)[-21]


def test_a_budget_and_a_guess(pool, capsys):
    table = pd.read_csv(pool).assign(p=1 / (1 + np.exp(-(3 * SCORES - 6.7))))
    table.to_csv(pool, index=False)
    assert run(*command(pool, "--guess", "p", "--budget", 900, "--json", goal=BOTH)) == 0
    found = printed(capsys)
    assert found["expectation"]["most"] <= 1000
    assert found["expectation"]["least"] > 0


def test_known_positives_need_no_labels(pool, tmp_path, capsys):
    known, others = tmp_path / "chargebacks.csv", tmp_path / "fine.csv"
    pd.DataFrame({"score": SCORES[Y]}).to_csv(known, index=False)
    pd.DataFrame({"score": SCORES[~Y]}).to_csv(others, index=False)
    goal = "max specificity s.t. recall >= 0.9"
    assert run(*command(pool, "--known-positives", known, goal=goal)) == 0
    out = capsys.readouterr().out
    assert "independent draws from all positives" in out
    assert "rows of claims.csv are above the threshold" in out
    both = ("--known-positives", known, "--known-negatives", others, "--prevalence", 0.1)
    assert run(*command(pool, *both, "--json", "--strict")) == 0
    assert printed(capsys)["certificate"]["prevalence"] == 0.1
    assert not batch_of(pool).exists()
    err = failure(capsys, *command(pool, *both[:4]))
    assert "needs both classes and prevalence=" in err


# --- interruptions --------------------------------------------------------------------------------


def test_a_command_that_is_killed_at_any_time_continues(pool, capsys):
    """Kill it after growing times; answers are neither lost nor asked for twice."""
    call = [str(a) for a in command(pool, "--batch", 25)]
    assert run(*call) == 0
    state = pool.with_name("claims.labelling.json")
    for delay in (0.3, 0.9, 1.4):
        filled = fill(pool)
        process = subprocess.Popen(
            [sys.executable, "-m", "setpoint", *call],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        time.sleep(delay)
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        json.loads(state.read_text())  # whole, whenever it was killed
        capsys.readouterr()
        assert run(*call, "--json") == 0
        found = printed(capsys)
        answered = json.loads(state.read_text())["answered"]
        assert {IDS[i] for i in answered} >= set(filled.claim)
        assert found["labels"] == len(set(answered))


def test_a_kill_between_the_two_files_changes_nothing(pool, capsys, monkeypatch):
    call = command(pool, "--batch", 25)
    assert run(*call) == 0
    filled = fill(pool)
    with monkeypatch.context() as patch:
        patch.setattr(
            "setpoint.cli.label._finish",
            lambda *_: (_ for _ in ()).throw(OSError(28, "No space left on device")),
        )
        assert run(*call) == 1
    assert pd.read_csv(batch_of(pool), dtype=str).equals(filled)
    capsys.readouterr()
    assert run(*call, "--json") == 0
    assert printed(capsys)["labels"] == 25


def test_another_process_does_not_overwrite_answers(pool, capsys, monkeypatch):
    from setpoint.cli import label_tables

    call = command(pool, "--batch", 25)
    assert run(*call) == 0
    fill(pool)
    read = label_tables.read_answers

    def read_slowly(*given):
        monkeypatch.setattr(label_tables, "read_answers", read)
        assert run(*command(pool, "--batch", 10)) == 0  # meanwhile
        return read(*given)

    monkeypatch.setattr(label_tables, "read_answers", read_slowly)
    assert run(*call) == 1
    assert "another process has changed" in capsys.readouterr().err
    assert run(*call, "--json") == 0
    assert printed(capsys)["labels"] == 25


# --- what must be refused -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("claim,label\nC9999,1\n", "row 1: 'C9999' in 'claim' is not a row of the pool"),
        ("claim,label\n{first},maybe\n", "the label 'maybe' is not 0 or 1"),
        ("claim,label\n{first},2\n", "the label '2' is not 0 or 1"),
        ("claim,label\n{first},1\n{first},0\n", "labelled both positive and negative"),
        ("claim,fraud\n{first},1\n", "has no column 'label'"),
        ("id,label\n{first},1\n", "has no column 'claim'"),
        ("claim,label\n", "no rows"),
        ("", "is empty"),
    ],
)
def test_answers_that_cannot_be_used_change_nothing(pool, tmp_path, capsys, content, expected):
    assert run(*command(pool)) == 0
    state = pool.with_name("claims.labelling.json").read_bytes()
    waiting = batch_of(pool).read_bytes()
    first = pd.read_csv(batch_of(pool)).claim[0]
    answers = tmp_path / "answers.csv"
    answers.write_text(content.format(first=first))
    capsys.readouterr()
    err = failure(capsys, *command(pool, "--answers", answers))
    assert expected in err
    assert pool.with_name("claims.labelling.json").read_bytes() == state
    assert batch_of(pool).read_bytes() == waiting


def test_contradictions_need_an_explicit_correction(pool, tmp_path, capsys):
    assert run(*command(pool)) == 0
    filled = fill(pool)
    assert run(*command(pool)) == 0
    capsys.readouterr()
    other = tmp_path / "second-opinion.csv"
    name, label = filled.claim[0], 1 - int(filled.label[0])
    other.write_text(f"claim,label\n{name},{label}\n")
    err = failure(capsys, *command(pool, "--answers", other))
    assert f"row 1: '{name}' is" in err
    assert "in an earlier answer" in err
    assert "--replace" in err
    assert run(*command(pool, "--answers", other, "--replace", "--json")) == 0
    assert printed(capsys)["labels"] == 20


def test_answers_to_rows_that_were_not_selected(pool, tmp_path, capsys):
    planned = ("--planning", pool.with_name("last-year.csv"), "--target", "fraud")
    assert run(*command(pool, *planned, goal=BOTH)) == 0
    state = json.loads(pool.with_name("claims.labelling.json").read_text())
    other = next(i for i in range(len(Y)) if i not in set(state["design"]["rows"]))
    answers = tmp_path / "answers.csv"
    answers.write_text(f"claim,label\n{IDS[other]},1\n")
    capsys.readouterr()
    err = failure(capsys, *command(pool, *planned, "--answers", answers, goal=BOTH))
    assert f"'{IDS[other]}' was not selected for labelling" in err


def test_another_table_goal_or_state_is_refused(pool, tmp_path, capsys):
    assert run(*command(pool)) == 0
    capsys.readouterr()
    err = failure(capsys, *command(pool, goal="max recall s.t. precision >= 0.7"))
    assert "was started with the goal" in err
    state = pool.with_name("claims.labelling.json")
    other = tmp_path / "other.csv"
    table = pd.read_csv(pool)
    table.assign(score=table.score + 1).to_csv(other, index=False)
    assert "belongs to another table" in failure(capsys, *command(other, "--state", state))
    table.assign(claim=IDS[::-1]).to_csv(other, index=False)
    assert "other identifiers" in failure(capsys, *command(other, "--state", state))
    state.write_text(state.read_text()[:100])
    assert "is damaged" in failure(capsys, *command(pool))


def test_files_that_are_not_batches_are_not_replaced(pool, tmp_path, capsys):
    batch_of(pool).write_text("my,notes\n1,2\n")
    assert "is not a batch of an earlier run" in failure(capsys, *command(pool))
    assert batch_of(pool).read_text() == "my,notes\n1,2\n"
    batch_of(pool).unlink()
    assert "is the table" in failure(capsys, *command(pool, "--out", pool))
    assert "is the table" in failure(capsys, *command(pool, "--state", pool))
    assert "does not exist" in failure(capsys, *command(pool, "--out", tmp_path / "no" / "b.csv"))
    assert "is a folder" in failure(capsys, *command(pool, "--state", tmp_path))
    assert "no file" in failure(capsys, *command(pool, "--answers", tmp_path / "none.csv"))


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"claim": ["C0001"] * 2 + IDS[2:]}, "rows 1 and 2 have the same identifier 'C0001'"),
        ({"claim": [None, *IDS[1:]]}, "'claim' is missing in row 1"),
        ({"score": ["high", *SCORES[1:]]}, "'high' is not a number"),
        ({"score": [None, *SCORES[1:]]}, "it is missing"),
    ],
)
def test_tables_that_cannot_be_used(pool, capsys, change, expected):
    pd.read_csv(pool).assign(**change).to_csv(pool, index=False)
    assert expected in failure(capsys, *command(pool))
    assert not batch_of(pool).exists()


def test_options_that_do_not_fit(pool, capsys):
    planning = pool.with_name("last-year.csv")
    assert "needs --target" in failure(capsys, *command(pool, "--planning", planning))
    assert "--planning) or a guess" in failure(capsys, *command(pool, goal=BOTH))
    assert "has no floor" in failure(capsys, *command(pool, goal="max f1"))
    assert "rename it" in failure(capsys, *command(pool, "--keep", "label"))
    err = failure(capsys, *command(pool, "--batch", "0"), code=2)
    assert "--batch" in err

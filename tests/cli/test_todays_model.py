"""``--baseline-scores``: today's model in fit, evaluate, compare and certify."""

import numpy as np
import pandas as pd
import pytest
from cli_tables import DROPPED, GOAL, failure, payments, printed, run

from setpoint import choose_threshold, evaluate_threshold, load


def with_scores(seed=0, n=600):
    """Return payments with the scores of today's model, on a scale of its own."""
    frame = payments(n, seed).drop(columns=DROPPED)
    rng = np.random.default_rng(seed)
    fraud = frame["class"] == "fraud"
    return frame.assign(**{"to,day <b>": 50 * fraud + rng.normal(500, 30, n)})


@pytest.fixture(scope="module")
def fitted(tmp_path_factory):
    folder = tmp_path_factory.mktemp("todays")
    with_scores().to_parquet(folder / "train.parquet")
    with_scores(1).to_parquet(folder / "later.parquet")
    return folder


def fit(folder, *more, column="to,day <b>"):
    return ["fit", folder / "train.parquet", "--target", "class", "--goal", GOAL, "--positive",
            "fraud", "--model", "logistic", "--baseline-scores", column, *more]  # fmt: skip


def test_fit_and_evaluate(fitted, tmp_path, capsys):
    page, model, figures = tmp_path / "r.html", tmp_path / "m", tmp_path / "figures"
    assert run(*fit(fitted, "--out", model, "--report", page, "--figures", figures)) == 0
    out = capsys.readouterr().out
    assert "on the test rows, today's model (to,day <b>)" in out
    text = page.read_text("utf-8")
    assert 'class="line current"' in text
    assert "today&#39;s model (to,day &lt;b&gt;)" in text
    assert run(*fit(fitted, "--out", model, "--json")) == 0
    result, loaded = printed(capsys), load(model)
    assert "to,day <b>" not in loaded.schema.names
    assert result["baseline"]["tp"] + result["baseline"]["fn"] == (
        result["test"]["tp"] + result["test"]["fn"]
    )
    threshold = loaded.facts["threshold of today's model"]
    assert result["baseline"]["threshold"] == threshold

    arguments = ["evaluate", model, fitted / "later.parquet", "--json"]
    assert run(*arguments, "--baseline-scores", "to,day <b>", "--report", page) == 0
    result = printed(capsys)
    later = with_scores(1)
    y = later["class"] == "fraud"
    point = evaluate_threshold(y, later["to,day <b>"], threshold, GOAL)
    assert (result["baseline"]["tp"], result["baseline"]["fp"]) == (point.tp, point.fp)
    assert not any("favours" in note for note in result["notes"])
    assert 'class="line current"' in page.read_text("utf-8")
    assert run(*arguments) == 0
    assert printed(capsys)["baseline"] is None


def test_evaluate_chooses_a_threshold_for_scores_that_fit_did_not_have(model, tmp_path, capsys):
    later = with_scores(1).rename(columns={"to,day <b>": "today"})
    later.to_csv(tmp_path / "l.csv", index=False)
    arguments = ["evaluate", model, tmp_path / "l.csv", "--baseline-scores", "today", "--json"]
    assert run(*arguments) == 0
    result = printed(capsys)
    best = choose_threshold(later["class"] == "fraud", later["today"], GOAL)
    assert result["baseline"]["tp"] == best.tp
    assert any("which favours it" in note for note in result["notes"])
    for column, message in (
        ("amount", "'amount' is a feature"), ("class", "'class' is a target"),
        ("todays", "no column 'todays'"),
    ):  # fmt: skip
        with_it = ["evaluate", model, tmp_path / "l.csv", "--baseline-scores", column]
        assert message in failure(capsys, *with_it, "--ignore-extra")


def test_compare_and_certify(fitted, capsys):
    compare = ["compare", fitted / "train.parquet", "--target", "class", "--positive", "fraud",
               "--goal", GOAL, "--goal", "max f1", "--model", "logistic", "--model", "forest",
               "--baseline-scores", "to,day <b>", "--json"]  # fmt: skip
    assert run(*compare) == 0
    names = [one["model"] for one in printed(capsys)["compared"]]
    todays = "today's model (to,day <b>)"
    assert names == ["logistic", "forest", todays] * 2
    certify = ["certify", fitted / "train.parquet", "--label", "class", "--score", "amount",
               "--positive", "fraud", "--goal", "max f1"]  # fmt: skip
    frame = with_scores().dropna()
    frame.to_parquet(fitted / "complete.parquet")
    certify[1] = fitted / "complete.parquet"
    assert run(*certify, "--baseline-scores", "to,day <b>", "--json") == 0
    best = choose_threshold(frame["class"] == "fraud", frame["to,day <b>"], "max f1")
    assert printed(capsys)["baseline"]["tp"] == best.tp


def test_mistakes(fitted, tmp_path, capsys):
    out = ["--out", tmp_path / "m"]
    assert "no column 'today'" in failure(capsys, *fit(fitted, *out, column="today"))
    assert "is the target" in failure(capsys, *fit(fitted, *out, column="class"))
    assert "a score must be a number" in failure(capsys, *fit(fitted, *out, column="country"))
    assert "it is missing" in failure(capsys, *fit(fitted, *out, column="amount"))
    band = fit(fitted, *out)
    band[5] = "min review_rate s.t. precision(alarm) >= 0.6, npv(clear) >= 0.9"
    assert "review band; leave out --baseline-scores" in failure(capsys, *band)
    streamed = fit(fitted, *out, "--stream")
    streamed[streamed.index("logistic")] = "linear"
    assert "needs the table in memory" in failure(capsys, *streamed)
    cost = fit(fitted, *out)
    cost[5] = 'min cost(fp=5, fn="to,day <b>")'
    assert "scores of today's model" in failure(capsys, *cost)
    several = fit(fitted, *out, "--target", "country")
    assert "leave out --baseline-scores" in failure(capsys, *several)


def test_rows_of_one_class(model, tmp_path, capsys):
    later = with_scores(1).rename(columns={"to,day <b>": "today"})
    later[later["class"] == "ok"].to_csv(tmp_path / "ok.csv", index=False)
    message = failure(capsys, "evaluate", model, tmp_path / "ok.csv", "--baseline-scores", "today")
    assert "no positive" in message
    assert pd.read_csv(tmp_path / "ok.csv")["class"].nunique() == 1

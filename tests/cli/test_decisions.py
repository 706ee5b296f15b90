"""Goals with amounts, segments and periods on the command line, from a table to a report."""

import numpy as np
import pandas as pd
import pytest
from cli_tables import failure, printed, run

from setpoint.model_files import load

COST = "min cost(tp=2, fp=2, fn=amount)"
EACH = "max recall s.t. precision >= 0.5 for each region"
BUDGET = "max recall s.t. alarms <= 6 per day"


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    rng = np.random.default_rng(0)
    n = 2400
    fraud = rng.random(n) < 0.15
    frame = pd.DataFrame(
        {
            "when": pd.Timestamp("2024-05-01") + pd.to_timedelta(rng.integers(0, 40 * 24, n), "h"),
            "region": rng.choice(["north", "south"], n),
            "amount": np.round(rng.lognormal(3, 1, n), 2),
            "a": rng.normal(size=n) + 1.5 * fraud,
            "b": rng.normal(size=n) + 1.5 * fraud,
            "class": np.where(fraud, "fraud", "ok"),
        }
    )
    path = tmp_path_factory.mktemp("decisions") / "payments.csv"
    frame.to_csv(path, index=False)
    return path


def fit(table, out, goal, *more):
    return run(
        "fit", table, "--target", "class", "--positive", "fraud", "--model", "logistic", "--goal",
        goal, "--out", out, *more,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("goal", "more"),
    [
        (COST, ()),
        (COST, ("--decision", "expected-value")),
        (COST, ("--confidence", "0.9", "--cap", "amount=500")),
        (EACH, ()),
        (EACH, ("--thresholds", "per-group")),
        (EACH, ("--confidence", "0.8")),
        (BUDGET, ()),
        (BUDGET, ("--confidence", "0.8")),
        ("max precision@6 per day", ()),
        ("max recall[amount] s.t. precision >= 0.5", ()),
    ],
)
def test_from_a_table_to_a_report(goal, more, table, tmp_path, capsys):
    out, report = tmp_path / "m.zip", tmp_path / "r.html"
    assert fit(table, out, goal, "--time", "when", "--report", report, "--json", *more) == 0
    fitted = printed(capsys)
    assert fitted["test"]["goal"].startswith(goal)
    text = report.read_text("utf-8")
    assert "alarms is " not in text
    model = load(out)
    assert str(model.goal).startswith(goal)
    scored = tmp_path / "scored.csv"
    assert run("predict", out, table, "--out", scored, "--json") == 0
    alarms = printed(capsys)["alarms"]
    frame = pd.read_csv(table)
    assert model.predict(frame)["alarm"].sum() == alarms
    page = tmp_path / "later.html"
    assert run("evaluate", out, table, "--report", page, "--json") == 0
    evaluated = printed(capsys)["evaluated"]
    assert evaluated["tp"] + evaluated["fp"] == alarms
    assert page.exists()


def test_the_decisions_that_were_compared_are_printed(table, tmp_path, capsys):
    out = tmp_path / "m.zip"
    assert fit(table, out, COST, "--decision", "expected-value", "--drop", "when") == 0
    printed_text = capsys.readouterr().out
    assert "single threshold" in printed_text
    assert "expected value" in printed_text
    few = pd.read_csv(table).head(5)
    few.drop(columns="amount").to_csv(tmp_path / "few.csv", index=False)
    message = failure(capsys, "predict", out, tmp_path / "few.csv", "--out", tmp_path / "p.csv")
    assert "'amount' is missing" in message


def test_segments_are_needed_to_predict_per_group(table, tmp_path, capsys):
    out = tmp_path / "m.zip"
    more = ("--thresholds", "per-group", "--drop", "when", "--drop", "region")
    assert fit(table, out, EACH, *more) == 0
    assert "region=north: threshold" in capsys.readouterr().out
    frame = pd.read_csv(table)
    frame.loc[:9, "region"] = "nowhere"  # has the threshold of all rows together
    frame.to_csv(tmp_path / "new.csv", index=False)
    assert run("predict", out, tmp_path / "new.csv", "--out", tmp_path / "p.csv", "-q") == 0
    frame.drop(columns="region").to_csv(tmp_path / "few.csv", index=False)
    message = failure(capsys, "predict", out, tmp_path / "few.csv", "--out", tmp_path / "p.csv")
    assert "decisions need the column 'region'" in message


def test_the_highest_scores_of_each_day(table, tmp_path, capsys):
    out, scored = tmp_path / "m.zip", tmp_path / "p.csv"
    assert fit(table, out, "max f1", "--time", "when", "-q") == 0
    top = ("--top", 3, "--per", "day", "--keep", "when")
    assert run("predict", out, table, "--out", scored, "--batch-rows", 500, *top) == 0
    assert ", 120 alarms" in capsys.readouterr().out
    found = pd.read_csv(scored, parse_dates=["when"])
    for _, day in found.groupby(found["when"].dt.date):
        assert day["alarm"].sum() == 3
        assert day.loc[day["alarm"], "score"].min() >= day.loc[~day["alarm"], "score"].max()
    # Without a period: of the whole table, whatever the threshold.
    assert run("predict", out, table, "--out", scored, "--top", 7, "-q", "--ignore-extra") == 0
    assert pd.read_csv(scored)["alarm"].sum() == 7


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (("--per", "day"), "--per needs --top"),
        (("--top", 3, "--per", "year"), "a period is one of"),
        (("--top", 3, "--per", "day", "--time", "when?"), "no column 'when?'"),
    ],
)
def test_bad_options_of_predict(more, message, table, tmp_path, capsys):
    out = tmp_path / "m.zip"
    assert fit(table, out, "max f1", "--drop", "when", "-q") == 0
    capsys.readouterr()
    found = failure(
        capsys, "predict", out, table, "--out", tmp_path / "p.csv", "--ignore-extra", *more
    )
    assert message in found


@pytest.mark.parametrize(
    ("goal", "more", "message"),
    [
        (BUDGET, (), "name the column of times with --time"),
        ("min cost(fp=5, fn=amonut)", (), "Did you mean 'amount'"),
        ("max recall s.t. precision >= 0.5 for each Region", (), "Did you mean 'region'"),
        (EACH, ("--model", "linear", "--thresholds", "per-group"), "trained for one threshold"),
        (COST, ("--cap", "amount=500"), "needs --confidence"),
        (COST, ("--confidence", "0.9", "--cap", "amount=-5"), "number above 0"),
        (COST, ("--confidence", "0.9", "--cap", "value=5"), "there is a cap of 'value'"),
        ("max recall", ("--decision", "expected-value"), "need prices"),
        (EACH, ("--thresholds", "per-group", "--model", "mlp"), "one threshold"),
    ],
)  # fmt: skip
def test_bad_options_of_fit(goal, more, message, table, tmp_path, capsys):
    arguments = ("fit", table, "--target", "class", "--positive", "fraud", "--goal", goal,
                 "--out", tmp_path / "m.zip", "--model", "logistic", *more)  # fmt: skip
    assert message in failure(capsys, *arguments)
    assert not (tmp_path / "m.zip").exists()


@pytest.mark.parametrize("more", [("--decision", "best"), ("--thresholds", "two"), ("--cap", "x")])
def test_options_are_checked_by_the_parser(more, table, tmp_path, capsys):
    arguments = ("fit", table, "--target", "class", "--goal", COST, "--out", tmp_path / "m", *more)
    assert run(*arguments) == 2
    assert more[1] in capsys.readouterr().err


def test_an_amount_that_is_missing(table, tmp_path, capsys):
    frame = pd.read_csv(table)
    frame.loc[7, "amount"] = np.nan
    frame.to_csv(tmp_path / "gap.csv", index=False)
    message = failure(
        capsys, "fit", tmp_path / "gap.csv", "--target", "class", "--goal", COST, "--out",
        tmp_path / "m.zip", "--positive", "fraud",
    )  # fmt: skip
    assert "in row 8 of 'amount' it is missing" in message


def test_certify_scores_with_segments_periods_and_costs(table, tmp_path, capsys):
    frame = pd.read_csv(table)
    frame["score"] = frame["a"] + frame["b"]
    frame.to_csv(tmp_path / "scored.csv", index=False)
    for goal, more in (
        (EACH, ()),
        (BUDGET, ("--time", "when")),
        ("min cost(fp=5, fn=amount)", ("--cap", "amount=1000")),
    ):
        report = tmp_path / "c.html"
        code = run(
            "certify", tmp_path / "scored.csv", "--label", "class", "--score", "score", "--goal",
            goal, "--json", "--report", report, *more,
        )  # fmt: skip
        assert code == 0
        assert printed(capsys)["certificate"]["certified"] is True
        assert report.exists()

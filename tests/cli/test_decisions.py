"""Goals with amounts, segments and periods on the command line, from a table to a report."""

import contextlib
import io
import json

import numpy as np
import pandas as pd
import pytest
from cli_tables import failure, printed, run

from setpoint.goals.metrics import format_threshold
from setpoint.model_files import load

COST = "min cost(tp=2, fp=2, fn=amount)"
CEILING = "max recall s.t. cost(tp=2, fp=2, fn=amount) <= 10"
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


def test_the_report_shows_how_rows_are_decided(table, tmp_path):
    page, out = tmp_path / "r.html", tmp_path / "m.zip"
    way = ("--decision", "expected-value", "--report", page, "--quiet")
    assert fit(table, out, COST, *way) == 0
    text = page.read_text("utf-8")
    assert "Ways to decide, on the cross-fitted rows" in text
    assert "single threshold" in text
    assert fit(table, out, EACH, "--thresholds", "per-group", "--report", page, "--quiet") == 0
    thresholds = load(out).classifier.segment_thresholds_.thresholds.values()
    for _ in range(2):
        text = page.read_text("utf-8")
        assert all(format_threshold(threshold) in text for threshold in thresholds)
        assert run("evaluate", out, table, "--report", page, "--quiet") == 0


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


@pytest.mark.parametrize("column", ["region", "store"])
@pytest.mark.parametrize("way", ["one", "per-group"])
def test_rows_of_segments_without_a_constraint_are_noted(way, column, table, tmp_path, capsys):
    frame = pd.read_csv(table).drop(columns="when")
    frame["store"] = frame["region"].map({"north": 20240101, "south": 20240102})
    old, new, out = tmp_path / "old.csv", tmp_path / "new.csv", tmp_path / "m.zip"
    frame.to_csv(old, index=False)
    goal = f"max recall s.t. precision >= 0.5 for each {column}"
    more = ("--thresholds", way, "--drop", "region", "--drop", "store")
    assert fit(old, out, goal, *more, "-q") == 0
    frame.loc[:9, ["region", "store"]] = ["mars", 20240103]
    frame.loc[10:11, ["region", "store"]] = [None, None]
    frame.to_csv(new, index=False)
    name = {"region": "mars", "store": "20240103"}[column]
    wanted = (
        f"The goal says nothing about 12 of 2,400 rows: their {column!r} ('{name}', '(missing)') "
        "did not occur, or was too small, in training."
    )
    if way == "per-group":
        wanted += f" The threshold for any other {column!r} applies to them."
    predict = ("predict", out, new, "--out", tmp_path / "p.csv", "--batch-rows", 500)
    for command in (predict, ("evaluate", out, new)):
        assert run(*command, "--json") == 0
        assert wanted in printed(capsys)["notes"]
        assert run(*command) == 0
        assert f"note: {wanted}" in capsys.readouterr().err
    predict = ("predict", out, old, "--out", tmp_path / "p.csv")
    for command in (predict, ("evaluate", out, old)):
        assert run(*command, "--json") == 0
        assert "The goal says nothing" not in " ".join(printed(capsys)["notes"])


def test_new_segments_belong_to_the_pool_of_small_ones(table, tmp_path, capsys):
    frame = pd.read_csv(table).drop(columns="when")
    places = np.random.default_rng(1).integers(0, 60, len(frame))
    frame["region"] = np.where(places < 40, "large", [f"small {place}" for place in places])
    frame.to_csv(tmp_path / "old.csv", index=False)
    assert fit(tmp_path / "old.csv", tmp_path / "m.zip", EACH, "--drop", "region", "-q") == 0
    frame["region"] = frame["region"].replace("small 50", "mars")
    frame.to_csv(tmp_path / "new.csv", index=False)
    assert run("evaluate", tmp_path / "m.zip", tmp_path / "new.csv", "--json") == 0
    assert load(tmp_path / "m.zip").classifier.segments_["region"] == ("large", "(other)")
    assert "The goal says nothing" not in " ".join(printed(capsys)["notes"])


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


def results_by_day(file, tmp_path, capsys):
    """Run all commands that use days; return what they found, and the alarms of each row."""
    out, scored = tmp_path / f"{file.stem}.zip", tmp_path / f"{file.stem}-scores.csv"
    assert fit(file, out, BUDGET, "--time", "when", "--confidence", "0.8", "--json") == 0
    fitted = printed(capsys)
    assert run("evaluate", out, file, "--json") == 0
    evaluated = printed(capsys)
    certified = run(
        "certify", file, "--label", "class", "--score", "a", "--goal", BUDGET, "--time", "when",
        "--json",
    )  # fmt: skip
    assert certified == 0
    certificate = printed(capsys)["certificate"]
    top = ("--top", 3, "--per", "day", "--batch-rows", 500)
    assert run("predict", out, file, "--out", scored, *top, "-q") == 0
    alarms = pd.read_csv(scored)["alarm"].tolist()
    point = {k: v for k, v in evaluated["evaluated"].items() if k not in ("on", "message")}
    return fitted["test"], point, evaluated["verdict"], certificate, alarms


def test_a_day_is_the_day_as_it_is_written(table, tmp_path, capsys):
    frame = pd.read_csv(table, parse_dates=["when"])
    wanted = results_by_day(table, tmp_path, capsys)
    texts = frame["when"].dt.strftime("%Y-%m-%d %H:%M:%S")
    later = frame["when"] >= "2024-05-20"
    offsets = tmp_path / "offsets.csv"
    frame.assign(when=texts + np.where(later, "+02:00", "+03:00")).to_csv(offsets, index=False)
    assert results_by_day(offsets, tmp_path, capsys) == wanted
    zoned = tmp_path / "zoned.parquet"
    frame.assign(when=frame["when"].dt.tz_localize("Asia/Tokyo")).to_parquet(zoned, index=False)
    assert results_by_day(zoned, tmp_path, capsys) == wanted


def test_a_missing_time_has_a_row_number(table, tmp_path, capsys):
    out, file = tmp_path / "m.zip", tmp_path / "gap.csv"
    assert fit(table, out, BUDGET, "--time", "when", "-q") == 0
    frame = pd.read_csv(table)
    frame.loc[1048, "when"] = None
    frame.to_csv(file, index=False)
    wanted = "1 of 2,400 times in 'when' is missing, the first in row 1,049"
    top = ("--top", 3, "--per", "day", "--batch-rows", 500)
    for command in (
        ("predict", out, file, "--out", tmp_path / "p.csv", *top),
        ("evaluate", out, file),
        ("certify", file, "--label", "class", "--score", "a", "--goal", BUDGET, "--time", "when"),
        ("fit", file, "--target", "class", "--goal", BUDGET, "--time", "when", "--out", out),
        ("fit", file, "--target", "class", "--goal", "max f1", "--time", "when", "--out", out),
    ):
        assert wanted in failure(capsys, *command)


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
                 "--out", tmp_path / "m.zip", *more)  # fmt: skip
    assert message in failure(capsys, *arguments)
    assert not (tmp_path / "m.zip").exists()


LEAKS = [
    ("min cost(fp=5, fn=100*{})", "amounts"),
    ("max recall[{}] s.t. precision >= 0.5", "amounts"),
    ("max recall s.t. precision >= 0.5 for each {}", "segments"),
    ("max recall[{}=1]", "segments"),
    ("min cost(fp=5, fn=100*{}, review=1)", "amounts"),
]


@pytest.mark.parametrize(("goal", "use"), LEAKS)
@pytest.mark.parametrize("command", ["fit", "compare"])
def test_a_goal_cannot_name_the_target(command, goal, use, table, tmp_path, capsys):
    frame = pd.read_csv(table).drop(columns="when")
    frame["class"] = (frame["class"] == "fraud").astype(int)
    frame.to_csv(tmp_path / "t.csv", index=False)
    goal, more = goal.format("class"), ()
    if command == "fit":
        more = ("--out", tmp_path / "m.zip")
    elif "review" in goal:
        return  # models with review bands are not compared
    arguments = ("--target", "class", "--goal", goal, "--model", "logistic", *more)
    found = failure(capsys, command, tmp_path / "t.csv", *arguments)
    assert f"takes {use} from 'class', which is the target" in found
    assert not (tmp_path / "m.zip").exists()


@pytest.mark.parametrize(("goal", "use"), LEAKS)
@pytest.mark.parametrize(
    ("column", "role"), [("class", "the column of labels"), ("a", "the column of scores")]
)
def test_a_goal_to_certify_cannot_name_labels_or_scores(
    column, role, goal, use, table, tmp_path, capsys
):
    frame = pd.read_csv(table)
    frame["class"] = (frame["class"] == "fraud").astype(int)
    frame.to_csv(tmp_path / "t.csv", index=False)
    arguments = ("certify", tmp_path / "t.csv", "--label", "class", "--score", "a", "--goal")
    found = failure(capsys, *arguments, goal.format(column))
    assert f"takes {use} from {column!r}, which is {role}" in found
    if use == "segments":
        found = failure(capsys, *arguments, BUDGET, "--time", column)
        assert f"takes times from {column!r}, which is {role}" in found


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


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("abc", "in row 8 of 'amount' 'abc' is not a number (1 such)"),
        (-3.5, "in row 8 of 'amount' -3.5 is negative (1 such). Give its size"),
        (np.inf, "in row 8 of 'amount'"),
    ],
)
def test_an_amount_that_is_wrong(value, message, table, tmp_path, capsys):
    frame = pd.read_csv(table).astype({"amount": object})
    frame.loc[7, "amount"] = value
    frame.to_csv(tmp_path / "wrong.csv", index=False)
    assert message in failure(
        capsys, "fit", tmp_path / "wrong.csv", "--target", "class", "--goal", COST, "--out",
        tmp_path / "m.zip", "--positive", "fraud", "--model", "logistic",
    )  # fmt: skip


@pytest.mark.parametrize(("column", "kind"), [("when", "dates"), ("late", "booleans")])
def test_amounts_that_are_no_numbers(column, kind, table, tmp_path, capsys):
    frame = pd.read_csv(table)
    frame.assign(late=frame["a"] > 0).to_csv(tmp_path / "kinds.csv", index=False)
    assert f"'{column}' holds {kind}, and amounts are numbers" in failure(
        capsys, "fit", tmp_path / "kinds.csv", "--target", "class", "--goal",
        f"min cost(fp=5, fn={column})", "--out", tmp_path / "m.zip", "--positive", "fraud",
    )  # fmt: skip


def test_a_segment_that_is_not_in_the_table(table, tmp_path, capsys):
    goal = "max recall s.t. precision[region=zzz] >= 0.5"
    for model in ("logistic", "linear"):
        message = failure(
            capsys, "fit", table, "--target", "class", "--positive", "fraud", "--goal", goal,
            "--out", tmp_path / "m.zip", "--model", model,
        )  # fmt: skip
        assert "there is no region 'zzz' in these rows; there are 'north', 'south'" in message


@pytest.mark.parametrize(
    ("goal", "way", "column"),
    [
        (COST, ("--decision", "expected-value"), "amount"),
        (EACH, ("--thresholds", "per-group"), "region"),
    ],
)
def test_onnx_models_take_the_column_that_decides(goal, way, column, table, tmp_path, capsys):
    import onnxruntime

    assert fit(table, tmp_path / "m.zip", goal, *way) == 0
    assert run("export", tmp_path / "m.zip", tmp_path / "m.onnx") == 0
    model, frame = load(tmp_path / "m.zip"), pd.read_csv(table)
    session = onnxruntime.InferenceSession(tmp_path / "m.onnx", providers=["CPUExecutionProvider"])
    _, other = session.get_inputs()
    given = frame[[column]].to_numpy(np.float64) if column == "amount" else frame[column].to_numpy()
    X = model.features(frame, ignore_extra=True).astype(np.float64)
    scores, decisions = session.run(["score", "decision"], {"X": X, other.name: given})
    wanted = model.predict(frame, ignore_extra=True)
    assert np.allclose(scores, wanted["score"], rtol=1e-5, atol=1e-5)  # features are float32
    clear = np.abs(scores) > 1e-4
    assert clear.mean() > 0.99
    assert np.array_equal(decisions[clear], wanted["alarm"][clear])


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


@pytest.mark.parametrize(
    ("goal", "more", "observed"),
    [
        (CEILING, ("--cap", "amount=100"), "cost(tp=2, fp=2, fn=amount) is "),
        (EACH, (), "precision[region=north] is "),
        (BUDGET, (), "fraction of days with more than 6 alarms is "),
    ],
)
def test_certificates_are_checked_file_by_file(goal, more, observed, table, tmp_path, capsys):
    out, page = tmp_path / "m.zip", tmp_path / "r.html"
    command = fit(
        table, out, goal, "--time", "when", "--confidence", "0.8", "--report", page, *more
    )
    assert command == 0
    assert "The rows of this report (the test rows) do not contradict it." in page.read_text(
        "utf-8"
    )
    frame = pd.read_csv(table).sort_values("when")
    early = frame["when"] < "2024-05-25"
    frame[early].to_csv(tmp_path / "first.csv", index=False)
    frame[~early].to_csv(tmp_path / "second.csv", index=False)
    capsys.readouterr()
    assert run("evaluate", out, tmp_path / "first.csv", "--json") == 0
    text = capsys.readouterr().out
    assert json.loads(text)["verdict"]["checks"] == 1
    assert observed in json.loads(text)["verdict"]["message"]
    (tmp_path / "before.json").write_text(text)
    again = ["evaluate", out, tmp_path / "second.csv", "--after", tmp_path / "before.json"]
    assert run(*again, "--json") == 0
    both = printed(capsys)["verdict"]
    assert both["checks"] == 2
    assert run("evaluate", out, table, "--json") == 0
    at_once = printed(capsys)["verdict"]
    for part, whole in zip(both["parts"], at_once["parts"], strict=True):
        if "rows" in part:
            assert part["rows"] == whole["rows"] == len(frame)
            assert part["mean"] == pytest.approx(whole["mean"])
        else:
            assert part["operating_point"] == whole["operating_point"]
    broken = frame[~early].assign(**{"class": "ok", "a": 9.0, "b": 9.0, "amount": 400.0})
    broken.loc[broken.index[::2], ["class", "a", "b"]] = ["fraud", -9.0, -9.0]
    broken.to_csv(tmp_path / "second.csv", index=False)
    page = tmp_path / "broken.html"
    assert run(*again, "--strict", "--report", page) == 3
    assert "BROKEN: " in capsys.readouterr().out
    assert "contradict the certificate: " in page.read_text("utf-8")


def test_a_day_is_not_checked_twice(table, tmp_path, capsys):
    out = tmp_path / "m.zip"
    assert fit(table, out, BUDGET, "--time", "when", "--confidence", "0.8") == 0
    capsys.readouterr()
    assert run("evaluate", out, table, "--json") == 0
    (tmp_path / "before.json").write_text(capsys.readouterr().out)
    message = failure(capsys, "evaluate", out, table, "--after", tmp_path / "before.json")
    assert "an earlier check had rows up to 2024-06-09, and these begin with 2024-05-01" in message


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (("last_periods",), 5), (("parts",), []), (("parts", 0, "mean"), 2.0),
        (("parts", 0, "rows"), -1), (("parts", 0, "logs"), [0.0]),
        (("parts", 0, "span"), [0, 1]), (("parts", 0, "logs", 0), "nan"),
        (("parts", 0, "logs", 0), 1e999), (("parts", 0, "rows"), 1e999),
        (("parts", 0, "evidence"), -1), (("parts", 0, "starts"), [[1e9, *[0.0] * 10]]),
        (("parts", 0, "uncapped"), None),
    ],
)  # fmt: skip
def test_damaged_checks_are_refused(place, value, cost_check, tmp_path, capsys):
    model, table, text = cost_check
    found = json.loads(text)
    at = found["verdict"]
    for key in place[:-1]:
        at = at[key]
    at[place[-1]] = value
    (tmp_path / "before.json").write_text(json.dumps(found))
    message = failure(capsys, "evaluate", model, table, "--after", tmp_path / "before.json")
    assert "is not the output of 'setpoint evaluate --json'" in message


@pytest.fixture(scope="module")
def cost_check(table, tmp_path_factory):
    out = tmp_path_factory.mktemp("cost") / "m.zip"
    assert fit(table, out, CEILING, "--confidence", "0.8", "--cap", "amount=100", "--quiet") == 0
    with contextlib.redirect_stdout(io.StringIO()) as printed_text:
        assert run("evaluate", out, table, "--json") == 0
    return out, table, printed_text.getvalue()


def test_a_certificate_that_is_checked_has_no_claims_left(table, tmp_path, capsys):
    out = tmp_path / "m.zip"
    assert fit(table, out, "max recall s.t. precision >= 0.5", "--confidence", "0.8") == 0
    capsys.readouterr()
    assert run("evaluate", out, table, "--json") == 0
    evaluated = printed(capsys)
    assert evaluated["verdict"] is not None
    assert evaluated["not_monitored"] is None


@pytest.mark.parametrize("time", ["when", None])
def test_groups_cannot_be_combined_with_a_budget_per_day(time, table, tmp_path, capsys):
    frame = pd.read_csv(table).assign(customer=np.arange(2400) % 7, score=lambda t: t["a"])
    frame.to_csv(tmp_path / "grouped.csv", index=False)
    given = ["--group", "customer", "--goal", BUDGET, *([] if time is None else ["--time", time])]
    rest = ["--target", "class", "--positive", "fraud", "--out", tmp_path / "m.zip"]
    scored = ["--label", "class", "--positive", "fraud", "--score", "score"]
    for command in (["fit", *rest], ["certify", *scored]):
        message = failure(capsys, command[0], tmp_path / "grouped.csv", *command[1:], *given)
        assert "budget per day" in message
        assert "'customer'" in message
        assert "leave out --group" in message
    assert not (tmp_path / "m.zip").exists()

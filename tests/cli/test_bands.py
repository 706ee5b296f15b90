"""Review bands on the command line: from a table to decisions, a check and a report."""

import json
import re

import numpy as np
import pandas as pd
import pytest
from cli_tables import DROPPED, failure, later, payments, printed, run

from saved_models import forge
from setpoint.cli.band_points import describe_band
from setpoint.model_files import load
from setpoint.thresholds.bands import evaluate_band

GOAL = "min review_rate s.t. precision(alarm) >= 0.8, npv(clear) >= 0.95"


def fit(files, out, *more, goal=GOAL, model="logistic"):
    drop = [word for name in DROPPED for word in ("--drop", name)]
    return ["fit", files / "train.csv", "--target", "class", "--goal", goal, "--positive", "fraud",
            "--model", model, *drop, "--out", out, *more]  # fmt: skip


@pytest.fixture(scope="module")
def band(files, tmp_path_factory):
    out = tmp_path_factory.mktemp("m") / "band.zip"
    assert run(*fit(files, out, "-q")) == 0
    return out


@pytest.fixture(scope="module")
def certified_band(tmp_path_factory):
    folder = tmp_path_factory.mktemp("m")
    payments(4000).drop(columns=DROPPED).to_parquet(folder / "table.parquet")
    assert run(
        "fit", folder / "table.parquet", "--target", "class", "--goal", GOAL, "--positive", "fraud",
        "--model", "logistic", "--confidence", 0.9, "--out", folder / "model", "-q", "--strict",
    ) == 0  # fmt: skip
    return folder / "model"


# --- fit -----------------------------------------------------------------------------------------


def test_fit_prints_the_band_and_writes_a_report(files, tmp_path, capsys):
    report, figures = tmp_path / "r.html", tmp_path / "figures"
    words = ("--report", report, "--figures", figures, "--called", "fraud,frauds")
    assert run(*fit(files, tmp_path / "m", *words)) == 0
    out = capsys.readouterr().out
    for said in (GOAL, "precision(alarm)", "reviews (positive, negative)", "goal met",
                 "go to review", "cleared cases", f"Report: {report}"):  # fmt: skip
        assert said in out, said
    page = report.read_text("utf-8")
    assert "Alarm, review or clear" in page
    assert "frauds" in page
    assert f"--goal &#39;{GOAL.replace('>', '&gt;')}&#39;" in page
    assert sorted(p.name for p in figures.iterdir()) == ["scores.png", "scores.svg"]


def test_json_has_thresholds_and_counts(files, tmp_path, capsys):
    assert run(*fit(files, tmp_path / "m", "--json", model="hgb")) == 0
    found = printed(capsys)
    assert found["goal"] == GOAL
    for name in ("threshold_set_on", "test"):
        assert found[name]["low"] <= found[name]["high"]
    assert found["test"]["metrics"]["review_rate"] >= 0
    model = load(tmp_path / "m")
    assert (found["test"]["low"], found["test"]["high"]) == model.rule.thresholds


def test_the_default_model_is_that_of_gradient_boosted_trees(files, tmp_path, capsys):
    words = fit(files, tmp_path / "m", "--json")
    at = words.index("--model")
    assert run(*words[:at], *words[at + 2 :]) == 0
    assert printed(capsys)["goal"] == GOAL
    assert load(tmp_path / "m").facts["model"] == "hgb"
    assert run("fit", "--help") == 0
    shown = " ".join(re.findall(r"\w+", capsys.readouterr().out))
    assert "default auto linear for streams hgb for a review band" in shown


@pytest.mark.parametrize("model", ["linear", "mlp"])
def test_models_trained_for_one_threshold_are_refused_before_reading(
    files, tmp_path, capsys, no_work, model
):
    error = failure(capsys, *fit(files, tmp_path / "m", model=model))
    assert "hgb, logistic, forest" in error


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--decision", "expected-value"], "review band"),
        (["--thresholds", "per-group"], "review band"),
        (["--cap", "amount=5", "--confidence", "0.9"], "not bounded"),
        (["--cost-alarm", "5", "--cost-miss", "100"], "min cost(fp=5"),
        (["--checkpoint", "c.pt"], "--checkpoint"),
    ],
)
def test_options_for_one_threshold_are_refused(files, tmp_path, capsys, no_work, options, expected):
    assert expected in failure(capsys, *fit(files, tmp_path / "m", *options))


@pytest.mark.parametrize(
    "goal", ["min review_rate s.t. precision(alarm) >= 90", "max recall(clear)", "min review"]
)
def test_goals_that_cannot_be_read_say_what_to_write(files, tmp_path, capsys, no_work, goal):
    assert "error: " in failure(capsys, *fit(files, tmp_path / "m", goal=goal))


def test_an_infeasible_goal_counts_as_missed(files, tmp_path, capsys):
    goal = "min review_rate s.t. precision(alarm) >= 0.99, npv(clear) >= 1, review_rate <= 1%"
    assert run(*fit(files, tmp_path / "m", "--strict", goal=goal)) == 3
    out, err = capsys.readouterr()
    assert "no" in next(line for line in out.splitlines() if line.startswith("goal met"))
    assert "warning: " in err


def test_a_band_without_alarms_is_met_only_trivially(tmp_path, capsys):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"x": rng.normal(size=600), "y": rng.random(600) < 0.1})
    frame.to_csv(tmp_path / "noise.csv", index=False)
    goal = "max clear_rate s.t. precision(alarm) >= 1, fnr(clear) <= 100%"
    fit = ("fit", tmp_path / "noise.csv", "--target", "y", "--goal", goal, "--model", "logistic",
           "--out", tmp_path / "m", "--strict")  # fmt: skip
    assert run(*fit) == 3
    assert "trivially (no alarms)" in capsys.readouterr().out


def test_nothing_to_review(files, tmp_path, capsys):
    goal = "max recall(alarm) s.t. fpr(alarm) <= 30%, review_rate <= 0"
    report = tmp_path / "r.html"
    assert run(*fit(files, tmp_path / "m", "--report", report, goal=goal)) == 0
    assert "none goes to review" in capsys.readouterr().out
    low, high = load(tmp_path / "m").rule.thresholds
    assert low == high
    assert "nothing is reviewed" in report.read_text("utf-8")


def test_times_groups_and_confidence(files, tmp_path, capsys):
    fit = ("fit", files / "train.csv", "--target", "class", "--goal", GOAL, "--model", "logistic",
           "--drop", "id", "--time", "when", "--group", "customer", "--confidence", 0.8,
           "--out", tmp_path / "m", "--report", tmp_path / "r.html")  # fmt: skip
    assert run(*fit) == 0
    out, err = capsys.readouterr()
    assert "ertified at 80 % confidence" in out
    assert "newest training rows by 'when'" in err


# --- predict, export -----------------------------------------------------------------------------


def test_predict_counts_alarms_and_reviews(band, files, tmp_path, capsys):
    out = tmp_path / "p.csv"
    arguments = ("predict", band, files / "new.csv", "--out", out, "--keep", "id", "--ignore-extra")
    assert run(*arguments) == 0
    found = pd.read_csv(out)
    counts = found["decision"].value_counts()
    assert list(found) == ["id", "score", "decision"]
    assert set(counts.index) <= {"alarm", "review", "clear"}
    line = f"600 rows, {counts['alarm']} alarms, {counts['review']} reviews: {out}"
    assert line in capsys.readouterr().out
    assert run(*arguments, "--json") == 0  # replaces the earlier one
    assert printed(capsys)["reviews"] == counts["review"]


@pytest.mark.parametrize(
    ("text", "replaced"),
    [("id,score,decision\n1,0.2,clear\n", True), ("id,score,decision\n1,0.2,approved\n", False)],
)
def test_only_a_table_of_decisions_is_replaced(band, files, tmp_path, capsys, text, replaced):
    out = tmp_path / "p.csv"
    out.write_text(text, "utf-8")
    assert run("predict", band, files / "new.csv", "--out", out, "--ignore-extra") == 1 - replaced


def test_the_highest_scores_cannot_decide(band, files, tmp_path, capsys):
    out = tmp_path / "p.csv"
    error = failure(
        capsys, "predict", band, files / "new.csv", "--out", out, "--ignore-extra", "--top", 5
    )
    assert "review band" in error
    assert not out.exists()


def test_the_exported_model_decides_the_same(band, tmp_path):
    import onnx
    import onnxruntime

    assert run("export", band, tmp_path / "m.onnx", "-q") == 0
    model = load(band)
    frame = payments(seed=1).drop(columns=[*DROPPED, "class"])
    session = onnxruntime.InferenceSession(tmp_path / "m.onnx", providers=["CPUExecutionProvider"])
    _, decisions = session.run(None, {"X": model.features(frame).astype(np.float64)})
    names = np.array(["clear", "review", "alarm"])
    assert np.array_equal(names[decisions], model.predict(frame)["decision"])
    saved = {p.key: p.value for p in onnx.load(tmp_path / "m.onnx").metadata_props}
    assert (float(saved["low"]), float(saved["high"])) == model.rule.thresholds


# --- evaluate ------------------------------------------------------------------------------------


def test_evaluate_counts_and_reports(band, rows, tmp_path, capsys):
    report = tmp_path / "r.html"
    assert run("evaluate", band, rows, "--report", report, "--called", "fraud,frauds") == 0
    out = capsys.readouterr().out
    assert "on rows.csv" in out
    assert "cleared (positive, negative)" in out
    assert "no certificate" in report.read_text("utf-8")
    assert run("evaluate", band, rows, "--json") == 0
    point = printed(capsys)["evaluated"]
    names = [f"{a}_{b}" for a in ("alarm", "review", "clear") for b in ("positives", "negatives")]
    assert sum(point[name] for name in names) == 600


@pytest.mark.parametrize("only", ["fraud", "ok"])
def test_rows_of_one_class(band, tmp_path, capsys, only):
    rows = later(tmp_path / "rows.csv", only=only)
    assert run("evaluate", band, rows) == 0
    out = capsys.readouterr().out
    assert "cannot be evaluated" in out
    assert f"there are no {'negatives' if only == 'fraud' else 'positives'}" in out
    assert run("evaluate", band, rows, "--json", "--strict") == 3
    point = printed(capsys)["evaluated"]
    assert point["feasible"] is None
    assert point["metrics"]["precision(alarm)"] is None
    assert (point["metrics"]["recall(alarm)"] is None) == (only == "ok")
    error = failure(capsys, "evaluate", band, rows, "--report", tmp_path / "r.html")
    assert "a report needs both classes" in error


def test_one_class_can_be_enough():
    y, scores = np.ones(10, bool), np.arange(10.0)
    point = evaluate_band(y, scores, 3.5, 6.5, "max recall(alarm) s.t. fnr(clear) <= 0.4")
    assert describe_band(point) == "yes"
    point = evaluate_band(y, scores, 4.5, 6.5, "max recall(alarm) s.t. fnr(clear) <= 0.4")
    assert describe_band(point) == "no"
    point = evaluate_band(~y, scores, 4.5, 6.5, "max clear_rate s.t. fpr(alarm) <= 0.1")
    assert describe_band(point) == "no"


def test_checks_continue_over_several_files(certified_band, tmp_path, capsys):
    verdicts = []
    for month in range(3):
        rows = later(tmp_path / f"{month}.csv", seed=10 + month)
        more = [] if not verdicts else ["--after", tmp_path / f"{month - 1}.json"]
        assert run("evaluate", certified_band, rows, "--json", *more) == 0
        text = capsys.readouterr().out
        (tmp_path / f"{month}.json").write_text(text, "utf-8")
        verdicts.append(json.loads(text)["verdict"])
    assert [v["checks"] for v in verdicts] == [1, 2, 3]
    assert not verdicts[-1]["broken"]
    model = load(certified_band)
    verdict = None
    for month in range(3):
        frame = pd.read_csv(tmp_path / f"{month}.csv")
        verdict = model.certificate.check(*model.labelled_scores(frame), after=verdict)
    assert verdicts[-1]["evidence"] == pytest.approx(verdict.evidence)
    rows = later(tmp_path / "broken.csv", 3000, broken=True)
    after = ("--after", tmp_path / "2.json")
    assert run("evaluate", certified_band, rows, *after, "--strict") == 3
    assert "BROKEN" in capsys.readouterr().out


@pytest.mark.parametrize("text", ["{}", '{"verdict": {"parts": {"alarm": {}}}}', "[1]"])
def test_other_files_cannot_be_continued_from(certified_band, rows, tmp_path, capsys, text):
    (tmp_path / "v.json").write_text(text, "utf-8")
    error = failure(capsys, "evaluate", certified_band, rows, "--after", tmp_path / "v.json")
    assert "cannot continue from it" in error


def test_a_verdict_of_one_threshold_is_not_one_of_a_band(
    certified_band, certified, rows, tmp_path, capsys
):
    assert run("evaluate", certified, rows, "--json") == 0
    (tmp_path / "v.json").write_text(capsys.readouterr().out, "utf-8")
    error = failure(capsys, "evaluate", certified_band, rows, "--after", tmp_path / "v.json")
    assert "cannot continue from it" in error


def test_a_forged_band_is_rejected(certified_band, rows, capsys):
    def swap(content):
        point = content["classifier"]["operating_point"]
        point["low"], point["high"] = point["high"], point["low"]

    forge(certified_band, swap)
    assert "not in order" in failure(capsys, "evaluate", certified_band, rows)
    forge(certified_band, swap)
    assert run("evaluate", certified_band, rows, "-q") == 0


# --- certify, and commands for one threshold -----------------------------------------------------


def scored(path, n=4000):
    rng = np.random.default_rng(0)
    y = rng.random(n) < 0.1
    frame = pd.DataFrame({"y": y, "score": rng.normal(size=n) + 3 * y, "loss": rng.random(n)})
    frame.to_csv(path, index=False)
    return path


def test_certify_finds_both_thresholds(tmp_path, capsys):
    table, report = scored(tmp_path / "s.csv"), tmp_path / "r.html"
    certify = ("certify", table, "--label", "y", "--score", "score", "--goal", GOAL)
    assert run(*certify, "--report", report, "--strict") == 0
    assert "certified upper thresholds" in capsys.readouterr().out
    page = report.read_text("utf-8")
    assert "✓ certified at 90 %" in page
    assert "The band was chosen on these rows" in page
    money = "min cost(fp=1, fn=5*loss, review=0.1) s.t. fnr(clear) <= 20%"
    assert run(*certify[:-1], money, "--json") == 0
    assert printed(capsys)["certificate"]["certified"]
    assert "--threshold" in failure(capsys, *certify, "--threshold", 1)


def test_commands_for_one_threshold_say_what_to_use(files, tmp_path, capsys):
    table = scored(tmp_path / "s.csv")
    for command in (
        ("compare", files / "train.csv", "--target", "class", "--goal", GOAL),
        ("label", table, "--score", "score", "--goal", GOAL),
    ):
        error = failure(capsys, *command)
        assert "review band" in error
        assert "setpoint fit" in error

"""``setpoint evaluate``: counts, the check of a certificate, and rows of one class."""

import dataclasses
import json
from dataclasses import replace

import pandas as pd
import pytest
from cli_tables import DROPPED, failure, later, payments, printed, run
from scipy.stats import binomtest

from setpoint.cli import main
from setpoint.model_files import load
from setpoint.tables.model import TableModel


def evaluated(capsys, *arguments):
    """Return the exit code with --strict, what a person reads, and what a program does."""
    assert run("evaluate", *arguments) == 0
    text = capsys.readouterr().out
    code = run("evaluate", *arguments, "--json", "--strict")
    return code, text, printed(capsys)


def met_row(text):
    (line,) = [line for line in text.splitlines() if line.startswith("goal met")]
    return line.strip().split(maxsplit=2)[2]


def test_counts_are_those_of_the_alarms(files, model, capsys, tmp_path):
    rows = tmp_path / "rows.parquet"
    frame = payments(seed=1).drop(columns=DROPPED)
    frame.to_parquet(rows)
    report = tmp_path / "r.html"
    assert main(["evaluate", str(model), str(rows), "--json", "--report", str(report)]) == 0
    point = printed(capsys)["evaluated"]
    alarm = load(model).predict(frame.drop(columns="class"))["alarm"].to_numpy()
    fraud = frame["class"].to_numpy() == "fraud"
    assert (point["tp"], point["fp"]) == (int((alarm & fraud).sum()), int((alarm & ~fraud).sum()))
    assert report.exists()


def test_the_check_uses_one_row_per_group(files, tmp_path, capsys):
    goal = "max recall s.t. precision >= 0.3"
    fit = ["fit", str(files / "train.csv"), "--target", "class", "--goal", goal, "--model",
           "logistic", "--drop", "id", "--drop", "when", "--group", "customer", "--confidence",
           "0.9", "--out", str(tmp_path / "m"), "-q"]  # fmt: skip
    assert main(fit) == 0
    assert load(tmp_path / "m").certificate.one_per_group
    rows = tmp_path / "rows.csv"
    payments(seed=1).drop(columns=["id", "when"]).to_csv(rows, index=False)
    assert main(["evaluate", str(tmp_path / "m"), str(rows), "--json"]) == 0
    result = printed(capsys)
    assert result["verdict"]["looks"] == 1
    assert not result["verdict"]["broken"]
    payments(seed=1).drop(columns=["id", "when", "customer"]).to_csv(rows, index=False)
    assert main(["evaluate", str(tmp_path / "m"), str(rows)]) == 1
    assert "'customer'" in capsys.readouterr().err


def test_rows_are_scored_once(model, write_rows, monkeypatch):
    real, calls = TableModel.scores, []

    def counted(self, frame, **named):
        calls.append(len(frame))
        return real(self, frame, **named)

    monkeypatch.setattr(TableModel, "scores", counted)
    assert run("evaluate", model, write_rows(), "-q") == 0
    assert calls.count(600) == 1


def test_strict_applies_to_goal_and_certificate(certified, tmp_path, capsys):
    good, bad = later(tmp_path / "good.csv"), later(tmp_path / "bad.csv", broken=True)
    assert run("evaluate", certified, good, "--strict", "-q") == 0
    page = tmp_path / "page.html"
    assert run("evaluate", certified, bad, "--report", page) == 0
    out = capsys.readouterr().out
    assert "BROKEN" in out
    assert "certificate contradicted" in page.read_text("utf-8")
    assert run("evaluate", certified, bad, "--strict") == 3
    assert "BROKEN" in capsys.readouterr().out


def test_one_look_and_a_certificate_that_stands_although_the_goal_is_missed(
    certified, tmp_path, capsys
):
    rows = pd.read_csv(later(tmp_path / "rows.csv"))
    alarms = load(certified).predict(rows.drop(columns="class"))["alarm"].to_numpy()
    frauds = rows["class"].to_numpy() == "fraud"
    few = pd.concat([rows[alarms & frauds][:3], rows[alarms & ~frauds][:7], rows[~alarms]])
    few.to_csv(tmp_path / "few.csv", index=False)
    _, text, fields = evaluated(capsys, certified, tmp_path / "few.csv")
    verdict = fields["verdict"]
    counts = fields["evaluated"]
    tp, alarms = int(counts["tp"]), int(counts["tp"] + counts["fp"])
    exact = binomtest(tp, alarms, 0.5, "less").pvalue
    assert verdict["p_values"] == pytest.approx([exact])
    assert not verdict["broken"]
    assert met_row(text).split()[-1] == "no"
    words = " ".join(text.split())
    assert f"These rows alone: p = {exact:.3g} (exact test; valid only if this is the" in words
    assert "The certificate still stands although these rows miss the goal: it is about" in words


def test_a_report_shows_a_broken_certificate_of_groups(tmp_path, capsys):
    table = tmp_path / "table.csv"
    frame = payments(3000).drop(columns=["id", "when"]).assign(customer=range(3000))
    frame.to_csv(table, index=False)
    fit = ["fit", table, "--target", "class", "--goal", "max recall s.t. precision >= 0.5",
           "--positive", "fraud", "--model", "logistic", "--confidence", "0.9", "--out",
           tmp_path / "m", "-q", "--strict", "--group", "customer"]  # fmt: skip
    assert run(*fit) == 0
    frame["amount"], frame["night hour"] = 5000.0, True
    bad, page = tmp_path / "bad.csv", tmp_path / "page.html"
    frame.to_csv(bad, index=False)
    assert run("evaluate", tmp_path / "m", bad, "--report", page, "--strict", "-q") == 3
    assert "certificate contradicted" in page.read_text("utf-8")


def test_a_check_continues_from_file_to_file(certified, tmp_path, capsys):
    """Checked in parts, the counts are those of all rows together."""
    one, two = later(tmp_path / "one.csv", seed=1), later(tmp_path / "two.csv", seed=2)
    both = tmp_path / "both.csv"
    pd.concat([pd.read_csv(one), pd.read_csv(two)]).to_csv(both, index=False)
    kept = tmp_path / "verdict.json"
    assert run("evaluate", certified, one, "--json") == 0
    kept.write_text(capsys.readouterr().out, "utf-8")
    assert run("evaluate", certified, two, "--after", kept, "--json") == 0
    went_on = printed(capsys)
    assert run("evaluate", certified, both, "--json") == 0
    at_once = printed(capsys)
    assert went_on["verdict"]["looks"] == 2
    for name in ("tp", "fp", "fn", "tn"):
        assert (
            went_on["verdict"]["operating_point"][name]
            == at_once["verdict"]["operating_point"][name]
        )
    assert went_on["evaluated"]["tp"] < at_once["evaluated"]["tp"]  # of these rows alone


def test_a_broken_certificate_stays_broken(certified, tmp_path, capsys):
    bad, good = later(tmp_path / "bad.csv", broken=True), later(tmp_path / "good.csv")
    kept = tmp_path / "verdict.json"
    assert run("evaluate", certified, bad, "--json") == 0
    kept.write_text(capsys.readouterr().out, "utf-8")
    assert run("evaluate", certified, good, "--after", kept, "--strict", "-q") == 3


def test_a_check_continues_from_one_of_an_earlier_version(certified, tmp_path, capsys):
    rows, kept = later(tmp_path / "rows.csv"), tmp_path / "verdict.json"
    assert run("evaluate", certified, rows, "--json") == 0
    first = json.loads(capsys.readouterr().out)
    for name in ("since", "pending", "starts", "reserve"):
        del first["verdict"][name]
    kept.write_text(json.dumps(first), "utf-8")
    assert run("evaluate", certified, rows, "--after", kept, "--json") == 0
    second = json.loads(capsys.readouterr().out)["verdict"]
    assert second["looks"] == 2
    assert 0 < second["reserve"][0] < 1  # what the evidence was
    assert second["operating_point"]["tp"] == 2 * first["verdict"]["operating_point"]["tp"]


def test_files_that_a_check_cannot_continue_from(certified, model, tmp_path, capsys):
    rows, kept = later(tmp_path / "rows.csv"), tmp_path / "verdict.json"
    good = {"broken": False, "evidence": [1.0], "level": 0.05, "looks": 1, "certificate": ["x"],
            "operating_point": {"tp": 1, "fp": 0, "fn": 0, "tn": 3}}  # fmt: skip
    for content in ("[]", "{}", '{"verdict": null}', '{"verdict": {"broken": false}}',
                    json.dumps({"verdict": {**good, "evidence": []}}),
                    json.dumps({"verdict": {**good, "operating_point": {}}}),
                    json.dumps({"verdict": {**good, "starts": [[1, 2, 3]]}}),
                    json.dumps({"verdict": {**good, "starts": [[1, 2, 3, -1]]}}),
                    json.dumps({"verdict": {**good, "starts": [[9, 9, 9, 9]]}}),
                    json.dumps({"verdict": {**good, "starts": [[1, 0, 0, 2], [1, 0, 0, 1]]}}),
                    json.dumps({"verdict": {**good, "evidence": [float("nan")]}}),
                    json.dumps({"verdict": {**good, "evidence": [-5]}}),
                    json.dumps({"verdict": {**good, "looks": 1e999}}),
                    json.dumps({"verdict": {**good, "reserve": [float("inf")]}}),
                    "[" * 100_000,
                    json.dumps({"verdict": {**good, "reserve": [1.0, 1.0]}})):  # fmt: skip
        kept.write_text(content)
        assert run("evaluate", certified, rows, "--after", kept) == 1
        assert "is not the output of 'setpoint evaluate --json'" in capsys.readouterr().err
    kept.write_text(json.dumps({"verdict": good}))
    assert run("evaluate", certified, rows, "--after", kept) == 1
    assert "another certificate" in capsys.readouterr().err
    assert run("evaluate", certified, rows, "--after", tmp_path / "nothing.json") == 1
    assert "nothing.json" in capsys.readouterr().err
    assert run("evaluate", model, rows, "--after", kept) == 1
    assert "no certificate" in capsys.readouterr().err


def test_the_file_of_after_is_checked_before_the_rows_are_read(certified, tmp_path, capsys):
    rows = tmp_path / "not_read.csv"
    after = ["evaluate", certified, rows, "--after"]
    for place, words in (
        (tmp_path / "nofile.json", "there is no file"),
        (tmp_path, "is a folder"),
    ):
        assert run(*after, place) == 1
        err = capsys.readouterr().err
        assert f"{place}" in err
        assert words in err
        assert "evaluate --json" in err
        assert "Errno" not in err
    empty = tmp_path / "same.json"
    empty.touch()
    assert run(*after, empty) == 1
    err = capsys.readouterr().err
    assert "same.json is empty" in err
    assert "'> same.json' empties" in err
    (tmp_path / "odd.json").write_bytes(b"\xff\xfe\x00")
    assert run(*after, tmp_path / "odd.json") == 1
    assert "is not the output of 'setpoint evaluate --json'" in capsys.readouterr().err


def test_after_is_suggested_where_a_check_can_continue(certified, model, tmp_path, capsys):
    rows = later(tmp_path / "rows.csv")
    page = tmp_path / "page.html"
    assert run("evaluate", certified, rows, "--report", page) == 0
    assert "--after" in capsys.readouterr().out
    assert "setpoint evaluate --after" in page.read_text("utf-8")
    assert run("evaluate", certified, later(tmp_path / "bad.csv", broken=True)) == 0
    assert "--after" not in capsys.readouterr().out
    table = certified.parent / "table.parquet"
    fit = ["fit", table, "--target", "class", "--goal", "max recall s.t. precision >= 0.5",
           "--positive", "fraud", "--model", "logistic", "--out", tmp_path / "m"]  # fmt: skip
    assert run(*fit, "--confidence", 0.9) == 0
    assert "'setpoint evaluate', with --after" in capsys.readouterr().out
    assert run(*fit) == 0
    assert "--after" not in capsys.readouterr().out
    assert run("evaluate", model, rows) == 0  # which has no certificate
    assert "--after" not in capsys.readouterr().out


@pytest.mark.parametrize(("only", "missing"), [("fraud", "negatives"), ("ok", "positives")])
def test_goals_that_need_both_classes_are_not_evaluated(certified, tmp_path, capsys, only, missing):
    rows = later(tmp_path / "rows.csv", only=only)
    code, text, result = evaluated(capsys, certified, rows)
    assert met_row(text).split(maxsplit=1) == ["yes", "cannot be evaluated"]
    assert f"there are no {missing}, so '" in text
    assert code == 3
    point = result["evaluated"]
    assert point["feasible"] is None
    assert point["violation"] is None
    assert point["precision"] is None
    assert point["f1"] is None
    assert (point["recall"] is None) == (only == "ok")
    assert "cannot be evaluated" in point["message"]
    assert result["verdict"]["operating_point"]["feasible"] is None
    assert "selected by label" in text  # then the check of precision does not apply
    assert any("selected by label" in note for note in result["notes"])


def test_recall_can_be_judged_on_positives_alone(certified_recall, tmp_path, capsys):
    rows = later(tmp_path / "rows.csv", only="fraud")
    code, text, result = evaluated(capsys, certified_recall, rows)
    assert code == 0
    assert met_row(text).split() == ["yes", "yes"]
    assert "cannot be evaluated" not in text
    assert "there are no negatives" in text
    assert result["evaluated"]["feasible"] is True
    assert result["evaluated"]["objective"] is None  # precision
    assert "selected by label" not in text


def test_positives_alone_can_break_a_certificate_of_recall(certified_recall, tmp_path, capsys):
    rows = later(tmp_path / "rows.csv", only="fraud")
    calm = rows.read_text("utf-8").splitlines()
    head, *lines = (line.split(",") for line in calm)
    for line in lines:
        line[head.index("amount")], line[head.index("night hour")] = "0.01", "False"
    rows.write_text("\n".join(",".join(line) for line in [head, *lines]), "utf-8")
    code, text, result = evaluated(capsys, certified_recall, rows)
    assert code == 3
    assert met_row(text).split() == ["yes", "no"]
    assert "BROKEN" in text
    assert result["evaluated"]["feasible"] is False
    assert result["verdict"]["broken"] is True


def test_a_report_on_one_class_is_rejected_before_scoring(certified, tmp_path, capsys, monkeypatch):
    def scored(*given, **named):
        raise AssertionError("the work had begun")

    monkeypatch.setattr(TableModel, "labelled_scores", scored)
    page, figures = tmp_path / "page.html", tmp_path / "figures"
    for only, missing in (("fraud", "negative"), ("ok", "positive")):
        rows = later(tmp_path / "rows.csv", only=only)
        for option in (["--report", page], ["--figures", figures]):
            assert run("evaluate", certified, rows, *option) == 1
            out, err = capsys.readouterr()
            assert out == ""
            assert f"no {missing} rows in rows.csv; a report needs both classes" in err
    assert not page.exists()
    assert not figures.exists()


def test_importance_and_nearest_rows(model, rows, tmp_path, capsys):
    report = tmp_path / "r.html"
    arguments = ["evaluate", model, rows, "--report", report, "--importance", "--nearest", 2]
    assert run(*arguments) == 0
    out = capsys.readouterr().out
    assert "Importance. How much worse" in out
    assert "on rows.csv (600 rows)" in out
    assert "The scores closest to the threshold on rows.csv" in out
    assert "amount =" not in out
    text = report.read_text("utf-8")
    assert "Columns that the goal depends on" in text
    assert "Cases nearest to the threshold" in text
    assert run(*arguments, "--show-values", "--json") == 0
    result = printed(capsys)
    assert len(result["nearest"]["rows"]) == 4
    assert {"amount", "country"} <= set(result["nearest"]["rows"][0]["values"])
    assert result["importance"]["of_rows"] == 600


def test_explanations_that_rows_or_models_do_not_allow(model, tmp_path, capsys):
    fine = later(tmp_path / "fine.csv", only="ok")
    assert failure(capsys, "evaluate", model, fine, "--importance") == (
        "error: there are no positive rows; importance is measured on labelled rows of both "
        "classes.\n"
    )
    assert run("evaluate", model, fine, "--nearest", 1) == 0
    capsys.readouterr()
    assert run("evaluate", model, fine, "--nearest", 0) == 2
    band, table = tmp_path / "band", tmp_path / "t.csv"
    payments().drop(columns=DROPPED).to_csv(table, index=False)
    goal = "min review_rate s.t. precision(alarm) >= 0.6, npv(clear) >= 0.9"
    assert run("fit", table, "--target", "class", "--goal", goal, "--model", "logistic", "--out",
               band, "--report", tmp_path / "b.html", "-q") == 0  # fmt: skip
    assert "What moves the score" in (tmp_path / "b.html").read_text("utf-8")
    capsys.readouterr()
    assert "two thresholds" in failure(capsys, "evaluate", band, table, "--nearest", 1)


def test_drift(model, rows, tmp_path, capsys):
    assert run("evaluate", model, rows) == 0
    assert "Drift. No column of rows.csv (600 rows) differs" in capsys.readouterr().out
    frame = pd.read_csv(rows)
    frame["amount"] *= 5
    frame["country"] = "UK"
    frame.to_csv(rows, index=False)
    page = tmp_path / "r.html"
    assert run("evaluate", model, rows, "--report", page) == 0
    out = capsys.readouterr().out
    assert "2 of 3 columns differ from training" in out
    assert "large" in out
    assert "Columns, compared with training" in page.read_text("utf-8")
    assert run("evaluate", model, rows, "--json") == 0
    found = printed(capsys)["drift"]
    assert found["notable"] == 2
    assert (found["columns"][0]["column"], found["columns"][0]["unseen"]) == ("country", 1)


def test_models_without_summaries_are_evaluated_all_the_same(model, rows, tmp_path, capsys):
    replace(load(model), summaries=()).save(tmp_path / "old")
    assert run("evaluate", tmp_path / "old", rows, "--json") == 0
    result = printed(capsys)
    assert result["drift"] is None
    assert "no summary of its training rows" in result["notes"][-1]


# --- rows that have been seen before --------------------------------------------------------------

_TRAINED = "trained or certified this model"


def test_rows_that_trained_the_model_are_noticed(files, model, tmp_path, capsys):
    evaluate = ["evaluate", model, "--ignore-extra", "--json"]
    # 120 of its 600 rows were test rows; 8 of these are equal to training rows.
    for name in ("train.csv", "train.parquet"):
        assert run(*evaluate, files / name) == 0
        found = printed(capsys)
        assert found["rows_seen"] == {"in_training": 488 / 600, "in_earlier_checks": None}
        assert any(f"488 of 600 rows (81%) of {name} {_TRAINED}" in note for note in found["notes"])
    assert run(*evaluate, files / "new.csv") == 0
    found = printed(capsys)
    assert found["rows_seen"]["in_training"] < 0.1
    assert not any(_TRAINED in note for note in found["notes"])
    train = pd.read_csv(files / "train.csv")
    mixed = pd.concat([train.head(150), pd.read_csv(files / "new.csv")], ignore_index=True)
    mixed.to_csv(tmp_path / "mixed.csv", index=False)
    assert run("evaluate", model, tmp_path / "mixed.csv", "--ignore-extra") == 0
    assert _TRAINED in capsys.readouterr().err


def test_the_same_rows_twice_in_a_check_are_noticed(certified, tmp_path, capsys):
    twice = "were in earlier files of this check"
    outputs = []
    for i, seed in enumerate((1, 2, 1)):
        rows = later(tmp_path / f"month{i}.csv", seed=seed)
        after = ["--after", outputs[-1]] if outputs else []
        assert run("evaluate", certified, rows, "--json", *after) == 0
        outputs.append(tmp_path / f"{i}.json")
        text = capsys.readouterr().out
        outputs[-1].write_text(text)
        found = json.loads(text)
        assert any(twice in note for note in found["notes"]) == (i == 2)
    assert found["rows_seen"]["in_earlier_checks"] == 1
    shuffled = pd.read_csv(tmp_path / "month1.csv").sample(frac=1, random_state=0)
    shuffled.to_parquet(tmp_path / "again.parquet")
    assert run("evaluate", certified, tmp_path / "again.parquet", "--after", outputs[1]) == 0
    assert f"600 of 600 rows (100%) of again.parquet {twice}" in capsys.readouterr().err


def test_nothing_is_said_of_models_and_checks_without_fingerprints(certified, tmp_path, capsys):
    rows, before = later(tmp_path / "rows.csv"), tmp_path / "before.json"
    model = load(certified)
    dataclasses.replace(model, fingerprints=None).save(tmp_path / "old")
    assert run("evaluate", tmp_path / "old", rows, "--json") == 0
    found = printed(capsys)
    assert found["rows_seen"] == {"in_training": None, "in_earlier_checks": None}
    del found["fingerprints"]
    before.write_text(json.dumps(found))
    assert run("evaluate", tmp_path / "old", rows, "--json", "--after", before) == 0
    found = printed(capsys)
    assert found["rows_seen"] == {"in_training": None, "in_earlier_checks": None}
    assert found["fingerprints"]["rows"] == 600
    found["fingerprints"]["key"] = "nothing"
    before.write_text(json.dumps(found))
    assert "is not the output of" in failure(capsys, "evaluate", certified, rows, "--after", before)

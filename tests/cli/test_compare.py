"""``setpoint compare``."""

from cli_tables import GOAL, printed, run

from setpoint.cli import main
from setpoint.model_files import load


def test_models_and_goals_are_in_one_table(files, capsys):
    arguments = ["compare", str(files / "train.csv"), "--target", "class", "--positive", "fraud",
                 "--goal", GOAL, "--goal", "max f1", "--model", "logistic", "--model", "hgb",
                 "--drop", "id", "--drop", "when", "--drop", "customer"]  # fmt: skip
    assert main([*arguments, "--json"]) == 0
    rows = printed(capsys)["compared"]
    assert [(r["goal"], r["model"]) for r in rows] == [
        (g, m) for g in (GOAL, "max f1") for m in ("logistic", "hgb")
    ]
    assert all(
        r["test"]["tp"] + r["test"]["fn"] == rows[0]["test"]["tp"] + rows[0]["test"]["fn"]
        for r in rows
    )
    assert main(arguments) == 0
    assert "hgb" in capsys.readouterr().out


def test_piped_tables_are_not_cut_off(files, capsys):
    goal = "max recall s.t. precision >= 0.5, fpr <= 0.25, specificity >= 0.5, alarm_rate <= 0.9"
    compare = ["compare", files / "train.csv", "--target", "class", "--positive", "fraud",
               "--goal", goal, "--model", "logistic", "--model", "hgb", "--drop", "id",
               "--drop", "when", "--drop", "customer"]  # fmt: skip
    assert run(*compare) == 0
    out = capsys.readouterr().out
    assert "…" not in out
    assert sum(goal in line for line in out.splitlines()) == 2
    assert "goal met" in out
    assert "the best of several was chosen" in out
    assert "★: the best model for its goal on held-out training rows" in " ".join(out.split())
    assert run(*compare, "--json") == 0
    assert "slightly worse" in printed(capsys)["caution"]


def test_the_best_model_on_held_out_rows_is_saved_with_a_report(files, tmp_path, capsys):
    out, page = tmp_path / "best.zip", tmp_path / "page.html"
    compare = ["compare", files / "train.csv", "--target", "class", "--positive", "fraud",
               "--goal", GOAL, "--model", "logistic", "--model", "hgb", "--out", out, "--report",
               page, "--drop", "id,when,customer"]  # fmt: skip
    assert run(*compare, "--json") == 0
    found = printed(capsys)
    rows = found["compared"]
    best = max(rows, key=lambda row: row["held_out"]["objective"])
    assert all(row["held_out"]["feasible"] for row in rows)
    assert [row["chosen"] for row in rows] == [row is best for row in rows]
    assert (found["model"], found["report"]) == (str(out), str(page))
    # It is the model that fit trains.
    saved = load(out)
    assert saved.facts["model"] == best["model"]
    assert saved.operating_point.tp == best["held_out"]["tp"]
    text = page.read_text("utf-8")
    assert "Other models" in text
    assert f"★\N{NO-BREAK SPACE}{best['model']}" in text
    assert "likely to be worse on new ones" in text
    assert all(row["model"] in text for row in rows)


def test_certification_rows_do_not_choose_the_model(files, tmp_path, capsys):
    compare = ["compare", files / "train.csv", "--target", "class", "--positive", "fraud",
               "--goal", "max recall s.t. precision >= 0.3", "--model", "logistic", "--model",
               "linear", "--drop", "id,when,customer", "--confidence", "0.8"]  # fmt: skip
    assert run(*compare, "--json") == 0
    for row in printed(capsys)["compared"]:
        assert row["held_out"]["on"] != row["certificate"]["operating_point"]["on"]
        assert row["held_out"]["feasible"]


def test_one_goal_is_saved(files, tmp_path, capsys):
    compare = ["compare", files / "train.csv", "--target", "class", "--goal", GOAL, "--goal",
               "max f1", "--out", tmp_path / "m"]  # fmt: skip
    assert run(*compare) == 1
    assert "the best model of one goal" in capsys.readouterr().err
    over = ["compare", files / "train.csv", "--target", "class", "--goal", GOAL, "--out",
            files / "train.csv"]  # fmt: skip
    assert run(*over) == 1
    assert "train.csv" in capsys.readouterr().err

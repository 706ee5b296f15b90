"""``setpoint compare``."""

from cli_tables import GOAL, printed, run

from setpoint.cli import main


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
    assert "The best of several was chosen" in out
    assert run(*compare, "--json") == 0
    assert "slightly worse" in printed(capsys)["caution"]

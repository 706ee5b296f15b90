import json

import pytest

from setpoint.cli import demo, main
from setpoint.cli.output import Output


@pytest.fixture(scope="module")
def outcomes():
    return demo.run(Output(quiet=True))


def test_the_demo_prints_a_table_draws_a_picture_and_writes_a_report(
    outcomes, tmp_path, capsys, monkeypatch
):
    monkeypatch.setattr(demo, "run", lambda output: outcomes)
    folder = tmp_path / "new"
    picture, page = folder / "setpoint-demo.png", folder / "setpoint-demo.html"
    assert main(["demo", "--folder", str(folder)]) == 0
    out = capsys.readouterr().out
    for words in ("max recall", "s.t. precision >= 0.9", "logistic regression", "setpoint", "met"):
        assert words in out
    assert "…" not in out  # nothing is cut off
    assert str(picture) in out
    assert str(page) in out
    assert "nines" in page.read_text("utf-8")
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert main(["demo", "--folder", str(folder)]) == 0  # it may replace its own files


def test_on_validation_rows_the_goals_are_met_and_hardly_worse_than_the_baseline(outcomes):
    """Some of the objective is given up for floors that are likelier to hold."""
    for goal, (baseline, ours) in outcomes[0].items():
        assert ours.chosen.feasible, goal
        assert ours.chosen.on == baseline.chosen.on
        assert ours.chosen.objective >= baseline.chosen.objective - 0.2 * bool(goal.constraints)


def test_json_and_quiet(outcomes, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(demo, "run", lambda output: outcomes)
    for name in ("draw", "report"):
        monkeypatch.setattr(demo, name, lambda *given: None)
    assert main(["demo", "--folder", str(tmp_path), "--quiet"]) == 0
    assert capsys.readouterr().out == ""
    assert main(["demo", "--folder", str(tmp_path), "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert [row["goal"] for row in result["compared"]] == [g for g in demo.GOALS for _ in "ab"]
    assert result["picture"] == str(tmp_path / "setpoint-demo.png")

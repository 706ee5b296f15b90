import pytest

from setpoint import demo


@pytest.fixture(scope="module")
def outcomes():
    return demo.run()


def test_the_demo_prints_a_table_and_draws_a_picture(outcomes, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(demo, "run", lambda: outcomes)
    picture = tmp_path / "demo.png"
    demo.main(["--picture", str(picture)])
    out = capsys.readouterr().out
    for words in ("max recall", "s.t. precision >= 0.9", "logistic regression", "setpoint", "met"):
        assert words in out
    assert "…" not in out  # nothing is cut off
    assert str(picture) in out
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_on_validation_rows_the_goals_are_met_and_never_worse_than_the_baseline(outcomes):
    for goal, (baseline, ours) in outcomes[0].items():
        assert ours.chosen.feasible, goal
        assert ours.chosen.rank >= baseline.chosen.rank, goal

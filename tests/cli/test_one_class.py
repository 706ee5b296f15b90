"""Rows of one class: what they can say, and that nothing more is said."""

import json

import pytest
from cli_tables import later

from setpoint import Goal, OperatingPoint
from setpoint.cli import main
from setpoint.cli.points import is_met, point_fields
from setpoint.tables.model import TableModel


def run(*arguments):
    return main([str(a) for a in arguments])


def evaluated(capsys, *arguments):
    """Return the exit code with --strict, what a person reads, and what a program does."""
    assert run("evaluate", *arguments) == 0
    text = capsys.readouterr().out
    code = run("evaluate", *arguments, "--json", "--strict")
    return code, text, json.loads(capsys.readouterr().out)


def met_row(text):
    (line,) = [line for line in text.splitlines() if line.startswith("goal met")]
    return line.strip().split(maxsplit=2)[2]


@pytest.mark.parametrize(("only", "missing"), [("fraud", "negatives"), ("ok", "positives")])
def test_what_needs_both_classes_cannot_be_judged(promising, tmp_path, capsys, only, missing):
    rows = later(tmp_path / "rows.csv", only=only)
    code, text, told = evaluated(capsys, promising, rows)
    assert met_row(text).split(maxsplit=1) == ["yes", "cannot be judged"]
    assert f"there are no {missing}, so the goal" in text
    assert code == 3
    point = told["evaluated"]
    assert point["feasible"] is None
    assert point["violation"] is None
    assert point["precision"] is None
    assert point["f1"] is None
    assert (point["recall"] is None) == (only == "ok")
    assert "cannot be judged" in point["message"]
    assert told["verdict"]["operating_point"]["feasible"] is None
    assert "selected by label" in text  # for then the check of precision says nothing
    assert any("selected by label" in note for note in told["notes"])


def test_a_recall_is_judged_on_positives_alone(promising_recall, tmp_path, capsys):
    rows = later(tmp_path / "rows.csv", only="fraud")
    code, text, told = evaluated(capsys, promising_recall, rows)
    assert code == 0
    assert met_row(text).split() == ["yes", "yes"]
    assert "cannot be judged" not in text
    assert "there are no negatives" in text
    assert told["evaluated"]["feasible"] is True
    assert told["evaluated"]["objective"] is None  # precision
    assert "selected by label" not in text


def test_a_promise_of_recall_is_broken_by_positives_alone(promising_recall, tmp_path, capsys):
    rows = later(tmp_path / "rows.csv", only="fraud")
    calm = rows.read_text("utf-8").splitlines()
    head, *lines = (line.split(",") for line in calm)
    for line in lines:
        line[head.index("amount")], line[head.index("night hour")] = "0.01", "False"
    rows.write_text("\n".join(",".join(line) for line in [head, *lines]), "utf-8")
    code, text, told = evaluated(capsys, promising_recall, rows)
    assert code == 3
    assert met_row(text).split() == ["yes", "no"]
    assert "BROKEN" in text
    assert told["evaluated"]["feasible"] is False
    assert told["verdict"]["broken"] is True


def test_a_report_of_one_class_is_refused_before_the_scoring(
    promising, tmp_path, capsys, monkeypatch
):
    def scored(*given, **named):
        raise AssertionError("the work had begun")

    monkeypatch.setattr(TableModel, "labelled_scores", scored)
    page, figures = tmp_path / "page.html", tmp_path / "figures"
    for only, missing in (("fraud", "negative"), ("ok", "positive")):
        rows = later(tmp_path / "rows.csv", only=only)
        for option in (["--report", page], ["--figures", figures]):
            assert run("evaluate", promising, rows, *option) == 1
            out, err = capsys.readouterr()
            assert out == ""
            assert f"no {missing} rows in rows.csv; a report needs both classes" in err
    assert not page.exists()
    assert not figures.exists()


@pytest.mark.parametrize(
    ("goal", "counts", "expected"),
    [
        ("max recall s.t. precision >= 0.5", (5, 0, 1, 0), None),
        ("max recall s.t. precision >= 0.5", (0, 5, 0, 90), None),
        ("max f1", (5, 0, 1, 0), None),
        ("max f1", (5, 1, 1, 9), True),
        ("max precision s.t. recall >= 0.9", (5, 0, 1, 0), False),
        ("max precision s.t. recall >= 0.5", (5, 0, 1, 0), True),
        ("max precision s.t. fnr <= 0.5", (5, 0, 1, 0), True),
        ("max precision s.t. recall >= 0.5", (0, 5, 0, 90), None),
        ("max recall s.t. fpr <= 0.1", (0, 5, 0, 95), True),
        ("max recall s.t. specificity >= 0.99", (0, 5, 0, 95), False),
        ("max recall s.t. fpr <= 0.1", (0, 0, 0, 95), False),  # no alarms keep no goal
        ("max recall s.t. alarm_rate <= 0.1", (0, 5, 0, 95), None),
        # what is missed on one class is missed, whatever the other would say
        ("max f1 s.t. recall >= 0.9, precision >= 0.5", (5, 0, 5, 0), False),
        ("max f1 s.t. recall >= 0.3, precision >= 0.5", (5, 0, 5, 0), None),
        ("max f1 s.t. npv >= 0.9", (5, 2, 0, 0), True),  # 1 by convention, of both classes
    ],
)
def test_what_one_class_says_of_a_goal(goal, counts, expected):
    point = OperatingPoint(0.0, *map(float, counts), Goal.parse(goal), "the rows")
    assert is_met(point) is expected
    fields = point_fields(point)
    assert (fields["feasible"] is None) == (expected is None)
    assert json.loads(json.dumps(fields, allow_nan=False)) == fields
    if expected is not None:
        assert "cannot be judged" not in fields["message"]

"""The verdict of ``setpoint evaluate`` in the text format of Prometheus."""

import math
import time

import pytest
from cli_tables import GOAL, failure, later, payments, printed, run

from setpoint.cli.prometheus import Samples

parser = pytest.importorskip("prometheus_client.parser")


def gauges(path):
    """Return the values of a file by name and labels besides model and goal."""
    text, found = path.read_text("utf-8"), {}
    assert text.endswith("\n")
    for family in parser.text_string_to_metric_families(text):
        assert family.type == "gauge"
        assert family.documentation
        for sample in family.samples:
            labels = dict(sample.labels)
            assert {"model", "goal"} <= set(labels)
            model, goal = labels.pop("model"), labels.pop("goal")
            found[sample.name.removeprefix("setpoint_"), *labels.values()] = sample.value
    return found, model, goal


def test_a_certificate_that_holds_and_one_that_is_contradicted(certified, tmp_path, capsys):
    metrics = tmp_path / "metrics.prom"
    for broken in (False, True):
        rows = later(tmp_path / f"{broken}.csv", broken=broken)
        before = time.time()
        assert run("evaluate", certified, rows, "--prometheus", metrics, "--json") == 0
        result = printed(capsys)
        assert result["prometheus"] == str(metrics)
        found, model, goal = gauges(metrics)  # it replaces the file of the earlier check
        assert (model, goal) == (str(certified), "max recall s.t. precision >= 0.5")
        point, verdict = result["evaluated"], result["verdict"]
        assert found["rows",] == 600
        assert found["positive_rows",] == point["tp"] + point["fn"]
        assert found["alarms",] == point["tp"] + point["fp"]
        assert found["metric_value", "precision"] == pytest.approx(point["precision"])
        assert found["threshold",] == point["threshold"]
        assert found["goal_met",] == (not broken)
        assert found["certified",] == 1
        assert found["certificate_holds",] == (not broken) == (not verdict["broken"])
        assert found["certificate_checks",] == 1
        promise = "precision >= 0.5"
        assert found["certificate_evidence", promise] == pytest.approx(verdict["evidence"][0])
        assert (found["certificate_p_value", promise] < 0.05) == broken
        assert found["certificate_one_look_p_value", promise] == verdict["p_values"][0]
        drift = result["drift"]
        assert found["columns_different",] == drift["notable"]
        for column in drift["columns"]:
            assert found["column_difference", column["column"]] == pytest.approx(column["size"])
        assert found["rows_seen_in_training_ratio",] == result["rows_seen"]["in_training"]
        assert before <= found["last_check_timestamp_seconds",] <= time.time()


def test_a_model_without_a_certificate_and_rows_of_one_class(model, write_rows, tmp_path):
    metrics, frame = tmp_path / "m.prom", payments(seed=1).drop(columns=["id", "when", "customer"])
    rows = write_rows(frame[frame["class"] == "ok"])
    assert run("evaluate", model, rows, "--prometheus", metrics, "-q") == 0
    found, _, goal = gauges(metrics)
    assert goal == GOAL
    assert found["certified",] == found["positive_rows",] == 0
    assert not {"certificate_holds", "goal_met"} & {key[0] for key in found}
    assert ("metric_value", "recall") not in found


def test_several_labels_have_a_label_each(tmp_path):
    frame = payments(600)[["amount", "class", "country"]].fillna(1.0)
    frame = frame.assign(**{'a "b"\\c': (frame["amount"] > 30).astype(int)})
    frame["class"] = (frame["class"] == "fraud").astype(int)
    frame.to_csv(tmp_path / "t.csv", index=False)
    fit = ["fit", tmp_path / "t.csv", "--target", "class", "--target", 'a "b"\\c', "--goal",
           "max f1", "--out", tmp_path / "m", "-q"]  # fmt: skip
    assert run(*fit) == 0
    metrics = tmp_path / "m.prom"
    evaluate = ["evaluate", tmp_path / "m", tmp_path / "t.csv", "--prometheus", metrics, "-q"]
    assert run(*evaluate) == 0
    found, _, _ = gauges(metrics)
    assert found["rows", "class"] == found["rows", 'a "b"\\c'] == 600
    assert found["metric_value", "f1", 'a "b"\\c'] > 0.9


def test_no_file_of_another_program_is_replaced(model, rows, tmp_path, capsys, no_work):
    (tmp_path / "other.prom").write_text("node_load1 0.5\n")
    for path, words in (
        (tmp_path / "other.prom", "is not the Prometheus file of an earlier run"),
        (rows, "is the table"),
        (model / "m.prom", "is inside the model"),
        (tmp_path / "no" / "m.prom", "does not exist"),
    ):
        assert words in failure(capsys, "evaluate", model, rows, "--prometheus", path)
    assert (tmp_path / "other.prom").read_text() == "node_load1 0.5\n"


def test_odd_numbers_and_labels(tmp_path):
    samples = Samples('C:\\models\\"new"\none', "max f1")
    for i, value in enumerate((math.inf, -math.inf, math.nan, 0.1, True, 10**15 + 0.5)):
        samples.add("metric_value", value, metric=str(i))
    samples.add("metric_value", None, metric="none")
    assert [kind for kind, _ in samples.write(tmp_path / "m.prom")] == ["prometheus"]
    found, model, _ = gauges(tmp_path / "m.prom")
    assert model == 'C:\\models\\"new"\none'
    values = [value for (name, *_), value in found.items() if name == "metric_value"]
    assert values[:2] == [math.inf, -math.inf]
    assert math.isnan(values[2])
    assert values[3:] == [0.1, 1.0, 10**15 + 0.5]
    assert list(samples.write(None)) == []

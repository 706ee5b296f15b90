"""``setpoint certify``."""

import numpy as np
import pandas as pd
from cli_tables import GOAL, failure, printed, run

from setpoint import choose_threshold
from setpoint.cli import main


def test_scores_of_any_model_are_certified(files, tmp_path, capsys):
    rng = np.random.default_rng(0)
    y = rng.random(4000) < 0.2
    scores = rng.normal(size=4000) + 2.2 * y
    table = tmp_path / "scores.csv"
    pd.DataFrame({"y": np.where(y, "sick", "well"), "p": scores}).to_csv(table, index=False)
    arguments = ["certify", str(table), "--label", "y", "--score", "p", "--positive", "sick",
                 "--goal", "max recall s.t. precision >= 0.7", "--json"]  # fmt: skip
    assert main(arguments) == 0
    certificate = printed(capsys)["certificate"]
    assert certificate["certified"]
    assert certificate["confidence"] == 0.9
    best = choose_threshold(y, scores, "max recall s.t. precision >= 0.7")
    assert certificate["threshold"] >= best.threshold  # certifying takes a margin
    hard = [a.replace("0.7", "0.999") for a in arguments]
    assert main(hard) == 0
    assert not printed(capsys)["certificate"]["certified"]
    assert main([*hard, "--strict"]) == 3


def test_the_positive_label_is_noted_unless_given(tmp_path, capsys):
    rng = np.random.default_rng(0)
    y = rng.random(2000) < 0.2
    table = tmp_path / "scores.csv"
    scores = rng.normal(size=2000) + 2 * y
    pd.DataFrame({"y": np.where(y, "sick", "well"), "p": scores}).to_csv(table, index=False)
    certify = ["certify", table, "--label", "y", "--score", "p", "--goal", GOAL]
    assert run(*certify) == 0
    assert "'sick' is taken as the positive label" in capsys.readouterr().err
    assert run(*certify, "--positive", "sick") == 0
    assert "taken for" not in capsys.readouterr().err
    assert run(*certify, "--json") == 0
    result = printed(capsys)
    assert (result["positive"], result["negative"]) == ("sick", "well")
    assert any("'sick' is taken" in note for note in result["notes"])


def test_several_positive_labels(tmp_path, capsys):
    rng = np.random.default_rng(0)
    y = rng.integers(0, 4, 2000)
    scores = rng.normal(size=2000) + 2.5 * np.isin(y, [1, 2])
    table = tmp_path / "scores.csv"
    pd.DataFrame({"y": y, "yes": np.isin(y, [1, 2]), "p": scores}).to_csv(table, index=False)
    certify = ["certify", table, "--score", "p", "--goal", GOAL, "--json"]
    assert run(*certify, "--label", "y", "--positive", "1,2") == 0
    several = printed(capsys)
    assert (several["positive"], several["negative"]) == ("1 or 2", "other")
    assert run(*certify, "--label", "yes") == 0
    assert printed(capsys)["certificate"] == several["certificate"]
    message = failure(capsys, *certify[:-1], "--label", "y")
    assert "4 distinct values" in message
    assert "--positive 1,2" in message


def test_rows_that_choose_thresholds_are_noted(tmp_path, capsys):
    rng = np.random.default_rng(0)
    y = rng.random(1000) < 0.2
    pd.DataFrame({"y": y * 1, "p": rng.normal(size=1000) + 2 * y}).to_csv(tmp_path / "t.csv")
    certify = ["certify", tmp_path / "t.csv", "--label", "y", "--score", "p"]
    assert run(*certify, "--goal", "max f1", "--json") == 0
    result = printed(capsys)
    counts = result["certificate"]["operating_point"]
    used = int(sum(counts[name] for name in ("tp", "fp", "fn", "tn")))
    assert used < 1000
    assert f"{1000 - used:,} of the 1,000 rows chose the thresholds to test" in result["notes"][0]
    assert run(*certify, "--goal", "max f1", "--threshold", "1") == 0
    assert "rows chose the thresholds" not in capsys.readouterr().err

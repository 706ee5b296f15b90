"""Small tables for the command line's tests."""

import json

import numpy as np
import pandas as pd

from setpoint.cli import main

GOAL = "max recall s.t. precision >= 0.6"
DROPPED = ["id", "when", "customer"]


def run(*arguments):
    """Run a command; return its exit code."""
    return main([str(a) for a in arguments])


def printed(capsys):
    """Return the JSON object that a command has printed."""
    return json.loads(capsys.readouterr().out)


def failure(capsys, *arguments, code=1):
    """Run a command that fails; return its error message."""
    assert run(*arguments) == code
    out, err = capsys.readouterr()
    assert out == ""
    assert "Traceback" not in err
    assert "Errno" not in err
    return err


def payments(n=600, seed=0):
    """A small table of payments, every sixth of which is a fraud, more or less visibly."""
    rng = np.random.default_rng(seed)
    fraud = rng.random(n) < 1 / 6
    frame = pd.DataFrame(
        {
            "id": [f"p{seed}-{k}" for k in range(n)],
            "amount": np.round(np.exp(rng.normal(3 + 1.8 * fraud, 0.8)), 2),
            "night hour": rng.random(n) < np.where(fraud, 0.7, 0.2),
            "country": rng.choice(["DE", "FR", "NL"], n),
            "when": pd.Timestamp("2024-01-01") + pd.to_timedelta(np.arange(n), unit="h"),
            "customer": rng.integers(0, n // 4, n),
            "class": np.where(fraud, "fraud", "ok"),
        }
    )
    frame.loc[::17, "amount"] = np.nan
    return frame


def fit_arguments(files, out, *more):
    model = () if "--model" in more else ("--model", "logistic")
    return [
        "fit", str(files / "train.csv"), "--target", "class", "--goal", GOAL, "--positive", "fraud",
        *model, "--drop", "id", "--drop", "when", "--drop", "customer",
        "--out", str(out), *map(str, more),
    ]  # fmt: skip


def certified_model(folder, goal):
    """Fit a model with a certificate, and return where it is."""
    table, out = folder / "table.parquet", folder / "model"
    payments(3000).drop(columns=DROPPED).to_parquet(table)
    fit = ["fit", table, "--target", "class", "--goal", goal, "--positive", "fraud", "--model",
           "logistic", "--confidence", "0.9", "--out", out, "-q", "--strict"]  # fmt: skip
    assert run(*fit) == 0
    return out


def later(path, n=600, seed=1, broken=False, only=None):
    """Write labelled rows, of one class only if wanted."""
    frame = payments(n, seed).drop(columns=DROPPED)
    if broken:  # everything looks like a fraud
        frame["amount"], frame["night hour"] = 5000.0, True
    if only is not None:
        frame = frame[frame["class"] == only]
    frame.to_csv(path, index=False)
    return path

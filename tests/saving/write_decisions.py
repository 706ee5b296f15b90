"""Write a saved review band and a saved model of several labels, with their decisions.

As for ``write_fixtures.py``: run once for a file format, and never to repair a failing test.

    python tests/saving/write_decisions.py tests/saving/fixtures/decisions

Each model has a folder with ``model.zip``, ``rows.csv`` and ``decided.csv``, the result of
``setpoint predict``. Rows with a score near a threshold are left out.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from setpoint.tables import fit_labels, fit_table

CLEARANCE = 1e-3
BAND_GOAL = "min review_rate s.t. precision(alarm) >= 0.9, npv(clear) >= 0.95"
LABELS_GOAL = "max recall s.t. precision >= 0.6"


def table(n: int, seed: int) -> pd.DataFrame:
    """Return rows of a number and a category, with a class and two labels."""
    rng = np.random.default_rng(seed)
    fraud = rng.random(n) < 0.3
    frame = pd.DataFrame(
        {
            "amount": np.round(np.exp(rng.normal(3 + 1.6 * fraud, 0.6)), 2),
            "country": rng.choice(["DE", "FR", "Åland"], n),
            "class": np.where(fraud, "fraud", "ok"),
        }
    )
    frame["large"] = frame["amount"] > np.exp(rng.normal(4, 0.3, n))
    frame["north"] = (frame["country"] == "Åland") ^ (rng.random(n) < 0.1)
    return frame


def fitted_models() -> dict[str, Any]:
    """Return the models, by the names of their fixtures."""
    rows = table(2400, seed=0)
    classified, labelled = rows.drop(columns=["large", "north"]), rows.drop(columns="class")
    options: dict[str, Any] = {"model": "logistic", "confidence": 0.8}
    band = fit_table(classified, "class", BAND_GOAL, positive="fraud", **options).model
    labels = fit_labels(labelled, ["large", "north"], LABELS_GOAL, **options).model
    assert band.certificate.certified
    assert labels.certificate.certified
    return {"band": band, "labels": labels}


def main(folder: Path) -> None:
    """Write both fixtures."""
    if folder.exists():
        raise SystemExit(f"{folder} already exists; saved models are not written again.")
    for name, model in fitted_models().items():
        own = folder / name
        own.mkdir(parents=True)
        rows = table(40, seed=1)[["amount", "country"]]
        decided = model.predict(rows)
        scores = decided[[c for c in decided if c.endswith("score")]].to_numpy()
        thresholds = model.rule.thresholds if name == "band" else (0.0,)
        distance = np.min([np.abs(scores - t).min(axis=1) for t in thresholds], axis=0)
        clear = distance > CLEARANCE
        model.save(own / "model.zip")
        rows[clear].to_csv(own / "rows.csv", index=False)
        decided[clear].to_csv(own / "decided.csv", index=False)


if __name__ == "__main__":
    main(Path(sys.argv[1]))

"""A messy table, of which some rows are fraud."""

import numpy as np
import pandas as pd
import pytest

WORDS = ["please", "send", "the", "parcel", "to", "my", "address", "today", "pay", "later"]


def make_table(n=600, seed=0):
    """Return a table of all kinds of columns, with the target in the middle."""
    rng = np.random.default_rng(seed)
    amount = rng.lognormal(3, 1, n)
    country = rng.choice(["home", "near", "far"], n, p=[0.7, 0.2, 0.1])
    urgent = rng.random(n) < 0.3
    risk = (np.log(amount) - 3) + 2.5 * (country == "far") + 1.5 * urgent + rng.normal(0, 0.5, n)
    notes = [
        " ".join(rng.choice(WORDS, 6)) + (" urgent transfer" if u else "") + f" {i}"
        for i, u in enumerate(urgent)
    ]
    frame = pd.DataFrame(
        {
            "größe (€) ": np.where(rng.random(n) < 0.1, np.nan, amount),
            "account": 2**60 + rng.integers(0, 10**6, n),
            "ratio": np.where(rng.random(n) < 0.02, np.inf, rng.normal(size=n)),
            "known": pd.array(rng.choice([True, False, None], n), dtype="boolean"),
            "country": country,
            "outcome": np.where(risk > 1.5, "fraud", "fine"),
            "merchant": [f"shop {i}" for i in rng.integers(0, 10_000, n)],
            "mixed": [i if i % 3 else f"m{i % 4}" for i in range(n)],
            "opened": pd.date_range("2020", periods=n, freq="5h", tz="Europe/Paris"),
            "day": [f"{1 + i % 28:02d}.{1 + i % 12:02d}.2023" for i in range(n)],
            "note": notes,
            "empty": [None] * n,
            "one": 1,
            "customer": rng.integers(0, n // 3, n),
            "when": pd.date_range("2024", periods=n, freq="h"),
        }
    )
    gone = rng.random((n, 4)) < 0.03
    for i, name in enumerate(["country", "merchant", "opened", "note"]):
        frame[name] = frame[name].where(~gone[:, i], None)
    return frame


@pytest.fixture(scope="session")
def table():
    return make_table()


@pytest.fixture(scope="session")
def later():
    """Other rows, with levels that were not there before, and columns that are all missing."""
    frame = make_table(300, seed=1)
    frame.loc[:10, "country"] = "nowhere yet"
    frame.loc[20:40, "ratio"] = -np.inf
    frame["größe (€) "] = np.nan
    return frame

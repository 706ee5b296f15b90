"""A table of payments with columns of all kinds and missing values."""

import numpy as np
import pandas as pd

GOAL = "max recall s.t. precision >= 0.6"
_WORDS = [
    "gift",
    "refund",
    "invoice",
    "urgent",
    "rent",
    "card",
    "crypto",
    "voucher",
    "salary",
    "order",
    "loan",
    "fee",
]


def payments(n=600, seed=0):
    """Return rows with the label ``fraud`` and an identifier."""
    rng = np.random.default_rng(seed)
    fraud = rng.random(n) < 0.3
    words = rng.choice(_WORDS, (n, 5))
    words[fraud, 0] = rng.choice(["crypto", "voucher", "urgent"], fraud.sum())
    frame = pd.DataFrame(
        {
            "amount due": rng.lognormal(3 + 0.7 * fraud, 1).round(2),
            "items": rng.integers(1, 9, n),
            "country": rng.choice(["DE", "FR", "PL", "ü, x"], n, p=[0.4, 0.3, 0.2, 0.1]),
            "note": [f"{' '.join(row)} {i}" for i, row in enumerate(words)],
            "when": pd.Timestamp("2024-01-01 08:30")
            + pd.to_timedelta(rng.integers(0, 10**7, n), unit="s"),
            "known": rng.random(n) < np.where(fraud, 0.4, 0.8),
            "fraud": np.where(fraud, "yes", "no"),
        }
    )
    frame["known"] = frame["known"].astype("boolean")
    for name in ("amount due", "country", "note", "when", "known"):
        frame.loc[rng.random(n) < 0.1, name] = None
    return frame


def arrays(n=400, seed=0, dtype=np.float64):
    """Return rows of numbers and their labels."""
    rng = np.random.default_rng(seed)
    y = rng.random(n) < 0.3
    return (rng.standard_normal((n, 4)) + 1.2 * y[:, None]).astype(dtype), y.astype(int)

"""Small tables with the names and columns of those that the tutorials are about."""

import numpy as np
import pandas as pd


def creditcard(path, n=1500):
    """Write payments: components without a name, an amount, and whether it is a fraud."""
    rng = np.random.default_rng(0)
    fraud = rng.random(n) < 0.2
    V = rng.normal(size=(n, 28)) + 2.0 * fraud[:, None] * (np.arange(28) < 3)
    frame = pd.DataFrame(V, columns=[f"V{k}" for k in range(1, 29)])
    frame.insert(0, "Time", np.arange(n))
    frame["Amount"] = np.round(np.exp(rng.normal(3, 1, n)), 2)
    frame["Class"] = fraud.astype(int)
    frame.to_csv(path, index=False)


def sms_spam(path, n=700):
    """Write messages, some of which try to sell something."""
    rng = np.random.default_rng(0)
    spam = rng.random(n) < 0.3
    plain = ["see", "you", "at", "the", "station", "tonight", "lunch", "tomorrow", "home", "late"]
    loud = ["win", "free", "prize", "claim", "now", "urgent", "cash", "offer", "reply", "award"]
    texts = [
        " ".join([*rng.choice(loud if bad else plain, 8), *rng.choice(plain, 3)]) for bad in spam
    ]
    pd.DataFrame({"text": texts, "label": spam.astype(int)}).to_parquet(path)


STAND_INS = {"creditcard.csv": creditcard, "sms_spam.parquet": sms_spam}

"""A small table with several columns of labels."""

import numpy as np
import pandas as pd

TARGETS = ("spam", "urgent", "rare")


def tickets(n=900, seed=0):
    """Return rows whose labels can be learnt, one of them rarer than the others."""
    rng = np.random.default_rng(seed)
    shift = {"spam": 0.4, "urgent": 0.8, "rare": 1.9}
    X = rng.normal(size=(n, 3))
    frame = pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "c": X[:, 2]}).round(4)
    frame["channel"] = rng.choice(["mail", "chat"], n)
    for place, (name, at) in enumerate(shift.items()):
        frame[name] = (X[:, place] + 0.5 * rng.normal(size=n) > at).astype(int)
    return frame

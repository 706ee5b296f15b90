"""A table with columns of all kinds and odd values, and databases that run statements on it."""

import numpy as np
import pandas as pd

ODD = ['a "quoted" name', "select", "naïve `ü` 'x' \\", "1; DROP TABLE rows; --"]


def odd_table(n, seed=0, new=False):
    """Return rows with labels; new ones also have values that training has not seen."""
    rng = np.random.default_rng(seed)
    positive = rng.random(n) < 0.3
    number, other, choice, flag = ODD
    frame = pd.DataFrame(
        {
            number: rng.lognormal(0.8 * positive, 1.5),
            "whole": rng.integers(-5, 6, n) * 10.0 ** rng.integers(0, 6, n),
            "rarely": np.where(rng.random(n) < 0.9, 0.0, rng.standard_normal(n)),
            other: rng.choice(["", "it's", "back\\slash", "two\nlines", " x\t", "ü"], n),
            choice: rng.choice(list("abcdef"), n, p=[0.5, 0.2, 0.1, 0.1, 0.06, 0.04]),
            flag: rng.random(n) < np.where(positive, 0.6, 0.3),
            "when": pd.Timestamp("2003-11-02 03:04:05.678901")
            + pd.to_timedelta(rng.integers(0, 10**15, n), unit="us"),
            "day": pd.Timestamp("1968-01-01") + pd.to_timedelta(rng.integers(0, 9000, n), "D"),
            "class": np.where(positive, "bad", "it's ok"),
        }
    )
    frame[flag] = frame[flag].astype("boolean")
    for name, fraction in ((number, 0.1), ("rarely", 0.001), (flag, 0.1), ("when", 0.1)):
        frame.loc[rng.random(n) < fraction, name] = None
    frame.loc[rng.random(n) < 0.02, choice] = None
    if new:
        odd = [np.inf, -np.inf, np.nan, -0.0, 0.0, 1e300, -1e300, 1e99, 5e-324, -1e-200, 1e38, 1e37]
        for k, name in enumerate((number, "whole", "rarely")):
            frame.loc[frame.index[k : k + len(odd)], name] = odd
            frame.loc[frame.index[40 + k], ["when", "day"]] = pd.NaT
        frame.loc[frame.index[20:26], other] = ["new", "NULL", "'", "\u00a0ü\u2003", None, "  "]
        frame.loc[frame.index[20:24], choice] = ["A", "a ", "\na", None]
        frame.loc[frame.index[30:36], flag] = [None, True, False, None, True, False]
        # Halfway between 32-bit floats, whose distance is 128 seconds here.
        frame.loc[frame.index[60:90], "when"] = pd.to_datetime(
            1_600_000_000 // 64 * 64 + 64 * np.arange(30), unit="s"
        )
    return frame


def in_duckdb(statement, frame, table="rows"):
    """Return the result of a statement in DuckDB, in the order of the rows."""
    import duckdb

    with duckdb.connect() as database:
        database.execute("SET threads = 1")
        database.register("given", frame)
        database.execute(f'CREATE TABLE "{table}" AS SELECT * FROM given')
        return database.sql(statement).to_arrow_table().to_pandas()

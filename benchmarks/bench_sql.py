"""Exported SQL statements in DuckDB, compared with the models in Python.

    python benchmarks/bench_sql.py [--rows 100000]

For each model: the largest difference of scores, the number of different decisions, and the time
to score all rows. Both use one thread and start from a table in memory; the time of DuckDB includes
planning the statement.
"""

from __future__ import annotations

import argparse
import time
import warnings

import duckdb
import numpy as np
import pandas as pd
from threadpoolctl import threadpool_limits

from setpoint._internal.provenance import machine
from setpoint.export.sql import sql_statement
from setpoint.tables.fitting import fit_table

_TRAINING = 5_000
_MODELS = ("linear", "logistic", "hgb", "forest")


def payments(n: int, seed: int) -> pd.DataFrame:
    """Return rows of mixed columns with missing values, every twelfth of them a fraud."""
    rng = np.random.default_rng(seed)
    fraud = rng.random(n) < 1 / 12
    frame = pd.DataFrame(
        {
            "amount": np.round(rng.lognormal(3 + 1.2 * fraud, 1.1), 2),
            "age": rng.integers(18, 90, n),
            "balance": rng.normal(2_000, 1_500, n) - 800 * fraud,
            "visits": rng.poisson(3 + 2 * fraud).astype(float),
            "limit": np.where(rng.random(n) < 0.97, 5_000.0, rng.lognormal(8, 1, n)),
            "country": rng.choice(["DE", "FR", "NL", "PL", "IT"], n, p=[0.5, 0.2, 0.15, 0.1, 0.05]),
            "channel": rng.choice(["app", "web", "branch"], n),
            "night": rng.random(n) < np.where(fraud, 0.5, 0.2),
            "when": pd.Timestamp("2019-01-01") + pd.to_timedelta(rng.integers(0, 1.5e8, n), "s"),
            "fraud": np.where(fraud, "yes", "no"),
        }
    )
    for name, fraction in (("amount", 0.05), ("balance", 0.1), ("channel", 0.03), ("when", 0.02)):
        frame.loc[rng.random(n) < fraction, name] = None
    return frame


def compare(model: str, rows: pd.DataFrame, database: duckdb.DuckDBPyConnection) -> str:
    """Return a row of the table: one model in DuckDB and in Python."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a goal that is missed on the validation rows
        fitted = fit_table(
            payments(_TRAINING, 0), "fraud", "max recall s.t. precision >= 0.5", model=model
        ).model
    statement = sql_statement(fitted)
    started = time.perf_counter()
    database.execute(f"CREATE OR REPLACE TABLE scored AS {statement}")
    in_sql = time.perf_counter() - started
    with threadpool_limits(1):
        started = time.perf_counter()
        expected = fitted.predict(rows)
        in_python = time.perf_counter() - started
    found = database.sql("SELECT score, alarm FROM scored").df()
    off = np.abs(found["score"] - expected["score"].astype(float)).max()
    different = int((found["alarm"] != expected["alarm"]).sum())
    return (
        f"| {model} | {len(statement.encode()) / 1e6:.2f} MB | {off:.1e} | {different} "
        f"| {in_sql:.1f} s | {in_python:.1f} s | {in_sql / in_python:.1f} |"
    )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=100_000)
    count = parser.parse_args().rows
    rows = payments(count, 1).drop(columns="fraud")
    database = duckdb.connect()
    database.execute("SET threads = 1")
    database.register("given", rows)
    database.execute('CREATE TABLE "rows" AS SELECT * FROM given')
    print(f"{machine()}, duckdb {duckdb.__version__}; {count:,} rows\n")
    print("| model | statement | largest difference | other decisions | DuckDB | Python | ratio |")
    print("|---|---|---|---|---|---|---|")
    for model in _MODELS:
        print(compare(model, rows, database), flush=True)


if __name__ == "__main__":
    main()

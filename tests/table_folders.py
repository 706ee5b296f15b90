"""Tables in folders of several files."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq


def write(frame, folder, cuts=(0.3, 0.45), groups=(37, 200, 61), endings=("parquet",) * 3):
    """Write a table as several files, whose row groups differ in size."""
    folder.mkdir(parents=True, exist_ok=True)
    edges = [0, *(int(cut * len(frame)) for cut in cuts), len(frame)]
    for i, (rows, ending) in enumerate(zip(groups, endings, strict=True)):
        part = pa.Table.from_pandas(frame[edges[i] : edges[i + 1]], preserve_index=False)
        if ending == "parquet":
            pq.write_table(part, folder / f"{i}.parquet", row_group_size=rows)
        else:
            with pa.ipc.new_file(folder / f"{i}.{ending}", part.schema) as writer:
                writer.write_table(part, max_chunksize=rows)
    return folder


def plain(n=800, seed=0):
    rng = np.random.default_rng(seed)
    bad = rng.random(n) < 0.2
    return pd.DataFrame(
        {
            "amount": np.where(rng.random(n) < 0.1, np.nan, rng.normal(2.0 * bad)),
            "code": rng.choice(["1", "2", "3"], n),
            "customer": rng.choice([f"c{i}" for i in range(150)], n),
            "when": pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.permutation(n), unit="h"),
            "bad": bad,
        }
    )


def without_values(frame, column, rows):
    """Write no value of a column in some rows; a file of these alone then knows no type of it."""
    changed = frame.astype({column: object})
    changed.loc[rows, column] = None
    return changed

"""Store finished runs in a file, from which an interrupted benchmark continues."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

import setpoint

Row = dict[str, Any]


PACKAGE = Path(setpoint.__file__).parent


def digest(*parts: Path) -> str:
    """Return a digest of code, so that results of different versions do not mix.

    ``parts`` are the files and folders that decide a result; without any, the whole package.
    """
    total = hashlib.sha256()
    for part in parts or (PACKAGE,):
        for file in sorted(part.rglob("*.py")) if part.is_dir() else [part]:
            total.update(file.read_bytes())
    return total.hexdigest()[:12]


def run_missing(
    file: Path,
    jobs: Sequence[tuple[Any, ...]],
    run: Callable[..., list[Row]],
    key: Callable[[Row], Hashable],
    workers: int,
    code: str | None = None,
) -> list[Row]:
    """Run the jobs that are not in the file, store each as it finishes, and return all rows.

    ``run(*job)`` returns rows; ``key(row)`` is the job that a row belongs to. ``code`` is the
    digest of the code that decides a result (None: of the whole package).
    """
    file.parent.mkdir(parents=True, exist_ok=True)
    lines = file.read_text().splitlines() if file.exists() else []
    code = code or digest()
    results = [row for row in map(json.loads, lines) if row["code"] == code]
    if len(results) < len(lines):
        print(f"Ignored {len(lines) - len(results)} results of other code in {file}.")
    done = {key(row) for row in results}
    with ProcessPoolExecutor(workers) as pool, file.open("a") as results_file:
        waiting = [pool.submit(run, *job) for job in jobs if job not in done]
        for finished in as_completed(waiting):
            rows = [{**row, "code": code} for row in finished.result()]
            results_file.write("".join(json.dumps(row) + "\n" for row in rows))
            results_file.flush()
            results += rows
    return results

"""The code blocks of docs/engines.md run, one after the other."""

import os
import re
from pathlib import Path

import mlflow
import ray

PAGE = Path(__file__).parent.parent / "docs" / "engines.md"
# ``py`` instead of ``python``, since tests/test_examples.py would run those, without the engines.
BLOCKS = re.findall(r"^```py\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)


def test_code_blocks_run(tmp_path, monkeypatch):
    assert len(BLOCKS) == 5
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYSPARK_PYTHON", "")  # restores what the page sets
    ray.shutdown()
    before = mlflow.get_tracking_uri()
    namespace = {}
    try:
        for block in BLOCKS:
            exec(compile(block, str(PAGE), "exec"), namespace)
    finally:
        mlflow.set_tracking_uri(before)
        ray.shutdown()
    assert {"mlflow.db", "trained"} <= set(os.listdir(tmp_path))

"""Models saved by earlier versions load, with the same scores and certificates.

The files were written once, by ``write_fixtures.py`` and the release whose name their folder has.
"""

import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pandas as pd
import pytest
import sklearn
from packaging.version import Version

from setpoint import ModelFileError, load
from setpoint.cli.app import main

HERE = Path(__file__).parent
FIXTURES = HERE / "fixtures"
SAVED = sorted(file.parent for file in FIXTURES.glob("*/*/expected.json"))
TABLES = [folder for folder in SAVED if (folder / "rows.csv").exists()]
# A zip, dates and codes, and a streamed table.
BY_COMMAND = [f for f in TABLES if f.name in ("table_trees", "table_writings", "table_streamed")]
# Products of matrices are rounded otherwise on other processors.
TOLERANCE = {"float64": 1e-9, "float32": 1e-5}
WRITTEN_WITH = {"0.1.0": "1.9.1"}  # versions of scikit-learn
# Objects of scikit-learn often load and score the same with other versions of it.
pytestmark = pytest.mark.filterwarnings("ignore::setpoint.ModelVersionWarning")


def load_writer() -> ModuleType:
    """Return write_fixtures.py, which no package holds."""
    spec = importlib.util.spec_from_file_location("write_fixtures", HERE / "write_fixtures.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # where dataclasses look for it
    spec.loader.exec_module(module)
    return module


writer = load_writer()


def name_of(folder: Path) -> str:
    return f"{folder.parent.name}-{folder.name}"


def path_of(folder: Path) -> Path:
    """Return where the model is: a folder or one file."""
    (path,) = folder.glob("model*")
    return path


def loaded(folder: Path) -> Any:
    if "own_metric" in folder.name:
        writer.define_own_metric()
    try:
        return load(path_of(folder), module=writer.MODULES.get(folder.name))
    except ModelFileError:
        if Version(sklearn.__version__) < Version(WRITTEN_WITH[folder.parent.name]):
            pytest.skip("scikit-learn cannot read objects of later versions")
        raise


def expected_of(folder: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((folder / "expected.json").read_text(encoding="utf-8"))
    return content


def rows_of(folder: Path) -> Any:
    with np.load(folder / "rows.npz") as rows:
        return pd.DataFrame(rows["X"], columns=rows["columns"]) if "columns" in rows else rows["X"]


def check_scores(folder: Path, scores: Any, predictions: Any) -> None:
    expected = expected_of(folder)
    tolerance = TOLERANCE[expected["precision"]]
    numbers = [float.fromhex(score) for score in expected["scores"]]
    np.testing.assert_allclose(np.asarray(scores), numbers, rtol=tolerance, atol=tolerance)
    assert np.asarray(predictions).tolist() == expected["predictions"]


def test_all_saved_models_are_there():
    found: dict[str, set[str]] = {}
    for folder in SAVED:
        found.setdefault(folder.parent.name, set()).add(folder.name)
    assert found == {"0.1.0": {*writer.estimators(), *writer.TABLES}}


@pytest.mark.parametrize("folder", SAVED, ids=name_of)
def test_a_loaded_model_has_its_former_attributes_and_scores(folder):
    model, expected = loaded(folder), expected_of(folder)
    for measured in ("precision", "scores", "predictions"):
        expected.pop(measured)
    assert writer.described(model) == expected
    if folder in TABLES:
        found = model.predict(model.read(folder / "rows.csv"))
        check_scores(folder, found["score"], found["predicted"])
    else:
        rows = rows_of(folder)
        check_scores(folder, model.positive_scores(rows), model.predict(rows))


@pytest.mark.parametrize("folder", BY_COMMAND, ids=name_of)
def test_the_command_scores_a_table_the_same(folder, tmp_path):
    loaded(folder)  # or skip
    out = tmp_path / "scores.parquet"
    assert main(["predict", str(path_of(folder)), str(folder / "rows.csv"), "--out", str(out)]) == 0
    found = pd.read_parquet(out)
    check_scores(folder, found["score"], found["predicted"])

"""Ray's workers train the same model as the processes of ``torchrun``, and give the same scores."""

import os
import runpy
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import ray
import ray.data
import torch
from payments import GOAL, arrays, payments
from ray.train import RunConfig, ScalingConfig
from ray.train.torch import TorchConfig, TorchTrainer
from ray_workers import Scorer, fitted, train_files, train_script

import setpoint
from forked import as_torchrun_tells, run_script, run_together
from setpoint import load
from setpoint.tables import fit_table

HERE = Path(__file__).parent
SCRIPT = HERE.parent / "tests" / "estimators" / "several_processes.py"
NEW = payments(300, seed=1).drop(columns="fraud").assign(id=range(300))


@pytest.fixture(scope="module", autouse=True)
def cluster():
    paths = [Path(setpoint.__file__).parent.parent, HERE]
    ray.init(
        num_cpus=3,
        include_dashboard=False,
        logging_level="ERROR",
        runtime_env={"env_vars": {"PYTHONPATH": os.pathsep.join(map(str, paths))}},
    )
    ray.data.DataContext.get_current().enable_progress_bars = False
    yield
    ray.shutdown()


def train_by_two(function, config, folder):
    TorchTrainer(
        function,
        train_loop_config=config,
        scaling_config=ScalingConfig(num_workers=2),
        torch_config=TorchConfig(backend="gloo"),
        run_config=RunConfig(storage_path=str(folder)),
    ).fit()


def flat(found, at=""):
    """Yield all numbers and texts with the way to them."""
    pairs = found.items() if isinstance(found, dict) else enumerate(found)
    for key, value in pairs:
        if isinstance(value, dict | list | tuple):
            yield from flat(value, f"{at}/{key}")
        else:
            yield f"{at}/{key}", value.tolist() if isinstance(value, torch.Tensor) else value


PROGRAM = """
import sys, torch
from pathlib import Path
sys.path[:0] = [{folder!r}]
from several_processes import RANK, classifier
torch.set_num_threads(1)
torch.save(classifier(), Path(sys.argv[1], f"torchrun.{{RANK}}"))
"""


def test_two_workers_train_what_two_processes_and_one_train(tmp_path):
    """All weights, thresholds, counts and candidates are equal to the last bit."""
    train_by_two(train_script, {"script": str(SCRIPT), "out": str(tmp_path)}, tmp_path / "ray")
    program = tmp_path / "program.py"
    program.write_text(PROGRAM.format(folder=str(SCRIPT.parent)))
    told = as_torchrun_tells(2)
    every = [(program, [tmp_path], t, tmp_path, t["RANK"]) for t in told]
    assert run_together(run_script, every) == [0, 0]
    torch.set_num_threads(1)
    alone = dict(flat(runpy.run_path(str(SCRIPT))["classifier"]()))
    assert len(alone) > 100
    for rank in range(2):
        for name in ("result", "torchrun"):
            found = torch.load(tmp_path / f"{name}.{rank}", weights_only=True)
            assert dict(flat(found)) == alone


def test_two_workers_train_and_certify_on_files(tmp_path):
    X, y = arrays(3000)
    frame = pd.DataFrame(X.astype(np.float32), columns=list("abcd")).assign(y=y)
    (tmp_path / "rows").mkdir()
    for i in range(2):
        frame[i::2].to_parquet(tmp_path / "rows" / f"{i}.parquet", row_group_size=400)
    config = {"rows": str(tmp_path / "rows"), "out": str(tmp_path / "model")}
    train_by_two(train_files, config, tmp_path / "ray")
    found, alone = load(tmp_path / "model"), fitted(tmp_path / "rows")
    assert found.certificate_.certified
    assert found.certificate_.to_dict() == alone.certificate_.to_dict()
    rows = frame.drop(columns="y")
    assert found.positive_scores(rows).tolist() == alone.positive_scores(rows).tolist()


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    path = tmp_path_factory.mktemp("ray") / "model"
    model = fit_table(payments(), "fraud", GOAL, model="logistic").model
    model.save(path)
    return model, path


def scored(rows, path):
    found = rows.map_batches(
        Scorer, fn_constructor_args=[str(path)], batch_format="pandas", batch_size=64, concurrency=1
    )
    return found.to_pandas().sort_values("id", ignore_index=True)


def same(found, expected):
    expected = expected.reset_index(drop=True)
    assert list(found) == ["id", *expected]
    pd.testing.assert_frame_equal(
        found[list(expected)].astype(expected.dtypes), expected, rtol=1e-12
    )


def test_batches_of_files(saved, tmp_path):
    model, path = saved
    for i in range(3):
        NEW[i::3].to_parquet(tmp_path / f"{i}.parquet")
    same(scored(ray.data.read_parquet(str(tmp_path)), path), model.predict(NEW, ignore_extra=True))


def test_rows_that_a_function_of_rows_has_filtered(saved):
    """Ray then stores texts with missing values as objects of its own; one block is empty."""
    model, path = saved
    rows = ray.data.from_pandas([NEW[:100], NEW[100:]]).filter(lambda row: row["id"] >= 100)
    same(scored(rows, path), model.predict(NEW[100:], ignore_extra=True))

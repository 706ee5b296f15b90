"""Two processes that ``torchrun`` starts: the result of one, to the last bit; and one that dies."""

import os
import runpy
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import torch

SCRIPT = Path(__file__).with_name("several_processes.py")


def start_two(folder):
    """Start two processes as torchrun would, without it: it might end the one that is left."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    every = []
    for rank in ("0", "1"):
        told = {
            "RANK": rank,
            "LOCAL_RANK": rank,
            "WORLD_SIZE": "2",
            "TORCHELASTIC_RUN_ID": "test",
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": port,
            "OMP_NUM_THREADS": "1",
        }
        command, environment = [sys.executable, str(SCRIPT), str(folder)], {**os.environ, **told}
        with (folder / f"err.{rank}").open("w") as err:
            every.append(subprocess.Popen(command, env=environment, stderr=err))
    return every


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    """Run the same trainings twice; in the first run one process is killed."""
    folder = tmp_path_factory.mktemp("processes")
    codes = [process.wait(timeout=240) for process in start_two(folder)]
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    second = subprocess.run(
        [*launcher, "--nproc-per-node", "2", str(SCRIPT), str(folder)],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    return folder, codes, second


@pytest.fixture(scope="module")
def alone():
    """Return what one process comes to."""
    torch.set_num_threads(1)
    script = runpy.run_path(str(SCRIPT))
    return {"classifier": script["classifier"](), "module": script["module"]()}


@pytest.fixture(scope="module")
def results(told):
    folder, _, second = told
    assert second.returncode == 0, second.stderr
    return [torch.load(folder / f"result.{rank}", weights_only=True) for rank in range(2)]


def flat(found, at=""):
    """Yield all numbers and texts with the way to them."""
    pairs = found.items() if isinstance(found, dict) else enumerate(found)
    for key, value in pairs:
        if isinstance(value, dict | list | tuple):
            yield from flat(value, f"{at}/{key}")
        else:
            yield f"{at}/{key}", value.tolist() if isinstance(value, torch.Tensor) else value


def test_a_process_that_dies_is_told_by_the_others(told):
    folder, codes, _ = told
    assert codes == [1, -signal.SIGKILL]
    said = (folder / "err.0").read_text()
    assert "PeerLostError: another process ended, or cannot be reached" in said
    assert "where a checkpoint was named, training goes on from there" in said


def test_the_same_command_goes_on_from_the_last_look(told, results):
    folder = told[0]
    for rank in range(2):
        assert (folder / f"looks.{rank}").read_text().split() == list("0123")


def test_the_resumed_run_ends_where_the_straight_one_does(results):
    for result in results:
        assert dict(flat(result["resumed"])) == dict(flat(result["straight"]))


def test_two_processes_come_to_what_one_does(results, alone):
    expected = dict(flat(alone["classifier"]))
    assert len([c for c in alone["classifier"]["candidates"] if "goal-trained" in c[0]]) == 4
    for result in results:
        assert dict(flat(result["straight"])) == expected


def test_a_module_of_which_each_process_had_its_own(results, alone):
    for result in results:
        assert dict(flat(result["module"])) == dict(flat(alone["module"]))

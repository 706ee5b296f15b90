"""Two processes as ``torchrun`` starts them: the result of one, to the last bit; one that dies.

They are not started by ``torchrun`` itself, which takes long and might end the one that is left.
"""

import runpy
import signal
from pathlib import Path

import pytest
import torch

from forked import as_torchrun_tells, run_script, run_together

SCRIPT, INTERRUPTED, BATCH_NORM = (
    Path(__file__).with_name(f"{name}_processes.py")
    for name in ("several", "interrupted", "batch_norm")
)


def run_two(folder, script=SCRIPT, *more):
    """Return the exit codes."""
    told = as_torchrun_tells(2)
    every = [(script, [folder, *more], t, folder, t["RANK"]) for t in told]
    return run_together(run_script, every)


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    """Run the same trainings twice; in the first run one process is killed."""
    folder = tmp_path_factory.mktemp("processes")
    codes = run_two(folder)
    said = (folder / "0.err").read_text()
    return folder, codes, said, run_two(folder)


@pytest.fixture(scope="module")
def alone():
    """Return what one process comes to."""
    torch.set_num_threads(1)
    script = runpy.run_path(str(SCRIPT))
    return {name: script[name]() for name in ("classifier", "module", "prices")}


@pytest.fixture(scope="module")
def results(told):
    folder, _, _, codes = told
    assert codes == [0, 0], [(folder / f"{rank}.err").read_text() for rank in range(2)]
    return [torch.load(folder / f"result.{rank}", weights_only=True) for rank in range(2)]


def flat(found, at=""):
    """Yield all numbers and texts with the way to them."""
    pairs = found.items() if isinstance(found, dict) else enumerate(found)
    for key, value in pairs:
        if isinstance(value, dict | list | tuple):
            yield from flat(value, f"{at}/{key}")
        else:
            yield f"{at}/{key}", value.tolist() if isinstance(value, torch.Tensor) else value


def test_a_process_that_dies_is_reported_by_the_others(told):
    _, codes, said, _ = told
    assert codes == [1, -signal.SIGKILL]
    assert "PeerLostError: another process ended or cannot be reached" in said
    assert "with a checkpoint, training resumes from there" in said


def test_the_same_command_continues_from_the_last_check(told, results):
    folder = told[0]
    for rank in range(2):
        assert (folder / f"looks.{rank}").read_text().split() == list("0123")


def test_the_resumed_run_ends_where_the_straight_one_does(results):
    for result in results:
        assert dict(flat(result["resumed"])) == dict(flat(result["straight"]))


def test_two_processes_give_the_result_of_one(results, alone):
    expected = dict(flat(alone["classifier"]))
    assert len([c for c in alone["classifier"]["candidates"] if "goal-trained" in c[0]]) == 8
    for result in results:
        assert dict(flat(result["straight"])) == expected


def test_modules_that_differ_between_processes(results, alone):
    for result in results:
        assert dict(flat(result["module"])) == dict(flat(alone["module"]))


def test_amounts_and_segments_are_added_up_as_by_one_process(results, alone):
    for result in results:
        assert dict(flat(result["prices"])) == dict(flat(alone["prices"]))


@pytest.mark.parametrize(
    ("ranks", "expected"),
    [("0", [130, 3]), ("1", [3, 130]), ("0,1", [130, 130])],
    ids=["the first", "another", "all"],
)
def test_an_interrupted_process_ends_and_so_do_the_others(ranks, expected, tmp_path):
    assert run_two(tmp_path, INTERRUPTED, ranks) == expected
    assert (tmp_path / "checkpoint").exists()
    for rank in range(2):
        said = (tmp_path / f"{rank}.err").read_text()
        told = "another process ended" in said
        assert told == (expected[rank] == 3)
        assert ".cc" not in said
        assert said.isascii()


def test_batch_norm_statistics_are_means_over_processes(tmp_path):
    assert run_two(tmp_path, BATCH_NORM) == [0, 0]
    saved = [torch.load(tmp_path / f"buffers.{rank}", weights_only=True) for rank in range(2)]
    (first, *ends), (second, *other_ends) = saved
    assert len(first) == len(ends[0]) >= 2
    for a, b, end, other_end in zip(first, second, *ends, *other_ends, strict=True):
        assert not torch.allclose(a, b, rtol=1e-3)  # each has rows of its own
        assert torch.equal(end, other_end)
        assert torch.allclose(end, (a + b) / 2)

"""What several processes have in common; alone, and with others that are played."""

import numpy as np
import pytest
import torch

from setpoint._internal import processes as together
from setpoint._internal.processes import (
    add_up,
    from_first,
    gather,
    is_first,
    join,
    several,
    take_means,
)
from setpoint.errors import PeerLostError


def test_alone_all_of_it_is_nothing(monkeypatch):
    monkeypatch.delenv("TORCHELASTIC_RUN_ID", raising=False)
    join()
    x = torch.arange(3.0)
    add_up(x)
    take_means([x])
    assert x.tolist() == [0.0, 1.0, 2.0]
    assert not several()
    assert is_first()
    assert gather("a") == ["a"]
    assert from_first("a") == "a"


@pytest.mark.parametrize(
    "environment",
    [
        {},
        {"WORLD_SIZE": "2"},  # of another launcher, or left over
        {"TORCHELASTIC_RUN_ID": "none", "WORLD_SIZE": "1"},
        {"TORCHELASTIC_RUN_ID": "none"},
    ],
    ids=str,
)
def test_nobody_waits_for_processes_that_were_not_started(monkeypatch, environment):
    for name in ("TORCHELASTIC_RUN_ID", "WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(together.dist, "init_process_group", lambda *_: pytest.fail("it waits"))
    join()


def test_torchrun_is_joined_once(monkeypatch):
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "none")
    monkeypatch.setenv("WORLD_SIZE", "2")
    calls = []
    monkeypatch.setattr(together.dist, "init_process_group", calls.append)
    join()
    assert len(calls) == 1
    assert "gloo" in calls[0]
    monkeypatch.setattr(together.dist, "is_initialized", lambda: True)
    join()
    assert len(calls) == 1


@pytest.fixture
def twins(monkeypatch):
    """Another process that always holds the same."""
    messages = []

    def all_reduce(tensor):
        messages.append(tensor.numel())
        tensor.mul_(2)

    monkeypatch.setattr(together, "several", lambda: True)
    monkeypatch.setattr(together.dist, "get_world_size", lambda: 2)
    monkeypatch.setattr(together.dist, "all_reduce", all_reduce)
    return messages


def test_sums_of_many_shapes_go_in_one_message_of_each_kind(twins):
    a, b = torch.ones(2, 3), torch.arange(4.0)
    whole, transposed = torch.tensor([7]), torch.arange(6.0).reshape(2, 3).T
    scalar = torch.tensor(5.0)
    add_up(a, whole, b, transposed, scalar)
    assert twins == [17, 1]
    assert a.tolist() == [[2.0] * 3] * 2
    assert b.tolist() == [0.0, 2.0, 4.0, 6.0]
    assert whole.tolist() == [14]
    assert transposed.tolist() == [[0.0, 6.0], [2.0, 8.0], [4.0, 10.0]]
    assert scalar == 10.0


def test_means_of_the_same_are_the_same(twins):
    x, y = torch.tensor([0.1, 3.0]), torch.tensor([[1e-3]])
    take_means([x, y])
    assert x.tolist() == torch.tensor([0.1, 3.0]).tolist()
    assert twins == [3]


def test_no_tensors_no_message(twins):
    add_up()
    take_means([])
    assert twins == []


@pytest.mark.parametrize(
    "call", [lambda: add_up(torch.ones(1)), lambda: gather(1), lambda: from_first(1)]
)
def test_a_lost_process_is_told_in_words(monkeypatch, call):
    def fail(*_, **__):
        raise RuntimeError("[pair.cc:534] Connection closed by peer\nand a long trace")

    monkeypatch.setattr(together, "several", lambda: True)
    monkeypatch.setattr(together.dist, "get_world_size", lambda: 2)
    monkeypatch.setattr(together.dist, "get_rank", lambda: 0)
    for name in ("all_reduce", "all_gather_object", "broadcast_object_list"):
        monkeypatch.setattr(together.dist, name, fail)
    with pytest.raises(PeerLostError, match="another process ended.*by peer.*same command") as told:
        call()
    assert "long trace" not in str(told.value)
    assert isinstance(told.value.__cause__, RuntimeError)


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (
            "[/__w/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:553] Connection closed by "
            "peer [127.0.0.1]:42668. This is typically caused by a remote worker crashing. GLHF! "
            "\N{BEACH WITH UMBRELLA}\N{VARIATION SELECTOR-16}",
            "Connection closed by peer [127.0.0.1]:42668",
        ),
        ("[unbound_buffer.cc:78] Timed out waiting 5ms for recv", "Timed out waiting 5ms for recv"),
        (
            "[enforce fail at ../gloo/transport/tcp/pair.cc:12] error == 0. 1 vs 0",
            "error == 0",
        ),
        (
            "NCCL error in: /pytorch/torch/csrc/NCCLUtils.cpp:94, remote process exited.\nLast",
            "NCCL error in: remote process exited",
        ),
        ("[1]: Broken pipe", "[1]: Broken pipe"),
        ("[/pytorch/pair.cc:12] ", "RuntimeError"),
    ],
)
def test_of_a_backend_s_message_only_the_words_are_told(monkeypatch, message, reason):
    def fail(*_):
        raise RuntimeError(message)

    monkeypatch.setattr(together, "several", lambda: True)
    monkeypatch.setattr(together.dist, "all_reduce", fail)
    with pytest.raises(PeerLostError) as told:
        add_up(torch.ones(1))
    assert f"cannot be reached ({reason}). Start all" in str(told.value)


def test_a_message_without_words_still_gives_the_error(monkeypatch):
    def fail(*_):
        raise RuntimeError

    monkeypatch.setattr(together, "several", lambda: True)
    monkeypatch.setattr(together.dist, "all_reduce", fail)
    with pytest.raises(PeerLostError):
        add_up(torch.ones(1))


def test_arrays_are_sent_as_they_are_and_not_half_as_large_again():
    array = np.random.default_rng(0).random(100_000)
    packed = together._packed({"a": array})
    assert len(packed) < 1.01 * array.nbytes
    assert (together._unpacked(packed)["a"] == array).all()

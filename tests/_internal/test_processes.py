"""Collective operations, in one process and with simulated others."""

import numpy as np
import pytest
import torch

from setpoint._internal import processes
from setpoint._internal.processes import (
    all_gather,
    all_reduce_mean,
    all_reduce_sum,
    broadcast,
    is_distributed,
    is_main_process,
    join_process_group,
    round_to_16_bits,
)
from setpoint.errors import PeerLostError


def test_in_one_process_they_change_nothing(monkeypatch):
    monkeypatch.delenv("TORCHELASTIC_RUN_ID", raising=False)
    join_process_group()
    x = torch.arange(3.0)
    all_reduce_sum(x)
    all_reduce_mean([x])
    assert x.tolist() == [0.0, 1.0, 2.0]
    assert not is_distributed()
    assert is_main_process()
    assert all_gather("a") == ["a"]
    assert broadcast("a") == "a"


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
def test_no_group_is_joined_without_torchrun(monkeypatch, environment):
    for name in ("TORCHELASTIC_RUN_ID", "WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(processes.dist, "init_process_group", lambda *_: pytest.fail("it waits"))
    join_process_group()


def test_the_group_of_torchrun_is_joined_once(monkeypatch):
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "none")
    monkeypatch.setenv("WORLD_SIZE", "2")
    calls = []
    monkeypatch.setattr(processes.dist, "init_process_group", calls.append)
    join_process_group()
    assert len(calls) == 1
    assert "gloo" in calls[0]
    monkeypatch.setattr(processes.dist, "is_initialized", lambda: True)
    join_process_group()
    assert len(calls) == 1


@pytest.fixture
def twins(monkeypatch):
    """Another process that always holds the same."""
    messages = []

    def all_reduce(tensor):
        messages.append(tensor.numel())
        tensor.mul_(2)

    monkeypatch.setattr(processes, "is_distributed", lambda: True)
    monkeypatch.setattr(processes.dist, "get_world_size", lambda: 2)
    monkeypatch.setattr(processes.dist, "all_reduce", all_reduce)
    return messages


def test_tensors_of_one_dtype_are_summed_in_one_message(twins):
    a, b = torch.ones(2, 3), torch.arange(4.0)
    whole, transposed = torch.tensor([7]), torch.arange(6.0).reshape(2, 3).T
    scalar = torch.tensor(5.0)
    all_reduce_sum(a, whole, b, transposed, scalar)
    assert twins == [17, 1]
    assert a.tolist() == [[2.0] * 3] * 2
    assert b.tolist() == [0.0, 2.0, 4.0, 6.0]
    assert whole.tolist() == [14]
    assert transposed.tolist() == [[0.0, 6.0], [2.0, 8.0], [4.0, 10.0]]
    assert scalar == 10.0


def test_the_mean_of_equal_tensors_is_the_same_tensor(twins):
    x, y = torch.tensor([0.1, 3.0]), torch.tensor([[1e-3]])
    all_reduce_mean([x, y])
    assert x.tolist() == torch.tensor([0.1, 3.0]).tolist()
    assert twins == [3]


def test_without_tensors_no_message_is_sent(twins):
    all_reduce_sum()
    all_reduce_mean([])
    assert twins == []


@pytest.mark.parametrize(
    "call", [lambda: all_reduce_sum(torch.ones(1)), lambda: all_gather(1), lambda: broadcast(1)]
)
def test_a_lost_process_raises_an_error_with_advice(monkeypatch, call):
    def fail(*_, **__):
        raise RuntimeError("[pair.cc:534] Connection closed by peer\nand a long trace")

    monkeypatch.setattr(processes, "is_distributed", lambda: True)
    monkeypatch.setattr(processes.dist, "get_world_size", lambda: 2)
    monkeypatch.setattr(processes.dist, "get_rank", lambda: 0)
    for name in ("all_reduce", "all_gather_object", "broadcast_object_list"):
        monkeypatch.setattr(processes.dist, name, fail)
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
def test_only_the_sentence_of_a_backend_message_is_reported(monkeypatch, message, reason):
    def fail(*_):
        raise RuntimeError(message)

    monkeypatch.setattr(processes, "is_distributed", lambda: True)
    monkeypatch.setattr(processes.dist, "all_reduce", fail)
    with pytest.raises(PeerLostError) as told:
        all_reduce_sum(torch.ones(1))
    assert f"cannot be reached ({reason}). Start all" in str(told.value)


def test_an_empty_message_still_raises_the_error(monkeypatch):
    def fail(*_):
        raise RuntimeError

    monkeypatch.setattr(processes, "is_distributed", lambda: True)
    monkeypatch.setattr(processes.dist, "all_reduce", fail)
    with pytest.raises(PeerLostError):
        all_reduce_sum(torch.ones(1))


def test_arrays_are_packed_without_overhead():
    array = np.random.default_rng(0).random(100_000)
    packed = processes._packed({"a": array})
    assert len(packed) < 1.01 * array.nbytes
    assert (processes._unpacked(packed)["a"] == array).all()


def test_rounded_sums_do_not_depend_on_the_order():
    generator = torch.Generator().manual_seed(0)
    x = torch.rand(1001, generator=generator).double() ** 8
    orders = [torch.randperm(1001, generator=generator) for _ in range(20)]
    sums = torch.stack([torch.cumsum(x[order], 0)[-1] for order in orders])
    assert len(sums.unique()) > 1  # or there is nothing to round
    assert len(round_to_16_bits(sums).unique()) == 1


@pytest.mark.parametrize("scale", [1e-300, 1e-5, 1.0, 1e12, 1e300])
def test_rounding_keeps_sixteen_bits(scale):
    x = scale * (1 + torch.rand(1000, generator=torch.Generator().manual_seed(1)).double())
    assert ((round_to_16_bits(x) - x).abs() <= x * 2.0**-16).all()
    assert len(round_to_16_bits(x).unique()) > 900
    assert torch.equal(round_to_16_bits(round_to_16_bits(x)), round_to_16_bits(x))
    assert torch.equal(round_to_16_bits(-x), -round_to_16_bits(x))


def test_rounding_keeps_small_whole_numbers():
    x = torch.arange(2**16).double()
    assert torch.equal(round_to_16_bits(x), x)

"""Which device is taken; there is none here but the CPU, so that torch's answers are made up."""

import pytest
import torch

from setpoint import SetpointError
from setpoint._internal.devices import (
    CPU,
    WORTH_THE_WAY,
    asked_device,
    device_for,
    stream_device,
    working_on,
)


@pytest.fixture
def no_gpu(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)


@pytest.fixture
def three_gpus(monkeypatch):
    """Three GPUs with 1,000 bytes each, of which the second is the current one."""
    monkeypatch.delenv("TORCHELASTIC_RUN_ID", raising=False)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 3)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 1)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (1000, 2000))


@pytest.mark.usefixtures("no_gpu")
class TestWithoutAGPU:
    def test_auto_is_the_cpu(self):
        assert asked_device("auto") is None
        assert device_for(None) == device_for(None, numbers=2**40) == CPU
        assert stream_device("auto") == CPU

    @pytest.mark.parametrize("wanted", ["cpu", "cpu:0", torch.device("cpu")])
    def test_the_cpu_is_always_there(self, wanted):
        assert device_for(asked_device(wanted)) == CPU

    @pytest.mark.parametrize("wanted", ["cuda", "cuda:1", torch.device("cuda")])
    def test_a_gpu_is_not(self, wanted):
        for ask in (asked_device, stream_device):
            with pytest.raises(SetpointError, match=r"device='cuda.*asks for a GPU, .* sees none"):
                ask(wanted)

    @pytest.mark.parametrize("wanted", ["gpu", "", "AUTO", "cuda:x", "cuda:-1", 0, None, ["cpu"]])
    def test_what_is_no_device(self, wanted):
        with pytest.raises(SetpointError, match="is not 'auto', 'cpu', 'cuda'"):
            asked_device(wanted)

    @pytest.mark.parametrize("wanted", ["mps", torch.device("mps"), "meta", "xpu:1"])
    def test_others_are_not_supported(self, wanted):
        with pytest.raises(SetpointError, match=f"device='{wanted}' is not supported"):
            asked_device(wanted)


@pytest.mark.usefixtures("three_gpus")
class TestWithGPUs:
    def test_the_current_one_is_taken(self):
        assert asked_device("cuda") == device_for(None) == torch.device("cuda:1")
        assert stream_device("auto") == torch.device("cuda:1")

    @pytest.mark.parametrize("wanted", ["cuda:2", torch.device("cuda", 2)])
    def test_or_that_which_is_named(self, wanted):
        assert device_for(asked_device(wanted), numbers=1) == torch.device("cuda:2")
        assert device_for(asked_device("cpu"), numbers=2**40) == CPU

    def test_which_must_be_there(self):
        with pytest.raises(SetpointError, match=r"sees 3, and the last is 'cuda:2'"):
            asked_device("cuda:3")

    def test_few_numbers_stay_on_the_cpu(self):
        assert device_for(None, numbers=WORTH_THE_WAY - 1) == CPU
        assert device_for(None, numbers=WORTH_THE_WAY).type == "cuda"

    def test_rows_must_fit(self):
        assert device_for(None, size=250).type == "cuda"
        assert device_for(None, size=251) == CPU
        assert device_for(asked_device("cuda"), size=10**9).type == "cuda"  # as the user says

    @pytest.mark.parametrize(("rank", "index"), [("0", 0), ("2", 2), ("4", 1)])
    def test_each_process_of_a_machine_has_its_own(self, rank, index, monkeypatch):
        monkeypatch.setenv("LOCAL_RANK", rank)
        assert asked_device("cuda").index == 1  # without torchrun it means nothing
        monkeypatch.setenv("TORCHELASTIC_RUN_ID", "test")
        assert asked_device("cuda").index == device_for(None).index == index
        assert asked_device("cuda:2").index == 2

    def test_processes_that_train_together_take_a_gpu_each(self, monkeypatch):
        """Three are seen here, and the current one is the second."""
        monkeypatch.setattr("setpoint._internal.devices.several", lambda: True)
        monkeypatch.setenv("TORCHELASTIC_RUN_ID", "x")
        monkeypatch.setenv("LOCAL_RANK", "2")
        monkeypatch.setenv("LOCAL_WORLD_SIZE", "3")
        assert stream_device("auto").index == stream_device("cuda").index == 2
        assert stream_device("cpu") == CPU
        with pytest.raises(SetpointError, match="'cuda' gives each process its own"):
            stream_device("cuda:1")

    def test_with_too_few_gpus_anywhere_all_train_on_cpus(self, monkeypatch):
        monkeypatch.setattr("setpoint._internal.devices.several", lambda: True)
        monkeypatch.setattr("setpoint._internal.devices.gather", lambda own: [own, False])
        assert stream_device("auto") == CPU
        monkeypatch.setenv("LOCAL_WORLD_SIZE", "4")
        with pytest.raises(SetpointError, match="need a GPU each, and torch sees 3 here"):
            stream_device("cuda")


def test_the_generator_is_left_as_it_was():
    before = torch.get_rng_state()
    with working_on(CPU):
        torch.manual_seed(7)
        torch.rand(3)
    assert torch.equal(torch.get_rng_state(), before)

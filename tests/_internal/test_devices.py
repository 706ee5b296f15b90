"""The device to train on, with torch's answers about GPUs replaced."""

import pytest
import torch

from setpoint import SetpointError
from setpoint._internal.devices import (
    CPU,
    MIN_NUMBERS_FOR_GPU,
    choose_device,
    requested_device,
    stream_device,
    use_device,
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
        assert requested_device("auto") is None
        assert choose_device(None) == choose_device(None, numbers=2**40) == CPU
        assert stream_device("auto") == CPU

    @pytest.mark.parametrize("wanted", ["cpu", "cpu:0", torch.device("cpu")])
    def test_the_cpu_is_always_available(self, wanted):
        assert choose_device(requested_device(wanted)) == CPU

    @pytest.mark.parametrize("wanted", ["cuda", "cuda:1", torch.device("cuda")])
    def test_a_gpu_is_not_available(self, wanted):
        for ask in (requested_device, stream_device):
            with pytest.raises(SetpointError, match=r"device='cuda.*requests a GPU, .* finds none"):
                ask(wanted)

    @pytest.mark.parametrize("wanted", ["gpu", "", "AUTO", "cuda:x", "cuda:-1", 0, None, ["cpu"]])
    def test_invalid_devices(self, wanted):
        with pytest.raises(SetpointError, match="is not 'auto', 'cpu', 'cuda'"):
            requested_device(wanted)

    @pytest.mark.parametrize("wanted", ["mps", torch.device("mps"), "meta", "xpu:1"])
    def test_unsupported_devices(self, wanted):
        with pytest.raises(SetpointError, match=f"device='{wanted}' is not supported"):
            requested_device(wanted)


@pytest.mark.usefixtures("three_gpus")
class TestWithGPUs:
    def test_the_default_is_the_current_gpu(self):
        assert requested_device("cuda") == choose_device(None) == torch.device("cuda:1")
        assert stream_device("auto") == torch.device("cuda:1")

    @pytest.mark.parametrize("wanted", ["cuda:2", torch.device("cuda", 2)])
    def test_a_device_can_be_named(self, wanted):
        assert choose_device(requested_device(wanted), numbers=1) == torch.device("cuda:2")
        assert choose_device(requested_device("cpu"), numbers=2**40) == CPU

    def test_the_named_gpu_must_exist(self):
        with pytest.raises(SetpointError, match=r"finds 3 GPUs, the last of which is 'cuda:2'"):
            requested_device("cuda:3")

    def test_small_problems_stay_on_the_cpu(self):
        assert choose_device(None, numbers=MIN_NUMBERS_FOR_GPU - 1) == CPU
        assert choose_device(None, numbers=MIN_NUMBERS_FOR_GPU).type == "cuda"

    def test_rows_must_fit_into_memory(self):
        assert choose_device(None, size=250).type == "cuda"
        assert choose_device(None, size=251) == CPU
        assert choose_device(requested_device("cuda"), size=10**9).type == "cuda"  # as requested

    @pytest.mark.parametrize(("rank", "index"), [("0", 0), ("2", 2), ("4", 1)])
    def test_each_process_of_a_machine_has_its_own_gpu(self, rank, index, monkeypatch):
        monkeypatch.setenv("LOCAL_RANK", rank)
        assert requested_device("cuda").index == 1  # without torchrun it means nothing
        monkeypatch.setenv("TORCHELASTIC_RUN_ID", "test")
        assert requested_device("cuda").index == choose_device(None).index == index
        assert requested_device("cuda:2").index == 2

    def test_processes_of_a_group_take_a_gpu_each(self, monkeypatch):
        """Three are seen here, and the current one is the second."""
        monkeypatch.setattr("setpoint._internal.devices.is_distributed", lambda: True)
        monkeypatch.setenv("TORCHELASTIC_RUN_ID", "x")
        monkeypatch.setenv("LOCAL_RANK", "2")
        monkeypatch.setenv("LOCAL_WORLD_SIZE", "3")
        assert stream_device("auto").index == stream_device("cuda").index == 2
        assert stream_device("cpu") == CPU
        with pytest.raises(SetpointError, match="device='cuda', which assigns one to each"):
            stream_device("cuda:1")

    def test_with_too_few_gpus_on_any_machine_all_train_on_cpus(self, monkeypatch):
        monkeypatch.setattr("setpoint._internal.devices.is_distributed", lambda: True)
        monkeypatch.setattr("setpoint._internal.devices.all_gather", lambda own: [own, False])
        assert stream_device("auto") == CPU
        monkeypatch.setenv("LOCAL_WORLD_SIZE", "4")
        with pytest.raises(SetpointError, match="needs its own GPU, and torch finds 3 here"):
            stream_device("cuda")


def test_the_random_generator_is_restored():
    before = torch.get_rng_state()
    with use_device(CPU):
        torch.manual_seed(7)
        torch.rand(3)
    assert torch.equal(torch.get_rng_state(), before)

"""The device to train on: the CPU or a GPU."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import torch

from setpoint._internal.processes import all_gather, is_distributed
from setpoint._internal.validation import unknown_device
from setpoint.errors import SetpointError

CPU = torch.device("cpu")

# A linear step on 10 million numbers (12,537 rows of 768 features) takes 3 ms on a CPU and 0.05 ms
# on a large GPU, and a fit takes some hundred steps. CUDA needs a second to start; with fewer
# numbers than these the CPU has finished by then.
MIN_NUMBERS_FOR_GPU = 2**22

_COPIES = 4  # copies of the rows that training may hold


def requested_device(device: Any) -> torch.device | None:
    """Return the device that the user named, if it is available; None for "auto"."""
    if isinstance(device, str) and device == "auto":
        return None
    try:
        found = torch.device(device) if isinstance(device, str | torch.device) else None
    except RuntimeError:  # unknown to torch
        found = None
    if found is None:
        raise unknown_device(device)
    if found.type == "cpu":
        return CPU
    if found.type != "cuda":
        raise SetpointError(
            f"device='{found}' is not supported: models are trained on the CPU or on CUDA GPUs; "
            "use device='auto' or 'cpu'."
        )
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if count == 0:
        raise SetpointError(
            f"device='{found}' requests a GPU, but torch finds none; use device='auto', which "
            "takes a GPU if there is one, or 'cpu'."
        )
    found = _own_gpu(count) if found.index is None else found
    if found.index >= count:
        raise SetpointError(
            f"device='{found}' does not exist: torch finds {count} GPUs, the last of which is "
            f"'cuda:{count - 1}'."
        )
    return found


def choose_device(
    requested: torch.device | None,
    *,
    numbers: int | None = None,
    size: int = 0,
    distributed: bool = False,
) -> torch.device:
    """Return the device to train on: the requested one, otherwise the faster one.

    Parameters
    ----------
    requested : torch.device or None
        The result of :func:`requested_device`.
    numbers : int, optional
        The rows times the features of a linear model. None if the model or the number of rows is
        large enough to prefer a GPU anyway.
    size : int
        The bytes that must be on the device at once.
    distributed : bool
        Whether a process group trains one model; then all of its processes must call this.
    """
    if distributed:
        return _distributed_device(requested)
    if requested is not None:
        return requested
    few = numbers is not None and numbers < MIN_NUMBERS_FOR_GPU
    if few or not torch.cuda.is_available():
        return CPU
    device = _own_gpu(torch.cuda.device_count())
    free, _ = torch.cuda.mem_get_info(device)
    return device if _COPIES * size <= free else CPU


def _distributed_device(requested: torch.device | None) -> torch.device:
    """Return a GPU for each process of the group, or the CPU for all of them."""
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    enough = int(os.environ.get("LOCAL_WORLD_SIZE", "1")) <= count
    if requested is None:
        return _own_gpu(count) if all(all_gather(enough)) else CPU
    if requested != CPU and not (enough and requested == _own_gpu(count)):
        raise SetpointError(
            f"device='{requested}': each process that trains the model needs its own GPU, and "
            f"torch finds {count} here. Use device='auto' or 'cpu', or as many processes as GPUs "
            "with device='cuda', which assigns one to each."
        )
    return requested


def stream_device(device: Any) -> torch.device:
    """Return the device to train on a stream; call it after ``join_process_group``."""
    return choose_device(requested_device(device), distributed=is_distributed())


@contextmanager
def use_device(device: torch.device) -> Iterator[None]:
    """Make a GPU the current one, and restore torch's random generators afterwards."""
    if device.type == "cpu":
        with torch.random.fork_rng(devices=[]):
            yield
        return
    with torch.cuda.device(device), torch.random.fork_rng(devices=[device.index]):
        try:
            yield
        except torch.cuda.OutOfMemoryError as error:
            raise SetpointError(
                f"{device} does not have enough memory for this training; use device='cpu', or "
                "fit_stream, which holds only some of the rows at a time."
            ) from error


def start_gradients(device: torch.device | str) -> None:
    """Prepare torch's own thread for gradients on a device, once; a no-op on a CPU.

    torch computes the gradients of a GPU in a thread of its own. In a fresh process that thread has
    no CUDA context until it launches a first kernel. If its first operation is a matrix product, as
    in a network whose last layer is linear, cuBLAS warns that there is no current context. So the
    first operation here is an elementwise product.
    """
    found = torch.device(device)
    if found.type == "cuda":
        _start_gradients(found)


@cache
def _start_gradients(device: torch.device) -> None:
    with torch.inference_mode(False), torch.enable_grad():
        number = torch.ones((), device=device, requires_grad=True)
        (2.0 * number).backward()  # type: ignore[no-untyped-call]


def _own_gpu(count: int) -> torch.device:
    """Return the current GPU; under torchrun, the one assigned to this process."""
    rank = os.environ.get("LOCAL_RANK") if "TORCHELASTIC_RUN_ID" in os.environ else None
    return torch.device("cuda", torch.cuda.current_device() if rank is None else int(rank) % count)

"""Where a classifier is trained: on the CPU, or on a GPU."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from setpoint._internal.processes import gather, several
from setpoint.errors import SetpointError

CPU = torch.device("cpu")

# A linear step on 10 million numbers (12,537 rows of 768 features) takes 3 ms on a CPU and 0.05 ms
# on a large GPU, and a fit takes some hundred steps. CUDA needs a second to start: with fewer
# numbers than these the CPU is done by then.
WORTH_THE_WAY = 2**22

_COPIES = 4  # of the rows, that training may hold


def asked_device(wanted: Any) -> torch.device | None:
    """Return the device that a user asks for, if it is there; None for "auto"."""
    if isinstance(wanted, str) and wanted == "auto":
        return None
    try:
        device = torch.device(wanted) if isinstance(wanted, str | torch.device) else None
    except RuntimeError:  # torch has no such device
        device = None
    if device is None:
        raise SetpointError(
            f"device {wanted!r} is not 'auto', 'cpu', 'cuda', 'cuda:1' or a torch.device."
        )
    if device.type == "cpu":
        return CPU
    if device.type != "cuda":
        raise SetpointError(
            f"device='{device}' is not supported: models are trained on the CPU or on GPUs that "
            "torch calls 'cuda'; use device='auto' or 'cpu'."
        )
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if count == 0:
        raise SetpointError(
            f"device='{device}' asks for a GPU, and torch sees none; use device='auto', which "
            "takes a GPU where there is one, or 'cpu'."
        )
    found = _own_gpu(count) if device.index is None else device
    if found.index >= count:
        raise SetpointError(
            f"device='{device}' asks for a GPU that is not there: torch sees {count}, and the "
            f"last is 'cuda:{count - 1}'."
        )
    return found


def device_for(
    asked: torch.device | None,
    *,
    numbers: int | None = None,
    size: int = 0,
    together: bool = False,
) -> torch.device:
    """Return where to train: as asked, or else where it is done sooner.

    Parameters
    ----------
    asked : torch.device or None
        What :func:`asked_device` found.
    numbers : int, optional
        The rows times the features of a linear model. None: each row takes long enough, or rows are
        too many to be counted.
    size : int
        The bytes that must be on the device at once.
    together : bool
        Whether several processes train one model. Then all must call this.
    """
    if together:
        return _device_among(asked)
    if asked is not None:
        return asked
    few = numbers is not None and numbers < WORTH_THE_WAY
    if few or not torch.cuda.is_available():
        return CPU
    device = _own_gpu(torch.cuda.device_count())
    free, _ = torch.cuda.mem_get_info(device)
    return device if _COPIES * size <= free else CPU


def _device_among(asked: torch.device | None) -> torch.device:
    """Return the CPU, or a GPU of its own for each of the processes: all do alike."""
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    enough = int(os.environ.get("LOCAL_WORLD_SIZE", "1")) <= count
    if asked is None:
        return _own_gpu(count) if all(gather(enough)) else CPU
    if asked != CPU and not (enough and asked == _own_gpu(count)):
        raise SetpointError(
            f"device='{asked}': processes that train one model together need a GPU each, and torch "
            f"sees {count} here. Use device='auto' or 'cpu', or as many processes as GPUs; "
            "'cuda' gives each process its own."
        )
    return asked


def stream_device(wanted: Any) -> torch.device:
    """Return where to train on a stream, of whatever length; to be called after ``join``."""
    return device_for(asked_device(wanted), together=several())


@contextmanager
def working_on(device: torch.device) -> Iterator[None]:
    """Make a GPU the current one, and leave torch's generators as they were."""
    if device.type == "cpu":
        with torch.random.fork_rng(devices=[]):
            yield
        return
    with torch.cuda.device(device), torch.random.fork_rng(devices=[device.index]):
        try:
            yield
        except torch.cuda.OutOfMemoryError as error:
            raise SetpointError(
                f"{device} has too little memory for this training; use device='cpu', or "
                "fit_stream, which holds a part of the rows at a time."
            ) from error


def _own_gpu(count: int) -> torch.device:
    """Return the current GPU; under torchrun each process of a machine has one of its own."""
    rank = os.environ.get("LOCAL_RANK") if "TORCHELASTIC_RUN_ID" in os.environ else None
    return torch.device("cuda", torch.cuda.current_device() if rank is None else int(rank) % count)

"""Collective operations of a process group; no-ops in a single process.

The group is torch's default one, which :func:`join_process_group` sets up under ``torchrun``.
"""

from __future__ import annotations

import io
import os
import pickle
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from setpoint.errors import PeerLostError

# Positions in a backend's source code, e.g. [/some/where/pair.cc:553], which do not help users.
_SOURCE = re.compile(r"\[[^]]*\w\.(?:cc|cpp|cu|h|hpp):\d+\]|\S*\w\.(?:cc|cpp|cu|h|hpp):\d+,?")
_BITS = 16


def join_process_group() -> None:
    """Set up the process group if ``torchrun`` started several processes and none exists yet."""
    launched = "TORCHELASTIC_RUN_ID" in os.environ and int(os.environ.get("WORLD_SIZE", "1")) > 1
    if launched and dist.is_available() and not dist.is_initialized():
        with _peer_errors():
            # nccl for tensors on a GPU, gloo for those in memory.
            dist.init_process_group("cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo")


def is_distributed() -> bool:
    """Return whether the process group has several processes."""
    return dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1


def is_main_process() -> bool:
    """Return whether this process has rank 0, the one that writes files and prints."""
    return not is_distributed() or dist.get_rank() == 0


def rank_and_world_size() -> tuple[int, int]:
    """Return this process's rank, and the number of processes.

    Examples
    --------
    >>> rank_and_world_size()
    (0, 1)
    """
    if dist.is_available() and dist.is_initialized():
        return dist.get_rank(), dist.get_world_size()
    return 0, 1


def all_reduce_sum(*tensors: Tensor) -> None:
    """Replace each tensor by its sum over all processes; one message per dtype and device."""
    if not is_distributed():
        return
    kinds: dict[Any, list[Tensor]] = {}
    for tensor in tensors:
        kinds.setdefault((tensor.dtype, tensor.device), []).append(tensor)
    for same in kinds.values():
        flat = torch.cat([t.reshape(-1) for t in same])
        with _peer_errors():
            dist.all_reduce(flat)
        start = 0
        for tensor in same:
            tensor.copy_(flat[start : start + tensor.numel()].view_as(tensor))
            start += tensor.numel()


def all_reduce_mean(tensors: Sequence[Tensor]) -> None:
    """Replace each tensor by its mean over all processes."""
    if is_distributed():
        for tensor in tensors:
            tensor.div_(dist.get_world_size())
        all_reduce_sum(*tensors)


def all_gather(value: Any) -> list[Any]:
    """Return the values of all processes, in the order of their ranks."""
    if not is_distributed():
        return [value]
    values: list[Any] = [None] * dist.get_world_size()
    with _peer_errors():
        dist.all_gather_object(values, _packed(value))
    return [_unpacked(each) for each in values]


def broadcast(value: Any) -> Any:
    """Return the value of rank 0."""
    if not is_distributed():
        return value
    held = [_packed(value) if is_main_process() else None]
    with _peer_errors():
        dist.broadcast_object_list(held, src=0)
    return _unpacked(held[0])


def _packed(value: Any) -> bytes:
    """Return a value as torch saves it, so that tensors on a GPU can be moved to another."""
    buffer = io.BytesIO()
    # torch's default protocol makes numpy arrays half as large again.
    torch.save(value, buffer, pickle_protocol=pickle.HIGHEST_PROTOCOL)
    return buffer.getvalue()


def _unpacked(data: Any) -> Any:
    return torch.load(io.BytesIO(data), map_location=to_local_device, weights_only=False)


def to_local_device(storage: Any, location: str) -> Any:
    """Map tensors from any GPU to this process's own, or to the CPU; a torch ``map_location``."""
    from_gpu = location.startswith("cuda") and torch.cuda.is_available()
    return storage.cuda(torch.cuda.current_device()) if from_gpu else storage


@contextmanager
def _peer_errors() -> Iterator[None]:
    """Turn a backend's error about a lost connection into PeerLostError."""
    try:
        yield
    except RuntimeError as error:
        words = _SOURCE.sub("", str(error).strip().partition("\n")[0]).split()
        reason = " ".join(words).partition(". ")[0].rstrip(".") or type(error).__name__
        raise PeerLostError(
            f"another process ended or cannot be reached ({reason}). Start all processes again "
            "with the same command; with a checkpoint, training resumes from there."
        ) from error


def round_to_16_bits(x: Tensor) -> Tensor:
    """Return x rounded to 16 significant bits.

    The last bits of a long sum depend on the order of its terms, which changes with the number of
    processes. Where a sum decides what is sampled next, all processes use the rounded value, on
    which they agree.

    Examples
    --------
    >>> import torch
    >>> a, b = torch.tensor(0.1 + 0.2 + 0.3).double(), torch.tensor(0.3 + 0.2 + 0.1).double()
    >>> bool(round_to_16_bits(a) == round_to_16_bits(b))
    True
    """
    mantissa, exponent = torch.frexp(x)
    return torch.ldexp((mantissa * 2.0**_BITS).round(), exponent - _BITS)

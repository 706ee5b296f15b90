"""What several processes have in common: sums, and lists of rows; alone, all of it is nothing.

The processes are those of torch's default group, which :func:`join` sets up under ``torchrun``.
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

# Where in a backend's source an error arose, e.g. [/some/where/pair.cc:553]; no use to a user.
_SOURCE = re.compile(r"\[[^]]*\w\.(?:cc|cpp|cu|h|hpp):\d+\]|\S*\w\.(?:cc|cpp|cu|h|hpp):\d+,?")


def join() -> None:
    """Join the other processes, if ``torchrun`` started this one and nobody has done so yet."""
    started = "TORCHELASTIC_RUN_ID" in os.environ and int(os.environ.get("WORLD_SIZE", "1")) > 1
    if started and dist.is_available() and not dist.is_initialized():
        with _others_needed():
            # What lies on a GPU goes by nccl, and what lies in memory by gloo.
            dist.init_process_group("cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo")


def several() -> bool:
    """Whether this process is one of several."""
    return dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1


def is_first() -> bool:
    """Whether this is the process that does what only one should do."""
    return not several() or dist.get_rank() == 0


def add_up(*tensors: Tensor) -> None:
    """Replace each tensor by its sum over all processes, with one message for all of one kind."""
    if not several():
        return
    kinds: dict[Any, list[Tensor]] = {}
    for tensor in tensors:
        kinds.setdefault((tensor.dtype, tensor.device), []).append(tensor)
    for same in kinds.values():
        flat = torch.cat([t.reshape(-1) for t in same])
        with _others_needed():
            dist.all_reduce(flat)
        start = 0
        for tensor in same:
            tensor.copy_(flat[start : start + tensor.numel()].view_as(tensor))
            start += tensor.numel()


def take_means(tensors: Sequence[Tensor]) -> None:
    """Replace each tensor by its mean over all processes."""
    if several():
        for tensor in tensors:
            tensor.div_(dist.get_world_size())
        add_up(*tensors)


def gather(value: Any) -> list[Any]:
    """Return the value of each process, in their order."""
    if not several():
        return [value]
    values: list[Any] = [None] * dist.get_world_size()
    with _others_needed():
        dist.all_gather_object(values, _packed(value))
    return [_unpacked(each) for each in values]


def from_first(value: Any) -> Any:
    """Return the first process's value."""
    if not several():
        return value
    held = [_packed(value) if is_first() else None]
    with _others_needed():
        dist.broadcast_object_list(held, src=0)
    return _unpacked(held[0])


def _packed(value: Any) -> bytes:
    """Return a value as torch writes it: what lies on a GPU says so, and can be moved."""
    buffer = io.BytesIO()
    # With the protocol that torch takes by itself, arrays of numpy become half as large again.
    torch.save(value, buffer, pickle_protocol=pickle.HIGHEST_PROTOCOL)
    return buffer.getvalue()


def _unpacked(data: Any) -> Any:
    return torch.load(io.BytesIO(data), map_location=on_own_device, weights_only=False)


def on_own_device(storage: Any, location: str) -> Any:
    """Put what was on some GPU on this process's own, if it has one; else on the CPU."""
    away = location.startswith("cuda") and torch.cuda.is_available()
    return storage.cuda(torch.cuda.current_device()) if away else storage


@contextmanager
def _others_needed() -> Iterator[None]:
    try:
        yield
    except RuntimeError as error:  # what backends raise when a connection ends
        raise PeerLostError(
            f"another process ended, or cannot be reached ({_reason(error)}). Start all of them "
            "again with the same command: where a checkpoint was named, training goes on from "
            "there."
        ) from error


def _reason(error: RuntimeError) -> str:
    """Return the first sentence of a backend's message."""
    words = _SOURCE.sub("", str(error).strip().partition("\n")[0]).split()
    sentence = " ".join(words).partition(". ")[0].rstrip(".")
    return sentence or type(error).__name__


def share() -> tuple[int, int]:
    """Return this process's number, and how many share the work.

    The processes are those of torch's default group; alone it is the first of one.

    Examples
    --------
    >>> share()
    (0, 1)
    """
    if dist.is_available() and dist.is_initialized():
        return dist.get_rank(), dist.get_world_size()
    return 0, 1


_BITS = 16


def coarse(x: Tensor) -> Tensor:
    """Return x to 16 significant bits.

    Examples
    --------
    >>> import torch
    >>> a, b = torch.tensor(0.1 + 0.2 + 0.3).double(), torch.tensor(0.3 + 0.2 + 0.1).double()
    >>> bool(coarse(a) == coarse(b))
    True
    """
    mantissa, exponent = torch.frexp(x)
    return torch.ldexp((mantissa * 2.0**_BITS).round(), exponent - _BITS)


# DOC of streams.share: Which part of the rows this process reads.

# DOC of streams.rounding: Numbers that come out the same however their sums were ordered.
#
# Sums of many terms hang on their order in the last bits, and with several processes the order
# changes. Where such a sum decides what is drawn next, a few bits of it are enough, and they agree.
#

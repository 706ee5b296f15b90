"""The command as one of several processes, which ``torchrun`` started: one of them speaks."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout

_PATIENCE = 5  # seconds, for the others' bulletin board


def several() -> bool:
    """Whether ``torchrun`` started this process and others."""
    return "TORCHELASTIC_RUN_ID" in os.environ and int(os.environ.get("WORLD_SIZE", "1")) > 1


def is_first() -> bool:
    """Whether this is the process that speaks and writes files."""
    return not several() or os.environ.get("RANK", "0") == "0"


@contextmanager
def only_first_speaks() -> Iterator[None]:
    """Let the other processes say nothing."""
    if is_first():
        yield
        return
    with open(os.devnull, "w") as nowhere, redirect_stdout(nowhere), redirect_stderr(nowhere):
        yield


def tells_error() -> bool:
    """Whether this process is the one that tells what went wrong.

    It is the one that fails first: the others fail because of it, or of the same.
    """
    if not several():
        return True
    try:
        from datetime import timedelta

        from torch.distributed.rendezvous import rendezvous

        store, _, _ = next(rendezvous("env://", timeout=timedelta(seconds=_PATIENCE)))
        return bool(store.add("setpoint/failed", 1) == 1)
    except Exception:  # nobody can be asked any more: better twice than not at all
        return True


def leave() -> None:
    """Part from the other processes, where they were joined."""
    if several():
        import torch.distributed as dist

        if dist.is_available() and dist.is_initialized():
            dist.destroy_process_group()

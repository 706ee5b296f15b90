"""As many threads as the work earns.

A step of training on a table of usual size takes operations of microseconds. Distributed over
threads, they wait for one another longer than they compute, and on a busy machine for a thread that
has no core at the moment. Threads therefore share operations only if these are large; independent
work, such as the thresholds of several models, goes to threads that never wait for each other.
"""

from __future__ import annotations

import functools
import math
import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any, TypeVar

import torch
from joblib import effective_n_jobs
from threadpoolctl import ThreadpoolController

Item = TypeVar("Item")
Result = TypeVar("Result")

_QUOTA_FILE = Path("/sys/fs/cgroup/cpu.max")  # microseconds of all cores together in a period
_EARNS_THREADS = 2**22  # multiplications of one operation: about a millisecond
_allowed: ContextVar[int | None] = ContextVar("allowed", default=None)


@functools.cache
def usable_cores() -> int:
    """Return the cores that this process may use, by its affinity and its container's quota."""
    try:
        cores = len(os.sched_getaffinity(0))
    except AttributeError:  # not on Linux
        cores = os.cpu_count() or 1
    return max(1, min(cores, _quota()))


def _quota() -> int:
    """Return the cores that the control group of a container allows, rounded up."""
    try:
        allowed, period = _QUOTA_FILE.read_text().split()[:2]
        return math.ceil(int(allowed) / int(period))
    except (OSError, ValueError, ZeroDivisionError):  # no such file, another version, or "max"
        return os.cpu_count() or 1


@functools.cache
def _controller() -> Any:
    return ThreadpoolController()


@contextmanager
def threads_for(work: int) -> Iterator[None]:
    """Let numerical libraries use one thread, unless an operation has ``work`` multiplications.

    More threads than torch was told to use are never taken.
    """
    before = torch.get_num_threads()
    threads = min(before, usable_cores()) if work >= _EARNS_THREADS else 1
    with _controller().limit(limits=threads):
        torch.set_num_threads(threads)
        token = _allowed.set(_allowed.get() or before)
        try:
            yield
        finally:
            _allowed.reset(token)
            torch.set_num_threads(before)


def map_in_threads(
    function: Callable[[Item], Result], items: Iterable[Item], n_jobs: int | None = None
) -> list[Result]:
    """Return the results for all items, computed in ``n_jobs`` threads, counted as joblib does.

    None: in as many threads as torch was told to use.
    """
    items = list(items)
    threads = min(_allowed.get() or torch.get_num_threads(), usable_cores())
    if n_jobs is not None:
        threads = effective_n_jobs(n_jobs)
    threads = min(threads, len(items))
    if threads < 2:
        return [function(item) for item in items]
    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(function, items))

"""Steps that repeat the same operations: on a GPU recorded once and replayed as a CUDA graph."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from setpoint.goals.goal import Goal, only_fractions

_WARM_UP = 2  # steps before a recording, in which libraries allocate what they need
_keepers: dict[int, torch.cuda.CUDAGraph] = {}  # by device: all graphs share their memory


class Recorded:
    """A step that is replayed where that pays.

    A small step spends most of its time launching some fifty kernels one by one. As a graph they
    take a tenth of it. On a CPU, or if a model cannot be recorded (because it waits for the device,
    for example), the step is simply called.

    Whatever changes between steps must be in tensors that are changed in place. A plain number
    that the step reads keeps its value until :meth:`forget`.

    Parameters
    ----------
    device : torch.device
        Where the step works.
    goal : Goal, optional
        The goal whose metrics the step computes, if it does.
    """

    def __init__(self, device: torch.device, goal: Goal | None = None) -> None:
        computable = goal is None or only_fractions(goal)
        self._eager = device.type != "cuda" or not computable
        self._warm = 0
        self._graph: torch.cuda.CUDAGraph | None = None
        self._result: Tensor

    def __call__(self, step: Callable[[], Tensor]) -> Tensor:
        """Do the step, the same one at every call; the next call may overwrite what it returns.

        The step is not stored: a reference to its owner, which holds this object, would keep both
        and the graph's memory alive until Python collects cycles.
        """
        if self._eager:
            return step()
        if self._graph is None:
            stream = _side_stream(torch.cuda.current_device())
            stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(stream):
                done = self._warm_up(step) if self._warm < _WARM_UP else self._record(step)
            torch.cuda.current_stream().wait_stream(stream)
            if done is not None:
                return done
        assert self._graph is not None
        self._graph.replay()
        return self._result

    def _warm_up(self, step: Callable[[], Tensor]) -> Tensor:
        self._warm += 1
        return step()

    def _record(self, step: Callable[[], Tensor]) -> Tensor | None:
        """Record without executing; if that fails, do the step, now and from now on."""
        device = torch.cuda.current_device()
        generator = torch.cuda.default_generators[device]
        before = generator.clone_state()
        graph = torch.cuda.CUDAGraph()
        try:
            graph.capture_begin(pool=_pool(device), capture_error_mode="thread_local")
            self._result = step()
            graph.capture_end()
        except Exception:  # anything that cannot be recorded
            with contextlib.suppress(Exception):
                graph.capture_end()
            # Else the generator and the memory would stay in recording mode.
            generator.graphsafe_set_state(before)
            _keepers.pop(device, None)
            self._eager = True
            return step()
        self._graph = graph
        return None

    def forget(self) -> None:
        """Record again at the next step: numbers that it reads have changed."""
        self._graph = None


@functools.cache
def _side_stream(device: int) -> torch.cuda.Stream:
    """Return the stream to record on; always the same, because memory is cached by stream."""
    return torch.cuda.Stream(device)  # type: ignore[no-untyped-call]


def _pool(device: int) -> Any:
    """Return the memory that graphs share: they take turns, and a new one needs no more.

    It lives as long as a graph uses it; an empty one is kept for that.
    """
    if device not in _keepers:
        keeper = torch.cuda.CUDAGraph()
        keeper.capture_begin(capture_error_mode="thread_local")
        try:
            torch.zeros(1, device=f"cuda:{device}")
        finally:
            keeper.capture_end()
        _keepers[device] = keeper
    return _keepers[device].pool()

"""Steps that are always the same work: on a GPU recorded once and replayed as one CUDA graph."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from setpoint.goals import Goal

_WARM_UP = 2  # steps before a recording, in which libraries allocate what they need


class Recorded:
    """A step that is replayed where that pays.

    A small step is mostly the time in which a CPU asks a GPU for fifty kernels, one by one. Asked
    for once, as a graph, they take a tenth of it. On a CPU, or if a model cannot be recorded
    (it waits for the device, say), the step is simply called.

    What changes between steps must lie in tensors that are changed in place. A plain number that
    the step reads keeps its value until :meth:`forget`.

    Parameters
    ----------
    step : callable
        Takes nothing and returns a tensor, which the next call may overwrite.
    device : torch.device
        Where it works.
    goal : Goal, optional
        The one whose metrics it computes, if it does.
    """

    def __init__(
        self, step: Callable[[], Tensor], device: torch.device, goal: Goal | None = None
    ) -> None:
        self._step = step
        computable = goal is None or only_fractions(goal)
        self._eager = device.type != "cuda" or not computable
        self._warm = 0
        self._graph: torch.cuda.CUDAGraph | None = None
        self._result: Tensor

    def __call__(self) -> Tensor:
        """Do the step."""
        if self._eager:
            return self._step()
        if self._graph is None:
            stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
            stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(stream):
                done = self._warm_up() if self._warm < _WARM_UP else self._record()
            torch.cuda.current_stream().wait_stream(stream)
            if done is not None:
                return done
        assert self._graph is not None
        self._graph.replay()
        return self._result

    def _warm_up(self) -> Tensor:
        self._warm += 1
        return self._step()

    def _record(self) -> Tensor | None:
        """Record, which does nothing yet; if that fails do the step, now and from now on."""
        graph = torch.cuda.CUDAGraph()
        graph.capture_begin(capture_error_mode="thread_local")
        try:
            self._result = self._step()
            graph.capture_end()
        except Exception:  # whatever a model may do that cannot be recorded
            with contextlib.suppress(Exception):
                graph.capture_end()
            self._eager = True
            return self._step()
        self._graph = graph
        return None

    def forget(self) -> None:
        """Record anew at the next step: numbers that it reads have changed."""
        self._graph = None


def only_fractions(goal: Goal) -> bool:
    """Whether all metrics can be computed on a device; others may be functions of numpy alone."""
    return all(metric.fraction is not None for metric in goal.metrics)


def adam(groups: list[dict[str, Any]], device: torch.device) -> torch.optim.Adam:
    """Return an Adam that can be recorded: on a GPU its learning rates are tensors."""
    if device.type != "cuda":
        return torch.optim.Adam(groups, fused=True)
    groups = [{**group, "lr": torch.tensor(group["lr"], device=device)} for group in groups]
    return torch.optim.Adam(groups, fused=True, capturable=True)


def set_rate(group: dict[str, Any], rate: float) -> None:
    """Set the learning rate of one of an optimizer's groups."""
    if isinstance(group["lr"], Tensor):
        group["lr"].fill_(rate)
    else:
        group["lr"] = rate

"""Checkpoints, from which an interrupted training continues to the same result."""

from __future__ import annotations

import hashlib
import io
import re
import secrets
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from setpoint._internal.files import AtomicFile
from setpoint._internal.processes import broadcast, is_main_process, to_local_device
from setpoint.errors import CheckpointError
from setpoint.thresholds.operating_point import OperatingPoint, caution_fields, with_caution
from setpoint.training.candidates import Candidate, Candidates, Selection
from setpoint.training.history import History

if TYPE_CHECKING:
    from setpoint.training.epochs import LoaderProblem
    from setpoint.training.loop import Solver
    from setpoint.training.problem import Problem
    from setpoint.training.stream_problem import StreamProblem


_FORMAT = 4
_COUNTS = ("threshold", "tp", "fp", "fn", "tn")


class Checkpoint:
    """One file, bound to one problem, module, solver, seed and candidate to be trained again."""

    def __init__(
        self,
        path: Path,
        problem: Problem | StreamProblem | LoaderProblem,
        module: nn.Module,
        solver: Solver,
        seed: int | None,
        take: Candidate | None = None,
        distributed: bool = False,
    ) -> None:
        if path.is_dir():
            raise CheckpointError(f"the checkpoint {path} is a folder; name a file in it.")
        self.path = path
        self._cleaned = False
        self._goal = problem.evaluation_goal
        # In a process group the first process writes and reads.
        self._distributed, self._mine = distributed, is_main_process() or not distributed
        problem_is = problem.fingerprint()
        self._belongs_to = {
            "format": _FORMAT,
            "problem": broadcast(problem_is) if distributed else problem_is,
            "model": repr(module),
            "solver": repr(solver),
            "seed": seed,
            "candidate": None if take is None else f"{take.name} at {take.iteration}",
            "start": None if seed is None else _digest(module),
            # The state of an optimizer differs between a CPU and a GPU.
            "device": next((p.device.type for p in module.parameters()), "cpu"),
        }

    def write(
        self, module: nn.Module, run: dict[str, Any], selection: Selection, finished: bool
    ) -> None:
        """Replace the file in one step, so that a crash leaves the old one whole."""
        if not self._mine:
            return
        point, best_module = selection.best
        candidates = selection.candidates
        content = {
            **self._belongs_to,
            "module": module.state_dict(),
            "run": run,
            "rng": torch.get_rng_state(),
            "best_point": _plain(point),
            "best_caution": caution_fields(point),
            "best_module": best_module,
            "history": selection.history.to_dict(),
            "candidates": [
                (c.name, _plain(c.point), c.iteration, c.start, c.average) for c in candidates
            ],
            "cautions": [caution_fields(c.point) for c in candidates],
            "margin": candidates.margin,
            "finished": finished,
        }
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._remove_leftovers()
        part = self.path.with_name(f"{self.path.name}.{secrets.token_hex(4)}.part")
        with AtomicFile(self.path, temporary=part) as file:
            torch.save(content, file)

    def _remove_leftovers(self) -> None:
        """Remove the half-written files of processes that were killed, once."""
        if self._cleaned:
            return  # a file that appears later is being written by another process
        self._cleaned = True
        ours = re.compile(re.escape(self.path.name) + r"\.[0-9a-f]{8}\.part")
        for file in list(self.path.parent.iterdir()):
            if ours.fullmatch(file.name) and file.is_file():
                file.unlink(missing_ok=True)

    def read(self, module: nn.Module, selection: Selection) -> tuple[dict[str, Any], bool] | None:
        """Restore module, selection and torch's generator; return the run's state, and if finished.

        Return None if there is nothing to continue. A finished run of another problem will be
        overwritten; an unfinished one raises CheckpointError.
        """
        data = self.path.read_bytes() if self._mine and self.path.exists() else None
        if self._distributed:
            data = broadcast(data)
        if data is None:
            return None
        try:
            content = torch.load(io.BytesIO(data), map_location=to_local_device, weights_only=True)
            found = {key: _renamed(content[key]) for key in self._belongs_to}
            finished = content["finished"]
        except Exception as error:  # a damaged file can raise anything
            raise CheckpointError(
                f"the checkpoint {self.path} cannot be read; delete it to start anew."
            ) from error
        if finished and self._belongs_to["seed"] is None:
            return None  # without a seed, each run is a new one
        for key, mine in self._belongs_to.items():
            if found[key] != mine:
                if finished:
                    return None
                raise CheckpointError(
                    f"the checkpoint {self.path} holds an unfinished run of another {key}; finish "
                    "it, delete it, or name another file."
                )
        module.load_state_dict(content["module"])
        torch.set_rng_state(content["rng"])
        for names in ("names", "starts"):
            if names in content["run"]:
                content["run"][names] = [_renamed(name) for name in content["run"][names]]
        stored = content["candidates"]
        cautions = content.get("cautions", [None] * len(stored))  # none in earlier versions
        candidates = [
            Candidate(_renamed(name), self._point(point, caution), *rest)
            for (name, point, *rest), caution in zip(stored, cautions, strict=True)
        ]
        point = self._point(content["best_point"], content.get("best_caution"))
        selection.restore(
            (point, content["best_module"]),
            History.from_dict(content["history"]),
            Candidates(candidates, margin=content["margin"]),
        )
        return content["run"], finished

    def _point(self, fields: dict[str, Any], caution: list[float] | None) -> OperatingPoint:
        return with_caution(OperatingPoint(**fields, goal=self._goal), caution)


def _renamed(text: Any) -> Any:
    """Return a text of an earlier version, where ``proximity`` was called nearness, as of now."""
    if not isinstance(text, str):
        return text
    return text.replace("nearness=", "proximity=").replace("; nearness ", "; proximity ")


def _digest(module: nn.Module) -> str:
    """Return a digest of the weights that a run starts from."""
    digest = hashlib.sha256()
    for name, value in module.state_dict().items():
        digest.update(name.encode())
        # As bytes: numpy does not know bfloat16.
        digest.update(value.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy())
    return digest.hexdigest()


def _plain(point: OperatingPoint) -> dict[str, Any]:
    """Return the fields of a point that are stored; its goal is that of the problem."""
    fields = {**{k: getattr(point, k) for k in _COUNTS}, "on": point.on}
    return {**fields, "tallied": point.tallied} if point.tallied else fields

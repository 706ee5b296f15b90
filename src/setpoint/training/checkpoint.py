"""Files from which an interrupted training goes on as if nothing had happened."""

from __future__ import annotations

import hashlib
import io
import re
import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from setpoint._internal.files import AtomicFile
from setpoint._internal.processes import broadcast, is_main_process, to_local_device
from setpoint.errors import CheckpointError
from setpoint.thresholds.operating_point import OperatingPoint
from setpoint.training.candidates import Candidate, Candidates
from setpoint.training.history import History

if TYPE_CHECKING:
    from setpoint.training.loop import Solver, Task


_FORMAT = 3
_COUNTS = ("threshold", "tp", "fp", "fn", "tn")


@dataclass(frozen=True)
class State:
    """What a checkpoint holds besides the model, which is restored in place."""

    run: dict[str, Any]
    best_point: OperatingPoint
    best_module: dict[str, Any]
    history: History
    candidates: Candidates
    finished: bool


def _digest(module: nn.Module) -> str:
    """Return a digest of the weights that a run starts from."""
    digest = hashlib.sha256()
    for name, value in module.state_dict().items():
        digest.update(name.encode())
        # As bytes: numpy does not know bfloat16.
        digest.update(value.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy())
    return digest.hexdigest()


class Checkpoint:
    """One file, bound to one problem, model, solver, seed and candidate to be trained again."""

    def __init__(
        self,
        path: Path,
        problem: Task,
        module: nn.Module,
        solver: Solver,
        seed: int | None,
        take: Candidate | None = None,
        together: bool = False,
    ) -> None:
        if path.is_dir():
            raise CheckpointError(f"the checkpoint {path} is a folder; name a file in it.")
        self.path = path
        self._swept = False  # of what a killed process has left half-written
        self._goal = problem.goal
        # Where processes train one model together, the first of them writes and reads.
        self._together, self._mine = together, is_main_process() or not together
        problem_is = problem.fingerprint()
        self._belongs_to = {
            "format": _FORMAT,
            "problem": broadcast(problem_is) if together else problem_is,
            "model": repr(module),
            "solver": repr(solver),
            "seed": seed,
            "candidate": None if take is None else f"{take.name} at {take.iteration}",
            "start": None if seed is None else _digest(module),
            # Optimizers keep other things on a GPU, so that a run cannot go on elsewhere.
            "device": next((p.device.type for p in module.parameters()), "cpu"),
        }

    def write(
        self,
        module: nn.Module,
        run: dict[str, Any],
        best: tuple[OperatingPoint, dict[str, Any]],
        history: History,
        candidates: Candidates,
        finished: bool,
    ) -> None:
        """Replace the file in one step, so that a crash leaves the old one whole."""
        if not self._mine:
            return
        point, best_module = best
        content = {
            **self._belongs_to,
            "module": module.state_dict(),
            "run": run,
            "rng": torch.get_rng_state(),
            "best_point": _plain(point),
            "best_module": best_module,
            "history": history.to_dict(),
            "candidates": [(c.name, _plain(c.point), c.iteration, c.start) for c in candidates],
            "margin": candidates.margin,
            "finished": finished,
        }
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._sweep()
        part = self.path.with_name(f"{self.path.name}.{secrets.token_hex(4)}.part")
        with AtomicFile(self.path, temporary=part) as file:
            torch.save(content, file)

    def _sweep(self) -> None:
        """Remove what earlier processes left that were killed in the middle of a write."""
        if self._swept:
            return  # what appears later is being written by another process
        self._swept = True
        ours = re.compile(re.escape(self.path.name) + r"\.[0-9a-f]{8}\.part")
        for file in list(self.path.parent.iterdir()):
            if ours.fullmatch(file.name) and file.is_file():
                file.unlink(missing_ok=True)

    def read(self, module: nn.Module) -> State | None:
        """Restore the module and torch's generator, and return the rest; None: start anew.

        A finished run of another problem is of no more use and will be overwritten; one that
        still has work in it is not.
        """
        data = self.path.read_bytes() if self._mine and self.path.exists() else None
        if self._together:
            data = broadcast(data)
        if data is None:
            return None
        try:
            content = torch.load(io.BytesIO(data), map_location=to_local_device, weights_only=True)
            found = {key: content[key] for key in self._belongs_to}
            finished = content["finished"]
        except Exception as error:  # damage shows itself in many ways
            raise CheckpointError(
                f"the checkpoint {self.path} cannot be read; delete it to start anew."
            ) from error
        if finished and self._belongs_to["seed"] is None:
            return None  # without a seed, another run is meant to be another run
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
        return State(
            content["run"],
            OperatingPoint(**content["best_point"], goal=self._goal),
            content["best_module"],
            History.from_dict(content["history"]),
            Candidates(
                [
                    Candidate(name, OperatingPoint(**point, goal=self._goal), iteration, start)
                    for name, point, iteration, start in content["candidates"]
                ],
                margin=content["margin"],
            ),
            finished,
        )


def _plain(point: OperatingPoint) -> dict[str, Any]:
    """Return what a file keeps of a point; the goal is that of the problem."""
    return {**{k: getattr(point, k) for k in _COUNTS}, "on": point.on}

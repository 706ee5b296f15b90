"""Processes of one command, as torchrun would start them, but without its long start."""

import os
import signal
import sys
from dataclasses import dataclass

import forked


def use_small_solver(patch=setattr):
    """Let a training on a stream take a second."""
    from setpoint.estimators import stream_fitting as fitting
    from setpoint.training import Stochastic

    small = Stochastic(
        outer_iterations=3, inner_iterations=4, batch_size=256, rows=1000, restarts=0,
        proximity=(0.0,), relaxed=False,
    )  # fmt: skip
    patch(fitting, "_solver_of", lambda solver: small)


@dataclass
class Ended:
    code: int
    out: str
    err: str


def run_together(arguments, folder, processes=2, dies=None):
    """Run a command in several processes; one may be killed when it is in mid-training."""
    folder.mkdir(exist_ok=True)
    told = forked.as_torchrun_tells(processes)
    arguments = list(map(str, arguments))
    codes = forked.run_together(
        _run, [(told[rank], arguments, str(folder), rank == dies) for rank in range(processes)]
    )
    return [
        Ended(code, *((folder / f"{rank}.{s}").read_text() for s in ("out", "err")))
        for rank, code in enumerate(codes)
    ]


def _run(environment, arguments, folder, dies):
    os.environ |= environment
    forked.say_into(folder, environment["RANK"])
    import torch

    from setpoint.cli import main
    from setpoint.training.stochastic import StochasticRun

    torch.set_num_threads(1)
    use_small_solver()
    if dies:
        advance = StochasticRun.advance

        def killed(self, iteration):
            if iteration == 2:
                os.kill(os.getpid(), signal.SIGKILL)
            return advance(self, iteration)

        StochasticRun.advance = killed
    sys.exit(main(arguments))

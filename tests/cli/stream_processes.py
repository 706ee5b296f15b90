"""Processes of one command, as torchrun would start them, but without its long start."""

import multiprocessing
import os
import signal
import socket
import sys
from dataclasses import dataclass
from pathlib import Path

PATIENCE = 120  # seconds; what hangs is a failure


def use_small_solver(patch=setattr):
    """Let a training on a stream take a second."""
    from setpoint.solvers import Stochastic
    from setpoint.streams import fitting

    small = Stochastic(
        outer_iterations=3, inner_iterations=4, batch_size=256, rows=1000, restarts=0,
        nearness=(0.0,), relaxed=False,
    )  # fmt: skip
    patch(fitting, "_solver_of", lambda solver: small)


@dataclass
class Ended:
    code: int
    out: str
    err: str


def free_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def run_together(arguments, folder, processes=2, dies=None):
    """Run a command in several processes; one may be killed when it is in mid-training."""
    context = multiprocessing.get_context("forkserver")
    # What takes long to import is imported once.
    context.set_forkserver_preload(["setpoint.tabular.stream_fitting", "torch._dynamo", "skrub"])
    port = free_port()
    folder.mkdir(exist_ok=True)
    every = []
    for rank in range(processes):
        told = (rank, processes, port, list(map(str, arguments)), str(folder), rank == dies)
        every.append(context.Process(target=_run, args=told))
    for process in every:
        process.start()
    for process in every:
        process.join(PATIENCE)
    hang = [process for process in every if process.is_alive()]
    for process in hang:
        process.kill()
    assert not hang, "a process did not end"
    return [
        Ended(process.exitcode, *((folder / f"{rank}.{s}").read_text() for s in ("out", "err")))
        for rank, process in enumerate(every)
    ]


def _run(rank, processes, port, arguments, folder, dies):
    os.environ |= {
        "TORCHELASTIC_RUN_ID": "test", "RANK": str(rank), "WORLD_SIZE": str(processes),
        "LOCAL_RANK": str(rank), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port),
    }  # fmt: skip
    for stream, name in ((sys.stdout, "out"), (sys.stderr, "err")):
        with (Path(folder) / f"{rank}.{name}").open("w") as file:
            os.dup2(file.fileno(), stream.fileno())
    import torch

    from setpoint.cli import main
    from setpoint.solvers.stochastic_run import StochasticRun

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

"""Processes for tests, forked from a server that has imported once what takes long to import."""

import multiprocessing
import os
import runpy
import socket
import sys
from pathlib import Path

from torch.distributed import TCPStore

PRELOADED = ["setpoint.tables.stream_fitting", "torch._dynamo", "skrub"]
PATIENCE = 120  # seconds; what hangs is a failure


def free_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


_boards = []  # of each group of processes; torchrun keeps one for them, which outlives them all


def as_torchrun_tells(processes):
    """Return the environment of each of so many processes."""
    board = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    _boards.append(board)
    return [
        {
            "TORCHELASTIC_RUN_ID": "test", "TORCHELASTIC_USE_AGENT_STORE": "True",
            "RANK": str(rank), "WORLD_SIZE": str(processes), "LOCAL_RANK": str(rank),
            "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(board.port),
        }
        for rank in range(processes)
    ]  # fmt: skip


def run_together(target, every):
    """Call a function of an importable module in a process for each of the arguments.

    Return the exit codes.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(PRELOADED)
    processes = [context.Process(target=target, args=args) for args in every]
    for process in processes:
        process.start()
    for process in processes:
        process.join(PATIENCE)
    hang = [process for process in processes if process.is_alive()]
    for process in hang:
        process.kill()
    assert not hang, "a process did not end"
    return [process.exitcode for process in processes]


def say_into(folder, name):
    """Let this process write to ``name.out`` and ``name.err``, and whatever it starts."""
    for stream, ending in ((sys.stdout, "out"), (sys.stderr, "err")):
        with (Path(folder) / f"{name}.{ending}").open("w") as file:
            os.dup2(file.fileno(), stream.fileno())


def run_script(script, arguments, environment, folder, name):
    """Run a script as its own program would be, in this process."""
    os.environ |= environment
    say_into(folder, name)
    sys.argv = [str(script), *map(str, arguments)]
    runpy.run_path(str(script), run_name="__main__")

"""A training for several processes; ``interrupted_processes.py FOLDER RANKS``.

After the first look the last process interrupts those of the ranks, e.g. 0,1, while the others
wait for it: as ``kill -INT`` does to one of them, or Ctrl-C in a terminal to all.
"""

import os
import signal
import sys
import time
from pathlib import Path

import numpy as np
import torch

from setpoint.data import ArrayRows
from setpoint.errors import PeerLostError
from setpoint.training import Stochastic, train
from setpoint.training.models import build

SMALL = Stochastic(
    outer_iterations=50, inner_iterations=5, batch_size=100, rows=400, restarts=0, proximity=(0.0,),
    start="given",
)  # fmt: skip


def main(folder, ranks):
    """Train until interrupted; end with 130 then, and with 3 where another process was lost."""
    # A parent that ignores it, such as a script's background job, would hand that down.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    own, last = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]) - 1
    (folder / f"pid.{own}").write_text(str(os.getpid()))
    rng = np.random.default_rng(0)
    y = rng.random(1000) < 0.2
    X = (rng.normal(size=(1000, 3)) + y[:, None]).astype(np.float32)

    def interrupt(record, total):
        if own == last and record.iteration == 1:
            time.sleep(0.5)  # by now the others wait
            pids = [int((folder / f"pid.{rank}").read_text()) for rank in ranks]
            for pid in pids:
                os.kill(pid, signal.SIGINT)

    try:
        train(
            build("linear", 3),
            ArrayRows(X, y, block_rows=100),
            "max f1",
            solver=SMALL,
            callback=interrupt,
            checkpoint=folder / "checkpoint",
        )
    except KeyboardInterrupt:
        sys.exit(130)
    except PeerLostError as error:
        print(error, file=sys.stderr)
        sys.exit(3)


if __name__ == "__main__":
    torch.set_num_threads(1)
    main(Path(sys.argv[1]), sys.argv[2].split(","))

"""The command with trials that never end, except the first, so that it can be interrupted.

Its workers import this file as well, for it is their parent's main module.
"""

import sys
import time

from setpoint.paper import trial
from setpoint.paper.reproduce import main

train = trial.run_job


def run_job(job, dataset, device):
    """Train in the first trial only."""
    if job.trial:
        time.sleep(600)
    return train(job, dataset, device)


if __name__ in ("__main__", "__mp_main__"):  # and not where pytest looks for doctests
    trial.run_job = run_job

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

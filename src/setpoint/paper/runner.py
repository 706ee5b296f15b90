"""Do many jobs in parallel, over cores or devices, and keep every one as soon as it is done."""

from __future__ import annotations

import datetime
import multiprocessing
import os
import signal
import threading
import traceback
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch

from setpoint._internal.provenance import machine
from setpoint.errors import SetpointError
from setpoint.paper import data, trial
from setpoint.paper.datasets.dataset import Dataset
from setpoint.paper.jobs import Job
from setpoint.paper.methods import METHODS, SCALES
from setpoint.paper.store import Store, digest

Report = Callable[[int, int, Job], None]  # jobs done, jobs in all, the last one


@dataclass(frozen=True)
class Failure:
    """A job that raised, and what."""

    job: Job
    error: str


def run(
    jobs: Sequence[Job],
    folder: str | Path,
    *,
    workers: int | None = None,
    devices: Sequence[str] = ("cpu",),
    report: Report | None = None,
    keep_old: bool = False,
) -> list[Failure]:
    """Do the jobs that are not done yet; return those that failed.

    Ctrl-C, or a crash, loses only the jobs under way; the same call goes on from there.

    Parameters
    ----------
    jobs : sequence of Job
        What to do; those that lie finished in the folder are left out.
    folder : path
        Where results are kept.
    workers : int, optional
        Processes; by default one per core, or one per device if there are more. 1 works in this
        process.
    devices : sequence of str
        Torch devices, dealt to the workers in turn.
    report : callable, optional
        Told after every job.
    keep_old : bool
        Whether to leave out those, too, that other code has done.
    """
    if not jobs:
        return []
    check_devices(devices)
    store = Store(folder, keep_old)
    store.claim(jobs[0].scale)
    sources = {
        name: data.obtain(
            name, store.folder / "data", stand_ins=SCALES[jobs[0].scale].stand_ins
        ).source
        for name in dict.fromkeys(job.dataset for job in jobs)
    }
    todo = [job for job in dict.fromkeys(jobs) if not store.has(job, sources[job.dataset])]
    done = len(set(jobs)) - len(todo)
    failures: list[Failure] = []

    def finished(job: Job, error: str | None) -> None:
        nonlocal done
        done += 1
        if error is not None:
            failures.append(Failure(job, error))
        if report is not None:
            report(done, len(set(jobs)), job)

    _dataset.cache_clear()  # of an earlier call, when the file may have been another
    # A process keeps one split at hand; and long jobs last would leave most workers idle.
    todo.sort(key=lambda job: (job.dataset, job.split, job.three, job.trial, -_size(job)))
    workers = workers or max(os.cpu_count() or 1, len(devices))
    if workers == 1 or len(todo) < 2:
        with _one_thread():
            for job in todo:
                finished(job, _do(job, str(store.folder), devices[0]))
        return failures
    others = set(multiprocessing.active_children())
    # A copy of this process could not use CUDA; of a server that has only imported, it can.
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__])
    turn = context.Value("i", 0)
    pool = ProcessPoolExecutor(
        workers,
        mp_context=context,
        initializer=_begin_work,
        initargs=(turn, tuple(devices), len(devices) / workers),
    )
    pending: dict[Future[str | None], Job] = {}
    try:
        for job in todo:
            pending[pool.submit(_do, job, str(store.folder))] = job
        while pending:
            for future in wait(pending, return_when=FIRST_COMPLETED).done:
                job = pending.pop(future)
                finished(job, future.result())
    except BaseException as error:
        pool.shutdown(wait=False, cancel_futures=True)
        for process in set(multiprocessing.active_children()) - others:
            process.terminate()
        if isinstance(error, BrokenProcessPool):
            raise SetpointError(
                "a worker died, most likely for lack of memory. What is finished is kept, and the "
                "same command goes on from there; --workers lets fewer work at a time."
            ) from error
        raise
    pool.shutdown()
    return failures


def check_devices(devices: Sequence[str]) -> None:
    """Refuse devices that torch does not know or that are not there."""
    if not devices:
        raise SetpointError("name at least one device, e.g. cpu.")
    there = ["cpu", *(f"cuda:{k}" for k in range(torch.cuda.device_count()))]
    for name in devices:
        try:
            device = str(torch.device(name))
        except (RuntimeError, TypeError):
            device = ""
        # Looked up, not tried: a context on the GPU would take memory for the whole run.
        known = device in there or (device == "cuda" and len(there) > 1)
        if not known:
            raise SetpointError(
                f"the device {name!r} is not there; this machine has {', '.join(there)}."
            )


@contextmanager
def _one_thread() -> Iterator[None]:
    """Work as workers do, for sums that do not depend on their number."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def _size(job: Job) -> int:
    """Return which jobs to begin with, roughly."""
    if job.method.endswith("printed"):
        return 3
    return 1 if METHODS[job.method].variants == ("paper", "converged") else 2


_device = "cpu"  # this worker's


def _begin_work(turn: Any, devices: tuple[str, ...], share: float) -> None:
    global _device
    with turn.get_lock():
        _device = devices[turn.value % len(devices)]
        turn.value += 1
    if torch.device(_device).type == "cuda":
        # Torch keeps memory that it may need again until its share is used up; by itself it would
        # take that of all workers.
        own = torch.device(_device).index or 0
        torch.cuda.set_per_process_memory_fraction(min(0.95 * share, 1.0), own)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all; the parent ends the others
    torch.set_num_threads(1)
    digest()  # now: an edit during the run changes the files, not what was imported
    parent = multiprocessing.parent_process()
    assert parent is not None
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()


def _end_with(parent: multiprocessing.process.BaseProcess) -> None:
    """End this worker when its parent is killed; it would wait for more work forever."""
    parent.join()
    os._exit(1)


@lru_cache(maxsize=1)
def _dataset(path: str) -> Dataset:
    return Dataset.load(path)


def _do(job: Job, folder: str, device: str | None = None) -> str | None:
    """Do and keep a job, on this worker's device; return what went wrong, if anything."""
    device = device or _device
    store = Store(folder)
    try:
        dataset = _dataset(str(data.prepared(job.dataset, store.folder / "data")))
        result = trial.do(job, dataset, device)
        result["machine"] = machine(device)
        result["date"] = datetime.date.today().isoformat()
        store.keep(job, result)
    except OSError as error:
        # A full disk ends the run: every further job would fail as well.
        raise SetpointError(
            f"{job.name} could not be kept: {error}. Make room in {folder}, and the same command "
            "goes on from there; or choose another folder with --out."
        ) from error
    except Exception:
        return traceback.format_exc()
    return None

"""Run jobs in parallel on cores or devices; each result is stored as soon as it is finished."""

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
from setpoint.paper import datasets, trial
from setpoint.paper.code import digest
from setpoint.paper.datasets.dataset import Dataset
from setpoint.paper.jobs import Job
from setpoint.paper.methods import METHODS, SCALES
from setpoint.paper.results import Store

Report = Callable[[int, int, Job], None]  # jobs done, total, the last job


@dataclass(frozen=True)
class Failure:
    """A job that raised an error, with its traceback."""

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
    """Run the jobs that are not finished yet; return those that failed.

    Ctrl-C or a crash loses only the running jobs; the same call continues from there.

    Parameters
    ----------
    jobs : sequence of Job
        The jobs; those already finished in the folder are skipped.
    folder : path
        The folder of the results.
    workers : int, optional
        Number of processes; by default one per core, or one per device if there are more devices.
        With 1, jobs run in this process.
    devices : sequence of str
        Torch devices, assigned to the workers in turn.
    report : callable, optional
        Called after every job.
    keep_old : bool
        Whether to skip jobs that were finished by other code, too.
    """
    if not jobs:
        return []
    check_devices(devices)
    store = Store(folder, keep_old)
    store.claim(jobs[0].scale)
    sources = {
        name: datasets.obtain(
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

    _dataset.cache_clear()  # the file may have changed since an earlier call
    # Each process caches one split; and long jobs at the end would leave most workers idle.
    todo.sort(key=lambda job: (job.dataset, job.split, job.three, job.trial, -_size(job)))
    workers = workers or max(os.cpu_count() or 1, len(devices))
    if workers == 1 or len(todo) < 2:
        with _one_thread():
            for job in todo:
                finished(job, _run_and_store(job, str(store.folder), devices[0]))
        return failures
    others = set(multiprocessing.active_children())
    # A fork of this process cannot use CUDA; a fork of a server that has only imported can.
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
            pending[pool.submit(_run_and_store, job, str(store.folder))] = job
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
                "a worker died, most likely for lack of memory. Finished jobs are kept, and the "
                "same command continues from there; reduce the number of --workers."
            ) from error
        raise
    pool.shutdown()
    return failures


def check_devices(devices: Sequence[str]) -> None:
    """Raise SetpointError if torch does not know a device or the machine does not have it."""
    if not devices:
        raise SetpointError("name at least one device, e.g. cpu.")
    available = ["cpu", *(f"cuda:{k}" for k in range(torch.cuda.device_count()))]
    for name in devices:
        try:
            device = str(torch.device(name))
        except (RuntimeError, TypeError):
            device = ""
        # Looked up, not tried: a context on the GPU would take memory for the whole run.
        if device not in available and not (device == "cuda" and len(available) > 1):
            raise SetpointError(
                f"device {name!r} is not available; this machine has {', '.join(available)}."
            )


@contextmanager
def _one_thread() -> Iterator[None]:
    """Use one thread, as workers do: sums then do not depend on the number of threads."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def _size(job: Job) -> int:
    """Return the rough duration of a job; longer ones start first."""
    if job.method.endswith("printed"):
        return 3
    return 1 if METHODS[job.method].variants == ("paper", "converged") else 2


_device = "cpu"  # this worker's


def _begin_work(turn: Any, devices: tuple[str, ...], fraction: float) -> None:
    global _device
    with turn.get_lock():
        _device = devices[turn.value % len(devices)]
        turn.value += 1
    if torch.device(_device).type == "cuda":
        # Torch caches memory up to this limit; without one it would take that of all workers.
        own = torch.device(_device).index or 0
        torch.cuda.set_per_process_memory_fraction(min(0.95 * fraction, 1.0), own)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends the workers on Ctrl-C
    torch.set_num_threads(1)
    digest()  # now: an edit during the run changes the files, not the imported code
    parent = multiprocessing.parent_process()
    assert parent is not None
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()


def _end_with(parent: multiprocessing.process.BaseProcess) -> None:
    """End this worker when its parent is killed; it would wait for jobs forever."""
    parent.join()
    os._exit(1)


@lru_cache(maxsize=1)
def _dataset(path: str) -> Dataset:
    return Dataset.load(path)


def _run_and_store(job: Job, folder: str, device: str | None = None) -> str | None:
    """Run a job on this worker's device and store it; return the traceback if it failed."""
    device = device or _device
    store = Store(folder)
    try:
        dataset = _dataset(str(datasets.prepared(job.dataset, store.folder / "data")))
        result = trial.run_job(job, dataset, device)
        result["machine"] = machine(device)
        result["date"] = datetime.date.today().isoformat()
        store.save(job, result)
    except OSError as error:
        # A full disk ends the run: every further job would fail, too.
        raise SetpointError(
            f"{job.name} could not be stored: {error}. Free space in {folder} and repeat the "
            "command, which continues from there; or choose another folder with --out."
        ) from error
    except Exception:
        return traceback.format_exc()
    return None

"""Many jobs: in one process or several, stopped, failing, or left by a worker."""

import json
import multiprocessing
import os
import signal
import time
from dataclasses import replace

import numpy as np
import pytest

from setpoint.datasets import Dataset, honest_split
from setpoint.errors import SetpointError
from setpoint.experiments import trial
from setpoint.experiments.data import prepared, stand_in
from setpoint.experiments.jobs import Job, Target, jobs_of
from setpoint.experiments.methods import METHODS
from setpoint.experiments.runner import run
from setpoint.experiments.store import Store

JOBS = [
    job
    for dataset in ("ade", "eyepacs")
    for method in ("wce", "focal", "tfco", "printed")
    for job in jobs_of(
        METHODS[method], dataset, "honest", False, 2, (Target("fpor", 0.9),), "smoke"
    )
]


@pytest.fixture(autouse=True)
def no_official_files(monkeypatch, tmp_path):
    monkeypatch.setenv("SETPOINT_DATA", str(tmp_path / "official"))


def held(folder):
    """Return what was counted, by job; every file must be whole."""
    found = {}
    for path in (folder / "jobs").iterdir():
        assert path.suffix == ".json", path
        found[path.stem] = json.loads(path.read_text())["counts"]
    return found


def times(folder):
    return {p.name: p.stat().st_mtime_ns for p in (folder / "jobs").iterdir()}


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory):
    """Each job by itself, in an order of its own."""
    counts = {}
    for job in sorted(JOBS, key=lambda job: job.name[::-1]):
        counts[job.name] = json.loads(json.dumps(trial.do(job, stand_in(job.dataset))["counts"]))
    return counts


# --- one process ----------------------------------------------------------------------------------


def test_every_job_is_done_once_and_reported(tmp_path, uninterrupted):
    told = []
    failures = run([*JOBS, *JOBS[:3]], tmp_path, workers=1, report=lambda *t: told.append(t))
    assert failures == []
    assert held(tmp_path) == uninterrupted
    assert [done for done, _, _ in told] == list(range(1, len(JOBS) + 1))
    assert {total for _, total, _ in told} == {len(JOBS)}
    assert {job for _, _, job in told} == set(JOBS)


def test_a_second_run_does_nothing(tmp_path):
    run(JOBS[:4], tmp_path, workers=1)
    before, told = times(tmp_path), []
    assert run(JOBS[:4], tmp_path, workers=1, report=lambda *t: told.append(t)) == []
    assert times(tmp_path) == before
    assert told == []
    run(JOBS[:6], tmp_path, workers=1, report=lambda *t: told.append(t[:2]))
    assert told == [(5, 6), (6, 6)]  # what lay there counts as done


def test_results_know_their_machine_and_day(tmp_path):
    run(JOBS[:1], tmp_path, workers=1)
    result = json.loads(Store(tmp_path).path(JOBS[0]).read_text())
    assert "torch" in result["machine"]
    assert time.strptime(result["date"], "%Y-%m-%d")


def test_no_jobs_are_no_work(tmp_path):
    assert run([], tmp_path) == []


def test_one_process_makes_every_split_once(tmp_path):
    """A large data set is standardised for every split, and put on the device."""
    jobs = [job for job in JOBS if job.method == "wce"]
    splits = {(job.dataset, job.trial) for job in jobs}
    assert len(jobs) > len(splits) == 4
    trial.ground.cache_clear()
    run(jobs, tmp_path, workers=1)
    assert trial.ground.cache_info().misses == len(splits)


@pytest.mark.parametrize("after", [1, 7])
def test_ctrl_c_between_jobs_loses_nothing(after, tmp_path, uninterrupted):
    def stop(done, total, job):
        if done == after:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(JOBS, tmp_path, workers=1, report=stop)
    first = times(tmp_path)
    assert len(first) == after
    told = []
    assert run(JOBS, tmp_path, workers=1, report=lambda *t: told.append(t)) == []
    assert len(told) == len(JOBS) - after
    assert {name: t for name, t in times(tmp_path).items() if name in first} == first
    assert held(tmp_path) == uninterrupted


def test_other_data_under_the_same_name_are_trained_on_anew(tmp_path):
    """Within one process too, which keeps a data set at hand."""
    job = Job("ade", "honest", False, 0, "wce", "converged", 0, None, "small")
    path = prepared("ade", tmp_path / "data")
    for source in ("first", "second"):
        other = stand_in("ade" if source == "first" else "eyepacs")
        Dataset("ade", other.X, other.y, other.groups, None, source).save(path)
        assert run([job], tmp_path, workers=1) == []
        result = json.loads(Store(tmp_path).path(job).read_text())
        assert result["source"] == source
        expected = trial.do(job, Dataset.load(path))["counts"]
        assert result["counts"] == json.loads(json.dumps(expected))
        assert Store(tmp_path).has(job, source)


# --- failures -------------------------------------------------------------------------------------


def with_two_positives(folder):
    """Prepare a data set whose honest split has both classes in each part in some trials only.

    Returns such a trial and one in which the positives come to lie in one part.
    """
    y = np.zeros(30, dtype=bool)
    y[[3, 17]] = True
    X = np.random.default_rng(0).normal(size=(30, 2)) + y[:, None]
    poor = Dataset("ade", X, y, np.arange(30), None, "two positives")
    poor.save(prepared("ade", folder / "data"))

    def can_be_split(number):
        try:
            honest_split(poor, number)
        except SetpointError:
            return False
        return True

    good = next(n for n in range(20) if can_be_split(n))
    bad = next(n for n in range(20) if not can_be_split(n))
    return good, bad


@pytest.mark.parametrize("workers", [1, 2])
def test_a_failing_job_does_not_lose_the_others_and_is_tried_again(workers, tmp_path):
    good, bad = with_two_positives(tmp_path)
    job = Job("ade", "honest", False, good, "wce", "converged", 0, None, "small")
    jobs = [replace(job, trial=n, configuration=c) for c in range(4) for n in (bad, good)]
    fine = {job.name for job in jobs if job.trial == good}
    told = []
    failures = run(jobs, tmp_path, workers=workers, report=lambda *t: told.append(t[:2]))
    assert set(held(tmp_path)) == fine
    assert {f.job.name for f in failures} == {job.name for job in jobs} - fine
    for failure in failures:
        assert "Traceback" in failure.error
        assert "honest_split" in failure.error
        assert "part of data set 'ade' has no positives" in failure.error
    assert told == [(k, 8) for k in range(1, 9)]
    before, done = times(tmp_path), held(tmp_path)
    again = run(jobs, tmp_path, workers=1)
    assert {f.job for f in again} == {f.job for f in failures}
    assert times(tmp_path) == before
    dataset = Dataset.load(prepared("ade", tmp_path / "data"))
    for job in jobs:
        if job.name in fine:
            assert done[job.name] == json.loads(json.dumps(trial.do(job, dataset)["counts"]))


def test_a_worker_that_dies_is_a_clear_error_and_nothing_finished_is_lost(tmp_path, uninterrupted):
    """As when the system kills one for its memory; strangers' processes live on."""
    stranger = multiprocessing.get_context("spawn").Process(target=time.sleep, args=(60,))
    stranger.start()

    def kill_one(done, total, job):
        if done == 3:
            workers = [p for p in multiprocessing.active_children() if p is not stranger]
            os.kill(workers[0].pid, signal.SIGKILL)

    try:
        with pytest.raises(SetpointError) as caught:
            run(JOBS, tmp_path, workers=2, report=kill_one)
        assert stranger.is_alive()
        deadline = time.monotonic() + 30
        while len(multiprocessing.active_children()) > 1 and time.monotonic() < deadline:
            time.sleep(0.05)
        assert multiprocessing.active_children() == [stranger]
    finally:
        stranger.kill()
        stranger.join()
    message = str(caught.value)
    for words in ("a worker died", "memory", "--workers", "the same command goes on"):
        assert words in message
    first = times(tmp_path)
    assert 3 <= len(first) < len(JOBS)
    assert run(JOBS, tmp_path, workers=1) == []
    assert {name: t for name, t in times(tmp_path).items() if name in first} == first
    assert held(tmp_path) == uninterrupted

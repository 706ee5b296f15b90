"""Many jobs in one or several processes: interruptions, failures, dying workers."""

import json
import multiprocessing
import os
import signal
import time
from dataclasses import replace

import numpy as np
import pytest
import torch

from setpoint.errors import SetpointError
from setpoint.paper import trial
from setpoint.paper.code import digest
from setpoint.paper.datasets import Dataset, honest_split, prepared, stand_in
from setpoint.paper.jobs import Job, Target, jobs_of
from setpoint.paper.methods import METHODS
from setpoint.paper.results import Store
from setpoint.paper.runner import check_devices, run

JOBS = [
    job
    for dataset in ("ade", "eyepacs")
    for method in ("wce", "focal", "tfco", "printed")
    for job in jobs_of(
        METHODS[method], dataset, "honest", False, 2, (Target("fpor", 0.9),), "smoke"
    )
    if (method, job.variant) != ("tfco", "converged")  # which takes as long as all others
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
        counts[job.name] = json.loads(
            json.dumps(trial.run_job(job, stand_in(job.dataset))["counts"])
        )
    return counts


# --- one process ----------------------------------------------------------------------------------


def test_every_job_is_done_once_and_reported(tmp_path, uninterrupted):
    reported = []
    failures = run([*JOBS, *JOBS[:3]], tmp_path, workers=1, report=lambda *t: reported.append(t))
    assert failures == []
    assert held(tmp_path) == uninterrupted
    assert [done for done, _, _ in reported] == list(range(1, len(JOBS) + 1))
    assert {total for _, total, _ in reported} == {len(JOBS)}
    assert {job for _, _, job in reported} == set(JOBS)


def test_a_second_run_does_nothing(tmp_path):
    run(JOBS[:4], tmp_path, workers=1)
    before, reported = times(tmp_path), []
    assert run(JOBS[:4], tmp_path, workers=1, report=lambda *t: reported.append(t)) == []
    assert times(tmp_path) == before
    assert reported == []
    run(JOBS[:6], tmp_path, workers=1, report=lambda *t: reported.append(t[:2]))
    assert reported == [(5, 6), (6, 6)]  # finished jobs count


def test_results_know_their_machine_and_day(tmp_path):
    run(JOBS[:1], tmp_path, workers=1)
    result = json.loads(Store(tmp_path).path(JOBS[0]).read_text())
    assert "torch" in result["machine"]
    assert time.strptime(result["date"], "%Y-%m-%d")


def test_no_jobs_are_no_work(tmp_path):
    assert run([], tmp_path) == []


def test_one_process_makes_every_split_once(tmp_path):
    """A large data set is standardized for every split, and put on the device."""
    jobs = [job for job in JOBS if job.method == "wce"]
    splits = {(job.dataset, job.trial) for job in jobs}
    assert len(jobs) > len(splits) == 4
    trial.split_rows.cache_clear()
    run(jobs, tmp_path, workers=1)
    assert trial.split_rows.cache_info().misses == len(splits)


def test_ctrl_c_between_jobs_loses_nothing(tmp_path, uninterrupted):
    after = 7

    def stop(done, total, job):
        if done == after:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(JOBS, tmp_path, workers=1, report=stop)
    first = times(tmp_path)
    assert len(first) == after
    reported = []
    assert run(JOBS, tmp_path, workers=1, report=lambda *t: reported.append(t)) == []
    assert len(reported) == len(JOBS) - after
    assert {name: t for name, t in times(tmp_path).items() if name in first} == first
    assert held(tmp_path) == uninterrupted


def test_other_data_under_the_same_name_are_trained_again(tmp_path):
    """Within one process too, which keeps a data set at hand."""
    job = Job("ade", "honest", False, 0, "wce", "converged", 0, None, "small")
    path = prepared("ade", tmp_path / "data")
    for source in ("first", "second"):
        other = stand_in("ade" if source == "first" else "eyepacs")
        Dataset("ade", other.X, other.y, other.groups, None, source).save(path)
        assert run([job], tmp_path, workers=1) == []
        result = json.loads(Store(tmp_path).path(job).read_text())
        assert result["source"] == source
        expected = trial.run_job(job, Dataset.load(path))["counts"]
        assert result["counts"] == json.loads(json.dumps(expected))
        assert Store(tmp_path).has(job, source)


def test_results_of_other_code_are_trained_again_unless_they_are_to_be_kept(tmp_path):
    jobs = JOBS[:3]
    run(jobs, tmp_path, workers=1)
    old = Store(tmp_path).path(jobs[1])
    old.write_text(json.dumps(json.loads(old.read_text()) | {"code": "0123456789ab"}))
    before = times(tmp_path)
    reported = []
    assert run(jobs, tmp_path, workers=1, report=lambda *t: reported.append(t), keep_old=True) == []
    assert reported == []
    assert times(tmp_path) == before
    assert run(jobs, tmp_path, workers=1, report=lambda *t: reported.append(t)) == []
    assert reported == [(3, 3, jobs[1])]
    assert json.loads(old.read_text())["code"] == digest()


def test_workers_come_to_the_same_and_mark_results_with_the_same_code(tmp_path, uninterrupted):
    jobs = JOBS[::5]
    assert run(jobs, tmp_path, workers=2) == []
    assert held(tmp_path) == {job.name: uninterrupted[job.name] for job in jobs}
    codes = {json.loads(p.read_text())["code"] for p in (tmp_path / "jobs").iterdir()}
    assert codes == {digest()}


def test_a_training_that_diverged_is_done_and_not_tried_again(tmp_path, monkeypatch):
    real = trial.run_job

    def do(job, dataset, device):
        result = real(job, dataset, device)
        return result | {"diverged": True, "counts": []} if job == JOBS[1] else result

    monkeypatch.setattr(trial, "run_job", do)
    assert run(JOBS[:3], tmp_path, workers=1) == []
    before = times(tmp_path)
    assert run(JOBS[:3], tmp_path, workers=1) == []
    assert times(tmp_path) == before
    assert held(tmp_path)[JOBS[1].name] == []


# --- devices and threads --------------------------------------------------------------------------


def test_an_unavailable_device_raises_before_anything_is_written(tmp_path):
    for wrong in ("gpu", "", "cuda:", "cuda:-1", "cuda:99", "meta", "cpu cuda", 3):
        with pytest.raises(
            SetpointError, match=r"device .* is not available; this machine has cpu"
        ) as e:
            run(JOBS, tmp_path / "out", workers=1, devices=["cpu", wrong])
        assert repr(wrong) in str(e.value)
        assert not (tmp_path / "out").exists()


def test_an_empty_list_of_devices_raises():
    with pytest.raises(SetpointError, match="at least one device"):
        check_devices([])


def test_gpus_are_counted(monkeypatch):
    for count, good, bad in (
        (0, ["cpu"], ["cuda", "cuda:0"]),
        (2, ["cpu", "cuda", "cuda:0", "cuda:1"], ["cuda:2"]),
    ):
        monkeypatch.setattr(torch.cuda, "device_count", lambda count=count: count)
        check_devices(good)
        for name in bad:
            with pytest.raises(SetpointError, match=f"device '{name}' is not available"):
                check_devices([name])


@pytest.mark.parametrize("how", ["one worker", "one job", "stopped"])
def test_one_process_works_on_one_thread_and_leaves_the_others_their_number(
    how, tmp_path, monkeypatch
):
    """As workers do: sums in another order would give other results."""
    threads, real = [], trial.run_job

    def do(*arguments):
        threads.append(torch.get_num_threads())
        if how == "stopped":
            raise KeyboardInterrupt
        return real(*arguments)

    monkeypatch.setattr(trial, "run_job", do)
    torch.set_num_threads(3)
    try:
        if how == "stopped":
            with pytest.raises(KeyboardInterrupt):
                run(JOBS[:2], tmp_path, workers=1)
        else:
            jobs, workers = (JOBS[:2], 1) if how == "one worker" else (JOBS[:1], 4)
            assert run(jobs, tmp_path, workers=workers) == []
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(1)
    assert set(threads) == {1}


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
    reported = []
    failures = run(jobs, tmp_path, workers=workers, report=lambda *t: reported.append(t[:2]))
    assert set(held(tmp_path)) == fine
    assert {f.job.name for f in failures} == {job.name for job in jobs} - fine
    for failure in failures:
        assert "Traceback" in failure.error
        assert "honest_split" in failure.error
        assert "split of data set 'ade' has no positives" in failure.error
    assert reported == [(k, 8) for k in range(1, 9)]
    before, done = times(tmp_path), held(tmp_path)
    again = run(jobs, tmp_path, workers=1)
    assert {f.job for f in again} == {f.job for f in failures}
    assert times(tmp_path) == before
    dataset = Dataset.load(prepared("ade", tmp_path / "data"))
    for job in jobs:
        if job.name in fine:
            assert done[job.name] == json.loads(json.dumps(trial.run_job(job, dataset)["counts"]))


def test_a_worker_that_dies_is_a_clear_error_and_nothing_finished_is_lost(tmp_path, uninterrupted):
    """As when the system kills one for its memory; unrelated processes are not touched."""
    unrelated = multiprocessing.get_context("spawn").Process(target=time.sleep, args=(60,))
    unrelated.start()

    def kill_one(done, total, job):
        if done == 3:
            workers = [p for p in multiprocessing.active_children() if p is not unrelated]
            os.kill(workers[0].pid, signal.SIGKILL)

    try:
        with pytest.raises(SetpointError) as caught:
            run(JOBS, tmp_path, workers=2, report=kill_one)
        assert unrelated.is_alive()
        deadline = time.monotonic() + 30
        while len(multiprocessing.active_children()) > 1 and time.monotonic() < deadline:
            time.sleep(0.05)
        assert multiprocessing.active_children() == [unrelated]
    finally:
        unrelated.kill()
        unrelated.join()
    message = str(caught.value)
    for words in ("a worker died", "memory", "--workers", "the same command continues"):
        assert words in message
    for partial in (tmp_path / "jobs").glob(".setpoint-*"):
        partial.unlink()  # a killed process may leave its temporary file
    first = times(tmp_path)
    assert 3 <= len(first) < len(JOBS)
    assert run(JOBS, tmp_path, workers=1) == []
    assert {name: t for name, t in times(tmp_path).items() if name in first} == first
    assert held(tmp_path) == uninterrupted

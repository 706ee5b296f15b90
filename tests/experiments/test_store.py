"""Finished jobs on disk: whole or not there, and never taken for another's."""

import errno
import json
import os
import resource
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from setpoint.errors import SetpointError
from setpoint.experiments import runner
from setpoint.experiments.data import stand_in
from setpoint.experiments.jobs import Job, Target
from setpoint.experiments.store import Store
from setpoint.experiments.trial import do

JOB = Job("ade", "honest", False, 0, "tfco", "paper", 1, Target("fpor", 0.9), "smoke")
BLIND = replace(JOB, method="wce", target=None, configuration=0)
SOURCE = stand_in("ade").source


@pytest.fixture(scope="module")
def result():
    return do(JOB, stand_in("ade")) | {"machine": "m", "date": "2026-01-01"}


@contextmanager
def no_room_beyond(limit):
    """Let the system refuse to write more than so many bytes to a file."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def files(store):
    return sorted(p.name for p in (store.folder / "jobs").iterdir())


def test_what_is_kept_is_read_again(tmp_path, result):
    store = Store(tmp_path / "deep" / "er")
    assert not store.has(JOB, SOURCE)
    store.keep(JOB, result)
    assert store.has(JOB, SOURCE)
    assert Store(tmp_path / "deep" / "er").has(JOB, SOURCE)
    assert files(store) == [f"{JOB.name}.json"]
    assert list(store.results([JOB])) == [json.loads(json.dumps(result))]
    store.keep(JOB, result | {"seconds": 99.0})  # again, over the first
    assert [r["seconds"] for r in store.results([JOB])] == [99.0]


def test_jobs_that_are_not_done_are_left_out_of_the_results_and_order_is_kept(tmp_path, result):
    store = Store(tmp_path)
    later = replace(JOB, trial=1)
    store.keep(later, result | {"seconds": 1.0})
    store.keep(JOB, result | {"seconds": 0.0})
    asked = [later, replace(JOB, trial=2), JOB]
    assert [r["seconds"] for r in store.results(asked)] == [1.0, 0.0]


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b"3",
        b"null",
        b'"job"',
        b"{}",
        b'{"job": {}}',
        b"\xff\xfe\x00",
        b"\x00" * 50,
    ],
)
def test_a_damaged_or_foreign_file_is_as_good_as_none(content, tmp_path):
    store = Store(tmp_path)
    store.path(JOB).write_bytes(content)
    assert not store.has(JOB, SOURCE)


@pytest.mark.parametrize("kept", [0.1, 0.5, 0.999])
def test_a_file_that_was_cut_off_is_done_again(kept, tmp_path, result):
    store = Store(tmp_path)
    store.keep(JOB, result)
    whole = store.path(JOB).read_bytes()
    store.path(JOB).write_bytes(whole[: int(kept * len(whole))])
    assert not store.has(JOB, SOURCE)
    assert runner.run([JOB], tmp_path, workers=1) == []
    assert store.has(JOB, SOURCE)
    assert next(store.results([JOB]))["counts"] == result["counts"]


def test_another_solver_job_scale_or_source_is_not_this_one(tmp_path, result):
    store = Store(tmp_path)
    found = json.loads(json.dumps(result))
    for change in (
        {"solver": found["solver"].replace("lr=0.1", "lr=0.2")},
        {"source": "file.csv (md5 0)"},
        {"job": found["job"] | {"scale": "full"}},
        {"job": found["job"] | {"target": {"kind": "frop", "alpha": 0.9}}},
        {"job": {k: v for k, v in found["job"].items() if k != "trial"}},
    ):
        assert found | change != found
        store.path(JOB).write_text(json.dumps(found | change))
        assert not store.has(JOB, SOURCE), change
    store.path(JOB).write_text(json.dumps(found))
    assert store.has(JOB, SOURCE)
    assert not store.has(JOB, "another source")
    assert not store.has(replace(JOB, configuration=0), SOURCE)


def test_a_result_that_lacks_its_counts_is_done_again(tmp_path, result):
    store = Store(tmp_path)
    store.path(JOB).write_text(json.dumps({k: v for k, v in result.items() if k != "counts"}))
    assert not store.has(JOB, SOURCE)


def test_a_folder_in_a_files_place_is_no_result(tmp_path):
    store = Store(tmp_path)
    store.path(JOB).mkdir()
    assert not store.has(JOB, SOURCE)


@pytest.mark.parametrize("content", [b"{", b"\xff\xfe", b""])
def test_a_damaged_file_met_by_the_tables_is_named(content, tmp_path):
    store = Store(tmp_path)
    store.path(JOB).write_bytes(content)
    with pytest.raises(SetpointError, match="is damaged .*delete it and run again") as caught:
        list(store.results([JOB]))
    assert str(store.path(JOB)) in str(caught.value)


@pytest.mark.parametrize("where", ["file", "file/deeper", "with jobs"])
def test_a_folder_that_cannot_be_made_is_named(where, tmp_path):
    (tmp_path / "file").write_text("here already")
    (tmp_path / "with jobs").mkdir()
    (tmp_path / "with jobs" / "jobs").write_text("here already")
    with pytest.raises(SetpointError, match="results cannot be kept in .* --out") as caught:
        Store(tmp_path / where)
    assert str(tmp_path / where) in str(caught.value)


def test_a_result_is_written_in_one_step(tmp_path, result, monkeypatch):
    """Whoever looks sees the old file or the new one."""
    store = Store(tmp_path)
    store.keep(JOB, result)
    before = store.path(JOB).read_bytes()
    seen = []
    replace_file = Path.replace

    def look(self, target):
        seen.append((store.path(JOB).read_bytes() == before, self.parent, self.suffix))
        return replace_file(self, target)

    monkeypatch.setattr(Path, "replace", look)
    store.keep(JOB, result | {"seconds": 1.0})
    ((untouched, folder, suffix),) = seen
    assert untouched
    assert folder == store.path(JOB).parent  # the same file system
    assert suffix != ".json"  # nobody takes half a file for a result
    assert files(store) == [f"{JOB.name}.json"]


def test_a_full_disk_leaves_no_half_file(tmp_path, result):
    store = Store(tmp_path)
    with no_room_beyond(100), pytest.raises(OSError, match="too large"):
        store.keep(JOB, result)
    assert files(store) == []
    store.keep(JOB, result)
    with no_room_beyond(100), pytest.raises(OSError, match="too large"):
        store.keep(JOB, result | {"seconds": 99.0})
    assert store.has(JOB, SOURCE)  # the old one
    assert next(store.results([JOB]))["seconds"] == result["seconds"]


def test_a_full_disk_ends_the_run_with_what_to_do_and_it_goes_on_from_there(tmp_path):
    jobs = [JOB, BLIND, replace(JOB, trial=1)]  # the second one's result is by far the longest
    assert runner.run(jobs[:1], tmp_path, workers=1) == []
    size = Store(tmp_path).path(JOB).stat().st_size
    first = Store(tmp_path).path(JOB).stat().st_mtime_ns
    with no_room_beyond(size + 500), pytest.raises(SetpointError) as caught:
        runner.run(jobs, tmp_path, workers=1)
    message = str(caught.value)
    assert BLIND.name in message
    assert os.strerror(errno.EFBIG) in message
    assert "--out" in message
    assert "the same command goes on" in message
    assert all(name.endswith(".json") for name in files(Store(tmp_path)))
    assert not Store(tmp_path).has(BLIND, SOURCE)
    assert runner.run(jobs, tmp_path, workers=1) == []
    assert all(Store(tmp_path).has(job, SOURCE) for job in jobs)
    assert Store(tmp_path).path(JOB).stat().st_mtime_ns == first


def test_a_folder_is_for_one_scale(tmp_path):
    store = Store(tmp_path)
    store.claim("full")
    store.claim("full")
    with pytest.raises(SetpointError, match="holds results of the scale 'full'.*--out"):
        Store(tmp_path).claim("smoke")

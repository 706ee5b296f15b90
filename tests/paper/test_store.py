"""Finished jobs on disk: whole or not there, and never taken for another's."""

import errno
import json
import os
import resource
import threading
from contextlib import contextmanager
from dataclasses import replace

import pytest

from setpoint.errors import SetpointError
from setpoint.paper import runner
from setpoint.paper.data import stand_in
from setpoint.paper.jobs import Job, Target
from setpoint.paper.store import Store, digest
from setpoint.paper.trial import do

JOB = Job("ade", "honest", False, 0, "tfco", "paper", 1, Target("fpor", 0.9), "smoke")
BLIND = replace(JOB, method="wce", target=None, configuration=0)
SOURCE = stand_in("ade").source


@pytest.fixture(scope="module")
def result():
    made = do(JOB, stand_in("ade")) | {"machine": "m", "date": "2026-01-01", "code": digest()}
    return json.loads(json.dumps(made))


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
    assert list(store.results([JOB])) == [result]
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
    found = result
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


@pytest.mark.parametrize("key", ["counts", "machine", "date", "seconds", "solver", "source", "job"])
def test_a_result_that_lacks_something_is_done_again(key, tmp_path, result):
    store = Store(tmp_path)
    store.path(JOB).write_text(json.dumps({k: v for k, v in result.items() if k != key}))
    assert not store.has(JOB, SOURCE)


ROW = {"kind": "fpor", "alpha": 0.9, "threshold": "own", "part": "train"}
ROW |= {"tp": 1, "fp": 2, "fn": 3, "tn": 4}


@pytest.mark.parametrize(
    "counts",
    [
        [],
        [{}],
        {},
        "tp",
        3,
        None,
        [None],
        *([{k: v for k, v in ROW.items() if k != key}] for key in ROW),
        [ROW, {}],
        [ROW | {"tp": "1"}],
        [ROW | {"tp": None}],
        [ROW | {"alpha": 0.95}],  # of another job
    ],
)
def test_counts_that_are_none_are_done_again(counts, tmp_path, result):
    store = Store(tmp_path)
    store.path(JOB).write_text(json.dumps(result | {"counts": [ROW]}))
    assert store.has(JOB, SOURCE)
    store.path(JOB).write_text(json.dumps(result | {"counts": counts}))
    assert not store.has(JOB, SOURCE)


def test_counts_for_some_of_the_goals_are_done_again(tmp_path):
    store = Store(tmp_path)
    assert runner.run([BLIND], tmp_path, workers=1) == []
    found = json.loads(store.path(BLIND).read_text())
    for kept in (found["counts"][:-4], found["counts"][4:]):
        store.path(BLIND).write_text(json.dumps(found | {"counts": kept}))
        assert not store.has(BLIND, SOURCE)


def test_a_training_that_diverged_is_done_and_says_so(tmp_path, result):
    store = Store(tmp_path)
    store.keep(JOB, result | {"diverged": True, "counts": []})
    assert store.has(JOB, SOURCE)
    assert next(store.results([JOB]))["diverged"]
    for wrong in ({"diverged": False}, {"source": "another"}, {"code": "another"}):
        changed = result | {"diverged": True, "counts": []} | wrong
        store.path(JOB).write_text(json.dumps(changed))
        assert not store.has(JOB, SOURCE)


def test_a_result_of_other_code_is_done_again_unless_it_is_asked_for(tmp_path, result):
    store, old = Store(tmp_path), Store(tmp_path, keep_old=True)
    store.keep(JOB, {k: v for k, v in result.items() if k != "code"})
    assert next(store.results([JOB]))["code"] == digest()  # every result is marked
    without = {k: v for k, v in result.items() if k != "code"}  # as before there were marks
    for changed in (result | {"code": "0123456789ab"}, without):
        store.path(JOB).write_text(json.dumps(changed))
        assert not store.has(JOB, SOURCE)
        assert old.has(JOB, SOURCE)
        assert not old.has(JOB, "another source")


# --- all that is kept -----------------------------------------------------------------------------


def test_all_that_is_kept_of_a_split_is_found_without_asking_for_jobs(tmp_path, result):
    store = Store(tmp_path)
    others = [replace(JOB, trial=7), replace(JOB, split="paper"), replace(JOB, dataset="eyepacs")]
    for job in (JOB, *others):
        own = stand_in(job.dataset)
        store.keep(job, do(job, own) | {"machine": "m", "date": "2026-01-01"})
    sources = {name: stand_in(name).source for name in ("ade", "eyepacs")}
    assert set(store.kept("honest", sources)) == {JOB.name, others[0].name, others[2].name}
    assert store.kept("honest", sources)[JOB.name] == json.loads(store.path(JOB).read_text())
    assert set(store.kept("paper", sources)) == {others[1].name}
    assert set(store.kept("honest", {"ade": sources["ade"]})) == {JOB.name, others[0].name}
    assert set(store.kept("honest", {"ade": "changed since"})) == set()


def test_what_is_damaged_foreign_or_of_other_code_is_not_among_it(tmp_path, result):
    store = Store(tmp_path)
    folder = tmp_path / "jobs"
    sources = {"ade": SOURCE}
    store.keep(JOB, result)
    (folder / "half.json").write_text("{")
    (folder / "list.json").write_text("[]")
    (folder / "none.json").write_text('{"job": null}')
    (folder / "copy of another.json").write_text(json.dumps(result))
    job = result["job"]
    for number, changes in enumerate(
        (
            {"method": "no longer there"},
            {"configuration": 99},
            {"dataset": "mnist"},
            {"scale": "huge"},
            {"target": {"kind": "fpor"}},
            {"target": {"kind": "x", "alpha": 0.5}},
            {"trial": None},
            {"more": 1},
        )
    ):
        changed = result | {"job": job | changes}
        (folder / f"{number}.json").write_text(json.dumps(changed))
        name = JOB.name.replace("tfco", str(changes.get("method", "tfco")))
        (folder / f"{name}-{number}.json").write_text(json.dumps(changed))
    gone = replace(JOB, method="gone")
    (folder / f"{gone.name}.json").write_text(json.dumps(result | {"job": gone.to_dict()}))
    beyond = replace(JOB, configuration=99)
    (folder / f"{beyond.name}.json").write_text(json.dumps(result | {"job": beyond.to_dict()}))
    assert set(store.kept("honest", sources)) == {JOB.name}
    store.path(JOB).write_text(json.dumps(result | {"code": "other"}))
    assert set(store.kept("honest", sources)) == set()
    assert set(Store(tmp_path, keep_old=True).kept("honest", sources)) == {JOB.name}


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
    replace_file = os.replace

    def look(path, target):
        seen.append((store.path(JOB).read_bytes() == before, path.parent, path.suffix))
        return replace_file(path, target)

    monkeypatch.setattr(os, "replace", look)
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


def test_of_two_that_start_at_once_one_gets_the_folder(tmp_path):
    for number in range(60):
        barrier, won = threading.Barrier(6), []

        def begin(scale, folder=tmp_path / str(number), barrier=barrier, won=won):
            store = Store(folder)
            barrier.wait()
            try:
                store.claim(scale)
                won.append(scale)
            except SetpointError:
                pass

        threads = [threading.Thread(target=begin, args=(s,)) for s in ("small", "full") * 3]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        mark = (tmp_path / str(number) / "scale").read_text().strip()
        assert won == [mark] * 3
        assert {p.name for p in (tmp_path / str(number)).iterdir()} == {"jobs", "scale"}


@pytest.mark.parametrize("left", ["", "\n"])
def test_a_mark_that_a_crash_left_empty_is_none(left, tmp_path):
    store = Store(tmp_path)
    (tmp_path / "scale").write_text(left)
    store.claim("full")
    assert (tmp_path / "scale").read_text() == "full\n"
    with pytest.raises(SetpointError, match="'full'"):
        store.claim("smoke")


def test_a_folder_can_be_taken_where_there_are_no_hard_links(tmp_path, monkeypatch):
    def refuse(*_):
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    Store(tmp_path).claim("full")
    Store(tmp_path).claim("full")
    with pytest.raises(SetpointError, match="'full'"):
        Store(tmp_path).claim("smoke")

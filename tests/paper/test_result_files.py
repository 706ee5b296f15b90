"""Result files: complete or missing, and never taken for those of another job."""

import errno
import json
import os
import resource
import threading
from contextlib import contextmanager
from dataclasses import asdict, replace

import pytest

from setpoint.errors import SetpointError
from setpoint.paper import runner
from setpoint.paper.code import digest
from setpoint.paper.datasets import stand_in
from setpoint.paper.jobs import Job, Target
from setpoint.paper.results import Store
from setpoint.paper.trial import run_job

JOB = Job("ade", "honest", False, 0, "tfco", "paper", 1, Target("fpor", 0.9), "smoke")
BLIND = replace(JOB, method="wce", target=None, configuration=0)
SOURCE = stand_in("ade").source


@pytest.fixture(scope="module")
def result():
    made = run_job(JOB, stand_in("ade")) | {"machine": "m", "date": "2026-01-01", "code": digest()}
    return json.loads(json.dumps(made))


@contextmanager
def no_room_beyond(limit):
    """Limit the size of files that the system writes."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def files(store):
    return sorted(p.name for p in (store.folder / "jobs").iterdir())


def stored(store, job=JOB):
    return json.loads(store.path(job).read_text())


def write(store, content):
    store.path(JOB).write_text(json.dumps(content))


def test_stored_results_are_found_again(tmp_path, result):
    store = Store(tmp_path / "deep" / "er")
    assert not store.has(JOB, SOURCE)
    store.save(JOB, result)
    assert store.has(JOB, SOURCE)
    assert Store(tmp_path / "deep" / "er").has(JOB, SOURCE)
    assert files(store) == [f"{JOB.name}.json"]
    assert stored(store) == result
    store.save(JOB, result | {"seconds": 99.0})  # replaces the first
    assert stored(store)["seconds"] == 99.0


def test_damaged_or_foreign_files_count_as_missing(tmp_path):
    store = Store(tmp_path)
    texts = (b"", b"{", b"[]", b"3", b"null", b'"job"', b"{}", b'{"job": {}}')
    for content in (*texts, b"\xff\xfe\x00", b"\x00" * 50):
        store.path(JOB).write_bytes(content)
        assert not store.has(JOB, SOURCE), content


def test_a_truncated_file_is_trained_again(tmp_path, result):
    store = Store(tmp_path)
    store.save(JOB, result)
    content = store.path(JOB).read_bytes()
    for fraction in (0.1, 0.5, 0.999):
        store.path(JOB).write_bytes(content[: int(fraction * len(content))])
        assert not store.has(JOB, SOURCE)
    assert runner.run([JOB], tmp_path, workers=1) == []
    assert store.has(JOB, SOURCE)
    assert stored(store)["counts"] == result["counts"]


def test_another_solver_job_scale_or_source_is_not_this_one(tmp_path, result):
    store = Store(tmp_path)
    job = result["job"]
    for change in (
        {"solver": result["solver"].replace("lr=0.1", "lr=0.2")},
        {"source": "file.csv (md5 0)"},
        {"job": job | {"scale": "full"}},
        {"job": job | {"target": {"kind": "frop", "alpha": 0.9}}},
        {"job": {k: v for k, v in job.items() if k != "trial"}},
    ):
        assert result | change != result
        write(store, result | change)
        assert not store.has(JOB, SOURCE), change
    write(store, result)
    assert store.has(JOB, SOURCE)
    assert not store.has(JOB, "another source")
    assert not store.has(replace(JOB, configuration=0), SOURCE)


def test_an_incomplete_result_is_trained_again(tmp_path, result):
    store = Store(tmp_path)
    for key in ("counts", "machine", "date", "seconds", "solver", "source", "job"):
        write(store, {k: v for k, v in result.items() if k != key})
        assert not store.has(JOB, SOURCE), key


def test_invalid_counts_are_trained_again(tmp_path, result):
    store = Store(tmp_path)
    row = {"kind": "fpor", "alpha": 0.9, "threshold": "own", "part": "train"}
    row |= {"tp": 1, "fp": 2, "fn": 3, "tn": 4}
    write(store, result | {"counts": [row]})
    assert store.has(JOB, SOURCE)
    incomplete = [[{k: v for k, v in row.items() if k != key}] for key in row]
    of_another_job = [row | {"alpha": 0.95}]
    wrong_types = [[row | {"tp": "1"}], [row | {"tp": None}], {}, "tp", 3, None, [None]]
    for counts in ([], [{}], [row, {}], of_another_job, *wrong_types, *incomplete):
        write(store, result | {"counts": counts})
        assert not store.has(JOB, SOURCE), counts


def test_counts_for_some_of_the_goals_are_trained_again(tmp_path):
    store = Store(tmp_path)
    assert runner.run([BLIND], tmp_path, workers=1) == []
    found = stored(store, BLIND)
    for counts in (found["counts"][:-4], found["counts"][4:]):
        store.path(BLIND).write_text(json.dumps(found | {"counts": counts}))
        assert not store.has(BLIND, SOURCE)


def test_a_diverged_training_counts_as_finished(tmp_path, result):
    store = Store(tmp_path)
    store.save(JOB, result | {"diverged": True, "counts": []})
    assert store.has(JOB, SOURCE)
    assert stored(store)["diverged"]
    for wrong in ({"diverged": False}, {"source": "another"}, {"code": "another"}):
        write(store, result | {"diverged": True, "counts": []} | wrong)
        assert not store.has(JOB, SOURCE)


def test_a_result_of_other_code_is_trained_again_unless_accepted(tmp_path, result):
    store, tolerant = Store(tmp_path), Store(tmp_path, keep_old=True)
    without = {k: v for k, v in result.items() if k != "code"}  # as in early versions
    store.save(JOB, without)
    assert stored(store)["code"] == digest()
    for changed in (result | {"code": "0123456789ab"}, without):
        write(store, changed)
        assert not store.has(JOB, SOURCE)
        assert tolerant.has(JOB, SOURCE)
        assert not tolerant.has(JOB, "another source")


def test_a_result_of_earlier_code_with_equal_numbers_counts(tmp_path, result, monkeypatch):
    store = Store(tmp_path)
    write(store, result | {"code": "0123456789ab"})
    assert not store.has(JOB, SOURCE)
    monkeypatch.setattr("setpoint.paper.results.accepted", lambda: {digest(), "0123456789ab"})
    assert store.has(JOB, SOURCE)


# --- all results of a split -----------------------------------------------------------------------


def test_all_stored_results_of_a_split_are_found(tmp_path, result):
    store = Store(tmp_path)
    others = [replace(JOB, trial=7), replace(JOB, split="paper"), replace(JOB, dataset="eyepacs")]
    for job in (JOB, *others):
        own = stand_in(job.dataset)
        store.save(job, run_job(job, own) | {"machine": "m", "date": "2026-01-01"})
    sources = {name: stand_in(name).source for name in ("ade", "eyepacs")}
    assert set(store.results_of_split("honest", sources)) == {
        JOB.name,
        others[0].name,
        others[2].name,
    }
    assert store.results_of_split("honest", sources)[JOB.name] == stored(store)
    assert set(store.results_of_split("paper", sources)) == {others[1].name}
    assert set(store.results_of_split("honest", {"ade": sources["ade"]})) == {
        JOB.name,
        others[0].name,
    }
    assert set(store.results_of_split("honest", {"ade": "changed since"})) == set()


def test_damaged_foreign_or_outdated_results_are_left_out(tmp_path, result):
    store = Store(tmp_path)
    folder = tmp_path / "jobs"
    sources = {"ade": SOURCE}
    store.save(JOB, result)
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
    (folder / f"{gone.name}.json").write_text(json.dumps(result | {"job": asdict(gone)}))
    beyond = replace(JOB, configuration=99)
    (folder / f"{beyond.name}.json").write_text(json.dumps(result | {"job": asdict(beyond)}))
    assert set(store.results_of_split("honest", sources)) == {JOB.name}
    write(store, result | {"code": "other"})
    assert set(store.results_of_split("honest", sources)) == set()
    assert set(Store(tmp_path, keep_old=True).results_of_split("honest", sources)) == {JOB.name}


def test_a_folder_instead_of_a_file_is_not_a_result(tmp_path):
    store = Store(tmp_path)
    store.path(JOB).mkdir()
    assert not store.has(JOB, SOURCE)


def test_a_folder_that_cannot_be_created_is_named(tmp_path):
    (tmp_path / "file").write_text("here already")
    (tmp_path / "with jobs").mkdir()
    (tmp_path / "with jobs" / "jobs").write_text("here already")
    for where in ("file", "file/deeper", "with jobs"):
        with pytest.raises(SetpointError, match="results cannot be stored in .* --out") as caught:
            Store(tmp_path / where)
        assert str(tmp_path / where) in str(caught.value)


def test_a_result_is_written_in_one_step(tmp_path, result, monkeypatch):
    """A reader sees the old file or the new one."""
    store = Store(tmp_path)
    store.save(JOB, result)
    before = store.path(JOB).read_bytes()
    seen = []
    replace_file = os.replace

    def replace_and_record(path, target):
        seen.append((store.path(JOB).read_bytes() == before, path.parent, path.suffix))
        return replace_file(path, target)

    monkeypatch.setattr(os, "replace", replace_and_record)
    store.save(JOB, result | {"seconds": 1.0})
    ((untouched, folder, suffix),) = seen
    assert untouched
    assert folder == store.path(JOB).parent  # the same file system
    assert suffix != ".json"  # a partial file is not taken for a result
    assert files(store) == [f"{JOB.name}.json"]


def test_a_full_disk_leaves_no_partial_file(tmp_path, result):
    store = Store(tmp_path)
    with no_room_beyond(100), pytest.raises(OSError, match="too large"):
        store.save(JOB, result)
    assert files(store) == []
    store.save(JOB, result)
    with no_room_beyond(100), pytest.raises(OSError, match="too large"):
        store.save(JOB, result | {"seconds": 99.0})
    assert store.has(JOB, SOURCE)  # the old one
    assert stored(store)["seconds"] == result["seconds"]


def test_a_full_disk_ends_the_run_which_can_continue_later(tmp_path):
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
    assert "continues from there" in message
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


def test_of_two_concurrent_runs_one_gets_the_folder(tmp_path):
    for number in range(20):
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


def test_an_empty_mark_left_by_a_crash_is_ignored(tmp_path):
    store = Store(tmp_path)
    for content in ("", "\n"):
        (tmp_path / "scale").write_text(content)
        store.claim("full")
        assert (tmp_path / "scale").read_text() == "full\n"
        with pytest.raises(SetpointError, match="'full'"):
            store.claim("smoke")


def test_a_folder_can_be_claimed_without_hard_links(tmp_path, monkeypatch):
    def refuse(*_):
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    Store(tmp_path).claim("full")
    Store(tmp_path).claim("full")
    with pytest.raises(SetpointError, match="'full'"):
        Store(tmp_path).claim("smoke")

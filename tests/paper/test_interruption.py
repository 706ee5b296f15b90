"""The command interrupted by Ctrl-C and by kill -9 while two workers are running."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from setpoint.paper.reproduce import main
from setpoint.paper.tables import TABLES, all_jobs

METHODS = ("wce", "focal", "term", "printed")
ARGUMENTS = ["fpor", "--scale", "smoke", "--datasets", "ade", "--trials", "2"]
ARGUMENTS += ["--methods", *METHODS]
STEM = f"fpor-honest_ade_{'_'.join(METHODS)}_2-trials"
NAMES = {job.name for job in all_jobs((TABLES["fpor"],), "smoke", "honest", ("ade",), 2, METHODS)}
ENDLESS = [str(Path(__file__).parent / "endless_command.py")]


def start(out, command, workers):
    """Start the command in a session of its own, as a terminal would.

    Its locale knows no plus-minus sign, which tables are full of.
    """
    environment = os.environ | {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    options = [*ARGUMENTS, "--workers", str(workers), "--out", str(out)]
    return subprocess.Popen(
        [sys.executable, *command, *options],
        env=environment | {"OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        # Where the tests run in the background, Ctrl-C is ignored, and children would inherit that.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )


def wait_for_files(process, out, count):
    deadline = time.monotonic() + 120
    while len(list(out.glob("jobs/*.json"))) < count:
        assert process.poll() is None, process.communicate()[1]
        assert time.monotonic() < deadline
        time.sleep(0.005)


def results(out):
    """Return the counts by job; every file must be whole."""
    return {p.stem: json.loads(p.read_text())["counts"] for p in out.glob("jobs/*.json")}


def times(out):
    return {p.stem: p.stat().st_mtime_ns for p in out.glob("jobs/*.json")}


def alive(session):
    """Return which processes of the session there still are."""
    found = []
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                with open(f"/proc/{entry}/stat") as file:
                    fields = file.read().rpartition(")")[2].split()
            except OSError:
                continue
            if int(fields[3]) == session and fields[0] != "Z":
                found.append(int(entry))
    return found


def stop(process, out, number, *, group):
    """Send the signal in the midst of the work; return what the command had to say."""
    try:
        wait_for_files(process, out, 3)
        send = os.killpg if group else os.kill
        send(process.pid, number)
        try:
            process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            # Where nothing happens one presses again.
            send(process.pid, number)
            process.wait(timeout=60)
        deadline = time.monotonic() + 30
        while alive(process.pid) and time.monotonic() < deadline:
            time.sleep(0.05)
    finally:
        left = alive(process.pid)
        for each in left:
            os.kill(each, signal.SIGKILL)
    assert left == [], "processes outlived the command"
    return process.communicate(timeout=60)[1]


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory):
    out = tmp_path_factory.mktemp("uninterrupted")
    assert main([*ARGUMENTS, "--workers", "1", "--out", str(out), "--quiet"]) == 0
    return out


def go_on(out):
    """Return the exit code of the same command in this process, which saves imports."""
    return main([*ARGUMENTS, "--workers", "1", "--out", str(out), "--quiet"])


def check_that_it_goes_on(out, uninterrupted, again=go_on):
    first, done = times(out), results(out)
    assert 3 <= len(first) < len(NAMES)
    assert done.items() <= results(uninterrupted).items()
    assert not (out / "tables").exists()
    assert again(out) == 0
    assert set(results(out)) == NAMES
    assert {name: t for name, t in times(out).items() if name in first} == first
    assert results(out) == results(uninterrupted)
    for name in (f"{STEM}.md", f"{STEM}.tex"):
        table = (out / "tables" / name).read_text(encoding="utf-8")
        assert table == (uninterrupted / "tables" / name).read_text(encoding="utf-8")


@pytest.mark.skipif(not os.path.isdir("/proc"), reason="processes are looked for in /proc")
def test_ctrl_c_ends_all_workers_and_the_same_command_continues(tmp_path, uninterrupted, capsys):
    process = start(tmp_path, ENDLESS, workers=2)
    errors = stop(process, tmp_path, signal.SIGINT, group=True)
    assert process.returncode == 130
    assert errors.rstrip().endswith("stopped; the same command continues from here.")
    assert "Traceback" not in errors

    def again(out):
        code = main([*ARGUMENTS, "--workers", "1", "--out", str(out)])
        printed, errors = capsys.readouterr()
        assert f"{len(NAMES)} of {len(NAMES)} jobs finished" in errors
        assert str(out / "tables" / f"{STEM}.md") in printed.splitlines()
        return code

    check_that_it_goes_on(tmp_path, uninterrupted, again)


@pytest.mark.skipif(not os.path.isdir("/proc"), reason="processes are looked for in /proc")
def test_kill_9_loses_the_jobs_under_way_only_and_leaves_no_worker_behind(tmp_path, uninterrupted):
    process = start(tmp_path, ENDLESS, workers=2)
    stop(process, tmp_path, signal.SIGKILL, group=False)
    assert process.returncode == -signal.SIGKILL
    check_that_it_goes_on(tmp_path, uninterrupted)

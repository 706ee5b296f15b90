"""How many threads work, and what is put back after it."""

import os
import threading
import time
from contextlib import nullcontext

import pytest
import torch
from threadpoolctl import threadpool_info, threadpool_limits

from setpoint._internal import threads
from setpoint._internal.threads import map_in_threads, threads_for, usable_cores

MUCH = threads._EARNS_THREADS


@pytest.fixture(autouse=True)
def not_remembered():
    usable_cores.cache_clear()
    yield
    usable_cores.cache_clear()


@pytest.fixture
def cores(monkeypatch):
    """Pretend that there are so many cores, for this process and for torch."""

    def pretend(count):
        monkeypatch.setattr(threads, "usable_cores", lambda: count)
        torch.set_num_threads(count)

    return pretend


@pytest.fixture
def quota(monkeypatch, tmp_path):
    """Pretend that a machine of 8 cores has this file of a control group."""
    monkeypatch.setattr(os, "cpu_count", lambda: 8)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)), raising=False)
    file = tmp_path / "cpu.max"
    monkeypatch.setattr(threads, "_QUOTA_FILE", file)
    return file


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("max 100000\n", 8),
        ("100000 100000\n", 1),
        ("150000 100000\n", 2),
        ("50000 100000\n", 1),
        ("400000 50000\n", 8),
        ("9900000 100000\n", 8),
        ("300000 100000 7", 3),  # a later version may add fields
        ("", 8),
        ("150000", 8),
        ("many of them", 8),
        ("150000 0", 8),
    ],
)
def test_a_container_may_allow_fewer_cores(quota, text, expected):
    quota.write_text(text)
    assert usable_cores() == expected


def test_without_control_groups_all_cores_of_the_process_count(quota, monkeypatch):
    assert usable_cores() == 8
    usable_cores.cache_clear()
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 5, 7})
    assert usable_cores() == 3
    usable_cores.cache_clear()
    quota.write_text("200000 100000")
    assert usable_cores() == 2


def test_on_other_systems_there_is_no_affinity(quota, monkeypatch):
    monkeypatch.delattr(os, "sched_getaffinity")
    assert usable_cores() == 8
    usable_cores.cache_clear()
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert usable_cores() == 1


class Unlimited:
    """A controller that knows no library."""

    @staticmethod
    def limit(limits):
        return nullcontext()


def libraries():
    """Return the threads of each numerical library."""
    return {library["filepath"]: library["num_threads"] for library in threadpool_info()}


@pytest.mark.parametrize(
    ("told", "usable", "work", "expected"),
    [(3, 8, MUCH, 3), (3, 8, MUCH - 1, 1), (3, 2, MUCH, 2), (1, 8, MUCH, 1), (3, 8, 0, 1)],
)
def test_only_large_operations_are_shared(monkeypatch, told, usable, work, expected):
    monkeypatch.setattr(threads, "usable_cores", lambda: usable)
    torch.set_num_threads(told)
    with threadpool_limits(told):
        before = libraries()
        assert set(before.values()) <= {told}
        with threads_for(work):
            assert torch.get_num_threads() == expected
            assert set(libraries().values()) <= {expected}
        assert torch.get_num_threads() == told
        assert libraries() == before


@pytest.mark.parametrize("libraries_known", [True, False])
def test_an_exception_puts_everything_back(cores, monkeypatch, libraries_known):
    cores(4)
    if not libraries_known:  # torch's threads do not depend on them
        monkeypatch.setattr(threads, "_controller", lambda: Unlimited)
    with pytest.raises(ValueError, match="stop"), threads_for(0):
        raise ValueError("stop")
    assert torch.get_num_threads() == 4
    assert threads._allowed.get() is None


def test_nested_ones_put_back_what_they_found(cores):
    cores(4)
    with threads_for(MUCH):
        assert torch.get_num_threads() == 4
        with threads_for(0):
            assert torch.get_num_threads() == 1
            with pytest.raises(KeyError), threads_for(0):
                raise KeyError
            assert torch.get_num_threads() == 1
            assert threads._allowed.get() == 4
        assert torch.get_num_threads() == 4
    assert torch.get_num_threads() == 4
    assert threads._allowed.get() is None


# --- independent work -----------------------------------------------------------------------------


def meet(count):
    """Return a function that waits until so many threads are in it, and returns its argument."""
    barrier = threading.Barrier(count, timeout=10)

    def function(item):
        barrier.wait()
        return item

    return function


@pytest.mark.parametrize("around", [None, 0, MUCH])
def test_independent_work_goes_to_all_threads_also_where_operations_have_one(cores, around):
    cores(3)
    if around is None:
        assert map_in_threads(meet(3), "abc") == ["a", "b", "c"]
        return
    with threads_for(around), threads_for(0):
        assert map_in_threads(meet(3), "abc") == ["a", "b", "c"]


def test_results_keep_their_order(cores):
    cores(4)

    def late(item):
        time.sleep(0.002 * (5 - item % 5))
        return item, threading.get_ident()

    found = map_in_threads(late, iter(range(20)))
    assert [item for item, _ in found] == list(range(20))
    idents = {ident for _, ident in found}
    assert 2 <= len(idents) <= 4
    assert threading.get_ident() not in idents


def test_the_first_exception_is_raised_when_all_threads_have_ended(cores):
    cores(4)
    running = []

    def fail(item):
        running.append(item)
        time.sleep(0.003 * (4 - item))  # the last one fails first
        running.remove(item)
        raise ValueError(f"item {item}")

    with pytest.raises(ValueError, match="item 0"):
        map_in_threads(fail, range(4))
    assert running == []


@pytest.mark.parametrize(("told", "usable", "items"), [(1, 8, 5), (4, 1, 5), (4, 8, 1), (4, 8, 0)])
def test_one_thread_or_one_item_needs_no_other_thread(monkeypatch, told, usable, items):
    monkeypatch.setattr(threads, "usable_cores", lambda: usable)
    torch.set_num_threads(told)
    found = map_in_threads(lambda _: threading.get_ident(), range(items))
    assert found == [threading.get_ident()] * items
    with threads_for(MUCH):
        assert map_in_threads(lambda _: threading.get_ident(), range(items)) == found


@pytest.mark.parametrize(("n_jobs", "together"), [(1, 1), (3, 3), (-1, 4), (-2, 3), (None, 2)])
def test_a_given_number_of_jobs_is_counted_as_joblib_does(cores, monkeypatch, n_jobs, together):
    cores(2)
    monkeypatch.setattr(threads, "effective_n_jobs", lambda n: n if n > 0 else 5 + n)

    def slow(item):
        time.sleep(0.02)
        return threading.get_ident()

    idents = map_in_threads(slow, range(8), n_jobs)
    assert len(set(idents)) == together

"""Feature extraction with any encoder."""

import hashlib
import importlib
import sys
import threading
from itertools import product
from pathlib import Path

import numpy as np
import pytest
import torch

from forked import run_script, run_together
from setpoint import SetpointError
from setpoint.paper.features import extract

module = importlib.import_module("setpoint.paper.features.extract")


class Bytes:
    """Four numbers that depend on every character of a text; remembers what it encoded."""

    dimension = 4

    def __init__(self, fingerprint="bytes", fail=lambda count, batch: None):
        self.fingerprint = fingerprint
        self.fail = fail
        self.batches = []

    @property
    def encoded(self):
        return [item for batch in self.batches for item in batch]

    def digest(self, item):
        if not isinstance(item, str):
            raise SetpointError(f"{item!r} is no text.")
        return hashlib.sha256(item.encode()).hexdigest()

    def encode(self, items):
        self.fail(len(self.batches), items)
        self.batches.append(list(items))
        return np.stack([vector(item) for item in items])


class WithLength(Bytes):
    def length(self, item):
        return len(item)


def vector(text):
    seed = int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")
    return np.random.default_rng(seed).normal(size=4).astype(np.float32)


def expected(items):
    return np.stack([vector(item) for item in items])


def words(n):
    return [f"word {k} " + "x" * (k * 7 % 13) for k in range(n)]


def test_vectors_come_in_the_order_of_the_items():
    for kind, batch_size in product((Bytes, WithLength), (1, 3, 64, 1000)):
        items, encoder = words(70), kind()
        found = extract(items, encoder, batch_size=batch_size)
        assert found.dtype == np.float32
        assert np.array_equal(found, expected(items))
        assert max(map(len, encoder.batches)) == min(batch_size, 70)


def test_items_of_similar_length_share_a_batch_longest_first():
    encoder = WithLength()
    extract(["aa", "bbbb", "c", "ddd"], encoder, batch_size=2)
    assert encoder.batches == [["bbbb", "ddd"], ["aa", "c"]]


def test_equal_contents_are_encoded_once(tmp_path):
    items, encoder = ["b", "a", "b", "b", "c", "a"], Bytes()
    assert np.array_equal(extract(items, encoder, tmp_path), expected(items))
    assert sorted(encoder.encoded) == ["a", "b", "c"]
    assert np.array_equal(extract(items[::-1], encoder), expected(items[::-1]))


def test_nothing_gives_no_rows_and_touches_nothing(tmp_path):
    encoder = Bytes()
    assert extract([], encoder, tmp_path / "cache").shape == (0, 4)
    assert encoder.batches == []
    assert not (tmp_path / "cache").exists()


def test_any_iterable_will_do():
    assert np.array_equal(extract(iter(words(3)), Bytes()), expected(words(3)))
    assert np.array_equal(extract(np.array(words(3)), Bytes()), expected(words(3)))


def test_a_single_item_instead_of_a_list_raises():
    for single in ("a text", b"a text", Path("image.png")):
        with pytest.raises(SetpointError, match="must be a list, not the single item"):
            extract(single, Bytes())


def test_a_batch_size_must_be_a_positive_integer():
    for size in (0, -1, 2.0, True, "64", None):
        with pytest.raises(SetpointError, match="batch_size must be a whole number.* at least 1"):
            extract(["a"], Bytes(), batch_size=size)


def test_a_wrong_item_is_named_by_its_position_before_anything_is_computed():
    encoder = Bytes()
    with pytest.raises(SetpointError, match="item 2: None is no text"):
        extract(["a", "b", None], encoder)
    assert encoder.batches == []


def test_cached_items_are_not_encoded_again(tmp_path):
    items = words(50)
    extract(items, Bytes(), tmp_path)
    encoder = Bytes()
    again = extract([*items[::-1], "new"], encoder, tmp_path)
    assert np.array_equal(again, expected([*items[::-1], "new"]))
    assert encoder.batches == [["new"]]


def test_another_encoder_gets_nothing_from_the_cache(tmp_path):
    extract(words(5), Bytes("first"), tmp_path)
    encoder = Bytes("second")
    extract(words(5), encoder, tmp_path)
    assert encoder.encoded == words(5)
    assert {folder.name for folder in tmp_path.iterdir()} == {"first", "second"}


@pytest.mark.parametrize("stop", [KeyboardInterrupt, ZeroDivisionError])
def test_an_interrupted_run_continues_with_the_remaining_items(tmp_path, stop):
    def fail(count, batch):
        if count == 5:
            raise stop

    items, first, second = words(100), WithLength(fail=fail), WithLength()
    with pytest.raises(stop):
        extract(items, first, tmp_path, batch_size=8)
    assert np.array_equal(extract(items, second, tmp_path, batch_size=8), expected(items))
    assert len(first.encoded) == 40
    assert sorted(first.encoded + second.encoded) == sorted(items)


def test_a_process_that_dies_loses_at_most_the_last_shard(tmp_path):
    program = """
import os, sys
sys.path.insert(0, sys.argv[1])
from test_extract import WithLength, extract, words
extract(words(200), WithLength(fail=lambda count, batch: count == 40 and os._exit(9)), sys.argv[2],
        batch_size=2)
"""
    script, cache = tmp_path / "dies.py", tmp_path / "cache"
    script.write_text(program)
    arguments = [Path(__file__).parent, cache]
    assert run_together(run_script, [(script, arguments, {}, tmp_path, "said")]) == [9]
    encoder = WithLength()
    assert np.array_equal(extract(words(200), encoder, cache), expected(words(200)))
    done = 40 // module._BATCHES * module._BATCHES * 2
    assert len(encoder.encoded) == 200 - done


def test_slow_batches_are_written_by_the_clock(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "_SECONDS", -1.0)
    extract(words(5), Bytes(), tmp_path, batch_size=1)
    assert len(list(tmp_path.glob("bytes/*.npz"))) == 5


def test_several_runs_at_once_share_a_cache_and_never_lose_a_vector(tmp_path, monkeypatch):
    cache = importlib.import_module("setpoint.paper.features.cache")
    monkeypatch.setattr(cache, "_MANY", 2)  # merge all the time
    monkeypatch.setattr(module, "_BATCHES", 1)
    items, wrong = words(120), []

    def run(seed):
        for trial in range(3):
            mine = list(np.random.default_rng([seed, trial]).permutation(items))
            try:
                if not np.array_equal(extract(mine, Bytes(), tmp_path, 5), expected(mine)):
                    wrong.append((seed, trial))
            except BaseException as error:
                wrong.append(error)
                raise

    threads = [threading.Thread(target=run, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    encoder = Bytes()
    extract(items, encoder, tmp_path)
    assert encoder.batches == []
    assert not list(tmp_path.glob("*/*.damaged"))


def test_features_that_are_no_numbers_name_the_item_and_spare_the_others(tmp_path):
    class Overflow(Bytes):
        def encode(self, items):
            found = super().encode(items)
            found[[item == "word 7 " + "x" * 10 for item in items]] = np.inf
            return found

    with pytest.raises(SetpointError, match=r"item 7 \('word 7 xxx.*are NaN or infinite"):
        extract(words(20), Overflow(), tmp_path, batch_size=4)
    encoder = Bytes()
    extract(words(20), encoder, tmp_path)
    assert encoder.encoded == words(20)[4:]


def test_an_encoder_that_returns_too_few_vectors_raises():
    class Few(Bytes):
        def encode(self, items):
            return super().encode(items)[1:]

    with pytest.raises(SetpointError, match=r"Few.encode returned the shape \(2, 4\)"):
        extract(words(3), Few())


OUT_OF_MEMORY = [
    torch.cuda.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB"),
    RuntimeError("MPS backend out of memory (MPS allocated: 17 GB)"),
    RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried to"),
    MemoryError(),
]


def test_a_batch_too_large_is_halved_and_stays_so():
    for error in OUT_OF_MEMORY:

        def fail(count, batch, error=error):
            if len(batch) > 3:
                raise error

        encoder = Bytes(fail=fail)
        with pytest.warns(RuntimeWarning, match="does not fit into memory") as caught:
            found = extract(words(20), encoder, batch_size=10)
        assert np.array_equal(found, expected(words(20)))
        assert [len(batch) for batch in encoder.batches] == [2] * 10
        assert [str(w.message)[-2:] for w in caught] == ["5.", "2."]
        assert caught[0].filename == __file__


def test_an_item_too_large_for_any_batch():
    def fail(count, batch):
        raise OUT_OF_MEMORY[0]

    with pytest.raises(SetpointError, match="a single item .'word 0 '"):
        extract(words(1), Bytes(fail=fail))


def test_other_errors_of_the_device_are_not_taken_for_want_of_memory():
    def fail(count, batch):
        raise RuntimeError("CUDA error: device-side assert triggered")

    encoder = Bytes(fail=fail)
    with pytest.raises(RuntimeError, match="device-side assert"):
        extract(words(4), encoder)


def test_a_cache_that_cannot_be(tmp_path):
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(SetpointError, match="cannot be created"):
        extract(["a"], Bytes(), tmp_path / "file")


def test_the_bar_shows_speed_and_cache_on_a_terminal_only(tmp_path, monkeypatch, capsys):
    for name in ("FORCE_COLOR", "TTY_COMPATIBLE"):
        monkeypatch.delenv(name, raising=False)
    extract(words(30), Bytes(), tmp_path)
    assert capsys.readouterr() == ("", "")
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "200")
    extract(words(40), Bytes(), tmp_path, progress=False)
    assert capsys.readouterr() == ("", "")
    found = extract(words(50), Bytes(), tmp_path, batch_size=1)
    out, err = capsys.readouterr()
    assert out == ""
    assert "40 from the cache" in err
    assert "items/s" in err
    assert "50/50" in err
    assert np.array_equal(found, expected(words(50)))


def test_no_bar_without_rich(monkeypatch):
    monkeypatch.setitem(sys.modules, "rich", None)
    assert np.array_equal(extract(words(3), Bytes()), expected(words(3)))

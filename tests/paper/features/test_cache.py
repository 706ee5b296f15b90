"""The cache of feature vectors."""

import os
import time

import numpy as np
import pytest

from setpoint import SetpointError
from setpoint.paper.features import CacheWarning, FeatureCache
from setpoint.paper.features import cache as module
from setpoint.paper.features.cache import default_folder


def vectors(n, dimension=3, seed=0):
    return np.random.default_rng(seed).normal(size=(n, dimension)).astype(np.float32)


def names(n, start=0):
    return [f"{k:064x}" for k in range(start, start + n)]


def read(cache, digests, dimension=3):
    features = np.full((len(digests), dimension), np.nan, np.float32)
    known = cache.fill(features, {digest: row for row, digest in enumerate(digests)})
    return features, known


def shards(cache):
    return sorted(cache.folder.glob("*.npz"))


def test_added_vectors_are_found_by_another_process_in_any_order(tmp_path):
    first = FeatureCache(tmp_path, "encoder", 3)
    first.add(names(5), vectors(5))
    first.add(names(4, start=5), vectors(4, seed=1))
    everything = np.vstack([vectors(5), vectors(4, seed=1)])
    order = np.random.default_rng(0).permutation(9)
    wanted = [*(names(9)[k] for k in order), "unknown"]
    found, known = read(FeatureCache(tmp_path, "encoder", 3), wanted)
    assert np.array_equal(found[:9], everything[order])
    assert np.isnan(found[9]).all()
    assert known == set(names(9))


def test_digests_may_be_any_text(tmp_path):
    odd = ["", "ä", "日本", "a b"]
    cache = FeatureCache(tmp_path, "encoder", 3)
    cache.add(odd, vectors(4))
    found, known = read(cache, odd)
    assert np.array_equal(found, vectors(4))
    assert known == set(odd)


@pytest.mark.parametrize("content", [b"", b"PK", b"not a shard" * 99, "half", "last byte gone"])
def test_a_damaged_shard_is_set_aside_and_the_others_are_read(tmp_path, content):
    cache = FeatureCache(tmp_path, "encoder", 3)
    cache.add(names(5), vectors(5))
    (broken,) = shards(cache)
    cache.add(names(5, start=5), vectors(5, seed=1))
    whole = broken.read_bytes()
    parts = {"half": whole[: len(whole) // 2], "last byte gone": whole[:-1]}
    broken.write_bytes(parts.get(content, content))
    with pytest.warns(CacheWarning, match="damaged") as caught:
        found, known = read(cache, names(10))
    assert known == set(names(5, start=5))
    assert np.array_equal(found[5:], vectors(5, seed=1))
    assert str(broken) in str(caught[0].message)
    assert not broken.exists()
    assert broken.with_suffix(".damaged").exists()
    cache.add(names(5), vectors(5))
    assert read(cache, names(10))[1] == set(names(10))


def test_no_changed_byte_ever_gives_another_vector(tmp_path):
    cache = FeatureCache(tmp_path, "encoder", 3)
    cache.add(names(2), vectors(2))
    (shard,) = shards(cache)
    whole = shard.read_bytes()
    damaged = 0
    for place in range(len(whole)):
        content = bytearray(whole)
        content[place] ^= 0x55
        shard.write_bytes(content)
        try:
            found, known = read(cache, names(2))
        except CacheWarning:
            damaged += 1
            shard.with_suffix(".damaged").unlink()
        else:
            rows = [row for row, name in enumerate(names(2)) if name in known]
            assert np.array_equal(found[rows], vectors(2)[rows])
    assert damaged > len(whole) / 2


def test_a_readable_file_that_is_no_shard(tmp_path):
    for arrays in (
        {"digests": np.array(names(2), "S"), "features": vectors(2, dimension=4)},
        {"digests": np.array(names(3), "S"), "features": vectors(2)},
        {"digests": np.array(names(2), "S"), "features": vectors(2).astype(np.float64)},
        {"digests": np.arange(2), "features": vectors(2)},
        {"digests": np.array(names(2), "S")},
        {"digests": np.array([[1], "a"], object), "features": vectors(2)},
    ):
        cache = FeatureCache(tmp_path, "encoder", 3)
        np.savez(cache.folder / "foreign.npz", **arrays)
        with pytest.warns(CacheWarning, match="damaged"):
            assert read(cache, names(3))[1] == set()


def test_many_small_shards_become_one(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "_MANY", 5)
    cache = FeatureCache(tmp_path, "encoder", 3)
    for k in range(5):
        cache.add(names(2, start=2 * k), vectors(2, seed=k))
    assert len(shards(cache)) == 5
    cache.add(names(2, start=10), vectors(2, seed=5))
    assert len(shards(cache)) == 1
    found, known = read(cache, names(12))
    assert known == set(names(12))
    assert np.array_equal(found, np.vstack([vectors(2, seed=k) for k in range(6)]))


def test_shards_of_a_good_size_are_left_alone_and_merged_ones_are_not_too_large(
    tmp_path, monkeypatch
):
    cache = FeatureCache(tmp_path, "encoder", 3)
    cache.add(names(1000), vectors(1000))
    (large,) = shards(cache)
    for k in range(9):
        cache.add(names(10, start=1000 + 10 * k), vectors(10, seed=k))
    size = max(path.stat().st_size for path in shards(cache) if path != large)
    for name, value in {"_SMALL": 2 * size, "_LARGE": 3 * size, "_MANY": 3}.items():
        monkeypatch.setattr(module, name, value)
    again = FeatureCache(tmp_path, "encoder", 3)
    assert large in shards(again)
    assert len(shards(again)) == 4
    assert read(again, names(1090))[1] == set(names(1090))


def test_a_damaged_shard_is_not_merged_nor_lost(tmp_path, monkeypatch):
    cache = FeatureCache(tmp_path, "encoder", 3)
    for k in range(4):
        cache.add(names(1, start=k), vectors(1, seed=k))
    shards(cache)[0].write_bytes(b"damaged")
    monkeypatch.setattr(module, "_MANY", 2)
    with pytest.warns(CacheWarning, match="damaged"):
        cache = FeatureCache(tmp_path, "encoder", 3)
    assert len(read(cache, names(4))[1]) == 3
    assert len(list(cache.folder.glob("*.damaged"))) == 1


def test_shards_that_another_process_merges_meanwhile_are_found(tmp_path, monkeypatch):
    cache = FeatureCache(tmp_path, "encoder", 3)
    for k in range(6):
        cache.add(names(1, start=k), vectors(1, seed=k))
    real, calls = module._digests, []

    def merging(shard):
        calls.append(shard)
        if len(calls) == 2:
            cache._merge(shards(cache))
        return real(shard)

    monkeypatch.setattr(module, "_digests", merging)
    found, known = read(cache, names(6))
    assert known == set(names(6))
    assert np.array_equal(found, np.vstack([vectors(1, seed=k) for k in range(6)]))


def test_a_failed_write_leaves_no_file_and_names_what_is_safe(tmp_path, monkeypatch):
    cache = FeatureCache(tmp_path, "encoder", 3)
    cache.add(names(2), vectors(2))

    def full(handle):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(SetpointError, match="No space left on device; its present content"):
        cache.add(names(2, start=2), vectors(2))
    assert [path.suffix for path in cache.folder.iterdir()] == [".npz"]


def test_old_remains_of_killed_processes_are_removed_and_fresh_ones_are_not(tmp_path):
    folder = FeatureCache(tmp_path, "encoder", 3).folder
    old, fresh = folder / "old.part", folder / "fresh.part"
    for path in (old, fresh):
        path.write_bytes(b"half")
    os.utime(old, (time.time() - 1e6,) * 2)
    FeatureCache(tmp_path, "encoder", 3)
    assert not old.exists()
    assert fresh.exists()


def test_a_fingerprint_that_names_no_folder(tmp_path):
    for name in ("", "..", "a/b", "a\\b", "C:", "a b", "é", "x\n"):
        with pytest.raises(SetpointError, match="cannot name a folder"):
            FeatureCache(tmp_path, name, 3)
        assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("own", "caches", "expected"),
    [
        (None, None, "{home}/.cache/setpoint/features"),
        ("", "", "{home}/.cache/setpoint/features"),
        (" ", "relative/caches", "{home}/.cache/setpoint/features"),
        (None, "{home}/elsewhere", "{home}/elsewhere/setpoint/features"),
        ("{home}/mine", "{home}/elsewhere", "{home}/mine"),
        ("~/mine", None, "{home}/mine"),
        ("mine", None, "mine"),
    ],
)
def test_where_a_cache_lies_by_default(own, caches, expected, monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    for name, value in (("SETPOINT_CACHE", own), ("XDG_CACHE_HOME", caches)):
        monkeypatch.delenv(name, raising=False)
        if value is not None:
            monkeypatch.setenv(name, value.format(home=tmp_path))
    assert str(default_folder()) == expected.format(home=tmp_path)


def test_a_cache_that_cannot_be_made_names_the_variable(tmp_path):
    (tmp_path / "taken").write_text("")
    with pytest.raises(SetpointError, match="cannot be created: .*SETPOINT_CACHE"):
        FeatureCache(tmp_path / "taken", "encoder", 3)

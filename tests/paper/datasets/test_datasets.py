"""Data sets by name: real, saved or generated, and never confused with each other."""

import numpy as np
import pytest

from setpoint import SetpointError
from setpoint.paper import datasets
from setpoint.paper.datasets import (
    LOADERS,
    CorruptDataError,
    Dataset,
    MissingDataError,
    obtain,
    paper_name,
    prepared,
    sources,
    stand_in,
)
from setpoint.paper.methods import MODELS
from setpoint.paper.tables import TABLES

# --- load -----------------------------------------------------------------------------------------


def test_an_unknown_name_lists_the_known_ones():
    with pytest.raises(SetpointError) as caught:
        datasets.load("mura")
    assert str(caught.value).startswith("there is no data set 'mura' with features; known: ")
    assert "creditcard, ade, eyepacs." in str(caught.value)
    assert "load_mura_images" in str(caught.value)


@pytest.mark.parametrize("name", datasets.DATASETS)
def test_names_reach_their_loaders(folder, name):
    with pytest.raises(datasets.MissingDataError, match=name):
        datasets.load(name)


def test_the_loader_is_looked_up_when_called(monkeypatch):
    monkeypatch.setitem(datasets.DATASETS, "mine", lambda: "loaded")
    assert datasets.load("mine") == "loaded"


def test_everything_promised_is_there():
    assert all(hasattr(datasets, name) for name in datasets.__all__)


# --- data -----------------------------------------------------------------------------------------


@pytest.fixture(autouse=True)
def no_official_files(monkeypatch, tmp_path):
    monkeypatch.setenv("SETPOINT_DATA", str(tmp_path / "official"))


def small(name="ade", source="file.csv (md5 1)", shift=0.0):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 2)) + shift
    return Dataset(name, X, np.arange(30) % 3 == 0, np.arange(30) // 2, None, source)


def put(dataset, folder):
    dataset.save(prepared(dataset.name, folder))


WANTED = {
    "creditcard": ("creditcard.csv", "https://www.kaggle.com/datasets/mlg-ulb/creditcardfraud"),
    "ade": ("ade_v2_mpnet.npz", "https://sites.google.com/site/adecorpus"),
    "eyepacs": ("eyepacs_efflite0.npz", "diabetic-retinopathy-detection"),
    "ade-bert": ("train.jsonl", "https://huggingface.co/datasets/SetFit/ade_corpus_v2"),
    "eyepacs-dinov2": ("eyepacs/trainLabels.csv", "diabetic-retinopathy-detection"),
    "mura-dinov2": ("MURA-v1.1/train_image_paths.csv", "https://stanfordmlgroup.github.io"),
}


@pytest.mark.parametrize("name", LOADERS)
def test_missing_files_are_named_with_their_source(name, tmp_path):
    with pytest.raises(MissingDataError) as caught:
        obtain(name, tmp_path / "data", stand_ins=False)
    message = str(caught.value)
    assert str(tmp_path / "official") in message
    file, page = WANTED[name]
    assert file in message
    assert page in message
    assert "SETPOINT_DATA" in message
    instead = {"ade": "ade-bert", "eyepacs": "eyepacs-dinov2"}.get(name)
    assert ("Or use " in message) == (instead is not None)
    if instead:
        assert f"Or use {instead}, whose features are extracted." in message
    assert not (tmp_path / "data").exists()


def test_an_unknown_data_set_raises_with_the_known_ones(tmp_path):
    for stand_ins in (True, False):
        with pytest.raises(SetpointError, match="unknown data set 'mnist'; known: .*mura-dinov2"):
            obtain("mnist", tmp_path, stand_ins=stand_ins)
    assert list(tmp_path.iterdir()) == []


def test_where_the_official_files_are_absent_the_prepared_data_are_taken(tmp_path):
    put(small(), tmp_path)
    before = prepared("ade", tmp_path).read_bytes()
    got = obtain("ade", tmp_path, stand_ins=False)
    assert got.source == "file.csv (md5 1)"
    assert np.array_equal(got.X, small().X)
    assert np.array_equal(got.groups, small().groups)
    assert prepared("ade", tmp_path).read_bytes() == before


def test_loaded_data_are_saved(tmp_path, monkeypatch):
    monkeypatch.setitem(LOADERS, "ade", small)
    folder = tmp_path / "new" / "data"
    got = obtain("ade", folder, stand_ins=False)
    held = Dataset.load(prepared("ade", folder))
    assert got.source == held.source == "file.csv (md5 1)"
    assert np.array_equal(held.X, got.X)
    assert [p.name for p in folder.iterdir()] == ["ade.npz"]  # no temporary files


def test_a_prepared_file_is_written_once_and_replaced_when_its_source_changed(
    tmp_path, monkeypatch
):
    monkeypatch.setitem(LOADERS, "ade", small)
    obtain("ade", tmp_path, stand_ins=False)
    first = prepared("ade", tmp_path).stat().st_mtime_ns
    obtain("ade", tmp_path, stand_ins=False)
    assert prepared("ade", tmp_path).stat().st_mtime_ns == first
    monkeypatch.setitem(LOADERS, "ade", lambda: small(source="file.csv (md5 2)", shift=1.0))
    got = obtain("ade", tmp_path, stand_ins=False)
    held = Dataset.load(prepared("ade", tmp_path))
    assert got.source == held.source == "file.csv (md5 2)"
    assert np.array_equal(held.X, small(shift=1.0).X)


def test_a_stand_in_is_never_taken_for_the_real_data(tmp_path):
    """A smoke run leaves its stand-ins in the folder; a later run must not find them there."""
    obtain("ade", tmp_path, stand_ins=True)
    with pytest.raises(MissingDataError, match=r"ade_v2\.parquet not found"):
        obtain("ade", tmp_path, stand_ins=False)


def test_real_data_replace_a_stand_in_and_vice_versa(tmp_path, monkeypatch):
    monkeypatch.setitem(LOADERS, "ade", small)
    for stand_ins, source in ((True, stand_in("ade").source), (False, small().source)) * 2:
        assert obtain("ade", tmp_path, stand_ins=stand_ins).source == source
        assert Dataset.load(prepared("ade", tmp_path)).source == source


def damage(path, kind):
    whole = path.read_bytes()
    if kind == "no npz":
        path.write_text("a,b\n1,2\n")
    elif kind == "another npz":
        np.savez(path, X=np.ones(3))
    elif kind == "a single array":
        with path.open("wb") as file:
            np.save(file, np.ones(3))
    else:
        path.write_bytes(whole[: int(kind * len(whole))])


DAMAGES = [0.0, 0.3, 0.9, "no npz", "another npz", "a single array"]


@pytest.mark.parametrize("stand_ins", [False, True])
@pytest.mark.parametrize("kind", DAMAGES)
def test_a_damaged_prepared_file_is_made_again(kind, stand_ins, tmp_path, monkeypatch):
    monkeypatch.setitem(LOADERS, "ade", small)
    whole = obtain("ade", tmp_path, stand_ins=stand_ins)
    path = prepared("ade", tmp_path)
    damage(path, kind)
    assert obtain("ade", tmp_path, stand_ins=stand_ins).source == whole.source
    assert np.array_equal(Dataset.load(path).X, whole.X)


@pytest.mark.parametrize("kind", DAMAGES)
def test_a_damaged_prepared_file_is_named_where_it_cannot_be_made_again(kind, tmp_path):
    put(small(), tmp_path)
    path = prepared("ade", tmp_path)
    damage(path, kind)
    with pytest.raises(MissingDataError, match=r"ade_v2\.parquet not found") as caught:
        obtain("ade", tmp_path, stand_ins=False)
    assert f"The saved data set cannot be used either: {path} " in str(caught.value)


def test_the_sources_of_saved_data_sets(tmp_path):
    assert sources(tmp_path / "nothing yet") == {}
    put(small(), tmp_path)
    put(small("eyepacs", source="other"), tmp_path)
    assert sources(tmp_path) == {"ade": "file.csv (md5 1)", "eyepacs": "other"}
    for kind in ("no npz", "another npz", 0.2):
        damage(prepared("ade", tmp_path), kind)
        assert sources(tmp_path) == {"eyepacs": "other"}
    prepared("creditcard", tmp_path).mkdir()
    assert sources(tmp_path) == {"eyepacs": "other"}


def test_features_are_cached_where_the_user_says(tmp_path, monkeypatch):
    """The folder of the data may be one that nobody may write to."""
    monkeypatch.setenv("SETPOINT_CACHE", str(tmp_path / "mine"))

    class Lengths:
        dimension, fingerprint = 1, "lengths"

        def digest(self, item):
            return str(len(item))

        def encode(self, items):
            return np.array([[len(item)] for item in items], np.float32)

    assert datasets._extracted(["fever", ""], Lengths()).tolist() == [[5.0], [0.0]]
    assert list((tmp_path / "mine" / "lengths").glob("*.npz"))
    assert not (tmp_path / "official").exists()


def test_a_damaged_official_file_is_not_papered_over_with_prepared_data(tmp_path):
    put(small("creditcard"), tmp_path)
    official = tmp_path / "official"
    official.mkdir()
    (official / "creditcard.csv").write_text("Time,V1,Class\n0,1,0\n")
    with pytest.raises(CorruptDataError, match="creditcard.csv"):
        obtain("creditcard", tmp_path, stand_ins=False)


def test_stand_ins_are_the_same_every_time_and_differ_between_data_sets():
    for name in LOADERS:
        one, again = stand_in(name), stand_in(name)
        assert np.array_equal(one.X, again.X)
        assert np.array_equal(one.y, again.y)
        assert one.name == name
        assert "stand-in" in one.source
        others = [stand_in(other) for other in LOADERS if other != name]
        assert not any(np.array_equal(one.X, other.X) for other in others)


def test_a_third_of_a_stand_in_comes_in_pairs_of_equal_rows():
    made = stand_in("ade")
    names, counts = np.unique(made.groups, return_counts=True)
    assert sorted(set(counts.tolist())) == [1, 2]
    assert (counts == 2).sum() * 2 == len(made) // 3
    for name in names[counts == 2]:
        first, second = np.flatnonzero(made.groups == name)
        assert np.array_equal(made.X[first], made.X[second])
        assert made.y[first] == made.y[second]


def test_every_data_set_of_a_table_can_be_loaded_and_has_a_paper_name():
    for table in TABLES.values():
        assert set(table.datasets) <= set(LOADERS)
    assert set(MODELS) <= set(LOADERS)
    assert [paper_name(name) for name in LOADERS] == [
        "creditcard", "ade", "eyepacs", "ade", "eyepacs", "mura",
    ]  # fmt: skip

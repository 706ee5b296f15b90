import numpy as np
import pytest

from setpoint import SetpointError
from setpoint.paper.datasets import CorruptDataError, MissingDataError, load_mura_images
from setpoint.paper.datasets.files import Expected
from setpoint.paper.datasets.mura import PUBLISHED_TRAIN, PUBLISHED_VALID, _load, _thin

TRAIN = [
    f"MURA-v1.1/train/XR_{region}/patient{i:05}/study1_{label}/image{j}.png"
    for i, region, label in (
        (1, "WRIST", "positive"),
        (1, "HAND", "negative"),
        (2, "ELBOW", "negative"),
        (3, "SHOULDER", "positive"),
    )
    for j in range(1, 6)
]
VALID = [
    "MURA-v1.1/valid/XR_WRIST/patient11185/study1_positive/image1.png",
    "MURA-v1.1/valid/XR_WRIST/patient11186/study2_negative/image1.png",
]
EXPECTED = Expected(20, 10), Expected(2, 1)


def write(folder, train=TRAIN, valid=VALID, end="\n"):
    (folder / "MURA-v1.1").mkdir()
    for part, paths in (("train", train), ("valid", valid)):
        listed = folder / "MURA-v1.1" / f"{part}_image_paths.csv"
        listed.write_bytes((end.join(paths) + end).encode())
        for path in paths:
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).touch()


def load(seed=0, share=None):
    return _load(seed, share, *EXPECTED)


def test_published_values():
    """The test part of the paper's table, and its training part after the draw."""
    assert (PUBLISHED_VALID.rows, PUBLISHED_VALID.positives) == (3_197, 1_530)
    y = np.arange(PUBLISHED_TRAIN.rows) < PUBLISHED_TRAIN.positives
    kept = y[_thin(y, 0.1, seed=0)]
    assert (int(kept.sum()), int((~kept).sum())) == (1_487, 21_935)


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_images(folder, end):
    write(folder, end=end)
    found = load()
    assert [str(p) for p in found.paths] == [str(folder / p) for p in TRAIN + VALID]
    assert found.y.tolist() == [True] * 5 + [False] * 10 + [True] * 5 + [True, False]
    assert found.groups.tolist() == [1] * 10 + [2] * 5 + [3] * 5 + [11185, 11186]
    assert found.part.tolist() == ["train"] * 20 + ["test"] * 2
    assert "train_image_paths.csv (md5" in found.source


def test_a_share_of_the_training_positives_is_drawn(folder):
    write(folder)
    found = load(seed=3, share=0.4)
    train = found.part == "train"
    assert int(found.y[train].sum()) == 4
    assert int((~found.y[train]).sum()) == 10
    assert int((~train).sum()) == 2
    assert found.source.endswith("0.4 of the training positives, seed 3")
    assert load(seed=3, share=0.4).paths == found.paths
    assert len({load(seed, 0.4).paths for seed in range(5)}) > 1
    order = [TRAIN.index(str(p.relative_to(folder))) for p in found.paths[:14]]
    assert order == sorted(order)
    assert int(load(share=0.01).y.sum()) == 2  # never none


def test_images_that_are_not_drawn_may_be_missing(folder):
    write(folder)
    drawn = set(load(share=0.1).paths)
    unused = next(folder / p for p in TRAIN if folder / p not in drawn)
    unused.unlink()
    assert set(load(share=0.1).paths) == drawn
    with pytest.raises(MissingDataError) as caught:
        load()
    assert "1 of the 20 images that train_image_paths.csv lists are missing" in str(caught.value)
    assert str(unused) in str(caught.value)


@pytest.mark.parametrize("share", [0, -0.1, 1.5, float("nan")])
def test_other_shares(share):
    with pytest.raises(SetpointError, match="positive_share must be above 0 and at most 1"):
        load_mura_images(positive_share=share)


def test_a_negative_seed():
    with pytest.raises(SetpointError, match="seed must not be negative"):
        load_mura_images(seed=-1)


def test_missing(folder):
    with pytest.raises(MissingDataError, match=r"stanfordmlgroup\.github\.io/competitions/mura"):
        load_mura_images()


def test_the_published_counts_are_the_default(folder):
    write(folder)
    with pytest.raises(CorruptDataError, match="has 20 rows instead of 36,808"):
        load_mura_images()


@pytest.mark.parametrize(
    "path",
    [
        "train/XR_WRIST/patient00001/study1_positive/image1.png",
        "MURA-v1.1/valid/XR_WRIST/patient00001/study1_positive/image1.png",  # of the other part
        "MURA-v1.1/train/XR_WRIST/patient00001/study1/image1.png",
        "MURA-v1.1/train/XR_WRIST/study1_positive/image1.png",
        "MURA-v1.1/train/XR_WRIST/patient00001/study1_positive/../../../image1.png",
        "MURA-v1.1/train/XR_WRIST/patient00001/study1_pos",  # cut off
    ],
)
def test_a_malformed_path(folder, path):
    write(folder)
    listed = folder / "MURA-v1.1" / "train_image_paths.csv"
    listed.write_text("\n".join([*TRAIN[:-1], path]))
    with pytest.raises(CorruptDataError) as caught:
        load()
    assert f"has {path!r} in line 20, where a path like MURA-v1.1/train/XR_" in str(caught.value)


def test_an_empty_list(folder):
    write(folder)
    (folder / "MURA-v1.1" / "valid_image_paths.csv").write_text("")
    with pytest.raises(CorruptDataError, match=r"valid_image_paths\.csv is empty"):
        load()

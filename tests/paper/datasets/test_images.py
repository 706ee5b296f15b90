"""EyePACS and MURA."""

import re

import numpy as np
import pytest

from setpoint import SetpointError
from setpoint.paper.datasets import (
    CorruptDataError,
    MissingDataError,
    images,
    load_eyepacs_features,
    load_eyepacs_images,
    load_mura_images,
)
from setpoint.paper.datasets.files import Expected

PUBLISHED = {
    "EYEPACS_TRAIN": Expected(5, 2),
    "EYEPACS_TEST": Expected(3, 1),
    "EYEPACS_SUBSET": Expected(4, 2),
    "MURA_TRAIN": Expected(20, 10),
    "MURA_VALID": Expected(2, 1),
}
OFFICIAL = {name: getattr(images, name) for name in PUBLISHED}


@pytest.fixture(autouse=True)
def published(monkeypatch):
    """Let the few rows of these tests be the published ones."""
    for name, expected in PUBLISHED.items():
        monkeypatch.setattr(images, name, expected)


@pytest.fixture
def official(published, monkeypatch):
    """Check the counts of the data sets themselves."""
    for name, expected in OFFICIAL.items():
        monkeypatch.setattr(images, name, expected)


# --- eyepacs --------------------------------------------------------------------------------------


TRAIN = [("10_left", 0), ("10_right", 1), ("13_left", 4), ("13_right", 0), ("15_left", 0)]
TEST = [("1_left", 0, "Private"), ("1_right", 2, "Public"), ("2_left", 0, "Private")]


def write(folder, train=TRAIN, test=TEST):
    below = folder / "eyepacs"
    for part, rows in (("train", train), ("test", test)):
        (below / part).mkdir(parents=True, exist_ok=True)
        for name, *_ in rows:
            (below / part / f"{name}.jpeg").touch()
    rows = ["image,level", *(",".join(map(str, row)) for row in train)]
    (below / "trainLabels.csv").write_text("\n".join(rows) + "\n")
    rows = ["image,level,Usage", *(",".join(map(str, row)) for row in test)]
    (below / "retinopathy_solution.csv").write_text("\n".join(rows) + "\n")
    return below


def test_images(folder):
    below = write(folder)
    found = load_eyepacs_images()
    assert len(found) == 8
    assert found.paths[1] == below / "train" / "10_right.jpeg"
    assert found.paths[-1] == below / "test" / "2_left.jpeg"
    assert found.y.tolist() == [False, True, True, False, False, False, True, False]
    assert found.groups.tolist() == [10, 10, 13, 13, 15, 1, 1, 2]
    assert found.part.tolist() == ["train"] * 5 + ["test"] * 3
    assert "trainLabels.csv (md5" in found.source


def test_missing_tables(folder):
    with pytest.raises(MissingDataError) as caught:
        load_eyepacs_images()
    message = str(caught.value)
    assert "eyepacs/trainLabels.csv and eyepacs/retinopathy_solution.csv not found" in message
    assert "https://www.kaggle.com/competitions/diabetic-retinopathy-detection/data" in message
    assert "retinopathy_solution.csv, the grades of the test pictures, from https://" in message


def test_missing_images_are_counted_and_the_first_named(folder, monkeypatch):
    rows = [(f"{i}_{side}", 1) for i in range(20) for side in ("left", "right")] + [("99_left", 0)]
    below = write(folder, train=rows)
    for i in range(7):
        (below / "train" / f"{i}_right.jpeg").unlink()
    monkeypatch.setattr(images, "EYEPACS_TRAIN", Expected(41, 40))
    with pytest.raises(MissingDataError) as caught:
        load_eyepacs_images()
    message = str(caught.value)
    assert message.startswith("7 of the 41 images that trainLabels.csv lists are missing: ")
    assert "0_right.jpeg" in message
    assert "4_right.jpeg, ...." in message
    assert "5_right" not in message
    assert "unpack" in message


@pytest.mark.usefixtures("official")
def test_the_published_counts_are_the_default(folder):
    """They are those of the paper's data table."""
    assert Expected(35_126, 9_316) == images.EYEPACS_TRAIN
    assert Expected(53_576, 14_043) == images.EYEPACS_TEST
    assert Expected(6_742, 1_829) == images.EYEPACS_SUBSET
    write(folder)
    with pytest.raises(CorruptDataError, match=r"trainLabels\.csv has 5 rows instead of 35,126"):
        load_eyepacs_images()
    write_features(folder)
    with pytest.raises(CorruptDataError, match="has 4 rows instead of 6,742"):
        load_eyepacs_features()


def test_broken_tables(folder):
    for row, message in (
        (("15_middle", 0), "names the image '15_middle' in row 5, not like 10_left"),
        (("15_left", 5), "labels other than 0, 1, 2, 3, 4 in the column level: 5, first in row 5"),
        (("15_left", "high"), "column level: row 5 holds 'high', not a number"),
        (("15_left", 1), "has 3 positives instead of 2"),
        (("15_le",), "column level: row 5 is empty (the last row: the file is truncated)"),
        (("10_left", 0), "lists the image 10_left 2 times"),
    ):
        write(folder, train=[*TRAIN[:4], row])
        with pytest.raises(CorruptDataError) as caught:
            load_eyepacs_images()
        assert message in str(caught.value)


def test_the_test_table_is_checked_too(folder):
    write(folder, test=TEST[:2])
    with pytest.raises(
        CorruptDataError, match=r"retinopathy_solution\.csv has 2 rows instead of 3"
    ):
        load_eyepacs_images()


def write_features(folder, level=(0, 1, 4, 0)):
    np.savez(
        folder / "eyepacs_efflite0.npz",
        q=np.arange(8, dtype=np.uint8).reshape(4, 2),
        scale=np.ones(2, np.float32),
        offset=np.zeros(2, np.float32),
        level=np.array(level, np.int8),
        patient=np.array([0, 0, 1, 1], np.int32),
    )


def test_features(folder):
    write_features(folder)
    data = load_eyepacs_features()
    assert data.X.tolist() == [[0, 1], [2, 3], [4, 5], [6, 7]]
    assert data.y.tolist() == [False, True, True, False]
    assert data.groups.tolist() == [0, 0, 1, 1]
    assert (data.name, data.part) == ("eyepacs", None)


def test_broken_features(folder):
    write_features(folder, level=(0, 1, -1, 0))
    with pytest.raises(CorruptDataError, match="in the column level: -1, first in row 3"):
        load_eyepacs_features()


def test_missing_features_are_named_with_the_page_of_the_pictures(folder):
    with pytest.raises(MissingDataError, match=r"^eyepacs_efflite0\.npz not found") as caught:
        load_eyepacs_features()
    message = str(caught.value)
    for part in ("trainLabels.csv and train.zip.*", "EfficientNet-lite0",
                 "https://www.kaggle.com/competitions/diabetic-retinopathy-detection/data",
                 "store them in eyepacs_efflite0.npz"):  # fmt: skip
        assert part in message


# --- mura -----------------------------------------------------------------------------------------


MURA_TRAIN = [
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


def write_mura(folder, train=MURA_TRAIN, valid=VALID, end="\n"):
    (folder / "MURA-v1.1").mkdir(exist_ok=True)
    for part, paths in (("train", train), ("valid", valid)):
        listed = folder / "MURA-v1.1" / f"{part}_image_paths.csv"
        listed.write_bytes((end.join(paths) + end).encode())
        for path in paths:
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).touch()


def load(seed=0, fraction=None):
    return load_mura_images(seed, fraction)


def test_mura_images(folder):
    for end in ("\n", "\r\n"):
        write_mura(folder, end=end)
        found = load()
        assert [str(p) for p in found.paths] == [str(folder / p) for p in MURA_TRAIN + VALID]
        assert found.y.tolist() == [True] * 5 + [False] * 10 + [True] * 5 + [True, False]
        assert found.groups.tolist() == [1] * 10 + [2] * 5 + [3] * 5 + [11185, 11186]
        assert found.part.tolist() == ["train"] * 20 + ["test"] * 2
        assert "train_image_paths.csv (md5" in found.source


def test_a_fraction_of_the_training_positives_is_drawn(folder):
    write_mura(folder)
    found = load(seed=3, fraction=0.4)
    train = found.part == "train"
    assert int(found.y[train].sum()) == 4
    assert int((~found.y[train]).sum()) == 10
    assert int((~train).sum()) == 2
    assert found.source.endswith("0.4 of the training positives, seed 3")
    assert load(seed=3, fraction=0.4).paths == found.paths
    assert len({load(seed, 0.4).paths for seed in range(5)}) > 1
    order = [MURA_TRAIN.index(str(p.relative_to(folder))) for p in found.paths[:14]]
    assert order == sorted(order)
    assert int(load(fraction=0.01).y.sum()) == 2  # never none


def test_images_that_are_not_drawn_may_be_missing(folder):
    write_mura(folder)
    drawn = set(load(fraction=0.1).paths)
    unused = next(folder / p for p in MURA_TRAIN if folder / p not in drawn)
    unused.unlink()
    assert set(load(fraction=0.1).paths) == drawn
    with pytest.raises(MissingDataError) as caught:
        load()
    assert "1 of the 20 images that train_image_paths.csv lists are missing" in str(caught.value)
    assert str(unused) in str(caught.value)


def test_a_fraction_out_of_range_raises():
    for fraction in (0, -0.1, 1.5, float("nan")):
        with pytest.raises(SetpointError, match="positive_fraction must be above 0 and at most 1"):
            load_mura_images(positive_fraction=fraction)


def test_a_negative_seed():
    with pytest.raises(SetpointError, match="seed must not be negative"):
        load_mura_images(seed=-1)


def test_missing(folder):
    with pytest.raises(MissingDataError, match=r"stanfordmlgroup\.github\.io/competitions/mura"):
        load_mura_images()


@pytest.mark.usefixtures("official")
def test_mura_the_published_counts_are_the_default(folder):
    """The test rows of the paper's table, and its training rows after the draw."""
    assert Expected(3_197, 1_530) == images.MURA_VALID
    y = np.arange(images.MURA_TRAIN.rows) < images.MURA_TRAIN.positives
    drawn = y[images._draw(y, 0.1, seed=0)]
    assert (int(drawn.sum()), int((~drawn).sum())) == (1_487, 21_935)
    write_mura(folder)
    with pytest.raises(CorruptDataError, match="has 20 rows instead of 36,808"):
        load_mura_images()


def test_a_malformed_path(folder):
    write_mura(folder)
    listed = folder / "MURA-v1.1" / "train_image_paths.csv"
    for path in (
        "train/XR_WRIST/patient00001/study1_positive/image1.png",
        "MURA-v1.1/valid/XR_WRIST/patient00001/study1_positive/image1.png",  # of the other part
        "MURA-v1.1/train/XR_WRIST/patient00001/study1/image1.png",
        "MURA-v1.1/train/XR_WRIST/study1_positive/image1.png",
        "MURA-v1.1/train/XR_WRIST/patient00001/study1_positive/../../../image1.png",
        "MURA-v1.1/train/XR_WRIST/patient00001/study1_pos",  # cut off
    ):
        listed.write_text("\n".join([*MURA_TRAIN[:-1], path]))
        message = f"has {path!r} in line 20, where a path like MURA-v1.1/train/XR_"
        with pytest.raises(CorruptDataError, match=re.escape(message)):
            load()


def test_an_empty_list(folder):
    write_mura(folder)
    (folder / "MURA-v1.1" / "valid_image_paths.csv").write_text("")
    with pytest.raises(CorruptDataError, match=r"valid_image_paths\.csv is empty"):
        load()


def test_the_former_name_of_the_fraction_gives_a_warning():
    with (
        pytest.warns(DeprecationWarning, match="positive_share is deprecated; it is now"),
        pytest.raises(SetpointError, match="positive_fraction must be above 0"),
    ):
        load_mura_images(positive_share=2.0)

"""EyePACS and MURA."""

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

# --- eyepacs --------------------------------------------------------------------------------------


TRAIN = [("10_left", 0), ("10_right", 1), ("13_left", 4), ("13_right", 0), ("15_left", 0)]
TEST = [("1_left", 0, "Private"), ("1_right", 2, "Public"), ("2_left", 0, "Private")]
EXPECTED = Expected(5, 2), Expected(3, 1)


def write(folder, train=TRAIN, test=TEST):
    below = folder / "eyepacs"
    for part, rows in (("train", train), ("test", test)):
        (below / part).mkdir(parents=True)
        for name, *_ in rows:
            (below / part / f"{name}.jpeg").touch()
    rows = ["image,level", *(",".join(map(str, row)) for row in train)]
    (below / "trainLabels.csv").write_text("\n".join(rows) + "\n")
    rows = ["image,level,Usage", *(",".join(map(str, row)) for row in test)]
    (below / "retinopathy_solution.csv").write_text("\n".join(rows) + "\n")
    return below


def test_published_values():
    """The counts of the paper's data table."""
    assert (images.EYEPACS_TRAIN.rows, images.EYEPACS_TRAIN.positives) == (35_126, 9_316)
    assert (images.EYEPACS_TEST.rows, images.EYEPACS_TEST.positives) == (53_576, 14_043)
    assert (images.EYEPACS_SUBSET.rows, images.EYEPACS_SUBSET.positives) == (6_742, 1_829)


def test_images(folder):
    below = write(folder)
    found = images._load_eyepacs(*EXPECTED)
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
    said = str(caught.value)
    assert "eyepacs/trainLabels.csv and eyepacs/retinopathy_solution.csv not found" in said
    assert "https://www.kaggle.com/competitions/diabetic-retinopathy-detection/data" in said
    assert "retinopathy_solution.csv, the grades of the test pictures, from https://" in said


def test_missing_images_are_counted_and_the_first_named(folder):
    rows = [(f"{i}_{side}", 1) for i in range(20) for side in ("left", "right")] + [("99_left", 0)]
    below = write(folder, train=rows)
    for i in range(7):
        (below / "train" / f"{i}_right.jpeg").unlink()
    with pytest.raises(MissingDataError) as caught:
        images._load_eyepacs(Expected(41, 40), EXPECTED[1])
    said = str(caught.value)
    assert said.startswith("7 of the 41 images that trainLabels.csv lists are missing: ")
    assert "0_right.jpeg" in said
    assert "4_right.jpeg, ...." in said
    assert "5_right" not in said
    assert "unpack" in said


def test_the_published_counts_are_the_default(folder):
    write(folder)
    with pytest.raises(CorruptDataError, match=r"trainLabels\.csv has 5 rows instead of 35,126"):
        load_eyepacs_images()


@pytest.mark.parametrize(
    ("row", "said"),
    [
        (("15_middle", 0), "names the image '15_middle' in row 5, not like 10_left"),
        (("15_left", 5), "labels other than 0, 1, 2, 3, 4 in the column level: 5, first in row 5"),
        (("15_left", "high"), "column level: row 5 holds 'high', not a number"),
        (("15_left", 1), "has 3 positives instead of 2"),
        (("15_le",), "column level: row 5 is empty (the last row: the file is truncated)"),
        (("10_left", 0), "lists the image 10_left 2 times"),
    ],
)
def test_broken_tables(folder, row, said):
    write(folder, train=[*TRAIN[:4], row])
    with pytest.raises(CorruptDataError) as caught:
        images._load_eyepacs(*EXPECTED)
    assert said in str(caught.value)


def test_the_test_table_is_checked_too(folder):
    write(folder, test=TEST[:2])
    with pytest.raises(
        CorruptDataError, match=r"retinopathy_solution\.csv has 2 rows instead of 3"
    ):
        images._load_eyepacs(*EXPECTED)


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
    data = images._load_eyepacs_features(Expected(4, 2))
    assert data.X.tolist() == [[0, 1], [2, 3], [4, 5], [6, 7]]
    assert data.y.tolist() == [False, True, True, False]
    assert data.groups.tolist() == [0, 0, 1, 1]
    assert (data.name, data.part) == ("eyepacs", None)


def test_broken_features(folder):
    with pytest.raises(MissingDataError, match=r"eyepacs_efflite0\.npz not found.*kaggle"):
        load_eyepacs_features()
    write_features(folder)
    with pytest.raises(CorruptDataError, match="has 4 rows instead of 6,742"):
        load_eyepacs_features()
    write_features(folder, level=(0, 1, -1, 0))
    with pytest.raises(CorruptDataError, match="in the column level: -1, first in row 3"):
        images._load_eyepacs_features(Expected(4, 2))


def test_missing_features_are_named_with_the_page_of_the_pictures(folder):
    with pytest.raises(MissingDataError, match=r"^eyepacs_efflite0\.npz not found") as caught:
        load_eyepacs_features()
    said = str(caught.value)
    for part in ("trainLabels.csv and train.zip.*", "EfficientNet-lite0",
                 "https://www.kaggle.com/competitions/diabetic-retinopathy-detection/data",
                 "store them in eyepacs_efflite0.npz"):  # fmt: skip
        assert part in said


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
MURA_EXPECTED = Expected(20, 10), Expected(2, 1)


def write_mura(folder, train=MURA_TRAIN, valid=VALID, end="\n"):
    (folder / "MURA-v1.1").mkdir()
    for part, paths in (("train", train), ("valid", valid)):
        listed = folder / "MURA-v1.1" / f"{part}_image_paths.csv"
        listed.write_bytes((end.join(paths) + end).encode())
        for path in paths:
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).touch()


def load(seed=0, fraction=None):
    return images._load_mura(seed, fraction, *MURA_EXPECTED)


def test_mura_published_values():
    """The test part of the paper's table, and its training part after the draw."""
    assert (images.MURA_VALID.rows, images.MURA_VALID.positives) == (3_197, 1_530)
    y = np.arange(images.MURA_TRAIN.rows) < images.MURA_TRAIN.positives
    kept = y[images._draw(y, 0.1, seed=0)]
    assert (int(kept.sum()), int((~kept).sum())) == (1_487, 21_935)


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_mura_images(folder, end):
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


@pytest.mark.parametrize("fraction", [0, -0.1, 1.5, float("nan")])
def test_a_fraction_out_of_range_raises(fraction):
    with pytest.raises(SetpointError, match="positive_fraction must be above 0 and at most 1"):
        load_mura_images(positive_fraction=fraction)


def test_a_negative_seed():
    with pytest.raises(SetpointError, match="seed must not be negative"):
        load_mura_images(seed=-1)


def test_missing(folder):
    with pytest.raises(MissingDataError, match=r"stanfordmlgroup\.github\.io/competitions/mura"):
        load_mura_images()


def test_mura_the_published_counts_are_the_default(folder):
    write_mura(folder)
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
    write_mura(folder)
    listed = folder / "MURA-v1.1" / "train_image_paths.csv"
    listed.write_text("\n".join([*MURA_TRAIN[:-1], path]))
    with pytest.raises(CorruptDataError) as caught:
        load()
    assert f"has {path!r} in line 20, where a path like MURA-v1.1/train/XR_" in str(caught.value)


def test_an_empty_list(folder):
    write_mura(folder)
    (folder / "MURA-v1.1" / "valid_image_paths.csv").write_text("")
    with pytest.raises(CorruptDataError, match=r"valid_image_paths\.csv is empty"):
        load()


def test_the_former_name_of_the_fraction_gives_a_warning(folder):
    with (
        pytest.warns(DeprecationWarning, match="use positive_fraction"),
        pytest.raises(SetpointError, match="positive_fraction must be above 0"),
    ):
        load_mura_images(positive_share=2.0)

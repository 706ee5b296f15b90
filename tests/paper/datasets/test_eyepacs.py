import numpy as np
import pytest

from setpoint.paper.datasets import (
    CorruptDataError,
    MissingDataError,
    load_eyepacs_features,
    load_eyepacs_images,
)
from setpoint.paper.datasets.eyepacs import (
    PUBLISHED_TEST,
    PUBLISHED_TRAIN,
    SUBSET,
    _load_features,
    _load_images,
)
from setpoint.paper.datasets.files import Expected

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
    assert (PUBLISHED_TRAIN.rows, PUBLISHED_TRAIN.positives) == (35_126, 9_316)
    assert (PUBLISHED_TEST.rows, PUBLISHED_TEST.positives) == (53_576, 14_043)
    assert (SUBSET.rows, SUBSET.positives) == (6_742, 1_829)


def test_images(folder):
    below = write(folder)
    found = _load_images(*EXPECTED)
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
        _load_images(Expected(41, 40), EXPECTED[1])
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
        (("15_le",), "column level: row 5 is empty (the last row: the file was cut off)"),
        (("10_left", 0), "lists the image 10_left 2 times"),
    ],
)
def test_broken_tables(folder, row, said):
    write(folder, train=[*TRAIN[:4], row])
    with pytest.raises(CorruptDataError) as caught:
        _load_images(*EXPECTED)
    assert said in str(caught.value)


def test_the_test_table_is_checked_too(folder):
    write(folder, test=TEST[:2])
    with pytest.raises(
        CorruptDataError, match=r"retinopathy_solution\.csv has 2 rows instead of 3"
    ):
        _load_images(*EXPECTED)


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
    data = _load_features(Expected(4, 2))
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
        _load_features(Expected(4, 2))


def test_missing_features_are_named_with_the_page_of_the_pictures(folder):
    with pytest.raises(MissingDataError, match=r"^eyepacs_efflite0\.npz not found") as caught:
        load_eyepacs_features()
    said = str(caught.value)
    for part in ("trainLabels.csv and train.zip.*", "EfficientNet-lite0",
                 "https://www.kaggle.com/competitions/diabetic-retinopathy-detection/data",
                 "store them in eyepacs_efflite0.npz"):  # fmt: skip
        assert part in said

import numpy as np
import pytest

from setpoint.paper.datasets import CorruptDataError
from setpoint.paper.datasets.files import read_arrays, read_quantized

HOW = "make it again"


def arrays(n=6, d=3):
    rng = np.random.default_rng(0)
    return {
        "q": rng.integers(0, 256, (n, d), dtype=np.uint8),
        "scale": rng.random(d, dtype=np.float32),
        "offset": rng.normal(size=d).astype(np.float32),
        "level": rng.integers(0, 5, n, dtype=np.int8),
    }


def test_features_are_scaled_back(tmp_path):
    held = arrays()
    np.savez_compressed(tmp_path / "x.npz", **held)
    found = read_quantized(tmp_path / "x.npz", ("level",), HOW)
    expected = held["q"].astype(float) * held["scale"] + held["offset"]
    assert found["X"].dtype == np.float32
    np.testing.assert_allclose(found["X"], expected, rtol=1e-6)
    assert (found["level"] == held["level"]).all()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"q": None}, "has no array q"),
        ({"level": None, "scale": None}, "has no array scale, level"),
        ({"q": np.zeros((6, 3))}, "has a q of float64"),
        ({"q": np.zeros(6, np.uint8)}, "has a q of uint8 and shape (6,)"),
        ({"scale": np.ones(2)}, "has not one finite scale for each column of q"),
        ({"scale": np.array([1, np.nan, 1])}, "has not one finite scale for each column of q"),
        ({"offset": np.float32(1)}, "has not one finite offset for each column of q"),
        ({"level": np.zeros(5, int)}, "has not one whole number of level for each row of q"),
        ({"level": np.zeros(6)}, "has not one whole number of level for each row of q"),
    ],
)
def test_other_arrays_are_refused(tmp_path, change, said):
    held = {k: v for k, v in (arrays() | change).items() if v is not None}
    np.savez(tmp_path / "x.npz", **held)
    with pytest.raises(CorruptDataError) as caught:
        read_quantized(tmp_path / "x.npz", ("level",), HOW)
    assert said in str(caught.value)
    assert str(caught.value).endswith(f"Replace it: {HOW}.")


def test_files_that_are_not_whole(tmp_path):
    path = tmp_path / "x.npz"
    np.savez_compressed(path, **arrays(200, 20))
    whole = path.read_bytes()
    turned = bytearray(whole)
    turned[300] ^= 255  # within an array: its checksum fails
    for content in (b"", b"no arrays", whole[:-1], whole[: len(whole) // 2], bytes(turned)):
        path.write_bytes(content)
        with pytest.raises(CorruptDataError, match="is not a whole npz file"):
            read_quantized(path, (), HOW)


def test_nothing_in_a_file_is_executed(tmp_path):
    path = tmp_path / "x.npz"
    np.savez(path, X=np.array([{"any": "object"}], dtype=object))
    with pytest.raises(CorruptDataError, match="is not a whole npz file"):
        read_arrays(path, ("X",), HOW)
    assert read_arrays(path, ("y",), HOW) == {}
    np.save(tmp_path / "x.npy", np.zeros(3))
    with pytest.raises(CorruptDataError, match="it is a single array"):
        read_arrays(tmp_path / "x.npy", ("X",), HOW)

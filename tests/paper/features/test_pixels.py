"""Image files as pixels."""

import sys
from itertools import product

import numpy as np
import pytest
from PIL import Image

from setpoint import SetpointError
from setpoint.paper.features.pixels import read_pixels

SIZE = 16


def noise(height=20, width=30, channels=3, seed=0):
    shape = (height, width, channels) if channels else (height, width)
    return np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8)


def resized(array, size=SIZE):
    """The result for an ordinary RGB image, by Pillow alone."""
    small = Image.fromarray(array).resize((size, size), Image.Resampling.BICUBIC)
    return np.asarray(small, np.float32) / 255


def save(path, array, **options):
    Image.fromarray(array).save(path, **options)
    return path


def test_an_rgb_file_is_resized_whole(tmp_path):
    array = noise()
    found = read_pixels(save(tmp_path / "a.png", array), SIZE)
    assert found.shape == (SIZE, SIZE, 3)
    assert found.dtype == np.float32
    assert np.array_equal(found, resized(array))


def test_gray_gets_three_equal_channels(tmp_path):
    gray = noise(channels=0)
    found = read_pixels(save(tmp_path / "a.png", gray), SIZE)
    assert np.array_equal(found, np.repeat(resized(gray)[:, :, None], 3, 2))


def test_black_and_white(tmp_path):
    path = tmp_path / "a.png"
    Image.fromarray(noise(channels=0) > 127).save(path)
    found = read_pixels(path, SIZE)
    assert found.shape == (SIZE, SIZE, 3)
    assert found.min() < 0.2 < 0.8 < found.max()


def test_sixteen_bits_are_scaled_and_not_clipped(tmp_path):
    for highest, suffix in product((300, 4095, 65535), ("png", "tiff")):
        ramp = np.linspace(0, highest, 64 * 64).reshape(64, 64)
        found = read_pixels(save(tmp_path / f"a.{suffix}", ramp.astype(np.uint16)), SIZE)
        coarse = (ramp / highest).reshape(SIZE, 4, SIZE, 4).mean((1, 3))
        assert np.abs(found[..., 0] - coarse).max() < 0.02
        assert np.array_equal(found[..., 0], found[..., 2])
        assert len(np.unique(found)) > 0.5 * SIZE * SIZE  # finer than 8 bits


def test_sixteen_bits_of_either_byte_order_and_thirty_two_bits_are_the_same(tmp_path):
    levels = np.random.default_rng(0).integers(0, 65536, (20, 30))
    paths = []
    for mode, dtype in (("I;16", "<u2"), ("I;16B", ">u2"), ("I", "<i4"), ("F", "<f4")):
        data = levels.astype(dtype).tobytes()
        paths.append(tmp_path / f"{len(paths)}.tiff")
        Image.frombytes(mode, (30, 20), data).save(paths[-1])
    found = [read_pixels(path, SIZE) for path in paths]
    assert found[0].min() < 0.3 < 0.7 < found[0].max()
    for other in found[1:]:
        assert np.array_equal(found[0], other)


def test_negative_levels_such_as_hounsfield_units_are_kept_apart(tmp_path):
    levels = np.array([[-1000, 0], [1000, 3000]], np.int32)
    found = read_pixels(save(tmp_path / "a.tiff", levels), 2)
    assert np.allclose(found[..., 0], [[0, 0.25], [0.5, 1]], atol=1e-6)


def test_the_overshoot_of_bicubic_resampling_is_clipped(tmp_path):
    steps = np.kron(np.eye(4), np.full((4, 4), 50000)).astype(np.uint16)
    found = read_pixels(save(tmp_path / "a.png", steps), 64)
    assert found.min() == 0
    assert found.max() == 1


def test_a_flat_image_of_sixteen_bits(tmp_path):
    flat = np.full((9, 9), 1234, np.uint16)
    assert (read_pixels(save(tmp_path / "a.png", flat), SIZE) == 0).all()


def test_pixels_that_are_no_numbers(tmp_path):
    for value in (np.nan, np.inf):
        levels = np.ones((4, 4), np.float32)
        levels[1, 1] = value
        path = save(tmp_path / "scan.tiff", levels)
        with pytest.raises(SetpointError, match=r"scan.tiff.*NaN or infinite"):
            read_pixels(path, SIZE)


def test_transparent_pixels_are_white_whatever_is_stored_there(tmp_path):
    array = noise(channels=4)
    array[..., 3] = 255
    array[:, :15, 3] = 0
    found = read_pixels(save(tmp_path / "a.png", array), SIZE)
    over = array[..., :3].copy()
    over[:, :15] = 255
    assert np.array_equal(found, resized(over))


def test_gray_with_alpha_and_half_transparency(tmp_path):
    array = np.zeros((8, 8, 2), np.uint8)
    array[..., 1] = 128
    found = read_pixels(save(tmp_path / "a.png", array), SIZE)
    assert np.allclose(found, 127 / 255, atol=0.005)


def test_palettes_with_and_without_transparency(tmp_path):
    colours = np.array([[255, 0, 0], [0, 255, 0], [0, 0, 255]], np.uint8)
    index = np.random.default_rng(0).integers(0, 3, (20, 30)).astype(np.uint8)
    image = Image.frombytes("P", (30, 20), index.tobytes())
    image.putpalette(colours.tobytes())
    image.save(tmp_path / "plain.png")
    image.save(tmp_path / "one.png", transparency=1)
    image.save(tmp_path / "bytes.png", transparency=bytes([255, 0, 255]))
    image.save(tmp_path / "a.gif", transparency=1)
    assert np.array_equal(read_pixels(tmp_path / "plain.png", SIZE), resized(colours[index]))
    colours[1] = 255
    for name in ("one.png", "bytes.png", "a.gif"):
        assert np.array_equal(read_pixels(tmp_path / name, SIZE), resized(colours[index])), name


def test_printing_colours_are_not_inverted(tmp_path):
    for name, inks, colour in (
        ("cyan.jpg", (255, 0, 0, 0), (0, 1, 1)),
        ("black.tiff", (0, 0, 0, 255), (0, 0, 0)),
        ("paper.jpg", (0, 0, 0, 0), (1, 1, 1)),
    ):
        Image.new("CMYK", (20, 20), inks).save(tmp_path / name)
        found = read_pixels(tmp_path / name, SIZE)
        assert np.allclose(found, colour, atol=0.02), name


def test_the_orientation_of_the_camera_is_applied(tmp_path):
    for orientation in range(1, 9):
        upright = noise(SIZE, SIZE)
        stored = {  # how a camera stores what becomes upright by that orientation
            1: upright,
            2: upright[:, ::-1],
            3: upright[::-1, ::-1],
            4: upright[::-1],
            5: upright.transpose(1, 0, 2),
            6: np.rot90(upright),
            7: upright[::-1, ::-1].transpose(1, 0, 2),
            8: np.rot90(upright, -1),
        }[orientation]
        exif = Image.Exif()
        exif[0x0112] = orientation
        path = save(tmp_path / "a.png", np.ascontiguousarray(stored), exif=exif)
        assert np.array_equal(read_pixels(path, SIZE), upright.astype(np.float32) / 255)


def test_a_broken_note_of_the_camera_does_not_cost_the_image(tmp_path):
    path = tmp_path / "a.jpg"
    array = noise()
    save(path, array, quality=95, exif=b"Exif\0\0MM\0\0garbage, not a TIFF header")
    plain = save(tmp_path / "b.jpg", array, quality=95)
    assert np.array_equal(read_pixels(path, SIZE), read_pixels(plain, SIZE))


def test_of_several_frames_the_first(tmp_path):
    first, second = (Image.fromarray(noise(seed=seed)) for seed in (0, 1))
    first.save(tmp_path / "a.tiff", save_all=True, append_images=[second])
    assert np.array_equal(read_pixels(tmp_path / "a.tiff", SIZE), resized(noise(seed=0)))


def test_a_truncated_file_is_named(tmp_path):
    for suffix in ("png", "jpg", "tiff", "bmp", "gif", "webp"):
        path = save(tmp_path / f"wrist 7.{suffix}", noise(100, 100))
        content = path.read_bytes()
        path.write_bytes(content[: int(0.6 * len(content))])
        with pytest.raises(SetpointError, match=rf"wrist 7\.{suffix}.*cannot be read"):
            read_pixels(path, SIZE)


def test_a_truncated_file_of_a_turned_camera_is_named(tmp_path):
    exif = Image.Exif()
    exif[0x0112] = 6
    path = save(tmp_path / "a.jpg", noise(100, 100), exif=exif)
    path.write_bytes(path.read_bytes()[:-3000])
    with pytest.raises(SetpointError, match="truncated"):
        read_pixels(path, SIZE)


def test_a_file_that_is_no_image_is_named(tmp_path):
    path = tmp_path / "notes.png"
    for content in (b"", b"patient,label\n1,0\n", b"\x89PNG\r\n\x1a\n"):
        path.write_bytes(content)
        with pytest.raises(SetpointError, match=r"notes\.png.*cannot be read"):
            read_pixels(path, SIZE)


def test_an_image_too_large_to_be_true_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 100)
    path = save(tmp_path / "bomb.png", noise())
    with pytest.raises(SetpointError, match=r"bomb\.png.*exceeds limit"):
        read_pixels(path, SIZE)


def test_without_pillow_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "PIL.Image", None)
    with pytest.raises(ImportError, match=r'pip install "setpoint\[features\]"'):
        read_pixels("a.png", SIZE)

"""Damaged, unexpected and malicious files are rejected, with a reason."""

import io
import json
import os
import stat
import struct
import zipfile
import zlib

import numpy as np
import pytest

from setpoint.errors import ModelFileError
from setpoint.model_files import load, save
from setpoint.saving import reading
from setpoint.saving.document import FORMAT, _digest


@pytest.fixture
def folder(tmp_path, linear):
    save(linear, tmp_path / "model")
    return tmp_path / "model"


@pytest.fixture
def archive(tmp_path, linear):
    save(linear, tmp_path / "model.zip")
    return tmp_path / "model.zip"


def weights_of(folder):
    return next(folder.glob("weights-*.safetensors"))


def edited(folder, change, *, honest=True):
    """Change model.json, and its checksum with it where the forger is careful."""
    content = json.loads((folder / "model.json").read_bytes())
    digest = content.pop("sha256")
    change(content)
    content["sha256"] = _digest(content) if honest else digest
    (folder / "model.json").write_text(json.dumps(content))


def rejected(path, match):
    """Assert that a path is not loaded, with a message that names it; return the message."""
    with pytest.raises(ModelFileError, match=match) as caught:
        load(path)
    assert str(path) in str(caught.value)
    return str(caught.value)


def test_paths_without_a_model(tmp_path):
    rejected(tmp_path / "nothing", "there is no model")
    rejected(tmp_path, "no model.json")
    (tmp_path / "text").write_text("hello")
    rejected(tmp_path / "text", "is not a model, or is damaged")
    (tmp_path / "empty.zip").write_bytes(b"")
    rejected(tmp_path / "empty.zip", "is not a model, or is damaged")
    with zipfile.ZipFile(tmp_path / "other.zip", "w") as file:
        file.writestr("a.txt", "a")
    rejected(tmp_path / "other.zip", "is not a model")


def test_a_model_json_of_another_program(folder):
    for text in ("", "{", "[]", "null", '{"format": 1}', "[" * 100_000, "\xff"):
        (folder / "model.json").write_text(text, encoding="latin-1")
        rejected(folder, "cannot be read|does not describe a setpoint model")


def test_a_newer_format_asks_for_an_upgrade(folder):
    def newer(content):
        content["format"], content["setpoint"] = FORMAT + 1, "9.1"

    edited(folder, newer)
    rejected(folder, r"setpoint 9\.1 in format 2; this is setpoint .*format 1: upgrade")


def test_an_invalid_format_does_not(folder):
    for value in (0, -1, "1", "0", 1.5, True, None, [1]):
        edited(folder, lambda content, value=value: content.update(format=value))
        message = rejected(folder, "no version of setpoint writes.*damaged or changed")
        assert "upgrade" not in message


def test_every_changed_byte_of_a_file_is_detected(folder):
    file = weights_of(folder)
    data = file.read_bytes()
    for changed in (data[:-1], data + b"\0", b""):
        file.write_bytes(changed)
        rejected(folder, f"is {len(changed):,} bytes long instead of {len(data):,}")
    for position in (0, len(data) // 2, len(data) - 1):
        flipped = bytearray(data)
        flipped[position] ^= 1
        file.write_bytes(flipped)
        rejected(folder, "checksum of weights-.* does not match")
    file.unlink()
    rejected(folder, "weights-.* is missing")


def test_changed_numbers_in_model_json_are_detected(folder):
    def looser(content):
        content["model"]["operating_point"]["tp"] += 1

    edited(folder, looser, honest=False)
    rejected(folder, "checksum of model.json does not match")


def test_every_truncated_zip_is_rejected(archive):
    data = archive.read_bytes()
    for length in [0, 1, 30, *range(100, len(data), len(data) // 40), len(data) - 1]:
        archive.write_bytes(data[:length])
        rejected(archive, "is not a model, or is damaged")


def test_every_flipped_byte_of_a_zip_is_rejected_or_harmless(archive, linear, rows):
    data = archive.read_bytes()
    expected = linear.positive_scores(rows[0])
    harmless = 0
    positions = np.random.default_rng(0).choice(len(data), 60, replace=False)
    # Also all of the directory at the end, where names, sizes and offsets are.
    for position in [*positions, *range(len(data) - 150, len(data), 2)]:
        flipped = bytearray(data)
        flipped[position] ^= 0x41
        archive.write_bytes(flipped)
        try:
            found = load(archive)
        except ModelFileError:
            continue
        harmless += 1  # e.g. the date of an entry
        assert np.array_equal(found.positive_scores(rows[0]), expected)
    assert harmless < 60


def test_model_json_cannot_list_files_elsewhere(folder):
    for name in ("../../etc/passwd", "/etc/passwd", "weights.pkl", "a/weights.skops", 7, None):
        edited(folder, lambda c, name=name: c["files"]["weights.safetensors"].update(name=name))
        rejected(folder, "lists an unknown file")


def forge(path, entries):
    """Write a zip with any entries: (ZipInfo or name, content)."""
    with zipfile.ZipFile(path, "w") as file:
        for entry, data in entries:
            file.writestr(entry, data)


def entries_of(path):
    with zipfile.ZipFile(path) as file:
        return [(name, file.read(name)) for name in file.namelist()]


def test_zips_that_setpoint_does_not_write(archive):
    original = entries_of(archive)
    link = zipfile.ZipInfo("weights.safetensors")
    link.external_attr = (stat.S_IFLNK | 0o777) << 16
    packed = zipfile.ZipInfo("weights.safetensors")
    packed.compress_type = zipfile.ZIP_DEFLATED
    for entries, message in [
        ([*original, ("../evil.py", "x")], "points outside"),
        ([*original, ("/evil.py", "x")], "points outside"),
        ([*original, ("evil.py", "x")], "does not list"),
        ([original[0], (link, "/etc/passwd")], "is a link"),
        ([original[0], (packed, original[1][1])], "is compressed"),
        (original[:1], "is missing"),
        (original[1:], "is not a model"),
        ([*original, *[(f"{i}.skops", "") for i in range(99)]], "is not a model"),
    ]:
        forge(archive, entries)
        rejected(archive, message)
    with pytest.warns(UserWarning, match="Duplicate name"):
        forge(archive, [*original, original[1]])
    rejected(archive, "appears twice")


def test_a_zip_bomb_is_rejected_before_it_is_unpacked(archive):
    original = entries_of(archive)
    packed = zipfile.ZipInfo("weights.safetensors")
    packed.compress_type = zipfile.ZIP_DEFLATED
    forge(archive, [original[0], (packed, b"\0" * 20_000_000)])
    assert archive.stat().st_size < 100_000
    rejected(archive, "is compressed")


def test_overlapping_entries_are_rejected(archive):
    """Many directory entries for the same bytes: each is honest, all together are not."""
    data = b"\0" * 100_000
    buffer = io.BytesIO()
    header = struct.pack(
        "<4sHHHHHIIIHH", b"PK\3\4", 20, 0, 0, 0, 0, zlib.crc32(data), len(data), len(data), 10, 0
    )
    buffer.write(header + b"model.json" + data)
    start = buffer.tell()
    names = [b"model.json", *(f"w{i}.skops".encode() for i in range(10))]
    for name in names:
        buffer.write(
            struct.pack(
                "<4sHHHHHHIIIHHHHHII", b"PK\1\2", 20, 20, 0, 0, 0, 0, zlib.crc32(data), len(data),
                len(data), len(name), 0, 0, 0, 0, 0, 0,
            ) + name
        )  # fmt: skip
    length = buffer.tell() - start
    buffer.write(struct.pack("<4sHHHHIIH", b"PK\5\6", 0, 0, *[len(names)] * 2, length, start, 0))
    archive.write_bytes(buffer.getvalue())
    rejected(archive, "holds more than it can|damaged")


@pytest.mark.skipif(os.name != "posix", reason="links and pipes of POSIX")
def test_links_and_pipes_in_a_folder_are_rejected(folder, tmp_path):
    file = weights_of(folder)
    moved = tmp_path / "elsewhere"
    file.rename(moved)
    file.symlink_to(moved)
    rejected(folder, "is a link")
    file.unlink()
    os.mkfifo(file)
    rejected(folder, "not a regular file")  # and does not wait for someone to write
    file.unlink()
    file.mkdir()
    rejected(folder, "directory|not a regular file")


def test_a_folder_that_is_replaced_while_it_is_read(
    folder, other_linear, linear, rows, monkeypatch
):
    original, replaced = reading._read_regular, []

    def overtaken(path, most):
        if path.suffix == ".safetensors" and not replaced:
            replaced.append(True)
            save(other_linear, folder)
        return original(path, most)

    monkeypatch.setattr(reading, "_read_regular", overtaken)
    scores = load(folder).positive_scores(rows[0])
    assert np.array_equal(scores, other_linear.positive_scores(rows[0]))


def test_consistent_forgeries_raise_an_error(folder):
    original = (folder / "model.json").read_bytes()
    for change in (
        lambda c: c.pop("model"),
        lambda c: c.pop("files"),
        lambda c: c.pop("versions"),
        lambda c: c.update(model=[]),
        lambda c: c["model"].update(kind="rm -rf"),
        lambda c: c["model"].pop("goal"),
        lambda c: c["model"].update(goal="max nothing"),
        lambda c: c["model"].update(goal=3),
        lambda c: c["model"].update(labels={}),
        lambda c: c["model"].update(dtype="object"),
        lambda c: c["model"].update(n_features_in=10**12),
        lambda c: c["model"].update(n_features_in=6),
        lambda c: c["model"]["module"].update(name="os.system"),
        lambda c: c["model"].update(logit_threshold={"$": "pickle"}),
        lambda c: c["model"]["parameters"]["kept"].update(goal={"$": "tuple"}),
    ):
        (folder / "model.json").write_bytes(original)
        edited(folder, change)
        rejected(folder, "model")


def test_unknown_parameters_are_ignored(folder, linear, rows):
    edited(folder, lambda c: c["model"]["parameters"]["kept"].update(tomorrows=3))
    assert np.array_equal(load(folder).predict(rows[0]), linear.predict(rows[0]))

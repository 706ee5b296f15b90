"""Files are replaced in one step: after an error the former one is there, and nothing else."""

import errno
import os
from pathlib import Path

import pytest

from setpoint._internal.files import AtomicFile, new_folder, write_atomically


def write_in_pieces(path, data):
    with AtomicFile(path) as file:
        for byte in data:
            file.write(bytes([byte]))


@pytest.fixture(params=[write_atomically, write_in_pieces])
def write(request):
    return request.param


def test_files_are_written_and_replaced(write, tmp_path):
    path = tmp_path / ("a" * 255)  # as long as a name may be
    for data in (b"first", b"second", b""):
        write(path, data)
        assert path.read_bytes() == data
        assert os.listdir(tmp_path) == [path.name]


def test_text_is_utf_8(tmp_path):
    write_atomically(tmp_path / "text", "Größe\n")
    assert (tmp_path / "text").read_bytes() == "Größe\n".encode()


@pytest.mark.parametrize("call", ["fsync", "replace"])
@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "full"), KeyboardInterrupt()])
def test_an_error_leaves_the_former_file(write, call, error, tmp_path, monkeypatch):
    path = tmp_path / "file"
    path.write_text("former")

    def fail(*_):
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(os, call, fail)
        with pytest.raises(type(error)):
            write(path, b"new")
    assert path.read_text() == "former"
    assert os.listdir(tmp_path) == ["file"]


def test_content_reaches_the_disk_before_it_gets_its_name(write, tmp_path, monkeypatch):
    calls = []
    fsync, replace = os.fsync, os.replace

    def sync(handle):
        calls.append(("fsync", os.fstat(handle).st_ino))
        fsync(handle)

    def rename(source, target):
        calls.append(("replace", Path(source).parent, target))
        replace(source, target)

    monkeypatch.setattr(os, "fsync", sync)
    monkeypatch.setattr(os, "replace", rename)
    path = tmp_path / "file"
    write(path, b"content")
    assert calls[0] == ("fsync", path.stat().st_ino)
    assert calls[1] == ("replace", tmp_path, path)
    if os.name == "posix":
        assert calls[2:] == [("fsync", tmp_path.stat().st_ino)]


@pytest.mark.skipif(os.name != "posix", reason="permissions are those of POSIX")
def test_permissions_are_those_of_a_new_file(write, tmp_path):
    (tmp_path / "plain").touch()
    write(tmp_path / "file", b"content")
    assert (tmp_path / "file").stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_an_error_in_the_block_writes_nothing(tmp_path):
    with pytest.raises(TypeError), AtomicFile(tmp_path / "file") as file:
        file.writelines([b"half", "not bytes"])
    assert os.listdir(tmp_path) == []


def test_a_file_that_the_writer_has_closed_is_committed(tmp_path):
    with AtomicFile(tmp_path / "file") as file:
        file.write(b"whole")
        file.close()
    assert (tmp_path / "file").read_bytes() == b"whole"


def test_a_temporary_file_that_exists_is_not_overwritten(tmp_path):
    other = tmp_path / "other"
    other.write_text("of another process")
    with pytest.raises(FileExistsError):
        AtomicFile(tmp_path / "file", temporary=other).open()
    assert other.read_text() == "of another process"


def test_new_folders_are_removed_after_an_error_if_they_are_empty(tmp_path):
    with new_folder(tmp_path / "a" / "b"):
        assert (tmp_path / "a" / "b").is_dir()
    with pytest.raises(ZeroDivisionError), new_folder(tmp_path / "a" / "c" / "d"):
        _ = 1 / 0
    assert os.listdir(tmp_path / "a") == ["b"]
    with pytest.raises(FileNotFoundError), new_folder(tmp_path / "x" / "y"):
        os.replace(tmp_path / "x" / "y", tmp_path / "nowhere" / "y")
    assert not (tmp_path / "x").exists()

"""A model on disk is complete at every moment: the former one or the new one."""

import errno
import os
import time
import zipfile

import numpy as np
import pytest

from setpoint._internal import files
from setpoint.errors import ModelFileError
from setpoint.model_files import load, save
from setpoint.saving import storage
from setpoint.saving.storage import check_target

CALLS = ("open", "write", "fsync", "close", "replace", "mkdir", "rmdir", "unlink", "listdir")


class Crash(BaseException):
    """The process was killed."""


class Fragile:
    """The module ``os``, the k-th call to which fails, before or after it has taken effect.

    A process that died does nothing any more: all later calls fail too.
    """

    def __init__(self, k, after=False, error=None):
        self.left, self.after, self.error = k, after, error
        self.dead = False

    def __getattr__(self, name):
        function = getattr(os, name)
        return self._guarded(name, function) if name in CALLS else function

    def _guarded(self, name, function):
        def call(*args):
            if self.dead:
                raise Crash
            self.left -= 1
            if self.left == 0:
                if name == "write":  # half of it reaches the disk
                    function(args[0], args[1][: len(args[1]) // 2])
                elif self.after:
                    function(*args)
                if self.error is not None:
                    raise OSError(self.error, os.strerror(self.error))
                self.dead = True
                raise Crash
            return function(*args)

        return call


def patch_os(patch, fake):
    """Let saving use this instead of the module ``os``."""
    for module in (storage, files):
        patch.setattr(module, "os", fake)


@pytest.fixture(params=["model", "model.zip"])
def path(request, tmp_path):
    return tmp_path / "deep" / request.param


def is_same(model, other, rows):
    return np.array_equal(model.positive_scores(rows[0]), other.positive_scores(rows[0]))


def everything(folder):
    return {
        p.relative_to(folder): p.read_bytes() if p.is_file() else None for p in folder.rglob("*")
    }


def calls_of_a_save(model, path, monkeypatch):
    counter = Fragile(10**9)
    with monkeypatch.context() as patch:
        patch_os(patch, counter)
        save(model, path)
    return 10**9 - counter.left


@pytest.mark.parametrize("after", [False, True])
def test_a_crash_at_any_call_leaves_a_complete_model(
    path, after, linear, other_linear, rows, monkeypatch
):
    save(linear, path)
    total = calls_of_a_save(other_linear, path, monkeypatch)
    assert total >= 6
    outcomes = []
    for k in range(1, total + 1):
        save(linear, path)
        with monkeypatch.context() as patch:
            patch_os(patch, Fragile(k, after))
            with pytest.raises(Crash):
                save(other_linear, path)
        found = load(path)
        outcomes.append(is_same(found, other_linear, rows))
        assert outcomes[-1] or is_same(found, linear, rows)
    # First always the old one, then, from one call on, always the new one.
    assert outcomes == sorted(outcomes)
    assert set(outcomes) == {False, True}
    save(linear, path)  # what a crash left does not matter
    assert is_same(load(path), linear, rows)


def test_a_crash_of_the_first_save_leaves_no_model_or_the_new_one(
    path, linear, rows, monkeypatch, tmp_path
):
    total = calls_of_a_save(linear, tmp_path / "other" / path.name, monkeypatch)
    for k in range(1, total + 1):
        target = tmp_path / str(k) / path.name
        with monkeypatch.context() as patch:
            patch_os(patch, Fragile(k))
            with pytest.raises(Crash):
                save(linear, target)
        try:
            assert is_same(load(target), linear, rows)
        except ModelFileError as error:
            assert "there is no model" in str(error) or "contains no model.json" in str(error)
        save(linear, target)
        assert is_same(load(target), linear, rows)


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EACCES])
def test_an_error_leaves_the_former_model_and_nothing_else(
    path, error, linear, other_linear, rows, monkeypatch, tmp_path
):
    save(linear, path)
    total = calls_of_a_save(linear, path, monkeypatch)
    failures = 0
    for k in range(1, total + 1):
        before = everything(tmp_path)
        with monkeypatch.context() as patch:
            patch_os(patch, Fragile(k, error=error))
            try:
                save(other_linear, path)
            except ModelFileError as raised:
                failures += 1
                assert os.strerror(error) in str(raised)
                assert "unchanged" in str(raised)
                assert everything(tmp_path) == before
            else:  # an error of what is done after the model is in place
                assert is_same(load(path), other_linear, rows)
                save(linear, path)
    assert failures >= 4


def test_a_first_save_that_fails_leaves_no_trace(path, linear, monkeypatch, tmp_path):
    total = calls_of_a_save(linear, tmp_path / "other" / path.name, monkeypatch)
    before = everything(tmp_path)
    failures = 0
    for k in range(1, total + 1):
        with monkeypatch.context() as patch:
            patch_os(patch, Fragile(k, error=errno.EROFS))
            try:
                save(linear, path)
            except ModelFileError:
                failures += 1
                assert everything(tmp_path) == before
            else:
                break  # from here on the errors come after the model is in place
    assert failures >= 4


def test_an_interrupt_after_the_replacement_keeps_the_new_model(
    path, linear, other_linear, rows, monkeypatch
):
    save(linear, path)

    class Interrupted:
        def __getattr__(self, name):
            return getattr(os, name)

        def replace(self, a, b):
            os.replace(a, b)
            raise KeyboardInterrupt

    patch_os(monkeypatch, Interrupted())
    with pytest.raises(KeyboardInterrupt):
        save(other_linear, path)
    assert is_same(load(path), other_linear, rows)


def test_a_saved_folder_contains_only_the_model(path, linear, other_linear):
    for model in (linear, other_linear, linear):
        save(model, path)
    if path.suffix == ".zip":
        assert [p.name for p in path.parent.iterdir()] == ["model.zip"]
        assert sorted(zipfile.ZipFile(path).namelist()) == ["model.json", "weights.safetensors"]
    else:
        assert sorted(p.suffix for p in path.iterdir()) == [".json", ".safetensors"]


def test_files_left_by_old_crashes_are_removed_and_others_are_not(tmp_path, linear):
    folder = tmp_path / "model"
    save(linear, folder)
    remains = [folder / f"weights-{'0' * 16}.safetensors", folder / ".setpoint-0123456789abcdef"]
    fresh = folder / f"weights-{'1' * 16}.safetensors"
    own = [folder / "report.html", folder / "weights-of-mine.safetensors"]
    for file in [*remains, fresh, *own]:
        file.write_text("something")
    for file in [*remains, *own]:
        os.utime(file, (time.time() - 1e6,) * 2)
    save(linear, folder)
    assert not any(file.exists() for file in remains)
    assert fresh.exists()  # of a save that may be under way
    assert all(file.read_text() == "something" for file in own)


def test_simultaneous_saves_leave_one_model(tmp_path, linear, other_linear, rows, monkeypatch):
    folder = tmp_path / "model"
    save(linear, folder)
    inner = []

    class Overtaken:
        """Another save takes place just before the deciding step of the first."""

        def __getattr__(self, name):
            return getattr(os, name)

        def replace(self, a, b):
            if not inner:
                inner.append(True)
                save(linear, folder)
            os.replace(a, b)

    patch_os(monkeypatch, Overtaken())
    save(other_linear, folder)
    assert is_same(load(folder), other_linear, rows)


def test_the_same_model_gives_the_same_zip(tmp_path, linear):
    save(linear, tmp_path / "a.zip")
    save(load(tmp_path / "a.zip"), tmp_path / "b.zip")
    assert (tmp_path / "a.zip").read_bytes() == (tmp_path / "b.zip").read_bytes()


def test_nothing_but_a_model_is_overwritten(tmp_path, linear):
    folder = tmp_path / "notes"
    folder.mkdir()
    (folder / "diary.txt").write_text("dear diary")
    foreign = tmp_path / "foreign"
    foreign.mkdir()
    (foreign / "model.json").write_text('{"format": "layers-model"}')
    archive = tmp_path / "photos.zip"
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("holiday.jpg", "sunset")
    text = tmp_path / "text.zip"
    text.write_text("no zip at all")
    directory = tmp_path / "folder.zip"
    directory.mkdir()
    for path, message in {
        folder: "contains other files .diary.txt.",
        foreign: "does not describe a setpoint model",
        archive: "is not a model",
        text: "is not a model",
        directory: "is a folder",
        folder / "diary.txt": "is a file",
        folder / "diary.txt" / "model": "Not a directory|is a file",
    }.items():
        before = everything(tmp_path)
        for refuses in (lambda p=path: save(linear, p), lambda p=path: check_target(p)):
            with pytest.raises(ModelFileError, match=message):
                refuses()
        assert everything(tmp_path) == before


def test_valid_targets(tmp_path, linear, monkeypatch):
    empty = tmp_path / "empty"
    empty.mkdir()
    save(linear, tmp_path / "model")
    save(linear, tmp_path / "model.ZIP")
    for path in (empty, tmp_path / "new" / "model", tmp_path / "model", tmp_path / "model.ZIP"):
        check_target(path)
        check_target(str(path))
    monkeypatch.chdir(tmp_path)
    check_target("here")
    assert not (tmp_path / "new").exists()


@pytest.mark.skipif(os.name != "posix", reason="permissions are those of POSIX")
def test_a_folder_that_cannot_be_written_to(tmp_path, monkeypatch):
    # The superuser may write anywhere, so the system is asked in place of the disk.
    monkeypatch.setattr(storage.os, "access", lambda path, mode: False)
    for path in (tmp_path / "model", tmp_path / "model.zip", tmp_path / "deep" / "model"):
        with pytest.raises(ModelFileError, match="is not writable"):
            check_target(path)


def test_a_link_to_a_model_stays_a_link(tmp_path, linear, other_linear, rows):
    for name in ("v1", "v1.zip"):
        save(linear, tmp_path / name)
        link = tmp_path / f"current-{name}"
        link.symlink_to(tmp_path / name)
        save(other_linear, link)
        assert link.is_symlink()
        assert is_same(load(tmp_path / name), other_linear, rows)
        assert is_same(load(link), other_linear, rows)

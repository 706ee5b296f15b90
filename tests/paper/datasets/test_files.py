import hashlib
import os

import pytest

from setpoint import SetpointError
from setpoint.paper.datasets import CorruptDataError, MissingDataError
from setpoint.paper.datasets.files import (
    Expected,
    check_counts,
    check_md5,
    digest,
    find,
    folders,
    lines,
    named,
)

HOW = "download it from https://example.org/page"


def test_folders_come_from_the_environment(monkeypatch, tmp_path):
    monkeypatch.delenv("SETPOINT_DATA", raising=False)
    assert [str(f) for f in folders()] == ["data"]
    monkeypatch.setenv("SETPOINT_DATA", "")
    assert [str(f) for f in folders()] == ["data"]
    monkeypatch.setenv("SETPOINT_DATA", os.pathsep.join(["/a b", "", "c"]))
    assert [str(f) for f in folders()] == ["/a b", "c"]
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("SETPOINT_DATA", "~/x")
    assert folders() == [tmp_path / "x"]


def test_the_first_folder_with_all_files_of_a_form_wins(monkeypatch, tmp_path):
    for name in ("one/a", "two/a", "two/b", "three/c"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.touch()
    names = ("one", "two", "three")
    monkeypatch.setenv("SETPOINT_DATA", os.pathsep.join(str(tmp_path / n) for n in names))
    assert find(("a",), how=HOW) == (tmp_path / "one/a",)
    assert find(("a", "b"), how=HOW) == (tmp_path / "two/a", tmp_path / "two/b")
    assert find(("b", "c"), ("c",), how=HOW) == (tmp_path / "three/c",)


def test_a_missing_file_says_what_to_do(monkeypatch, tmp_path):
    absent = tmp_path / "absent"
    monkeypatch.setenv("SETPOINT_DATA", os.pathsep.join([str(tmp_path), str(absent)]))
    with pytest.raises(MissingDataError) as caught:
        find(("a.csv", "b.csv"), ("c.csv",), how=HOW)
    said = str(caught.value)
    assert said.startswith("a.csv and b.csv, or c.csv not found in")
    assert f"{absent} (no such folder)" in said
    assert f"{tmp_path} (" not in said
    assert f"{HOW}; put it into {tmp_path}," in said
    assert "SETPOINT_DATA" in said
    assert isinstance(caught.value, SetpointError)


def test_half_of_a_form_is_told(folder):
    (folder / "a.csv").touch()
    (folder / "b.csv").mkdir()  # an archive unpacked into a folder of its own name
    with pytest.raises(MissingDataError, match=r"a\.csv is there, but b\.csv beside it is not"):
        find(("a.csv", "b.csv"), how=HOW)


def test_digests(tmp_path):
    path = tmp_path / "large.bin"
    content = bytes(range(256)) * 5000  # more than one buffer
    path.write_bytes(content)
    md5 = hashlib.md5(content).hexdigest()
    assert digest(path) == md5
    assert named(path, path) == f"large.bin (md5 {md5}), large.bin (md5 {md5})"
    check_md5(path, md5, Expected(1, md5=md5), HOW)
    check_md5(path, md5, Expected(1), HOW)
    with pytest.raises(CorruptDataError, match=f"md5 {md5} instead of the published abc.*{HOW}"):
        check_md5(path, md5, Expected(1, md5="abc"), HOW)


def test_counts(tmp_path):
    path = tmp_path / "x.csv"
    check_counts(path, 1000, 10, Expected(1000, 10), HOW)
    check_counts(path, 1000, 10, Expected(1000), HOW)
    with pytest.raises(CorruptDataError, match=f"999 rows instead of 1,000: it was cut off.*{HOW}"):
        check_counts(path, 999, 10, Expected(1000, 10), HOW)
    with pytest.raises(
        CorruptDataError, match="1,001 rows instead of 1,000: it is another version"
    ):
        check_counts(path, 1001, 10, Expected(1000, 10), HOW)
    with pytest.raises(CorruptDataError, match="has 11 positives instead of 10: its labels"):
        check_counts(path, 1000, 11, Expected(1000, 10), HOW)


def test_lines_end_at_line_feeds_only(tmp_path):
    path = tmp_path / "x.txt"
    path.write_bytes("\ufeffone\u2028still\x85 one\x0b\r\n\n  \ntwo\rstill two".encode())
    assert list(lines(path, HOW)) == [(1, "one\u2028still\x85 one\x0b"), (4, "two\rstill two")]


@pytest.mark.parametrize("content", [b"", b"\n\n \r\n"])
def test_an_empty_text_file(tmp_path, content):
    path = tmp_path / "x.txt"
    path.write_bytes(content)
    with pytest.raises(CorruptDataError, match=f"x.txt is empty. Replace it: {HOW}"):
        list(lines(path, HOW))


def test_a_text_file_in_another_encoding(tmp_path):
    path = tmp_path / "x.txt"
    path.write_bytes("naïve".encode("latin-1"))
    with pytest.raises(CorruptDataError, match="x.txt is not UTF-8 text"):
        list(lines(path, HOW))

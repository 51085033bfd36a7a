"""Reading files from any source, and writing files."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from edgetpu_driver.errors import reason_of
from edgetpu_driver.files.file_access import read_file, write_file


def test_a_file_of_the_largest_size_is_read(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"abcd")
    assert read_file(tmp_path / "file", 4) == b"abcd"


def test_a_larger_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"abcde")
    with pytest.raises(OSError, match="expected at most 4 bytes; it has 5"):
        read_file(tmp_path / "file", 4)


@pytest.mark.parametrize("size", [2, 6])
def test_a_file_that_changes_while_it_is_read_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    (tmp_path / "file").write_bytes(b"abcd")
    fstat = os.fstat

    def change(descriptor: int) -> os.stat_result:
        status = fstat(descriptor)
        os.truncate(tmp_path / "file", size)
        return status

    monkeypatch.setattr(os, "fstat", change)
    with pytest.raises(OSError, match="expected 4 bytes; it changed while it was read"):
        read_file(tmp_path / "file", 10)


@pytest.mark.parametrize("path", ["/dev/zero", "/dev/null", "fifo"])
def test_anything_but_a_regular_file_is_refused_without_waiting(tmp_path: Path, path: str) -> None:
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(OSError, match="expected a regular file"):
        read_file(tmp_path / path)


def test_of_a_directory_the_error_names_the_path_and_nothing_stays_open(tmp_path: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(IsADirectoryError) as raised:
        read_file(tmp_path)
    assert raised.value.filename == str(tmp_path)
    assert len(os.listdir("/proc/self/fd")) <= before


@pytest.mark.parametrize("make", ["directory", "circle", "nothing"])
def test_what_cannot_be_read_is_an_os_error(tmp_path: Path, make: str) -> None:
    path = tmp_path / "file"
    if make == "directory":
        path.mkdir()
    if make == "circle":
        path.symlink_to(path)
    with pytest.raises(OSError, match=r"directory|symbolic links"):
        read_file(path)


def test_a_name_that_no_file_can_have_is_an_os_error(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="null byte"):
        read_file(tmp_path / "a\0b")


def test_a_file_is_written_once(tmp_path: Path) -> None:
    path = tmp_path / "new" / "file"
    assert write_file(path, b"abc")
    assert not write_file(path, b"abc")
    assert write_file(path, b"ab")
    assert path.read_bytes() == b"ab"
    assert [each.name for each in path.parent.iterdir()] == ["file"]
    assert path.stat().st_mode & 0o777 == 0o644


@pytest.mark.parametrize(
    "name",
    ["a" * 255, "\u00e4" * 127, "\u6f22" * 85, "\U0001f916" * 63],
    ids=["a", "umlaut", "character", "symbol"],
)
def test_a_file_may_have_any_name_that_the_file_system_takes(tmp_path: Path, name: str) -> None:
    assert write_file(tmp_path / name, b"abc")
    assert [each.name for each in tmp_path.iterdir()] == [name]


def test_a_link_is_replaced_and_not_followed(tmp_path: Path) -> None:
    (tmp_path / "victim").write_bytes(b"precious")
    (tmp_path / "link").symlink_to(tmp_path / "victim")
    write_file(tmp_path / "link", b"new")
    assert (tmp_path / "victim").read_bytes() == b"precious"
    assert not (tmp_path / "link").is_symlink()


@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_a_full_disk_leaves_the_file_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    def fail(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    (tmp_path / "file").write_bytes(b"old")
    monkeypatch.setattr(os, call, fail)
    with pytest.raises(OSError, match="No space left") as raised:
        write_file(tmp_path / "file", b"new")
    assert raised.value.filename == str(tmp_path / "file")
    assert str(raised.value).endswith(f": '{tmp_path}/file'")
    assert (tmp_path / "file").read_bytes() == b"old"
    assert [each.name for each in tmp_path.iterdir()] == ["file"]


def test_of_a_directory_that_takes_no_files_the_error_names_the_file() -> None:
    path = Path("/proc/self/file")  # for root too
    with pytest.raises(OSError, match=r"No such file|denied|Read-only") as raised:
        write_file(path, b"new")
    assert reason_of(raised.value).startswith(f"{path}: ")


def test_of_a_directory_in_place_of_the_file_the_error_names_it_alone(tmp_path: Path) -> None:
    (tmp_path / "file").mkdir()
    with pytest.raises(IsADirectoryError) as raised:
        write_file(tmp_path / "file", b"new")
    assert reason_of(raised.value) == f"{tmp_path / 'file'}: Is a directory"
    assert [each.name for each in tmp_path.iterdir()] == ["file"]


def test_the_content_is_on_disk_before_the_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []
    for name in ("fsync", "replace"):
        real = getattr(os, name)
        monkeypatch.setattr(os, name, lambda *a, n=name, r=real: (calls.append(n), r(*a)))
    write_file(tmp_path / "file", b"new")
    assert calls == ["fsync", "replace", "fsync"]

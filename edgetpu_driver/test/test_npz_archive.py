"""Arrays in files."""

from __future__ import annotations

import errno
import io
import os
import struct
import zipfile
from pathlib import Path

import numpy as np
import pytest

from edgetpu_driver.errors import ArchiveError
from edgetpu_driver.files import npz_archive as archive


def test_arrays_come_back_as_they_were_saved(tmp_path: Path) -> None:
    path = tmp_path / "new" / "file.npz"
    archive.save(path, "numbers", {"a": np.arange(3), "b": np.array(["x", "ü"])})
    arrays = archive.load(path, "numbers", ("a", "b"))
    assert arrays["a"].tolist() == [0, 1, 2]
    assert arrays["b"].tolist() == ["x", "ü"]
    assert [each.name for each in path.parent.iterdir()] == ["file.npz"]


def test_an_optional_array_may_be_absent(tmp_path: Path) -> None:
    archive.save(tmp_path / "file.npz", "numbers", {"a": np.array(1), "b": np.array(2)})
    arrays = archive.load(tmp_path / "file.npz", "numbers", ("a",), ("b", "c"))
    assert arrays == {"a": 1, "b": 2}


def test_an_object_that_would_have_to_be_pickled_is_not_written(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="allow_pickle"):
        archive.save(tmp_path / "file.npz", "numbers", {"a": np.array([{}, 1], object)})
    assert list(tmp_path.iterdir()) == []


def test_a_pickle_is_never_loaded(tmp_path: Path) -> None:
    path = tmp_path / "file.npz"
    np.savez(path, kind=np.array("numbers"), a=np.array([{}, 1], object))
    with pytest.raises(ArchiveError, match="without pickle"):
        archive.load(path, "numbers", ("a",))


@pytest.mark.parametrize("content", [b"", b"no archive", b"PK\x03\x04 broken"])
def test_any_other_file_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "file.npz"
    path.write_bytes(content)
    with pytest.raises(ArchiveError, match=r"file.npz: expected numbers"):
        archive.load(path, "numbers", ("a",))


def test_an_archive_of_another_kind_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "file.npz"
    archive.save(path, "letters", {"a": np.arange(3)})
    with pytest.raises(ArchiveError, match="expected numbers with a; got letters"):
        archive.load(path, "numbers", ("a",))


def test_an_archive_without_an_array_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "file.npz"
    archive.save(path, "numbers", {"a": np.arange(3)})
    with pytest.raises(ArchiveError, match="without b"):
        archive.load(path, "numbers", ("a", "b"))


def test_a_missing_file_is_answered_with_those_there_are(tmp_path: Path) -> None:
    for name in ("office", "home"):
        archive.save(tmp_path / f"{name}.npz", "numbers", {})
    (tmp_path / "notes.txt").write_text("")
    missing = tmp_path / "garden.npz"
    with pytest.raises(ArchiveError) as raised:
        archive.load(missing, "numbers", ())
    assert str(raised.value) == f"expected a file {missing}; that directory has: home, office"


def test_a_missing_directory_is_answered_as_an_empty_one(tmp_path: Path) -> None:
    missing = tmp_path / "none" / "garden.npz"
    with pytest.raises(ArchiveError) as raised:
        archive.load(missing, "numbers", ())
    assert str(raised.value) == f"expected a file {missing}; that directory has no such files"


def test_a_file_that_cannot_be_read_or_written_is_named_with_the_reason(tmp_path: Path) -> None:
    (tmp_path / "directory.npz").mkdir()
    with pytest.raises(ArchiveError) as raised:
        archive.load(tmp_path / "directory.npz", "numbers", ())
    assert str(raised.value) == f"cannot read {tmp_path / 'directory.npz'}: Is a directory"
    (tmp_path / "file").write_text("")
    with pytest.raises(ArchiveError) as raised:
        archive.save(tmp_path / "file" / "a.npz", "numbers", {})
    assert str(raised.value) == f"cannot write {tmp_path / 'file' / 'a.npz'}: File exists"


def _npy(header: str, content: bytes = b"", version: int = 1) -> bytes:
    """An array file with any header."""
    padded = header.encode() + b"\n"
    length = struct.pack("<H" if version == 1 else "<I", len(padded))
    return b"\x93NUMPY" + bytes((version, 0)) + length + padded + content


def _header(shape: str, dtype: str = "<f4") -> str:
    return f"{{'descr': '{dtype}', 'fortran_order': False, 'shape': {shape}, }}"


def _archive(path: Path, array: bytes, compression: int = zipfile.ZIP_STORED) -> Path:
    """An archive of numbers whose array `a` is this file."""
    kind = io.BytesIO()
    np.save(kind, np.array("numbers"))
    with zipfile.ZipFile(path, "w", compression) as file:
        file.writestr("kind.npy", kind.getvalue())
        file.writestr("a.npy", array)
    return path


@pytest.mark.parametrize(
    "array",
    [
        _npy(_header("(2, 1099511627776)")),
        _npy(_header("(-1, 2)")),
        _npy(_header("(4611686018427387904, 4611686018427387904)")),
        _npy(_header("(" + "1," * 5)) + b"(",
        _npy("((((((("),
        _npy("{'descr':" + "[" * 400 + "]" * 400 + "}"),
        _npy(_header("(" + "1," * 5000 + ")"), version=2),
        _npy(_header("(1,)", "<U1000000000")),
        _npy(_header("(1,)", "<f16"), bytes(16)),
        _npy(_header("(1, 1, 1, 1, 1)"), bytes(4)),
        _npy("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,), }", bytes(4)),
        _npy(_header("(" + "9" * 900 + ",)")),
        _npy(_header("(1,)", "<U1"), struct.pack("<I", 0x110000)),
        b"no array",
        b"",
    ],
)
def test_an_array_that_is_not_what_its_header_says_is_refused(tmp_path: Path, array: bytes) -> None:
    with pytest.raises(ArchiveError, match=r"^file.npz: expected numbers in an .npz file without pickle"):
        archive.load(_archive(tmp_path / "file.npz", array), "numbers", ("a",))


@pytest.mark.parametrize("compression", [zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_a_compressed_archive_is_refused_because_it_may_hold_any_amount(
    tmp_path: Path, compression: int
) -> None:
    path = _archive(tmp_path / "file.npz", _npy(_header("(1000000,)"), bytes(4000000)), compression)
    with pytest.raises(ArchiveError, match="expected an array that is not compressed"):
        archive.load(path, "numbers", ("a",))


def test_an_archive_of_too_many_arrays_is_refused(tmp_path: Path) -> None:
    archive.save(tmp_path / "file.npz", "numbers", {f"a{number}": np.zeros(1) for number in range(64)})
    with pytest.raises(ArchiveError, match="expected at most 64 arrays; got 65"):
        archive.load(tmp_path / "file.npz", "numbers", ("a0",))


def test_a_fifo_is_refused_without_waiting_for_a_writer(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "file.npz")
    with pytest.raises(ArchiveError, match="expected a regular file"):
        archive.load(tmp_path / "file.npz", "numbers", ("a",))


def test_a_file_that_is_too_large_is_refused_before_it_is_read(tmp_path: Path) -> None:
    with (tmp_path / "file.npz").open("wb") as file:
        file.truncate(2**30 + 1)
    with pytest.raises(ArchiveError, match="expected at most 1073741824 bytes; it has 1073741825"):
        archive.load(tmp_path / "file.npz", "numbers", ("a",))


def test_no_damage_to_a_file_raises_anything_else(tmp_path: Path) -> None:
    path = tmp_path / "file.npz"
    archive.save(path, "numbers", {"a": np.arange(3), "b": np.array(["x", "ü"])})
    whole, random = path.read_bytes(), np.random.default_rng(1)
    refused = 0
    for _ in range(500):
        damaged = bytearray(whole)
        for _ in range(random.integers(1, 4)):
            damaged[random.integers(len(damaged))] = random.integers(256)
        path.write_bytes(damaged[: random.integers(len(damaged)) if random.random() < 0.2 else None])
        try:
            archive.load(path, "numbers", ("a", "b"))
        except ArchiveError:
            refused += 1
    assert refused > 100


def test_a_directory_does_not_fill_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive, "MOST_FILES", 2)
    for name in ("a", "b", "a"):
        archive.save(tmp_path / f"{name}.npz", "numbers", {})
    with pytest.raises(ArchiveError, match="expected at most 2 files"):
        archive.save(tmp_path / "c.npz", "numbers", {})


def test_a_directory_that_may_not_be_entered_is_one_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_path: Path) -> bool:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr(Path, "exists", refuse)
    with pytest.raises(ArchiveError, match=r"cannot write .*a\.npz: Permission denied"):
        archive.save(tmp_path / "a.npz", "kind", {})

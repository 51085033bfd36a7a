"""Arrays in files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from edgetpu_matrix import npz_archive as archive
from edgetpu_matrix.errors import ArchiveError


def test_arrays_come_back_as_they_were_saved(tmp_path: Path) -> None:
    path = tmp_path / "new" / "file.npz"
    archive.save(path, "numbers", {"a": np.arange(3), "b": np.array(["x", "ü"])})
    arrays = archive.load(path, "numbers", ("a", "b"))
    assert arrays["a"].tolist() == [0, 1, 2]
    assert arrays["b"].tolist() == ["x", "ü"]
    assert [each.name for each in path.parent.iterdir()] == ["file.npz"]


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
    assert str(raised.value) == f"expected a file {missing}; that directory holds: home, office"


def test_a_missing_directory_is_answered_as_an_empty_one(tmp_path: Path) -> None:
    missing = tmp_path / "none" / "garden.npz"
    with pytest.raises(ArchiveError) as raised:
        archive.load(missing, "numbers", ())
    assert str(raised.value) == f"expected a file {missing}; that directory holds no such files"


def test_a_file_that_cannot_be_read_or_written_is_named_with_the_reason(tmp_path: Path) -> None:
    (tmp_path / "directory.npz").mkdir()
    with pytest.raises(ArchiveError) as raised:
        archive.load(tmp_path / "directory.npz", "numbers", ())
    assert str(raised.value) == f"cannot read {tmp_path / 'directory.npz'}: Is a directory"
    (tmp_path / "file").write_text("")
    with pytest.raises(ArchiveError) as raised:
        archive.save(tmp_path / "file" / "a.npz", "numbers", {})
    assert str(raised.value) == f"cannot write {tmp_path / 'file' / 'a.npz'}: File exists"

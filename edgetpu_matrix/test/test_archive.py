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

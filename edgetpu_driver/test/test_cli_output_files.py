"""Files that the command writes where the user says."""

from __future__ import annotations

import contextlib
import os
import resource
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from edgetpu_driver.cli.main import main
from edgetpu_driver.cli.tensor_files import write_outputs
from edgetpu_driver.errors import InputError


@pytest.fixture
def text(tmp_path: Path) -> Path:
    """A program of one instruction."""
    path = tmp_path / "program.txt"
    path.write_text("end\n")
    return path


@contextlib.contextmanager
def full_disk() -> Iterator[None]:
    """No file may have more than 100 bytes meanwhile, not even that of pytest's output."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize("name", ["y.npy", "y.npz", "y.raw"])
def test_outputs_that_cannot_be_written_leave_the_earlier_file(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_bytes(b"earlier")
    with pytest.raises(InputError, match=f"cannot write {path}: File too large"), full_disk():
        write_outputs(path, {"y": np.zeros(4096)})
    assert path.read_bytes() == b"earlier"
    assert list(tmp_path.iterdir()) == [path]


def test_what_is_no_regular_file_is_written_to_and_not_replaced(text: Path, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        assert main(["program", "assemble", str(text), "--output", str(pipe)]) == 0
        assert pipe.is_fifo()
        assert len(os.read(reader, 100)) == 16
    finally:
        os.close(reader)


def test_the_file_behind_a_link_is_written(text: Path, tmp_path: Path) -> None:
    link, target = tmp_path / "link.bin", tmp_path / "target.bin"
    link.symlink_to(target)
    assert main(["program", "assemble", str(text), "--output", str(link)]) == 0
    assert link.is_symlink()
    assert target.stat().st_size == 16

"""Matrices that a browser sends."""

from __future__ import annotations

import io
import struct

import numpy as np
import pytest

from edgetpu_dashboard.live.matrix_file import LARGEST_MATRIX, read_matrix
from edgetpu_driver.errors import InputError


def npy(array: object) -> bytes:
    file = io.BytesIO()
    np.save(file, np.asarray(array))
    return file.getvalue()


def claiming(shape: str) -> bytes:
    """A file whose header claims this shape, without content."""
    header = f"{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}}}".encode()
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header


@pytest.mark.parametrize("kind", [np.float64, np.int8, np.bool_])
def test_a_matrix_of_numbers_is_read(kind: type) -> None:
    matrix = np.array([[1, 0], [0, 1]], kind)
    found = read_matrix(npy(matrix))
    assert found.dtype == np.float32
    assert np.array_equal(found, matrix)


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_a_matrix_of_4096_x_4096_with_its_header_is_small_enough(kind: type) -> None:
    header = npy(np.empty((0, 4096), kind))
    assert 4096 * 4096 * np.dtype(kind).itemsize + len(header) <= LARGEST_MATRIX


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "expected the .npy format"),
        (npy([1.0, 2.0]), r"a matrix of numbers; got float64\[2\]"),
        (npy([["a", "b"]]), r"a matrix of numbers; got <U1\[1, 2\]"),
        (claiming("(1000000, 1000000)"), "expected 8000000000000 bytes for float64"),
        (claiming("(" * 500), "expected an array in a .npy file"),
        (npy(np.eye(3))[:-1], "expected 72 bytes"),
        (npy([[1.0, 1e300]]), r"expected numbers within \+-3\.4e\+38; got 1e\+300 in row 0, column 1"),
        (npy([[1.0], [np.nan]]), r"expected numbers within \+-3\.4e\+38; got nan in row 1, column 0"),
    ],
)
def test_anything_else_is_refused_before_memory_is_taken(data: bytes, reason: str) -> None:
    with pytest.raises(InputError, match=reason):
        read_matrix(data)

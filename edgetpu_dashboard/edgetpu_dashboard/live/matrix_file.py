"""Matrices from files that a browser sends."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from edgetpu_driver.errors import ArchiveError, InputError
from edgetpu_driver.files.npz_archive import array_of

LARGEST_MATRIX = 128 * 2**20 + 1024
"""Largest file, bytes: 4096 x 4096 in float64, NumPy's default, and the header."""


def read_matrix(data: bytes) -> NDArray[np.float32]:
    """Read a matrix from the bytes of a .npy file, as float32 [rows, columns].

    Raises InputError for anything else, and for numbers that are not finite in float32.
    """
    try:
        weights = array_of("the file", data)
    except ArchiveError as error:
        raise InputError(str(error)) from None
    if weights.dtype.kind == "U" or weights.ndim != 2:
        raise InputError(
            f"expected a .npy file with a matrix of numbers; got {weights.dtype}{list(weights.shape)}"
        )
    with np.errstate(over="ignore"):
        found = weights.astype(np.float32)
    if (wrong := np.argwhere(~np.isfinite(found))).size:
        row, column = wrong[0]
        value = weights[row, column]
        raise InputError(f"expected numbers within +-3.4e+38; got {value:g} in row {row}, column {column}")
    return found

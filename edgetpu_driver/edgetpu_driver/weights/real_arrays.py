"""Converts values from users to arrays of real numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from edgetpu_driver.errors import InputError


def array_of(values: ArrayLike, what: str) -> NDArray[Any]:
    """The values as an array; InputError for lists of different lengths, which have no shape.

    NumPy before 1.24 makes an array of objects of such lists.
    """
    try:
        array = np.asarray(values)
    except ValueError as error:
        raise InputError(f"expected {what} of real numbers; {error}") from None
    if array.dtype.kind == "O":
        raise InputError(f"expected {what} of real numbers; got {array.dtype.name}")
    return array


def real_array(values: ArrayLike, what: str) -> NDArray[Any]:
    """The values as an array of real numbers; InputError for other values. what: for the message."""
    array = array_of(values, what)
    if array.dtype.kind not in "fiub":
        raise InputError(f"expected {what} of real numbers; got {array.dtype.name}")
    return array

"""Checks of embeddings and labels, which place recognition and the learner keep as rows of a matrix."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from edgetpu_driver.errors import InputError
from edgetpu_driver.weights.real_arrays import real_array

LARGEST_DIMENSION = 65536
"""Most values of an embedding; common networks give up to a few thousand."""
LONGEST_LABEL = 256
"""Most characters of a label. Uncritical: labels are names of places, and come with requests."""


def unit_vector(embedding: ArrayLike, dimension: int = 0) -> NDArray[np.float32]:
    """Normalise an embedding to float32 [dimension] of length 1; dimension 0 accepts any number of values.

    Raises InputError for another number of values, NaN, infinity and the zero vector.
    """
    vector = real_array(embedding, "an embedding").astype(np.float64, copy=False)
    expected = dimension or "any number of"
    if vector.ndim != 1 or not 1 <= vector.size <= LARGEST_DIMENSION:
        raise InputError(f"expected an embedding of {expected} values; got shape {list(vector.shape)}")
    if dimension and vector.size != dimension:
        raise InputError(f"expected an embedding of {dimension} values; got {vector.size}")
    if not np.isfinite(vector).all():
        raise InputError("expected an embedding of finite values; got NaN or infinity")
    largest = float(np.abs(vector).max())
    if largest == 0.0:
        raise InputError("expected an embedding with a direction; got zeros only")
    vector = vector / largest  # the squares of very large and very small values are out of range
    return (vector / np.linalg.norm(vector)).astype(np.float32)


def check_label(label: str) -> None:
    """Raise InputError unless a message can carry the label."""
    if not label or len(label) > LONGEST_LABEL:
        raise InputError(f"expected a label of 1 to {LONGEST_LABEL} characters; got {len(label)}")
    try:
        label.encode()
    except UnicodeEncodeError:
        raise InputError(f"expected a label that can be encoded in UTF-8; got {label!a}") from None
    if "\0" in label:
        raise InputError(f"expected a label without a null character; got {label!a}")

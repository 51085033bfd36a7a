"""Outputs that are maps of the image: their aspect ratio, and maps with the channels first."""

from __future__ import annotations

from dataclasses import replace
from math import log
from typing import Any

from numpy.typing import NDArray

from edgetpu_driver.tflite.tensor import TensorSpec

_MOST_DISTORTED = 0.25
"""Logarithm of the factor by which a map's aspect ratio may differ from the input's, due to rounding."""

_MOST_COARSE = 5
"""Most times that a network halves its input's size before a map in one axis. Uncritical: most do 0 to 2."""


def fits_aspect(rows: int, columns: int, aspect: float) -> bool:
    """Whether a map of this size may be one of an image of this aspect ratio, rows to columns."""
    return min(rows, columns) > 0 and abs(log(rows / columns / aspect)) < _MOST_DISTORTED


def channels_first(shape: tuple[int, ...], aspect: float) -> bool:
    """Whether an output is [1, channels, rows, columns]: only then does it fit the image's aspect ratio."""
    return (
        len(shape) == 4
        and shape[0] == 1
        and min(shape[2:]) > 1
        and fits_aspect(shape[2], shape[3], aspect)
        and not fits_aspect(shape[1], shape[2], aspect)
    )


def channels_last(spec: TensorSpec, aspect: float) -> TensorSpec:
    """An output with its channels moved to the last axis of its shape; see `with_channels_last`."""
    if not channels_first(spec.shape, aspect):
        return spec
    return replace(spec, shape=(1, *spec.shape[2:], spec.shape[1]))


def with_rows(spec: TensorSpec, rows: int, columns: int) -> TensorSpec:
    """An output [1, pixels, classes] as [1, rows, columns, classes]; any other as it is.

    rows, columns: those of the input; the map has as many, or a half, a quarter .. of them.
    """
    if len(spec.shape) != 3 or spec.shape[0] != 1 or fits_aspect(*spec.shape[1:], rows / columns):
        return spec
    for factor in (2**times for times in range(_MOST_COARSE + 1)):
        size = rows // factor, columns // factor
        if rows % factor or columns % factor or min(size) < 2:
            break
        if spec.shape[1] == size[0] * size[1] > spec.shape[2]:
            return replace(spec, shape=(1, *size, spec.shape[2]))
    return spec


def with_channels_last(values: NDArray[Any], spec: TensorSpec, wanted: TensorSpec) -> NDArray[Any]:
    """The values of an output, in the shape `wanted` that `channels_last` returned; a view."""
    found = values.reshape(spec.shape)
    return found if spec.shape == wanted.shape else found.transpose(0, 2, 3, 1)

"""Converts the grey levels of pixels to the numbers that a model's input takes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from edgetpu_driver.errors import InputError, ModelUnsupportedError
from edgetpu_driver.tflite.tensor import TensorSpec

_LEVELS = 256
"""Number of values that an 8-bit pixel may have."""
_FLIP = np.uint8(0x80)
"""A grey level with this bit flipped is, as int8, the grey level less 128."""

_DEPTHS = {
    np.dtype(np.uint8): cv2.CV_8U,
    np.dtype(np.int8): cv2.CV_8S,
    np.dtype(np.int32): cv2.CV_32S,
    np.dtype(np.float32): cv2.CV_32F,
}
"""OpenCV's type numbers for the dtypes of inputs."""

_TIE = 1e-3
"""Distance from the middle between two integers within which float32 may round differently from float64:
twenty times the error of a product and a sum of levels."""

_MOST_CLIPPED = 1 / 8
"""Share of the grey levels at either end that a quantised input may clip."""
_LEAST_STEPS = 16
"""Least number of steps of an 8-bit input from black to white. Uncritical: without pictures of its own, the
exporter of YOLO models leaves 54; a normalisation of 0..1 makes 1 of an input for 0..255."""


@dataclass(frozen=True)
class Normalisation:
    """The model input for the grey level g of a channel: (g - mean) / std, before any quantisation."""

    mean: tuple[float, ...]
    """Subtracted grey levels: one for all channels, or one for each."""
    std: tuple[float, ...]
    """Divisors: one for all channels, or one for each."""

    @classmethod
    def of(cls, mean: float | Sequence[float], std: float | Sequence[float]) -> Normalisation:
        """From numbers as users and files give them.

        InputError unless they are finite, std not 0, and the results within the range of float32.
        """
        means = tuple(np.atleast_1d(np.asarray(mean, np.float64)).ravel().tolist())
        stds = tuple(np.atleast_1d(np.asarray(std, np.float64)).ravel().tolist())
        usable = len(means) == len(stds) and bool(means)
        if not usable or not np.all(np.isfinite(means)) or not np.all(np.isfinite(stds)) or 0 in stds:
            raise InputError(f"expected a finite mean and std for each channel, no std 0; got {mean}, {std}")
        if not _within_float32(found := cls(means, stds)):
            raise InputError(f"expected a mean and std that give numbers within float32; got {mean}, {std}")
        return found

    @classmethod
    def of_range(cls, low: float, high: float) -> Normalisation:
        """Map the grey levels 0..255 to low..high; InputError unless low < high, as float32, too."""
        with np.errstate(over="ignore"):
            black, white = np.array((low, high)).astype(np.float32)
        if not (black < white and np.isfinite((black, white)).all()):
            raise InputError(f"expected black < white, both within float32; got {low}..{high}")
        std = (_LEVELS - 1) / (high - low)
        return cls((-low * std,), (std,))


class PixelScaling:
    """Converts pixels to the dtype of a model's input."""

    def __init__(self, spec: TensorSpec, normalisation: Normalisation | None = None) -> None:
        """Prepare for an input [1, height, width, channels].

        normalisation: None if unknown. Then the grey levels 0..255 are taken to cover the whole range of an
        8-bit input, which is how such models are quantised, and the range 0..1 of a float input.

        An int32 input takes the grey levels as they are. Raises ModelUnsupportedError for inputs that are
        neither uint8, int8, int32 nor float32, InputError for a normalisation of other channels.
        """
        self.dtype = spec.dtype
        channels = spec.shape[-1]
        if spec.dtype not in _DEPTHS:
            raise ModelUnsupportedError(
                f"expected an image input of uint8, int8, int32 or float32; got {spec}"
            )
        if normalisation is not None and len(normalisation.mean) not in (1, channels):
            wanted = "1 channel" if channels == 1 else f"1 or {channels} channels"
            raise InputError(f"expected a mean and std for {wanted}; got {len(normalisation.mean)}")
        if normalisation is None and spec.dtype == np.float32:
            normalisation = Normalisation.of_range(0.0, 1.0)
        if normalisation is None and spec.dtype == np.int32:
            normalisation = Normalisation.of_range(0.0, _LEVELS - 1)
        levels = None if normalisation is None else _real_levels(normalisation, channels)
        table = None if levels is None else _table(spec, levels)
        self._line = None if levels is None or table is None else _line(spec, levels)
        self._table = table if self._line is None else None
        self.spare_rows = 2 if self._line is not None else 0
        """Rows that `apply` needs at the end of both arrays; it overwrites them."""
        self.in_place = self._table is None and spec.dtype.itemsize == 1
        """Whether pixels are converted in place: to uint8 or int8, without a table."""
        self.flips = self.in_place and self.dtype == np.int8 and self._line is None
        """Whether an int8 input takes the grey levels less 128: `apply` then writes them as uint8."""
        self.reads_anywhere = self._table is not None or self.flips
        """Whether `apply` leaves the pixels as they are unless `result` is the same memory."""

    def apply(self, pixels: NDArray[np.uint8], result: NDArray[Any]) -> None:
        """Convert pixels, uint8 [rows, columns, channels], the `spare_rows` included.

        result: the array to write to, of the same shape, in the input's dtype, or uint8 if `flips`. If
        `in_place`, it must be the same memory, unless `reads_anywhere`.
        """
        if self._line is not None:
            # OpenCV's only function that converts in one pass. It computes the line from the least and the
            # greatest level, so black and white must be among the pixels. If black is 0, the greatest level
            # is enough, which takes less time.
            pixels[-2], pixels[-1] = 0, _LEVELS - 1
            black, white = self._line
            if black == 0:
                cv2.normalize(pixels, result, white, 0, cv2.NORM_INF, _DEPTHS[self.dtype])
            else:
                cv2.normalize(pixels, result, black, white, cv2.NORM_MINMAX, _DEPTHS[self.dtype])
        elif self._table is not None:
            # OpenCV drops a last axis of one channel.
            one = pixels.shape[2] == 1
            cv2.LUT(pixels[:, :, 0] if one else pixels, self._table, result[:, :, 0] if one else result)
        elif self.flips:
            np.bitwise_xor(pixels, _FLIP, result)

    def of_level(self, level: int, channels: int) -> NDArray[Any]:
        """The values of one grey level, [channels]."""
        pixels = np.full((1 + self.spare_rows, 1, channels), level, np.uint8)
        result = pixels.view(self.dtype) if self.in_place else np.empty(pixels.shape, self.dtype)
        self.apply(pixels, pixels if self.flips else result)
        converted: NDArray[Any] = result[0, 0]
        return converted


def covers(spec: TensorSpec, normalisation: Normalisation) -> bool:
    """Whether an input [1, height, width, channels] distinguishes most grey levels after a normalisation.

    Metadata of quantised models often give a normalisation that is meant for the same model in float.
    """
    if len(normalisation.mean) not in (1, spec.shape[-1]):
        return False
    if spec.dtype == np.float32 or not spec.scale > 0:
        return spec.dtype == np.float32
    levels = np.array([0.0, _LEVELS - 1])[:, None]
    real = (levels - np.array(normalisation.mean)) / np.array(normalisation.std)
    limits = np.iinfo(spec.dtype)
    steps = real / spec.scale + spec.zero_point
    inside = np.clip(steps, limits.min, limits.max)
    span = np.abs(steps[1] - steps[0])
    return bool(np.all(np.abs(steps - inside) <= _MOST_CLIPPED * span) and np.all(span >= _LEAST_STEPS))


def _within_float32(normalisation: Normalisation) -> bool:
    """Whether float32 can hold the values of all grey levels."""
    with np.errstate(over="ignore"):
        real = _real_levels(normalisation, len(normalisation.mean))
    return bool(np.all(np.abs(real) <= np.finfo(np.float32).max))


def _real_levels(normalisation: Normalisation, channels: int) -> NDArray[np.float64]:
    """The value of each grey level before any quantisation, [256, channels]."""
    levels = np.arange(_LEVELS, dtype=np.float64)[:, None]
    real = (levels - np.array(normalisation.mean)) / np.array(normalisation.std)
    return np.broadcast_to(real, (_LEVELS, channels))


def _table(spec: TensorSpec, real: NDArray[np.float64]) -> NDArray[Any] | None:
    """The number for each grey level, [1, 256, channels or 1]; None if the input takes the grey levels."""
    if (real == real[:, :1]).all():
        real = real[:, :1]
    if spec.dtype == np.float32:
        return np.ascontiguousarray(real[None], np.float32)
    if spec.dtype == np.int32:
        return np.ascontiguousarray(np.rint(real)[None], np.int32)
    if not spec.scale > 0:
        return None  # not quantised: it takes integers unchanged
    table = spec.quantise(real)
    plain = np.arange(_LEVELS) + np.iinfo(spec.dtype).min
    # A table made from slightly different constants may differ from the plain one by a level here and there.
    return None if np.abs(table - plain[:, None]).max() <= 1 else np.ascontiguousarray(table[None])


def _line(spec: TensorSpec, real: NDArray[np.float64]) -> tuple[float, float] | None:
    """The values of black and white before rounding, if the line through them gives the values of the table.

    None if channels differ, if black is not less than white, and if float32 might round a level to another
    integer.
    """
    if spec.dtype == np.int32:
        return None
    values = real[:, 0]
    if (real != real[:, :1]).any() or values[0] >= values[-1]:
        return None
    if spec.dtype != np.float32:
        values = values / spec.scale + spec.zero_point
        limits = np.iinfo(spec.dtype)
        inside = values[(values > limits.min - 1) & (values < limits.max + 1)]
        if np.any(np.abs(inside - np.floor(inside) - 0.5) < _TIE):
            return None
    return float(values[0]), float(values[-1])

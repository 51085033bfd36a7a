"""From the grey levels of pixels to the numbers that a model's input takes."""

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
_FLIP = np.uint8(0x80)
"""A grey level with this bit flipped is, as int8, the grey level less 128."""

_MOST_CLIPPED = 1 / 8
"""Share of the grey levels at either end that a quantised input may clip."""


@dataclass(frozen=True)
class Normalisation:
    """What a model takes for the grey level g of a channel: (g - mean) / std, before any quantisation."""

    mean: tuple[float, ...]
    """Grey levels: one for all channels, or one for each."""
    std: tuple[float, ...]
    """Grey levels: as many."""

    @classmethod
    def of(cls, mean: float | Sequence[float], std: float | Sequence[float]) -> Normalisation:
        """From numbers as users and files give them; InputError unless they are finite, std not 0."""
        means = tuple(np.atleast_1d(np.asarray(mean, np.float64)).ravel().tolist())
        stds = tuple(np.atleast_1d(np.asarray(std, np.float64)).ravel().tolist())
        usable = len(means) == len(stds) and bool(means)
        if not usable or not np.all(np.isfinite(means)) or not np.all(np.isfinite(stds)) or 0 in stds:
            raise InputError(f"expected a finite mean and std for each channel, no std 0; got {mean}, {std}")
        return cls(means, stds)

    @classmethod
    def of_range(cls, low: float, high: float) -> Normalisation:
        """Map the grey levels 0..255 to low..high; InputError unless they are finite and differ."""
        if not (np.isfinite(low) and np.isfinite(high) and high > low):
            raise InputError(f"expected a range of finite values; got {low}..{high}")
        std = (_LEVELS - 1) / (high - low)
        return cls((-low * std,), (std,))


class PixelScaling:
    """Converts pixels to the dtype of a model's input."""

    def __init__(self, spec: TensorSpec, normalisation: Normalisation | None = None) -> None:
        """Prepare for an input [1, height, width, channels].

        normalisation: None if unknown. Then the grey levels 0..255 are taken to cover the whole range of an
        8-bit input, which is how such models are quantised, and the range 0..1 of a float input.

        Raises ModelUnsupportedError for inputs that are neither uint8, int8 nor float32, InputError for a
        normalisation of another number of channels.
        """
        self.dtype = spec.dtype
        channels = spec.shape[-1]
        if spec.dtype not in (np.uint8, np.int8, np.float32):
            raise ModelUnsupportedError(f"expected an image input of uint8, int8 or float32; got {spec}")
        if normalisation is not None and len(normalisation.mean) not in (1, channels):
            raise InputError(
                f"expected a mean and std for 1 or {channels} channels; got {len(normalisation.mean)}"
            )
        if normalisation is None and spec.dtype == np.float32:
            normalisation = Normalisation.of_range(0.0, 1.0)
        self._line = _line(normalisation) if normalisation and spec.dtype == np.float32 else None
        self.spare_rows = 1 if self._line is not None else 0
        """Rows that `apply` needs at the end of both arrays, which it fills with anything."""
        self._table = None if self._line or normalisation is None else _table(spec, normalisation, channels)
        if self._table is not None and spec.dtype != np.float32:
            plain = np.arange(_LEVELS) + np.iinfo(spec.dtype).min
            # A table made of other constants may differ by a level here and there from the plain one.
            if np.abs(self._table.reshape(_LEVELS, -1) - plain[:, None]).max() <= 1:
                self._table = None
        self.in_place = self._line is None and self._table is None
        """Whether pixels are converted where they are: to uint8 or int8, without a table."""

    def apply(self, pixels: NDArray[np.uint8], result: NDArray[Any]) -> None:
        """Convert pixels, uint8 [rows, columns, channels], the `spare_rows` included.

        result: where to, of the same shape and in the input's dtype; if `in_place` the pixels themselves.
        """
        if self._line is not None:
            # OpenCV's only function that converts in one pass. It takes the line from the least and greatest
            # level, so that black and white have to be there.
            pixels[-1], pixels[-1, 0, 0] = 0, _LEVELS - 1
            cv2.normalize(pixels, result, *self._line, cv2.NORM_MINMAX, cv2.CV_32F)
        elif self._table is not None:
            result[...] = cv2.LUT(pixels, self._table).reshape(pixels.shape)
        elif self.dtype == np.int8:
            np.bitwise_xor(pixels, _FLIP, out=result.view(np.uint8))

    def of_level(self, level: int, channels: int) -> NDArray[Any]:
        """What one grey level becomes, [channels]."""
        pixels = np.full((1 + self.spare_rows, 2, channels), level, np.uint8)
        result = pixels.view(self.dtype) if self.in_place else np.empty(pixels.shape, self.dtype)
        self.apply(pixels, result)
        converted: NDArray[Any] = result[0, 0]
        return converted


def covers(spec: TensorSpec, normalisation: Normalisation) -> bool:
    """Whether an input can hold what a normalisation makes of most grey levels.

    Metadata of quantised models often give a normalisation that is meant for the same model in float.
    """
    if spec.dtype == np.float32 or not spec.scale > 0:
        return spec.dtype == np.float32
    levels = np.array([0.0, _LEVELS - 1])[:, None]
    real = (levels - np.array(normalisation.mean)) / np.array(normalisation.std)
    limits = np.iinfo(spec.dtype)
    steps = real / spec.scale + spec.zero_point
    inside = np.clip(steps, limits.min, limits.max)
    return bool(np.all(np.abs(steps - inside) <= _MOST_CLIPPED * np.abs(steps[1] - steps[0])))


def _line(normalisation: Normalisation) -> tuple[float, float] | None:
    """What black and white become; None unless it is the same for all channels, and black is less."""
    if len(normalisation.mean) > 1 or normalisation.std[0] < 0:
        return None
    mean, std = normalisation.mean[0], normalisation.std[0]
    return -mean / std, (_LEVELS - 1 - mean) / std


def _table(spec: TensorSpec, normalisation: Normalisation, channels: int) -> NDArray[Any] | None:
    """The number for each grey level and channel, [1, 256, channels]; None for integers without a scale."""
    levels = np.arange(_LEVELS, dtype=np.float64)[:, None]
    real = (levels - np.array(normalisation.mean)) / np.array(normalisation.std)
    real = np.broadcast_to(real, (_LEVELS, channels))[None]
    if spec.dtype == np.float32:
        return np.ascontiguousarray(real, np.float32)
    if not spec.scale > 0:
        return None  # not quantised: it takes integers as they are
    return np.ascontiguousarray(spec.quantise(real))

"""Zone energies from models with no other output (the looming models of LibrEdgeTPU)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgetpu_driver.tflite.tensor import TensorSpec

_ACROSS = 3
"""Zones along each axis. Given by the models."""

_SMOOTH = np.array([1, 2, 1])
"""Smoothing part of the 3x3 Sobel filter. Given by the models."""


class ZoneOutputDecoder:
    """Decodes the mean of gx^2 + gy^2 (3x3 Sobel / 8) of each of the nine zones.

    The models pad the image with black, so its first row and column look like edges. Their energy is computed
    from the model's input and subtracted. (The last row and column belong to no zone.) A step of the output
    is about 72 squared grey levels: energies below half of that read as 0.
    """

    def __init__(self, output: TensorSpec, height: int, width: int) -> None:
        """`output`: nine energies, row-major from the top left; `height`, `width`: of the input, px."""
        self._output = output
        self._height, self._width = height // _ACROSS, width // _ACROSS
        inner = np.full((_ACROSS, _ACROSS), self._height * self._width, np.float64)
        inner[0] -= self._width
        inner[:, 0] -= self._height
        inner[0, 0] += 1
        self._inner = inner

    def read(self, image: NDArray[np.uint8], outputs: Mapping[str, NDArray[Any]]) -> list[float]:
        """Nine energies, (grey levels per px)^2, of the model's input `image`, uint8 [1, H, W, 1]."""
        means = self._output.dequantise(outputs[self._output.name]).astype(np.float64)
        sums = means.reshape(_ACROSS, _ACROSS) * (self._height * self._width)
        pixels = image[0, :, :, 0].astype(np.int64)
        top = self._first_line(pixels[:2])[: self._width * _ACROSS]
        left = self._first_line(pixels[:, :2].T)[: self._height * _ACROSS]
        sums[0] -= top.reshape(_ACROSS, -1).sum(axis=1)
        sums[:, 0] -= left.reshape(_ACROSS, -1).sum(axis=1)
        sums[0, 0] += top[0]
        # Rounding of the border leaves less than 3/4 of a step of the output.
        inside = np.where(sums < 0.75 * self._output.scale * self._inner, 0.0, sums / self._inner)
        zones: list[float] = inside.ravel().tolist()
        return zones

    def _first_line(self, lines: NDArray[np.int64]) -> NDArray[np.float64]:
        """Energy of the first of two lines [2, n] next to black, clipped as in the output: [n]."""
        above, first, second = np.pad(lines, ((1, 0), (1, 1)))
        along = _SMOOTH @ np.array([above, first, second])
        along = (along[2:] - along[:-2]) / 8
        across = np.convolve(second - above, _SMOOTH, "valid") / 8
        most = 255 * self._output.scale
        energy: NDArray[np.float64] = np.minimum(along**2 + across**2, most)
        return energy

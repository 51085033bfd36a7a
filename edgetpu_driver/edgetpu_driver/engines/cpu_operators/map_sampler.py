"""Samples a model's map between its cells by linear interpolation."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

Position = tuple[float, float]
"""y and x, cells."""


class MapSampler:
    """Samples one map, [h, w, channels], in real values: scale * (value - zero_point).

    A map has 2x2 cells or more. Positions given and returned are within the map, so each has four cells
    around it. Single numbers are read from a memoryview, which takes half as long as from an array.
    """

    def __init__(self, values: NDArray[Any], scale: float, zero_point: int) -> None:
        self.values = np.ascontiguousarray(values)
        self._scale, self._zero = scale, zero_point
        height, self._width, self._channels = values.shape
        self._last_row, self._last_column = math.nextafter(height - 1, 0), math.nextafter(self._width - 1, 0)
        self._array = self.values.reshape(-1)
        self._flat = memoryview(self._array.data)

    def steps(self, real: float) -> float:
        """The stored number, not rounded, for a real value."""
        return real / self._scale + self._zero

    def at(self, position: Position, channel: int) -> float:
        """The value of a channel at a position."""
        y, x = position
        row, column = int(y), int(x)
        down, right = y - row, x - column
        flat, channels = self._flat, self._channels
        i = (row * self._width + column) * channels + channel
        j = i + self._width * channels
        upper: float = flat[i] + (flat[i + channels] - flat[i]) * right
        lower: float = flat[j] + (flat[j + channels] - flat[j]) * right
        return (upper + (lower - upper) * down - self._zero) * self._scale

    def displaced(self, position: Position, channel: int, gap: int, steps: int = 1) -> Position:
        """Move a position by the offset found there, several times, within the map.

        channel: the channel of the offset's y; its x is in channel + gap.
        """
        y, x = position
        flat, width, channels = self._flat, self._width, self._channels
        scale, zero, last_row, last_column = self._scale, self._zero, self._last_row, self._last_column
        below, cell = width * channels, -1
        for _ in range(steps):
            row, column = int(y), int(x)
            i = row * width + column
            if i != cell:  # most steps stay between the same four cells
                cell = i
                i = i * channels + channel
                top_left, top_right, bottom_left, bottom_right = (
                    flat[i],
                    flat[i + channels],
                    flat[i + below],
                    flat[i + below + channels],
                )
                y0, y_right, y_down = (
                    (top_left - zero) * scale,
                    (top_right - top_left) * scale,
                    (bottom_left - top_left) * scale,
                )
                y_both = (bottom_right - bottom_left - top_right + top_left) * scale
                i += gap
                top_left, top_right, bottom_left, bottom_right = (
                    flat[i],
                    flat[i + channels],
                    flat[i + below],
                    flat[i + below + channels],
                )
                x0, x_right, x_down = (
                    (top_left - zero) * scale,
                    (top_right - top_left) * scale,
                    (bottom_left - top_left) * scale,
                )
                x_both = (bottom_right - bottom_left - top_right + top_left) * scale
            down, right = y - row, x - column
            y += y0 + y_right * right + (y_down + y_both * right) * down
            x += x0 + x_right * right + (x_down + x_both * right) * down
            y = 0.0 if y < 0.0 else last_row if y > last_row else y
            x = 0.0 if x < 0.0 else last_column if x > last_column else x
        return y, x

    def at_cells(self, cells: NDArray[np.intp], channels: NDArray[np.intp]) -> NDArray[np.float64]:
        """Values of channels at cells, given by row-major index; both arrays are broadcast."""
        steps: NDArray[Any] = self._array[cells * self._channels + channels]
        return np.asarray((steps - np.float64(self._zero)) * self._scale)

    def at_all(
        self, y: NDArray[np.float64], x: NDArray[np.float64], channels: NDArray[np.intp]
    ) -> NDArray[np.float64]:
        """Values of channels at positions, cells; the arrays are broadcast."""
        row, column = y.astype(np.intp), x.astype(np.intp)
        down, right = y - row, x - column
        i = (row * self._width + column) * self._channels + channels
        j = i + self._width * self._channels
        flat = self._array
        upper = flat[i] * (1 - right) + flat[i + self._channels] * right
        lower = flat[j] * (1 - right) + flat[j + self._channels] * right
        return np.asarray((upper * (1 - down) + lower * down - self._zero) * self._scale)

    def clip(
        self, y: NDArray[np.float64], x: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """The nearest positions within the map, y and x in cells; arrays of any shape."""
        rows = np.minimum(np.maximum(y, 0.0), self._last_row)
        return rows, np.minimum(np.maximum(x, 0.0), self._last_column)

"""How far noise of an image moves what is measured by adding up its features."""

from __future__ import annotations

from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]


class ImageNoise:
    """Noise that is alike everywhere: of each px on its own, and of each feature from rounding.

    The filter that makes features of px spreads the noise of a px over features beside each other. It leaves
    nothing finer than 4 px, so every second row and column of features tells it all.
    """

    def __init__(self, rows: int, columns: int, kernel: NDArray[np.floating[Any]], step: float) -> None:
        """For maps of at most rows x columns.

        `kernel`: weights of the image's px in a feature, [n, n] with n odd and (n - 1) / 2 even. Features are
        rounded to whole multiples of `step`.
        """
        self._rounding = step**2 / 12
        # 4: a feature stands for 2x2 of them, and so does each result of the filter.
        self._kernel = (8 * kernel[::2, ::2] / np.sqrt(np.square(kernel).sum())).astype(np.float32)
        self._margin = len(self._kernel) - 1
        height, width = (rows + 1) // 2 + self._margin, (columns + 1) // 2 + self._margin
        self._room = np.empty(2 * height * width, np.float32)

    def variance(self, influence: Floats, difference: Floats, images: float) -> NDArray[np.float64]:
        """Of two sums of the differences [rows, columns], weighted with `influence` [2, rows, columns].

        The noise is as large as the differences are; in each is the rounding of so many images. Features left
        out are zero in both.
        """
        counted = int(np.count_nonzero(influence[0])) or 1
        power = float(np.square(difference).sum()) / counted
        rounding = min(images * self._rounding, power)
        alone = np.square(influence).sum(axis=(1, 2))
        variance: NDArray[np.float64] = rounding * alone + (power - rounding) * self._spread(influence)
        return variance

    def _spread(self, influence: Floats) -> Floats:
        """Variance of the two sums per variance of the features when all of that comes from the image."""
        sparse = influence[:, ::2, ::2]
        _, rows, columns = sparse.shape
        height, width = rows + self._margin, columns + self._margin
        # One above the other, with room for what the filter makes beside them.
        planes = self._room[: 2 * height * width].reshape(2, height, width)
        planes[:] = 0
        planes[:, :rows, :columns] = sparse
        both = planes.reshape(2 * height, width)
        anchor = (self._margin, self._margin)
        filtered = cv2.filter2D(both, -1, self._kernel, anchor=anchor, borderType=cv2.BORDER_CONSTANT)
        spread: Floats = np.square(filtered).reshape(2, -1).sum(axis=1)
        return spread

"""Effect of image noise on weighted sums of features."""

from __future__ import annotations

from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]


class ImageNoise:
    """White noise: of each px of the image, and of each feature from rounding.

    The filter that makes features from px spreads the noise of one px over neighbouring features. It passes
    nothing finer than 4 px, so every second row and column of features is enough.
    """

    def __init__(self, rows: int, columns: int, kernel: NDArray[np.floating[Any]], step: float) -> None:
        """For maps of up to rows x columns.

        `kernel`: weights of the image's px in a feature, [n, n] with n odd and (n - 1) / 2 even. Features are
        rounded to whole multiples of `step`.
        """
        self._rounding = step**2 / 12
        # 8 = 4 * 2: each sampled feature stands for 2x2, and so does each squared filter result.
        self._kernel = (8 * kernel[::2, ::2] / np.sqrt(np.square(kernel).sum())).astype(np.float32)
        self._margin = len(self._kernel) - 1
        height, width = (rows + 1) // 2 + self._margin, (columns + 1) // 2 + self._margin
        self._room = np.empty(2 * height * width, np.float32)

    def variance(self, influence: Floats, difference: Floats, images: float) -> NDArray[np.float64]:
        """Variances of two sums of `difference` [rows, columns] weighted with `influence` [2, rows, columns].

        The noise is taken to be as large as the differences, of which the rounding of `images` images is a
        part. Ignored features are zero in both arrays.
        """
        counted = int(np.count_nonzero(influence[0])) or 1
        power = float(np.vdot(difference, difference)) / counted
        rounding = min(images * self._rounding, power)
        alone = np.array([np.vdot(plane, plane) for plane in influence])
        variance: NDArray[np.float64] = rounding * alone + (power - rounding) * self._spread(influence)
        return variance

    def _spread(self, influence: Floats) -> Floats:
        """Variance of the two sums per variance of the features if all noise is in the image: [2]."""
        sparse = influence[:, ::2, ::2]
        _, rows, columns = sparse.shape
        height, width = rows + self._margin, columns + self._margin
        # One above the other, with a margin for the filter.
        planes = self._room[: 2 * height * width].reshape(2, height, width)
        planes[:] = 0
        planes[:, :rows, :columns] = sparse
        both = planes.reshape(2 * height, width)
        anchor = (self._margin, self._margin)
        filtered = cv2.filter2D(both, -1, self._kernel, anchor=anchor, borderType=cv2.BORDER_CONSTANT)
        spread: Floats = np.square(filtered).reshape(2, -1).sum(axis=1)
        return spread

"""How much of a patch an image shows where it was aligned, block by block.

A patch as a whole resembles whatever has the same light and dark parts, above all once it may be stretched
for it. Gradients tell more: in natural pictures those of neighbours are hardly alike, so that few of many
blocks of something else agree by chance. Blocks beside what covers a patch in part agree as before.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

BLOCKS = 4
"""Largest number of blocks along each axis.

Derived: 16 of them tell 70 % from 50 %, and in a patch of 32x24 px each has 48 px.
"""

LEAST_BLOCK_PX = 4
"""Least side of a block, px. Derived: half of it are neighbours of other blocks already."""

LEAST_BLOCKS = 6
"""Least number of blocks with structure of a patch that can be confirmed.

Derived: in three of them, about what one thing may cover, something else agrees more easily.
"""

LEAST_GRADIENT = 1.0
"""Least gradient of a block with structure, grey levels per px, root mean square.

Derived: that which a noise of EXPECTED_NOISE leaves in squares of 4 px.
"""

UNEXPLAINED = 0.15
"""Share of the gradients in a block that agrees which the patch may leave unexplained, besides noise.

Rows: pattern, tilted boards and posters, present: valid and look-alike: valid. Seven of ten blocks of patches
tilted by 45 degrees leave less than 0.1 to 0.2; of other boards with the same frames or dots, 0.22 to 0.6.
"""

NOISE_MARGIN = 2.0
"""How many times the expected noise a block may have.

Derived: the view that the patch is from has noise too.
"""

MOST_UNEXPLAINED = 0.5
"""Largest share that may be left unexplained. Derived: of half of what is seen nothing is known otherwise."""


class PatchAgreement:
    """Compares one patch, grey levels float32 [h, w], of which the px in `mask` count, with images of it."""

    def __init__(self, patch: NDArray[np.float32], mask: NDArray[np.bool_]) -> None:
        self._inner = mask & ~_beside(~mask)
        self._gradients = np.where(self._inner, _gradients(patch), 0.0)
        self._starts = tuple(_first_px(length) for length in patch.shape)
        power = self._sums(np.square(self._gradients).sum(axis=0))
        counts = self._sums(self._inner.astype(np.float64))
        self._used = (power > LEAST_GRADIENT**2 * counts) & (counts >= LEAST_BLOCK_PX**2 / 2)
        self._power, self._counts = power[self._used], counts[self._used]

    @property
    def is_known(self) -> bool:
        """Whether the patch has enough blocks with structure."""
        return len(self._power) >= LEAST_BLOCKS

    def share(self, window: NDArray[np.float32], noise: float) -> float:
        """Share of the blocks with structure that agree, 0..1; 0 if they are too few.

        `window`: what the image shows, [h, w]; `noise`: standard deviation of its px, grey levels.
        """
        if not self.is_known:
            return 0.0
        from_noise = noise**2 * self._counts
        allowed = UNEXPLAINED + NOISE_MARGIN * from_noise / (from_noise + self._power)
        return float(np.mean(self.unexplained(window) <= np.minimum(allowed, MOST_UNEXPLAINED)))

    def unexplained(self, window: NDArray[np.float32]) -> NDArray[np.float64]:
        """Share of what is seen in each block with structure that the patch leaves unexplained, [n]."""
        seen = np.where(self._inner, _gradients(window), 0.0)
        products = self._sums((seen * self._gradients).sum(axis=0))[self._used]
        power = self._sums(np.square(seen).sum(axis=0))[self._used] * self._power
        explained = np.square(np.maximum(products, 0.0)) / np.maximum(power, 1e-9)
        unexplained: NDArray[np.float64] = 1.0 - explained
        return unexplained

    def _sums(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        rows, columns = self._starts
        sums: NDArray[np.float64] = np.add.reduceat(np.add.reduceat(values, rows, axis=0), columns, axis=1)
        return sums


def _first_px(length: int) -> list[int]:
    """First px of each block."""
    count = max(min(BLOCKS, length // LEAST_BLOCK_PX), 1)
    return [first for first, _ in pairwise(round(n * length / count) for n in range(count + 1))]


def _gradients(levels: NDArray[np.float32]) -> NDArray[np.float64]:
    down, right = np.gradient(levels.astype(np.float64))
    return np.stack([down, right])


def _beside(mask: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Px with a neighbour in the mask along an axis."""
    beside = np.zeros_like(mask)
    beside[1:] |= mask[:-1]
    beside[:-1] |= mask[1:]
    beside[:, 1:] |= mask[:, :-1]
    beside[:, :-1] |= mask[:, 1:]
    return beside

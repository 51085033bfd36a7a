"""How much of a patch an image shows where it was aligned, block by block.

As a whole, a patch correlates with everything that has the same light and dark parts, particularly if it may
be stretched. Gradients are more specific: in natural pictures those of neighbouring px are hardly correlated,
so that only few blocks of another object agree by chance. If a patch is partly covered, its other blocks
still agree.

The gradients of all blocks together show whether a match is another object with the same light and dark
parts: at the position of the patch, only noise, interpolation and small errors of position leave some
unexplained.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

BLOCKS = 4
"""Largest number of blocks along each axis.

Derived: 16 blocks distinguish 70 % from 50 %, and in a patch of 32x24 px each has 48 px.
"""

LEAST_BLOCK_PX = 4
"""Least side of a block, px. Derived: along an axis, half of its px border on other blocks."""

LEAST_BLOCKS = 6
"""Least number of blocks with structure that a patch needs to be confirmed.

Derived: three of them, about as many as one object covers, agree with other objects more easily.
"""

LEAST_GRADIENT = 1.0
"""Least gradient of a block with structure, grey levels per px, root mean square.

Derived: that of EXPECTED_NOISE averaged over squares of 4 px.
"""

UNEXPLAINED = 0.15
"""Largest share of the gradients of a block, besides noise, that the patch leaves unexplained if it agrees.

Rows: pattern, tilted boards and posters, present: valid and look-alike: valid. Seven of ten blocks of patches
tilted by 45 degrees leave less than 0.1 to 0.2; of other boards with the same frames or dots, 0.22 to 0.6.
"""

NOISE_MARGIN = 2.0
"""Noise that a block may have, over the expected noise.

Derived: the view from which the patch was cut has noise, too.
"""

UNEXPLAINED_OF_ALL = 0.13
"""Largest share of all gradients, besides noise, that the patch leaves unexplained if it is there.

Derived: of 338 patterns in view half left 0.02, 99 % less than 0.09 and none more than 0.11; 100
look-alikes left 0.14 or more. Rows: pattern, tilted boards and posters, present: valid and look-alike: valid.
"""

COVERED = 0.25
"""Share of a patch along one of its sides that may be covered.

Derived: a row or column of blocks. An object that covers a patch reaches into it from one side; signs of the
same shape differ in their middle.
"""

LEAST_LEFT = 0.5
"""Least share of the gradients of a patch that must be outside of the part that may be covered.

Derived: with less, most of what distinguishes the patch from other objects would not count.
"""

MOST_UNEXPLAINED = 0.5
"""Largest share that may be left unexplained with any noise. Derived: half of what is seen."""

OFF_PX = 0.2
"""Error in px of an alignment along each axis that is tolerated for a patch without structure finer than its
px.

Derived: alignments end with steps of up to 0.15 px, and a tilt that is not searched for causes as much.
"""

STEP_PX = 2
"""Distance over which `_differences` are taken, px. Given by central differences."""

_Part = tuple[slice, slice, slice]


class PatchAgreement:
    """Compares a patch, grey levels float32 [h, w] of which the px in `mask` count, with parts of images."""

    def __init__(self, patch: NDArray[np.float32], mask: NDArray[np.bool_]) -> None:
        self._inner = mask & ~_beside(~mask)
        self._gradients = np.where(self._inner, _gradients(patch), 0.0)
        self._starts = tuple(_first_px(length) for length in patch.shape)
        power = self._sums(np.square(self._gradients).sum(axis=0))
        counts = self._sums(self._inner.astype(np.float64))
        self._used = (power > LEAST_GRADIENT**2 * counts) & (counts >= LEAST_BLOCK_PX**2 / 2)
        self._power, self._counts = power[self._used], counts[self._used]
        inner = self._inner[1:-1, 1:-1]
        self._counting = None if inner.all() else inner.astype(np.float32)
        self._seen = np.empty((2, *inner.shape), np.float32)
        self._patch = self._differences(patch).copy()
        self.left_by_errors = OFF_PX**2 * _squared_slope(self._patch)
        """Share of the gradients that the patch leaves unexplained if it is off by OFF_PX along both axes."""
        least = max(LEAST_LEFT * _product(self._patch, self._patch), 1e-9)
        self._parts = [
            (part, squares, np.count_nonzero(inner[part[1:]]))
            for part in _parts(*inner.shape)
            if (squares := _product(self._patch[part], self._patch[part])) >= least
        ]
        """Parts to compare, the sum of squares of `_patch` in each, and the number of px that count."""

    @property
    def is_known(self) -> bool:
        """Whether the patch has enough blocks with structure."""
        return len(self._power) >= LEAST_BLOCKS

    def is_contradicted(
        self, window: NDArray[np.float32], noise: float, most: float = UNEXPLAINED_OF_ALL
    ) -> bool:
        """Whether the image shows something else, even if one side of the patch is covered.

        `window`, `noise`: as for `share`; `most`: largest share of all gradients, besides noise, that may be
        left unexplained. Unlike `share`, this weights blocks by their gradients, and includes gradients of
        the patch that the image lacks.
        """
        return bool(self._parts) and all(left > most for left in self._shares_left(window, noise))

    def left(self, window: NDArray[np.float32], noise: float) -> float:
        """Share of all gradients, besides noise, that `is_contradicted` compares; 0 if nothing is left."""
        return max(min(self._shares_left(window, noise), default=0.0), 0.0)

    def _shares_left(self, window: NDArray[np.float32], noise: float) -> Iterator[float]:
        """That share with nothing covered, and with each side of the patch covered."""
        seen = self._differences(window)
        for part, patch_power, count in self._parts:
            window_part, patch = seen[part], self._patch[part]
            power = _product(window_part, window_part)
            product = max(_product(window_part, patch), 0.0)
            from_noise = (STEP_PX * noise) ** 2 * count
            unexplained = power - product**2 / patch_power
            yield (unexplained - NOISE_MARGIN * from_noise) / max(power, 1e-9)

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
        """Share of the gradients in each block with structure that the patch leaves unexplained, [n]."""
        seen = np.where(self._inner, _gradients(window), 0.0)
        products = self._sums((seen * self._gradients).sum(axis=0))[self._used]
        power = self._sums(np.square(seen).sum(axis=0))[self._used] * self._power
        explained = np.square(np.maximum(products, 0.0)) / np.maximum(power, 1e-9)
        unexplained: NDArray[np.float64] = 1.0 - explained
        return unexplained

    def _differences(self, levels: NDArray[np.float32]) -> NDArray[np.float32]:
        """Central differences along x and y of the px that count, [2, h - 2, w - 2]; a buffer."""
        right, down = self._seen
        np.subtract(levels[1:-1, 2:], levels[1:-1, :-2], out=right)
        np.subtract(levels[2:, 1:-1], levels[:-2, 1:-1], out=down)
        if self._counting is not None:
            self._seen *= self._counting
        return self._seen

    def _sums(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        rows, columns = self._starts
        sums: NDArray[np.float64] = np.add.reduceat(np.add.reduceat(values, rows, axis=0), columns, axis=1)
        return sums


def _parts(height: int, width: int) -> list[_Part]:
    """The whole of a patch, and what remains of it if one of its sides is covered."""
    every, rows, columns = slice(None), round(COVERED * height), round(COVERED * width)
    return [
        (every, every, every),
        (every, slice(rows, None), every),
        (every, slice(height - rows), every),
        (every, every, slice(columns, None)),
        (every, every, slice(width - columns)),
    ]


def _product(a: NDArray[np.float32], b: NDArray[np.float32]) -> float:
    return float(np.vdot(a, b))


def _squared_slope(values: NDArray[np.float32]) -> float:
    """Sum of the squares of changes per px, along both axes, over that of the values [n, h, w] themselves."""
    squares = sum(float(np.square(np.diff(values, axis=axis)).sum()) for axis in (1, 2))
    return squares / max(_product(values, values), 1e-9)


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

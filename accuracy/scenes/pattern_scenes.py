"""Patches of photographs, and images in which the position of the patch is known."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

from accuracy.scenes.photographs import as_pixels, grey_photograph

FARTHEST = 5.0
"""Largest number of texels of the photograph per px of an image."""

Image = NDArray[np.uint8]


@dataclass(frozen=True)
class Change:
    """Changes from the image that the patch is cut out of to the image that is searched.

    Each value but `noise` and `scale` is the largest deviation of a uniform distribution.
    """

    shift: float = 0.0
    """Largest shift along each axis, px."""
    turn: float = 0.0
    """Largest rotation, degrees."""
    growth: float = 0.0
    """Largest relative change of scale."""
    gain: float = 0.0
    """Largest relative change of contrast."""
    offset: float = 0.0
    """Largest change of brightness, grey levels."""
    noise: float = 0.0
    """Standard deviation of each pixel, grey levels."""
    scale: float = 1.0
    """Largest factor of a further change of scale and the inverse of the smallest one; the logarithm is
    uniform. Only pattern_pictures uses it."""


NOTHING = Change()


@dataclass(frozen=True)
class Scene:
    """A patch, the image it was cut out of (`view`), and images to search."""

    source: str
    patch: Image
    view: Image
    image: Image
    """The view after the change."""
    x: float
    """Centre of the patch in `image`, px."""
    y: float
    without: Image
    """An image of another photograph after the same change."""
    repeated: Image
    """`image` with a second copy of the patch in it."""


def scenes(
    names: Sequence[str], search: int, side: int, count: int, seed: int, change: Change = NOTHING
) -> Iterator[Scene]:
    """`count` scenes of search x search px with patches of side x side px, from each photograph in turn."""
    random = np.random.default_rng([seed, search, side])
    photographs = [_large_enough(grey_photograph(name), search) for name in names]
    for index in range(count):
        chosen = index % len(names)
        view, picture = _with_contrast(photographs[chosen], search, random)
        column, row = _somewhere(picture, side, random)
        patch = picture[row : row + side, column : column + side]
        half = (side - 1) / 2
        motion, x, y = _visible(change, column + half, row + half, search, half, random)
        other = (chosen + random.integers(1, len(names))) % len(names)
        elsewhere = _View.anywhere(photographs[other], search, random).picture(motion)
        light = 1 + random.uniform(-change.gain, change.gain), random.uniform(-change.offset, change.offset)
        moved = view.picture(motion) if motion != _STILL else picture.astype(np.float32)
        doubled = _with_copy(moved, patch, x, y, random)
        image, without, repeated = (
            as_pixels(scene * light[0] + light[1] + random.normal(0.0, 1.0, scene.shape) * change.noise)
            for scene in (moved, elsewhere, doubled)
        )
        yield Scene(names[chosen], patch, picture, image, x, y, without, repeated)


@dataclass(frozen=True)
class _Motion:
    """Motion of an image's content about its middle."""

    x: float
    y: float
    turn: float
    """rad"""
    size: float

    def move(self, x: float, y: float, search: int) -> tuple[float, float]:
        """Position of a point after the motion."""
        middle = (search - 1) / 2
        cosine, sine = self.size * math.cos(self.turn), self.size * math.sin(self.turn)
        u, v = x - middle, y - middle
        return cosine * u - sine * v + middle + self.x, sine * u + cosine * v + middle + self.y


_STILL = _Motion(0.0, 0.0, 0.0, 1.0)


def _with_contrast(
    photograph: NDArray[np.float32], search: int, random: np.random.Generator
) -> tuple[_View, Image]:
    """A random view and its image; views without contrast are skipped."""
    while True:
        view = _View.anywhere(photograph, search, random)
        picture = as_pixels(view.picture(_STILL))
        if picture.min() < picture.max():
            return view, picture


def _somewhere(picture: Image, side: int, random: np.random.Generator) -> tuple[int, int]:
    """First column and row of a random patch; patches without contrast are skipped."""
    kernel, first = np.ones((side, side)), (0, 0)
    highest, lowest = cv2.dilate(picture, kernel, anchor=first), cv2.erode(picture, kernel, anchor=first)
    places = len(picture) - side + 1
    rows, columns = np.nonzero((highest > lowest)[:places, :places])
    chosen = random.integers(len(rows))
    return int(columns[chosen]), int(rows[chosen])


def _visible(
    change: Change, x: float, y: float, search: int, half: float, random: np.random.Generator
) -> tuple[_Motion, float, float]:
    """A random motion that keeps a patch at (x, y) inside the image, and its position afterwards."""
    while True:
        motion = _Motion(
            random.uniform(-change.shift, change.shift),
            random.uniform(-change.shift, change.shift),
            math.radians(random.uniform(-change.turn, change.turn)),
            1 + random.uniform(-change.growth, change.growth),
        )
        moved = motion.move(x, y, search)
        if all(half <= coordinate <= search - 1 - half for coordinate in moved):
            return motion, *moved


@dataclass(frozen=True)
class _View:
    """A square part of a photograph."""

    photograph: NDArray[np.float32]
    search: int
    pitch: float
    """Texels per px of the image."""
    x: float
    """Its middle, texels."""
    y: float

    @classmethod
    def anywhere(cls, photograph: NDArray[np.float32], search: int, random: np.random.Generator) -> _View:
        """A random part, with room for rotation."""
        height, width = photograph.shape
        largest = min(min(height, width) / _room(search), FARTHEST)
        pitch = math.exp(random.uniform(0.0, math.log(largest))) if largest > 1 else 1.0
        half = _room(search) * pitch / 2
        x = random.uniform(half - 0.5, max(width - half, half) - 0.5)
        y = random.uniform(half - 0.5, max(height - half, half) - 0.5)
        return cls(photograph, search, pitch, x, y)

    def picture(self, motion: _Motion) -> NDArray[np.float32]:
        """Grey levels after the motion; each pixel is the average over its area."""
        samples = 2 * math.ceil(self.pitch)
        scale = self.pitch / motion.size
        cosine, sine = scale * math.cos(motion.turn), scale * math.sin(motion.turn)
        linear = np.array([[cosine, sine], [-sine, cosine]])
        first = 0.5 / samples - 0.5 - (self.search - 1) / 2 - np.array([motion.x, motion.y])
        matrix = np.column_stack([linear / samples, linear @ first + (self.x, self.y)])
        size = self.search * samples
        fine = cv2.warpAffine(
            self.photograph,
            matrix,
            (size, size),
            flags=cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP,
            borderMode=cv2.BORDER_REFLECT,
        )
        picture: NDArray[np.float32] = cv2.resize(
            fine, (self.search, self.search), interpolation=cv2.INTER_AREA
        )
        return picture


def _room(search: int) -> float:
    """Side of the part of a photograph that an image rotated by up to 5 degrees may show, px."""
    return 1.25 * search


def _large_enough(photograph: NDArray[np.float32], search: int) -> NDArray[np.float32]:
    factor = _room(search) / min(photograph.shape)
    return photograph if factor <= 1 else cv2.resize(photograph, None, fx=factor, fy=factor)


def _with_copy(
    image: NDArray[np.float32], patch: Image, x: float, y: float, random: np.random.Generator
) -> NDArray[np.float32]:
    """The image with a second copy of the patch that does not overlap the first."""
    side = len(patch)
    while True:
        column, row = random.integers(0, len(image) - side + 1, 2)
        if max(abs(column + (side - 1) / 2 - x), abs(row + (side - 1) / 2 - y)) >= side:
            break
    copy = image.copy()
    copy[row : row + side, column : column + side] = patch
    return copy

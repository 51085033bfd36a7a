"""Pairs of frames with a known shift: windows of a photograph whose pixels are averages over their area."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from accuracy.scenes.photographs import as_pixels, unseen

WINDOW = 64
"""Side of a frame, px."""

VIEW = 128
"""Side, px, of the part of the photograph that the windows are cut from."""

POOLED = 4
"""Side of a block, px; the protocol gives shifts in blocks."""

MOST = 4 * POOLED
"""The largest shift of the protocol along an axis, px."""

MORE = ("cell", "clock", "hubble_deep_field", "immunohistochemistry", "microaneurysms", "retina", "text")
"""Further photographs of skimage.data: limits of validity were chosen on them, but no filters."""

Frame = NDArray[np.float64]
Image = NDArray[np.uint8]


@dataclass(frozen=True)
class Photograph:
    """A square photograph."""

    sums: NDArray[np.float64]
    """Cumulative sums of grey levels: [side + 1, side + 1]."""

    def window(self, x: float, y: float, view: int = VIEW) -> Frame:
        """Frame around a point (x, y) px off the middle, of the photograph resized to view x view px.

        Each pixel is the exact average over its area. (OpenCV's warps would round positions to 1/32 of a
        texel, which is more than the errors to be measured.)
        """
        pitch = (len(self.sums) - 1) / view
        middle = (len(self.sums) - 1) / 2
        edges = (np.arange(WINDOW + 1) - WINDOW / 2) * pitch
        above = interpolated(self.sums, middle + y * pitch + edges)
        corners = interpolated(above.T, middle + x * pitch + edges).T
        return np.diff(np.diff(corners, axis=0), axis=1) / pitch**2


def interpolated(table: Frame, rows: NDArray[np.floating[Any]]) -> Frame:
    """Rows of a table of sums, linearly interpolated at fractional positions."""
    whole = np.clip(np.floor(rows).astype(int), 0, len(table) - 2)
    part = (rows - whole)[:, np.newaxis]
    between: Frame = table[whole] * (1 - part) + table[whole + 1] * part
    return between


@dataclass(frozen=True)
class Pair:
    """Two frames and the motion of the content from the first to the second, px."""

    first: Image
    second: Image
    dx: float
    dy: float
    source: str


@dataclass(frozen=True)
class Disturbance:
    """Changes of the frames in addition to motion."""

    noise: float = 0.0
    """Standard deviation of both frames' pixels, grey levels."""
    gain: float = 0.0
    """Largest relative change of the second frame's contrast."""
    offset: float = 0.0
    """Largest change of the second frame's brightness, grey levels."""

    def apply(self, first: Frame, second: Frame, random: np.random.Generator) -> tuple[Image, Image]:
        """Apply the changes and round the frames."""
        second = second * random.uniform(1 - self.gain, 1 + self.gain)
        second = second + random.uniform(-self.offset, self.offset)
        return _rounded(first, self.noise, random), _rounded(second, self.noise, random)


NOTHING = Disturbance()


def held_out() -> tuple[str, ...]:
    """Pictures that no constant was chosen on: panoramas and every 30th frame of a video, if present."""
    return unseen()


def photograph(name: str) -> Photograph:
    """The middle square of a photograph; `name`: a name in skimage.data or a path.

    Raises FileNotFoundError if there is no readable image at the path.
    """
    grey = cv2.imread(name, cv2.IMREAD_GRAYSCALE) if Path(name).is_absolute() else _of_skimage(name)
    if grey is None:
        raise FileNotFoundError(f"expected an image that OpenCV reads; got {name}")
    side = min(grey.shape)
    top, left = (grey.shape[0] - side) // 2, (grey.shape[1] - side) // 2
    return Photograph(cv2.integral(grey[top : top + side, left : left + side]).astype(np.float64))


def _of_skimage(name: str) -> NDArray[Any]:
    from skimage import data

    pixels = getattr(data, name)()
    grey: NDArray[Any] = pixels if pixels.ndim == 2 else cv2.cvtColor(pixels[..., :3], cv2.COLOR_RGB2GRAY)
    return grey


Draw = Callable[[np.random.Generator], NDArray[np.float64]]
"""Draws a shift (dx, dy), px."""


def whole(random: np.random.Generator) -> NDArray[np.float64]:
    """Whole blocks along both axes, up to 4."""
    return POOLED * random.integers(-4, 5, 2).astype(np.float64)


def any_shift(random: np.random.Generator) -> NDArray[np.float64]:
    """Any shift along both axes, up to 4 blocks."""
    return random.uniform(-MOST, MOST, 2)


def small(random: np.random.Generator) -> NDArray[np.float64]:
    """Any shift along both axes, up to 1.5 blocks."""
    return random.uniform(-1.5 * POOLED, 1.5 * POOLED, 2)


def slow(random: np.random.Generator) -> NDArray[np.float64]:
    """Any shift along both axes, up to a twentieth of a px, like that of a camera at rest."""
    return random.uniform(-0.05, 0.05, 2)


def beyond(random: np.random.Generator) -> NDArray[np.float64]:
    """A shift of more than 5 blocks along at least one axis, up to the size of the frame."""
    while True:
        shift = random.uniform(-WINDOW, WINDOW, 2)
        if np.abs(shift).max() > 5 * POOLED:
            return shift


def shifted(
    names: Sequence[str], draw: Draw, count: int, seed: int, disturbance: Disturbance = NOTHING
) -> Iterator[Pair]:
    """`count` pairs of each photograph, with both windows inside the view."""
    random = np.random.default_rng(seed)
    room = (VIEW - WINDOW) / 2
    for name in names:
        photo = photograph(name)
        for _ in range(count):
            shift = draw(random)
            # The content moves right when the window moves left.
            x, y = random.uniform(np.maximum(-room, shift - room), np.minimum(room, shift + room))
            frames = photo.window(x, y), photo.window(x - shift[0], y - shift[1])
            yield Pair(*disturbance.apply(*frames, random), float(shift[0]), float(shift[1]), name)


def unrelated(names: Sequence[str], count: int, seed: int) -> Iterator[Pair]:
    """Windows of two photographs, `count` pairs for each first one; the shift is NaN."""
    random = np.random.default_rng(seed)
    photos = {name: photograph(name) for name in names}
    room = (VIEW - WINDOW) / 2
    for first in names:
        for second in random.choice([name for name in names if name != first], count):
            (ax, ay), (bx, by) = random.uniform(-room, room, (2, 2))
            frames = photos[first].window(ax, ay), photos[second].window(bx, by)
            yield Pair(*NOTHING.apply(*frames, random), np.nan, np.nan, f"{first}, {second}")


def elsewhere(names: Sequence[str], count: int, seed: int) -> Iterator[Pair]:
    """Windows of one photograph that do not overlap, at twice the scale; the shift is NaN."""
    random = np.random.default_rng(seed)
    room = VIEW - WINDOW / 2
    for name in names:
        photo = photograph(name)
        for _ in range(count):
            a, b = random.uniform(-room, room, (2, 2))
            while np.abs(a - b).max() < WINDOW:
                b = random.uniform(-room, room, 2)
            frames = photo.window(a[0], a[1], 2 * VIEW), photo.window(b[0], b[1], 2 * VIEW)
            yield Pair(*NOTHING.apply(*frames, random), np.nan, np.nan, name)


def textureless(count: int, seed: int) -> Iterator[Pair]:
    """Uniform surfaces and gradients with noise of 0 to 8 grey levels."""
    random = np.random.default_rng(seed)
    y, x = np.mgrid[:WINDOW, :WINDOW] - (WINDOW - 1) / 2
    for index in range(count):
        slope_x, slope_y = random.uniform(-1, 1, 2) * (index % 2)
        surface = random.uniform(60, 195) + slope_x * x + slope_y * y
        noise = random.choice([0.0, 1.0, 4.0, 8.0])
        frames = Disturbance(noise, offset=10).apply(surface, surface, random)
        yield Pair(*frames, np.nan, np.nan, "graded" if index % 2 else "even")


def _rounded(frame: Frame, noise: float, random: np.random.Generator) -> Image:
    noisy = frame + random.normal(0.0, noise, frame.shape) if noise else frame
    return as_pixels(noisy)

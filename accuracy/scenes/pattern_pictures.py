"""Patterns in whole camera pictures of 640x480 px, of which the model sees 64x64 px or a little more."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

from accuracy.scenes.pattern_scenes import Change
from accuracy.scenes.photographs import as_pixels, grey_photograph
from edgetpu_perception.pattern_tracker.pattern_tracker import PatternTracker
from measured_figures.row import Row

WIDTH, HEIGHT = 640, 480
PATCH_WIDTH, PATCH_HEIGHT = 160, 120
"""A quarter of the picture along each axis, like 16 px of the model's 64."""
SIZES = ((64, 16), (96, 24), (128, 32))
"""Width and height of the model's input and of its template, px; the first one is the default."""
ROOM = 1.25
"""Side of the part of a photograph that a turned picture may show, relative to that of the picture."""
FARTHEST = 5.0
"""Largest number of texels of a photograph per px of a picture."""
RIGHT_PX = 2.0

Image = NDArray[np.uint8]


@dataclass(frozen=True)
class Picture:
    """A patch, the picture it was cut out of (`view`), and a later picture."""

    view: Image
    patch: Image
    later: Image
    x: float
    """Centre of the patch in the later picture, px."""
    y: float
    size: float
    """Size of the patch in the later picture relative to its size in the view."""
    without: Image
    """A picture of another photograph after the same change."""


@dataclass(frozen=True)
class _Camera:
    """Where a camera looks in a photograph."""

    photograph: NDArray[np.float32]
    pitch: float
    """Texels per px."""
    x: float
    y: float

    @classmethod
    def anywhere(cls, photograph: NDArray[np.float32], random: np.random.Generator, room: float) -> _Camera:
        height, width = photograph.shape
        largest = max(min(width / WIDTH / room, height / HEIGHT / room, FARTHEST), 1.0)
        pitch = math.exp(random.uniform(0.0, math.log(largest)))
        x, y = (
            random.uniform(size * pitch / 2, max(length - size * pitch / 2, size * pitch / 2 + 1.0))
            for size, length in ((WIDTH, width), (HEIGHT, height))
        )
        return cls(photograph, pitch, x, y)

    def picture(
        self, linear: NDArray[np.float64], shift: NDArray[np.float64], scale: float = 1.0
    ) -> NDArray[np.float32]:
        """Grey levels after px at p, relative to the middle, have moved to linear @ p + shift.

        `scale`: the part of the growth in `linear` that the low-pass filter takes into account.
        """
        texels = self.pitch * np.linalg.inv(linear)
        middle = np.array([(WIDTH - 1) / 2, (HEIGHT - 1) / 2]) + shift
        matrix = np.column_stack([texels, np.array([self.x, self.y]) - texels @ middle])
        source = self.photograph
        pitch = self.pitch / scale
        if pitch > 1.2:
            source = cv2.GaussianBlur(source, (0, 0), 0.4 * pitch)
        seen: NDArray[np.float32] = cv2.warpAffine(
            source,
            matrix,
            (WIDTH, HEIGHT),
            flags=cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP,
            borderMode=cv2.BORDER_REFLECT,
        )
        return seen


@dataclass(frozen=True, eq=False)
class _Motion:
    """Where a patch is cut out, and where it has moved in the later picture."""

    column: int
    row: int
    linear: NDArray[np.float64]
    """Rotation and growth, [2, 2]."""
    shift: NDArray[np.float64]
    """px, [2]."""
    scale: float
    """The part of the growth that the low-pass filter takes into account."""
    size: float
    """The whole growth."""
    center: NDArray[np.float64]
    """Centre of the patch in the later picture, px: [2]."""

    @classmethod
    def drawn(cls, random: np.random.Generator, change: Change) -> _Motion:
        """Draw a motion after which all of the patch is in the picture."""
        middle = np.array([(WIDTH - 1) / 2, (HEIGHT - 1) / 2])
        half = np.array([(PATCH_WIDTH - 1) / 2, (PATCH_HEIGHT - 1) / 2])
        corners = WIDTH - PATCH_WIDTH + 1, HEIGHT - PATCH_HEIGHT + 1
        column, row = random.integers(0, corners)
        scale = change.scale ** random.uniform(-1.0, 1.0) if change.scale > 1.0 else 1.0
        reach = half * max(scale, 1.0)
        while True:
            shift = random.uniform(-change.shift, change.shift, 2)
            turn = math.radians(random.uniform(-change.turn, change.turn))
            size = scale * (1.0 + random.uniform(-change.growth, change.growth))
            if change.scale > 1.0:
                column, row = random.integers(0, corners)
            cosine, sine = size * math.cos(turn), size * math.sin(turn)
            linear = np.array([[cosine, -sine], [sine, cosine]])
            center = linear @ (np.array([column, row]) + half - middle) + middle + shift
            if np.all(center >= reach) and np.all(center <= 2 * middle - reach):
                return cls(int(column), int(row), linear, shift, scale, size, center)


def pictures(names: Sequence[str], count: int, seed: int, change: Change) -> Iterator[Picture]:
    """`count` pictures, from each photograph in turn; `change`: from the view to the later picture."""
    random = np.random.default_rng([seed, WIDTH, HEIGHT])
    room = ROOM * change.scale
    photographs = [_large_enough(grey_photograph(name), room) for name in names]
    for index in range(count):
        camera = _Camera.anywhere(photographs[index % len(names)], random, room)
        elsewhere = (index + random.integers(1, len(names))) % len(names)
        other = _Camera.anywhere(photographs[elsewhere], random, room)
        view = as_pixels(camera.picture(np.eye(2), np.zeros(2)))
        moved = _Motion.drawn(random, change)
        gain = 1.0 + random.uniform(-change.gain, change.gain)
        offset = random.uniform(-change.offset, change.offset)
        later, without = (
            as_pixels(seen * gain + offset + random.normal(0.0, 1.0, seen.shape) * change.noise)
            for seen in (each.picture(moved.linear, moved.shift, moved.scale) for each in (camera, other))
        )
        patch = view[moved.row : moved.row + PATCH_HEIGHT, moved.column : moved.column + PATCH_WIDTH]
        x, y = moved.center.tolist()
        yield Picture(view, patch, later, x, y, moved.size, without)


def measure(
    case: str,
    size: tuple[int, int],
    tracker: PatternTracker,
    drawn_pictures: Iterable[Picture],
    reach: float | None,
) -> list[Row]:
    """Rows for the patches that are accepted, beside cv2.matchTemplate at the model's and at full size."""
    errors, small, full, inside, claimed = [], [], [], [], []
    search, side = size
    for drawn in drawn_pictures:
        if not tracker.set_template(drawn.patch, view=drawn.view).accepted:
            continue
        found = tracker.update(drawn.later)
        errors.append(math.hypot(found.x - drawn.x, found.y - drawn.y) if found.valid else math.inf)
        if found.valid:
            inside += [abs(found.x - drawn.x) < found.x_sigma, abs(found.y - drawn.y) < found.y_sigma]
        claimed.append(tracker.update(drawn.without).valid)
        small.append(_plain_error(drawn, (search, search), (side, side)))
        full.append(_plain_error(drawn, None, None))
    within, plain, plain_full = (
        100.0 * float(np.mean(np.array(each) < RIGHT_PX)) for each in (errors, small, full)
    )
    metric = "within 2 px of 640x480"
    return [
        Row("pattern", case, metric, within, "%", reach, "higher", plain, full_size_baseline=plain_full),
        Row("pattern", case, "inside one sigma", 100.0 * float(np.mean(inside)), "%", None, "higher"),
        Row("pattern", case, "absent: valid", 100.0 * float(np.mean(claimed)), "%", None, "lower"),
    ]


def _plain_error(drawn: Picture, search: tuple[int, int] | None, side: tuple[int, int] | None) -> float:
    """Error of the highest peak of cv2.matchTemplate, px; reduced to these sizes; None: full size."""
    image, patch = drawn.later, drawn.patch
    if search is not None:
        image, patch = (
            cv2.resize(each, size, interpolation=cv2.INTER_AREA)
            for each, size in ((image, search), (patch, side))
        )
    column, row = cv2.minMaxLoc(cv2.matchTemplate(image, patch, cv2.TM_CCOEFF_NORMED))[3]
    x_cell, y_cell = WIDTH / image.shape[1], HEIGHT / image.shape[0]
    x = (column + patch.shape[1] / 2) * x_cell - 0.5
    y = (row + patch.shape[0] / 2) * y_cell - 0.5
    return math.hypot(x - drawn.x, y - drawn.y)


def _large_enough(photograph: NDArray[np.float32], room: float) -> NDArray[np.float32]:
    height, width = photograph.shape
    factor = max(WIDTH * room / width, HEIGHT * room / height)
    if factor <= 1.0:
        return photograph
    larger: NDArray[np.float32] = cv2.resize(
        photograph, None, fx=factor, fy=factor, interpolation=cv2.INTER_CUBIC
    )
    return larger

"""Accuracy of the spot tracker on lamps: small ones, two that cross, and scenes without a lamp."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence

import cv2
import numpy as np

from accuracy.scenes import lamp_scenes as scenes
from accuracy.scenes import photographs
from accuracy.scenes.lamp_scenes import HEIGHT, WIDTH, LampScene
from edgetpu_perception import SpotTracker
from measured_figures.row import Row

RADII = (1.5, 2.0, 3.0, 5.0, 10.0)
"""Radii of the lamps, px of 320x240."""

SMALL_RADII = (1.5, 2.0)
"""Radii of the lamps that cover less than a cell of the model's input, px of 320x240."""

RIGHT_PX = 4.0
"""Largest error that counts as right, px of 320x240: less than the width of a cell of the model's input."""

FRAME_PERIOD = 1.0 / 30.0
"""Time between two images of a crossing, s."""

BRIGHT = 200
"""Grey level from which the baseline takes a px for part of a lamp: all lamps have 255."""

SIZES = ((64, 64), (WIDTH, HEIGHT))
"""Widths and heights of the pictures for the baselines, px: that of the model's input, and full size."""


OpenTracker = Callable[[str | None], SpotTracker]
"""Makes a tracker of a colour, or of brightness for None."""


def measure(open_tracker: OpenTracker, quick: bool = False) -> list[Row]:
    """Rows of the lamps; the baselines are plain methods on the picture of 64x64 px and at full size.

    With one lamp, the baseline is the brightest cell; with two lamps or none, the bright spots.
    """
    count = 60 if quick else 300
    rows, tracker = [], open_tracker(None)
    for label, names in (("", photographs.DEVELOPMENT), ("more: ", photographs.held_out())):
        for radius in RADII:
            night = list(scenes.lamps(names, radius, scenes.NIGHT, count, 21))
            rows += _lamp_rows(tracker, f"{label}lamps of radius {radius:g} px at night", night, 99.0)
        for radius in RADII:
            reach = 99.0 if radius in SMALL_RADII else None
            dusk = list(scenes.lamps(names, radius, scenes.DUSK, count, 22))
            rows += _lamp_rows(tracker, f"{label}lamps of radius {radius:g} px at dusk", dusk, reach)
        for radius in SMALL_RADII:
            day = list(scenes.lamps(names, radius, scenes.DULL_DAY, count, 25))
            rows += _lamp_rows(tracker, f"{label}lamps of radius {radius:g} px on a dull day", day, 99.0)
    crossings = 10 if quick else 40
    rows.append(_crossing_row(open_tracker, photographs.DEVELOPMENT, crossings))
    for label, names, reach in (("", scenes.WITHOUT_LAMP, 3.0), ("more: ", photographs.held_out(), None)):
        drawn = list(scenes.empty(names, count, 23))
        plain, full = (_share(bool(_bright_spots(scene, size)) for scene in drawn) for size in SIZES)
        for color in (None, "white"):
            name = f"{label}photographs without a lamp, {color or 'brightness'}"
            color_tracker = open_tracker(color)
            valid = _share(color_tracker.update(scene.image).valid for scene in drawn)
            row = Row("spot", name, "valid", valid, "%", reach, "lower", plain, full_size_baseline=full)
            rows.append(row)
    return rows


def _lamp_rows(tracker: SpotTracker, name: str, drawn: Sequence[LampScene], reach: float | None) -> list[Row]:
    errors = np.array([_errors(tracker, scene) for scene in drawn])
    hits = np.hypot(errors[:, 0], errors[:, 1]) <= RIGHT_PX
    right = 100.0 * float(hits.mean())
    plain, full = (_share(_brightest_cell_is_right(scene, size) for scene in drawn) for size in SIZES)
    inside = 100.0 * float(np.mean(np.abs(errors[hits, :2]) <= errors[hits, 2:])) if hits.any() else math.nan
    return [
        Row("spot", name, "right", right, "%", reach, "higher", plain, full_size_baseline=full),
        Row("spot", name, "inside one sigma", inside, "%", None, "higher"),
    ]


def _errors(tracker: SpotTracker, scene: LampScene) -> tuple[float, float, float, float]:
    """Errors in x and y and their sigmas, px; NaN if the result is not valid."""
    result = tracker.update(scene.image)
    half_width, half_height = (WIDTH - 1) / 2, (HEIGHT - 1) / 2
    x, y = (result.x + 1) * half_width - scene.x, (result.y + 1) * half_height - scene.y
    return x, y, result.x_sigma * half_width, result.y_sigma * half_height


def _brightest_cell_is_right(scene: LampScene, size: tuple[int, int]) -> bool:
    """Whether the brightest cell of the picture, reduced to `size`, is at the lamp."""
    cells = cv2.resize(scene.image, size, interpolation=cv2.INTER_AREA)
    if size == (WIDTH, HEIGHT):  # as users do, since a single px may be noise
        cells = cv2.blur(cells, (3, 3))
    _, _, _, (column, row) = cv2.minMaxLoc(cells)
    x, y = (column + 0.5) * WIDTH / size[0] - 0.5, (row + 0.5) * HEIGHT / size[1] - 0.5
    return math.hypot(x - scene.x, y - scene.y) <= RIGHT_PX


def _crossing_row(open_tracker: OpenTracker, names: Sequence[str], count: int) -> Row:
    """The share of crossings after which the first lamp is still followed."""
    crossings = [list(each) for each in scenes.crossings(names, count, 24)]
    share = _share([_is_kept(open_tracker(None), each) for each in crossings])
    small, large = (_share([_nearest_is_kept(each, size) for each in crossings]) for size in SIZES)
    case, metric = "two lamps that cross", "with the first"
    return Row("spot", case, metric, share, "%", 97.5, "higher", small, full_size_baseline=large)


def _is_kept(tracker: SpotTracker, crossing: Sequence[LampScene]) -> bool:
    """Whether the first lamp is still followed after a crossing."""
    results = [tracker.update(scene.image, k * FRAME_PERIOD) for k, scene in enumerate(crossing)]
    last = crossing[-1]
    x, y = (results[-1].x + 1) * (WIDTH - 1) / 2, (results[-1].y + 1) * (HEIGHT - 1) / 2
    return math.hypot(x - last.x, y - last.y) <= 2 * RIGHT_PX


def _nearest_is_kept(crossing: Sequence[LampScene], size: tuple[int, int]) -> bool:
    """Whether a baseline still follows it that takes the bright spot nearest to its last one."""
    at: tuple[float, float] | None = None
    for scene in crossing:
        spots = _bright_spots(scene, size)
        if spots:
            last = at or spots[0]  # the first picture shows only the first lamp
            at = min(spots, key=lambda spot: math.dist(spot, last))
    last_scene = crossing[-1]
    return at is not None and math.dist(at, (last_scene.x, last_scene.y)) <= 2 * RIGHT_PX


def _bright_spots(scene: LampScene, size: tuple[int, int]) -> list[tuple[float, float]]:
    """Centres of the BRIGHT blobs in the picture, reduced to `size`; px of the full picture."""
    cells = cv2.resize(scene.image, size, interpolation=cv2.INTER_AREA)
    mask = cv2.inRange(cells, np.array(BRIGHT), np.array(255))
    contours = cv2.findContours(mask, cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_NONE)[0]
    centers = [contour.reshape(-1, 2).mean(axis=0) for contour in contours]
    return [((x + 0.5) * WIDTH / size[0] - 0.5, (y + 0.5) * HEIGHT / size[1] - 0.5) for x, y in centers]


def _share(met: Iterable[bool]) -> float:
    """Percentage of the scenes for which a condition holds."""
    return 100.0 * float(np.mean(list(met)))

"""Where the spot is expected in the next image, even while it crosses another spot."""

from __future__ import annotations

import math
from typing import NamedTuple

from edgetpu_perception.spot_tracker.spot_decoder import Position, Spot

VELOCITY_GAIN = 0.3
"""Weight of the velocity between two images in the estimate. Rows: spot, two lamps that cross."""

MAX_GAP = 0.5
"""Time in s for which a velocity is trusted without a measurement. Uncritical."""

MAX_MERGED = 1.5
"""Longest time in s for which two spots may look like one. Uncritical."""

MAX_MERGED_OFFSET_CELLS = 8.0
"""Largest distance of a spot from its expected position at which it may be two that merged. Derived: the
radius of the largest spots that still have a rival next to them, an eighth of 64 cells."""

MERGE_DISTANCE_CELLS = 12.0
"""Largest distance of two spots that can merge before the next image. Uncritical."""


class Raster(NamedTuple):
    """Where the cells of the model's input lie in the image, in shares of its width and height."""

    left: float
    top: float
    cell_width: float
    cell_height: float


class SpotMotion:
    """Predicts the spot at constant velocity, in cells.

    While two spots that cross look like one, their common centroid says nothing about the velocity of either,
    so the prediction continues with the previous velocity.
    """

    def __init__(self) -> None:
        self._position: Position | None = None
        self._velocity = (0.0, 0.0)
        self._stamp = -math.inf
        self._had_rival_near = False
        self._merged_since = math.inf
        self._raster: Raster | None = None

    def look_at(self, raster: Raster) -> None:
        """Set where the cells lie from now on: in another part of the image if the region has changed."""
        before, self._raster = self._raster, raster
        if self._position is None or before is None or before == raster:
            return
        (x, y), (x_velocity, y_velocity) = self._position, self._velocity
        x_scale, y_scale = before.cell_width / raster.cell_width, before.cell_height / raster.cell_height
        self._position = (
            (before.left - raster.left) / raster.cell_width + (x + 0.5) * x_scale - 0.5,
            (before.top - raster.top) / raster.cell_height + (y + 0.5) * y_scale - 0.5,
        )
        self._velocity = x_velocity * x_scale, y_velocity * y_scale

    def expected(self, stamp: float) -> Position | None:
        """Where the spot should be at a time, s; None before the first one."""
        if self._position is None:
            return None
        passed = stamp - self._stamp
        if not 0.0 < passed <= MAX_GAP:
            return self._position
        return self._position[0] + self._velocity[0] * passed, self._position[1] + self._velocity[1] * passed

    def update(self, stamp: float, spot: Spot) -> None:
        """Correct position and velocity with a spot measured at a time, s."""
        expected = self.expected(stamp)
        passed = stamp - self._stamp
        if expected is not None and self._is_merged(stamp, spot, expected):
            self._merged_since = min(self._merged_since, stamp)
            self._position, self._stamp = expected, stamp
            return
        if self._position is not None and 0.0 < passed <= MAX_GAP:
            self._velocity = (
                self._velocity[0]
                + VELOCITY_GAIN * ((spot.x - self._position[0]) / passed - self._velocity[0]),
                self._velocity[1]
                + VELOCITY_GAIN * ((spot.y - self._position[1]) / passed - self._velocity[1]),
            )
        elif passed != 0.0:
            self._velocity = (0.0, 0.0)
        self._position, self._stamp = (spot.x, spot.y), stamp
        self._merged_since = math.inf
        self._had_rival_near = (
            spot.rival is not None and math.dist(spot.rival, (spot.x, spot.y)) < MERGE_DISTANCE_CELLS
        )

    def _is_merged(self, stamp: float, spot: Spot, expected: Position) -> bool:
        return (
            self._had_rival_near
            and spot.rival is None
            and stamp - self._merged_since <= MAX_MERGED
            and math.dist(expected, (spot.x, spot.y)) < MAX_MERGED_OFFSET_CELLS
        )

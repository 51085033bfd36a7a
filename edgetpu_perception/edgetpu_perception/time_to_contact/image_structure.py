"""Whether an image has enough structure for motion to be seen in it."""

from __future__ import annotations

import math

import cv2
import numpy as np

from edgetpu_perception.time_to_contact.homography_alignment import Map
from edgetpu_perception.time_to_contact.surface_tracker_limits import (
    MAX_STRIPES_SHARE,
    MIN_STRUCTURE_SHARE,
    WARP_ERROR_ELEMENTS,
)


def shows_motion(slope_x: Map, slope_y: Map, energy: Map, noise_variance: float) -> bool:
    """Whether an image has edges, and in more than one direction.

    Images without any structure, such as those behind a lens cap, match each other perfectly whatever the
    motion, and images of stripes do so whatever the motion along the stripes. `slope_x`, `slope_y`: float32
    [rows, columns], grey levels; `energy`: sum of the squares of both; `noise_variance`: of a slope, 0 if it
    is unknown.
    """
    if cv2.countNonZero(energy) < MIN_STRUCTURE_SHARE * energy.size:
        return False
    return not _is_striped(slope_x, slope_y, energy.size * noise_variance)


def _is_striped(slope_x: Map, slope_y: Map, noise: float) -> bool:
    """Whether all edges have one direction, so that growth along it would be measured from noise.

    Slopes along the edges that are as small as the errors of a warp across them tell nothing either.
    `noise`: the part of the sum of the squares of one slope that is due to noise.
    """
    xx, yy, xy = (float(np.vdot(*each)) for each in ((slope_x,) * 2, (slope_y,) * 2, (slope_x, slope_y)))
    mean, deviation = (xx + yy) / 2, math.hypot((xx - yy) / 2, xy)
    least, most = mean - deviation, mean + deviation
    return least < MAX_STRIPES_SHARE * most and least - noise < WARP_ERROR_ELEMENTS**2 * most

"""Whether images have enough structure for motion to be seen in them."""

from __future__ import annotations

import math

import cv2
import numpy as np

from edgetpu_perception.time_to_contact.homography_alignment import Map
from edgetpu_perception.time_to_contact.surface import Surface
from edgetpu_perception.time_to_contact.surface_tracker_limits import (
    MAX_STRIPES_SHARE,
    MIN_STRUCTURE_SHARE,
    STRETCH_SIGMA,
    WARP_ERROR_ELEMENTS,
)


class ImageStructure:
    """Tells whether an image of a sequence has edges, and in more than one direction.

    Images without any structure, such as those behind a lens cap, match each other perfectly whatever the
    motion, and images of stripes do so whatever the motion along the stripes. Yet bricks or boards show
    little but their joints shortly before contact. What was claimed to approach is therefore followed by
    stripes, until the contact that was expected when they began.
    """

    def __init__(self) -> None:
        self._end = math.nan
        """Time until which a surface is followed by stripes, s; NaN if the last image had other edges."""

    def shows_motion(
        self,
        slope_x: Map,
        slope_y: Map,
        energy: Map,
        noise_variance: float,
        stamp: float,
        main: Surface | None,
    ) -> bool:
        """Whether an image is used. `slope_x`, `slope_y`: float32 [rows, columns], grey levels.

        `energy`: sum of the squares of both; `noise_variance`: of a slope, 0 if it is unknown; `stamp`: time
        of the image, s; `main`: the main surface of the last image, if there was any.
        """
        if cv2.countNonZero(energy) < MIN_STRUCTURE_SHARE * energy.size:
            return False
        if not _is_striped(slope_x, slope_y, energy.size * noise_variance):
            self._end = math.nan
            return True
        if math.isnan(self._end) and main is not None and main.claimed and main.approaches:
            self._end = stamp + 1 / main.rate
        return stamp <= self._end

    @property
    def depth_variance(self) -> float:
        """Variance of the logarithm of a depth that stripes cause; 0 without stripes.

        They show only how much the image grows across them. It may be stretched along them.
        """
        return 0.0 if math.isnan(self._end) else STRETCH_SIGMA**2


def _is_striped(slope_x: Map, slope_y: Map, noise: float) -> bool:
    """Whether all edges have one direction, so that growth along it would be measured from noise.

    Slopes along the edges that are as small as the errors of a warp across them tell nothing either.
    `noise`: the part of the sum of the squares of one slope that is due to noise.
    """
    xx, yy, xy = (float(np.vdot(*each)) for each in ((slope_x,) * 2, (slope_y,) * 2, (slope_x, slope_y)))
    mean, deviation = (xx + yy) / 2, math.hypot((xx - yy) / 2, xy)
    least, most = mean - deviation, mean + deviation
    return least < MAX_STRIPES_SHARE * most and least - noise < WARP_ERROR_ELEMENTS**2 * most

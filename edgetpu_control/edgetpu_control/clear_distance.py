"""The distance ahead that is certainly free, from images in which nothing approached a driving robot."""

from __future__ import annotations

MEASUREMENT_AGE = 1.0
"""Seconds for which a measurement counts: longer than a robot brakes or speeds up, during which its speed is
too uncertain to measure a distance."""


class ClearDistance:
    """A lower limit of the distance to whatever is ahead, m from the camera.

    The limit is 0 while the robot does not know what is ahead: if it has not driven, has turned away from
    what it measured, or has measured nothing for MEASUREMENT_AGE.
    """

    def __init__(self) -> None:
        self.metres = 0.0
        self._age = 0.0
        """Seconds since the last measurement."""
        self._turned = 0.0
        """Angle turned since then, rad."""

    def forget(self) -> None:
        """Set the limit to 0."""
        self.metres = 0.0

    def drive(self, metres: float, angle: float, seconds: float, largest_angle: float) -> None:
        """Subtract the distance driven, forward positive; forget the limit after `largest_angle` rad."""
        self._age += seconds
        self._turned += angle
        self.metres = max(self.metres - metres, 0.0)
        if self._age > MEASUREMENT_AGE or abs(self._turned) > largest_angle:
            self.forget()

    def measure(self, metres: float) -> None:
        """Take the lower limit in m that an image has just given; 0: the image gave none."""
        if metres > 0:
            self.metres, self._age, self._turned = metres, 0.0, 0.0

"""The distance to the nearest obstacle ahead, from times to contact and the robot's own speed."""

from __future__ import annotations

import math
from dataclasses import dataclass

SLOWEST = 0.05
"""m/s; at lower speeds a growth gives no distance: the error of a distance grows with 1 / speed."""

SPEED_ERROR = 0.05
"""Standard deviation of the robot's speed, relative to it: odometry of wheels, and lag behind commands."""

LEAST_SPEED_ERROR = 0.02
"""m/s. At lower speeds wheels slip and stick, so the distance follows less reliably from the speed."""

KNOWN_SPEED = 2.0
"""Standard deviations by which a speed must exceed 0 to give a distance."""

SPEED_ERROR_LASTS = 0.5
"""Seconds over which the errors of the speed are correlated, so that averaging does not reduce them: as long
as the robot takes to brake or to get up to speed."""

OWN_MOTION = 0.05
"""m per square root of a second: how uncertain a distance becomes in 1 s, as the obstacle may move.
Measurements of faster objects do not fit, and the filter restarts with them."""

GATE = 3.0
"""Standard deviations above which a measurement is of something else, if a second one agrees with it."""


@dataclass(frozen=True)
class Contact:
    """The measurement of a camera that looks ahead, from one image."""

    expansion_rate: float
    """Relative growth of the image per second, 1/s."""
    expansion_rate_sigma: float
    """Its standard deviation, 1/s."""
    approaching: bool
    """Whether something certainly grows."""

    @property
    def is_plausible(self) -> bool:
        """Whether both numbers were measured, and something that approaches grows."""
        return (
            math.isfinite(self.expansion_rate)
            and 0 <= self.expansion_rate_sigma < math.inf
            and (self.expansion_rate > 0 or not self.approaching)
        )


class DistanceFilter:
    """A Kalman filter of one distance from the camera, m.

    A measurement is speed / expansion_rate. Between measurements the distance driven is subtracted, so it is
    also known while the robot is at rest and its camera sees no growth.
    """

    def __init__(self) -> None:
        self.distance = math.inf
        """m; inf: no obstacle is known."""
        self.variance = 0.0
        self._measured_at = -math.inf
        self._odd: float | None = None
        """The last measurement, if it did not fit or was the first; a second like it restarts the filter."""

    @property
    def sigma(self) -> float:
        """Standard deviation of the distance, m."""
        return math.sqrt(self.variance)

    def forget(self) -> None:
        """Forget the distance: there is no obstacle."""
        self.distance, self.variance, self._odd = math.inf, 0.0, None
        self._measured_at = -math.inf

    def drive(self, metres: float, sigma: float, seconds: float) -> None:
        """Subtract the distance that the robot drove within `seconds`.

        metres: forward positive. sigma: standard deviation of `metres`, m.
        """
        if self._odd is not None:
            self._odd -= metres
        if math.isinf(self.distance):
            return
        self.distance -= metres
        self.variance += (SPEED_ERROR * metres) ** 2 + _alike(seconds) * sigma**2
        if metres:
            self.variance += OWN_MOTION**2 * seconds

    def measure(
        self, contact: Contact, stamp: float, speed: float, speed_sigma: float, driven: float
    ) -> float:
        """Take the measurement of an image; return how far the way is certainly free, m.

        stamp: of the image, s. speed: of the robot when the image was taken, m/s, forward positive;
        speed_sigma: its standard deviation. driven: distance since then, m. Returns 0 if something
        approaches, or if the robot was too slow.
        """
        error = math.hypot(speed_sigma, SPEED_ERROR * speed, LEAST_SPEED_ERROR)
        if speed < max(SLOWEST, KNOWN_SPEED * error) or not contact.is_plausible:
            return 0.0
        rate, rate_sigma = contact.expansion_rate, contact.expansion_rate_sigma
        if not contact.approaching:
            if rate + GATE * rate_sigma <= 0:  # it recedes: the robot does not drive at this speed
                return 0.0
            slowest = max(speed - GATE * error, 0.0)
            free = slowest / max(rate + GATE * rate_sigma, 1e-9) - driven
            self._forget_if_beyond(free)
            return max(free, 0.0)
        distance = speed / rate
        own = (distance * rate_sigma / rate) ** 2
        common = (distance * error / speed) ** 2
        alike = _alike(stamp - self._measured_at)
        self._measured_at = stamp
        self._update(distance - driven, own + common, own + alike * common)
        return 0.0

    def _forget_if_beyond(self, least: float) -> None:
        """Forget the distance if the obstacle is certainly farther away."""
        if self.distance + GATE * self.sigma < least:
            self.forget()

    def _update(self, distance: float, variance: float, weighed: float) -> None:
        """Take a distance in m with its variance; weighed: the variance that determines its weight."""
        if math.isinf(self.distance):
            self._take_odd(distance, variance)
            return
        total = self.variance + variance
        innovation = distance - self.distance
        if innovation**2 > GATE**2 * total:
            self._take_odd(distance, variance)
            return
        self._odd = None
        total = self.variance + weighed
        gain = self.variance / total if total > 0 else 1.0
        self.distance += gain * innovation
        self.variance *= 1 - gain

    def _take_odd(self, distance: float, variance: float) -> None:
        """Restart with a measurement that does not fit or is the first, if the one before agrees with it."""
        before, self._odd = self._odd, distance
        if before is not None and (before - distance) ** 2 <= 2 * GATE**2 * variance:
            self.distance, self.variance, self._odd = distance, variance, None


def _alike(seconds: float) -> float:
    """Return how many measurements, `seconds` apart, share one error of the speed."""
    return max(SPEED_ERROR_LASTS / max(seconds, 1e-3), 1.0)

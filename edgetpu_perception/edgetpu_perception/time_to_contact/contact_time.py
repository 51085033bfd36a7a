"""The time to contact with a surface, from the rate at which its image grows."""

from __future__ import annotations

import math

MIN_TIME_LEFT = 0.2
"""Smallest share of the time to contact that `share_left` returns. Given as a guard."""


def contact_time(rate: float, sigma: float) -> tuple[float, float]:
    """The time to contact and its standard deviation, s; both +inf unless `rate` is above `sigma`.

    rate: relative growth of the image, 1/s. sigma: its standard deviation, 1/s.
    """
    return (1 / rate, sigma / rate**2) if rate > sigma else (math.inf, math.inf)


def share_left(rate: float, seconds: float) -> float:
    """Share of the time to contact that is left after `seconds` at the same speed, at least MIN_TIME_LEFT.

    rate: relative growth of the image at the beginning, 1/s.
    """
    return max(1 - rate * seconds, MIN_TIME_LEFT)

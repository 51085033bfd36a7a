"""Chooses between a spot and the disc that was found around it."""

from __future__ import annotations

import math

from edgetpu_perception.spot_tracker.shaded_disc import ShadedDisc
from edgetpu_perception.spot_tracker.spot_decoder import NO_SPOT, Spot

SUFFICIENT_CONFIDENCE = 0.5
"""Confidence from which no further threshold or shape is tried.

Derived: half of full confidence, from which "right or unsure" counts a result as sure. Uncritical.
"""

SAME_DISC_CELLS = 0.5
"""A certain spot this close to the disc is the disc, and the spot's position is the more precise one.

Rows: spot, colours, full contrast, white, within 0.3.
"""

SAME_DISC_SHARE = 0.1
"""Share of the disc's radius within which a spot that is at least as certain is the disc, too.

Derived: the bright side of a ball is farther off, unless the lamp is next to the camera."""


def spot_by_disc(large: Spot, disc: ShadedDisc | None) -> Spot:
    """The spot placed by the outline of a bright disc, unless a certain spot is at its centre or beside it.

    Without a disc only a certain spot counts, as most scenes have something white.
    """
    if disc is None:
        return large if large.confidence >= SUFFICIENT_CONFIDENCE else NO_SPOT
    apart = math.dist((large.x, large.y), (disc.x, disc.y))
    if apart < SAME_DISC_CELLS and large.confidence >= SUFFICIENT_CONFIDENCE:
        return large._replace(confidence=max(large.confidence, disc.confidence))
    if large.confidence >= disc.confidence and apart < SAME_DISC_SHARE * disc.radius:
        return large
    # A spot on the disc is its bright side; one elsewhere is another object.
    if apart > disc.radius and large.confidence > max(disc.confidence, SUFFICIENT_CONFIDENCE):
        return large
    return Spot(disc.x, disc.y, disc.x_sigma, disc.y_sigma, disc.confidence)


def whole_disc(large: Spot, disc: ShadedDisc | None) -> Spot:
    """The spot placed by the outline of a disc of the colour around it, part of which light may hide."""
    if disc is None or disc.confidence <= large.confidence:
        return large
    apart = math.dist((large.x, large.y), (disc.x, disc.y))
    if apart < SAME_DISC_CELLS or (large is not NO_SPOT and apart > disc.radius):
        return large
    return Spot(disc.x, disc.y, disc.x_sigma, disc.y_sigma, disc.confidence)

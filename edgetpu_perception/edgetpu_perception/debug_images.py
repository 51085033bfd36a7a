"""Debug images of results, one function for each algorithm.

Each takes a result, or the message that the node makes from it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from edgetpu_driver.images import drawing
from edgetpu_driver.images.encodings import Pixels

if TYPE_CHECKING:  # each node draws the results of one algorithm and loads no other
    from edgetpu_perception.optical_flow.optical_flow import FlowResult
    from edgetpu_perception.optical_flow.shift_registration import ShiftScores
    from edgetpu_perception.pattern_tracker.pattern_tracker import MatchResult
    from edgetpu_perception.spot_tracker.spot_tracker import SpotResult
    from edgetpu_perception.time_to_contact.looming import LoomingResult
    from edgetpu_perception.visual_compass.visual_compass import HeadingResult


def spot_picture(image: Pixels, result: SpotResult, trail: Iterable[tuple[float, float]] = ()) -> Pixels:
    """The position as a crosshair, and the numbers. `trail`: earlier positions and the present one, px."""
    picture = drawing.canvas(image)
    if not result.valid:
        drawing.caption(picture, f"no spot  {result.confidence:.2f}", drawing.LOST)
        return picture
    drawing.trail(picture, trail, drawing.FAINT)
    drawing.crosshair(picture, *drawing.to_pixels(image, result.x, result.y), drawing.FOUND)
    text = f"x {result.x:+.3f}  y {result.y:+.3f}  {result.confidence:.2f}"
    drawing.caption(picture, text, drawing.FOUND)
    return picture


def looming_picture(image: Pixels, result: LoomingResult) -> Pixels:
    """The nine zones with their edge energy, where the surface is, and the time to contact."""
    return _looming_picture(image, result, result.region)


def looming_message_picture(image: Pixels, message: Any) -> Pixels:
    """The same for a message, in which a region without size stands for none."""
    region = message.region
    sides = (region.x_offset, region.y_offset, region.width, region.height)
    return _looming_picture(image, message, sides if region.width else None)


def _looming_picture(
    image: Pixels, result: LoomingResult, region: tuple[int, int, int, int] | None
) -> Pixels:
    picture = drawing.canvas(image)
    drawing.zones(picture, result.zones, drawing.FAINT)
    if not result.valid:
        drawing.caption(picture, f"not measured  {result.confidence:.2f}", drawing.LOST)
        return picture
    color = drawing.LOST if result.approaching else drawing.FOUND
    if region is not None:
        x, y, width, height = region
        center = x + (width - 1) / 2, y + (height - 1) / 2
        drawing.box(picture, center, (width, height), color)
    if math.isinf(result.ttc):
        drawing.caption(picture, f"no approach  {result.expansion_rate:+.2f}/s", color)
    else:
        drawing.caption(picture, f"TTC {result.ttc:.2f} +- {result.ttc_sigma:.2f} s", color)
    return picture


def flow_picture(image: Pixels, result: FlowResult, scores: ShiftScores | None = None) -> Pixels:
    """The motion as an arrow, and the correlation of each shift as an inset."""
    picture = drawing.canvas(image)
    if scores is not None:
        drawing.inset(picture, scores.correlation)
    if not result.valid:
        drawing.caption(picture, f"not measured  {result.confidence:.2f}", drawing.LOST)
        return picture
    drawing.arrow(picture, result.dx, result.dy, drawing.FOUND)
    text = f"{result.dx:+.2f} {result.dy:+.2f} px  {result.confidence:.2f}"
    drawing.caption(picture, text, drawing.FOUND)
    return picture


def heading_picture(image: Pixels, result: HeadingResult) -> Pixels:
    """A compass dial with the yaw, and the numbers."""
    picture = drawing.canvas(image)
    if not result.valid:
        drawing.caption(picture, f"not measured  {result.confidence:.2f}", drawing.LOST)
        return picture
    drawing.dial(picture, result.yaw, drawing.FOUND)
    yaw, rate = math.degrees(result.yaw), math.degrees(result.yaw_rate)
    drawing.caption(picture, f"{yaw:+.1f} deg  {rate:+.1f} deg/s", drawing.FOUND)
    return picture


def match_picture(image: Pixels, result: MatchResult, *, has_template: bool = True) -> Pixels:
    """A box around the pattern, and its score."""
    picture = drawing.canvas(image)
    if not result.valid:
        text = f"not found  {result.confidence:.2f}" if has_template else "no template"
        drawing.caption(picture, text, drawing.LOST)
        return picture
    color = drawing.FAINT if result.ambiguous else drawing.FOUND
    drawing.box(picture, (result.x, result.y), (result.width, result.height), color)
    drawing.caption(picture, f"score {result.score:.3f}  {result.confidence:.2f}", color)
    return picture

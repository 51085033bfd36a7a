"""Ground truth of a world and the results of the nodes, for the report and the figures."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from builtin_interfaces.msg import Time

from drive.worlds.camera import Camera, InImage, Points, image_motion
from drive.worlds.robot_world import HEIGHT, PERIOD, WIDTH, World
from edgetpu_driver.node_kit.messages.message_stamps import nanoseconds_of
from edgetpu_msgs.msg import Flow, Heading, PatternMatch, PlaceMatch, ServoError, TimeToContact

LONGEST_CONTACT = 20.0
"""Longest time to contact that is plotted, s."""
SLOWEST = 0.01
"""Lowest speed at which a robot counts as approaching something, m/s."""
GRID = 16, 12
"""Columns and rows of the grid of image points whose motions give the true flow."""
KEPT_IMAGES = 30
"""Number of images for which the true flow can be computed, one second: no node compares older images."""


@dataclass(frozen=True)
class Truth:
    """The ground truth at one time."""

    time: float
    """Time since the world was entered, s."""
    x: float
    """Position of the robot along x, m."""
    y: float
    yaw: float
    """Yaw of the camera, rad, left positive."""
    speed: float
    """Forward speed, m/s."""
    turning: float
    """Angular velocity, rad/s, left positive."""
    time_to_contact: float
    """Time until the camera reaches the surface on its axis, at the present speed, s; NaN: more than
    LONGEST_CONTACT, or the robot does not drive forward."""
    expansion_rate: float
    """Inverse of the time to contact, 1/s, however long that is; negative: the robot drives backward."""
    spot: InImage | None
    """Position of the object that spot_tracker should find; None: there is none."""
    pattern: InImage | None
    """Position of the template of pattern_tracker; None: it has none."""

    @classmethod
    def of(cls, world: World, seconds: float) -> Truth:
        """Return the present ground truth."""
        speed, distance = world.velocity[0], world.distance_ahead()
        contact = distance / speed if speed > SLOWEST else math.inf
        return cls(
            seconds,
            *world.pose[:2],
            world.camera_yaw,
            *world.velocity,
            contact if contact <= LONGEST_CONTACT else math.nan,
            speed / distance,
            world.spot_in_image(),
            world.pattern_in_image(),
        )


@dataclass(frozen=True)
class Measured:
    """One number that a node measured in an image, and its true value."""

    time: float
    """Time of the image, s since the world was entered."""
    value: float
    """Measured value; NaN: the result was not valid."""
    sigma: float
    true: float = math.nan
    """True value; NaN: not known, or the object was not completely in the image."""


@dataclass(frozen=True, eq=False)
class _View:
    """What the camera saw at one time."""

    time: float
    camera: Camera
    points: Points
    """Points of static objects in the world, m, [n, 3]; NaN where there is no such object."""


@dataclass
class Record:
    """What happened in one world."""

    truths: list[Truth] = field(default_factory=list)
    """Ground truth of each period, the first at the time PERIOD."""
    measured: dict[str, list[Measured]] = field(default_factory=dict)
    """Results by quantity: `yaw`, rad, `time to contact`, s, `expansion rate`, 1/s, `flow x`, `flow y`,
    `spot x`, `spot y`, `pattern x` and `pattern y`, px."""
    places: list[tuple[float, PlaceMatch]] = field(default_factory=list)
    """The answers of place recognition, each with the time of its image, s."""
    _views: deque[_View] = field(default_factory=lambda: deque(maxlen=KEPT_IMAGES))

    def see(self, world: World, seconds: float) -> None:
        """Store the present ground truth; seconds: time since the world was entered."""
        self.truths.append(Truth.of(world, seconds))
        camera = world.camera
        self._views.append(_View(seconds, camera, world.surfaces(camera.rays(camera.grid(*GRID)))))

    def measure(self, message: Any, seconds: float) -> None:
        """Store the result of an image of this time with the true values."""
        if isinstance(message, PlaceMatch):
            self.places.append((seconds, message))
        for quantity, value, sigma, true in self._numbers(message, seconds):
            found = (value, sigma) if message.valid else (math.nan, math.nan)
            self.measured.setdefault(quantity, []).append(Measured(seconds, *found, true))

    def truth_at(self, seconds: float) -> Truth | None:
        """Return the truth at this time; None before the world was entered."""
        period = round(seconds / PERIOD) - 1
        return self.truths[period] if 0 <= period < len(self.truths) else None

    def true_flow(self, before: float, after: float) -> tuple[float, float]:
        """Return the median motion over the image between two times, px, right and down positive.

        before, after: times of the images, s. The motion is NaN if an image is not among the last KEPT_IMAGES
        of this world, or if the images have less than half of the picture in common.
        """
        first, second = self._view_at(before), self._view_at(after)
        if first is None or second is None:
            return math.nan, math.nan
        common = second.camera.contains(second.camera.pixels(first.points))
        if 2 * np.count_nonzero(common) < len(common):
            return math.nan, math.nan
        x, y = np.nanmedian(image_motion(first.camera, second.camera, first.points), axis=0).tolist()
        return x, y

    def _view_at(self, seconds: float) -> _View | None:
        return next((view for view in self._views if abs(view.time - seconds) < PERIOD / 2), None)

    def _numbers(self, message: Any, seconds: float) -> Iterator[tuple[str, float, float, float]]:
        """The quantities in a message: name, value, sigma and truth of each."""
        now = self.truth_at(seconds)

        def then(stamp: Time) -> float:
            """Time of another stamp since the world was entered, s."""
            return seconds + (nanoseconds_of(stamp) - nanoseconds_of(message.header.stamp)) / 1e9

        match message:
            case Heading():
                start = self.truth_at(then(message.reference_stamp))
                yaw = now.yaw - start.yaw if now and start else math.nan
                yield "yaw", message.yaw, message.yaw_sigma, yaw
            case TimeToContact():
                contact, rate = (now.time_to_contact, now.expansion_rate) if now else (math.nan, math.nan)
                yield "time to contact", message.ttc, message.ttc_sigma, contact
                yield "expansion rate", message.expansion_rate, message.expansion_rate_sigma, rate
            case Flow():
                x, y = self.true_flow(then(message.previous_stamp), seconds)
                yield "flow x", message.dx, message.dx_sigma, x
                yield "flow y", message.dy, message.dy_sigma, y
            case ServoError():
                x, y = whole_in_image(now.spot if now else None)
                half_x, half_y = (WIDTH - 1) / 2, (HEIGHT - 1) / 2  # a servo error is 1 at the last pixel
                yield "spot x", half_x * (1 + message.x), half_x * message.x_sigma, x
                yield "spot y", half_y * (1 + message.y), half_y * message.y_sigma, y
            case PatternMatch():
                x, y = whole_in_image(now.pattern if now else None)
                yield "pattern x", message.x, message.x_sigma, x
                yield "pattern y", message.y, message.y_sigma, y


def whole_in_image(found: InImage | None) -> tuple[float, float]:
    """Return the position of an object in the image, px; NaN unless all of the object is in the image."""
    return (found.x, found.y) if found and found.whole else (math.nan, math.nan)

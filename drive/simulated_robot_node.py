"""The robot of a world as a ROS node: images, odometry and /clock out, cmd_vel in, in lock step."""

from __future__ import annotations

import time
from collections import deque
from typing import Any

import numpy as np
from geometry_msgs.msg import Twist
from numpy.typing import NDArray
from sensor_msgs.msg import Image

from drive.awaited_results import AwaitedResults
from drive.film import Film
from drive.simulated_robot_topics import FIRST_SECOND, RobotTopics, header_at, image_message
from drive.suite_connection import START_SECONDS, DriveError, SuiteConnection
from drive.truth import Record
from drive.worlds.robot_world import PERIOD, World
from edgetpu_driver.node_kit.messages.message_stamps import nanoseconds_of

LATENCY = 2
"""Delay of an image, periods: 67 ms for exposure, readout and transport of a webcam."""
BASE_TIMEOUT = 0.5
"""Time without a velocity after which the base stops, s: cmd_vel_timeout of diff_drive_controller."""


class SimulatedRobot:
    """Steps a world, one image at a time; simulated time continues from world to world.

    After each image it waits for the results with the image's stamp, at most one period of real time; then
    the clock continues, and results that have not arrived count as missing.
    """

    def __init__(self, cmd_vel: str) -> None:
        """cmd_vel: topic of the velocities that the robot obeys."""
        self._suite = SuiteConnection("simulated_robot")
        self._suite.node.create_subscription(Twist, cmd_vel, self._on_velocity, 1)
        self._topics = RobotTopics(self._suite.node)
        self._awaited = AwaitedResults()
        self._velocity = (0.0, 0.0)
        self._ticks = self._commanded_at = 0
        self._waiting: deque[tuple[int, Image]] = deque()
        """Images that have not arrived yet, each with the tick at which it was taken."""
        self._world: World | None = None
        self.images = self.missing = 0
        """Number of images whose results were awaited, and of those with a result that was not in time."""
        self.real_time = False
        """Whether the world runs no faster than real time. Then it does not wait for results."""
        self.image_every = 1
        """Periods from one image of the camera to the next, which is also the time limit of results."""
        self.stalled = False
        """Whether the camera delivers no images."""
        self._due = 0.0
        self.record = Record()
        """Record of the present world."""
        self._entered = 0
        """Tick before the first one of this world."""
        self.film: Film | None = None

    def close(self) -> None:
        """Leave the graph."""
        self._suite.close()

    @property
    def world(self) -> World:
        """The present world."""
        assert self._world is not None
        return self._world

    @property
    def velocity(self) -> tuple[float, float]:
        """The velocities that the robot was last commanded, m/s and rad/s."""
        return self._velocity

    @property
    def results_age(self) -> float:
        """Age of the newest image whose results have all arrived, s."""
        return FIRST_SECOND + self._ticks * PERIOD - self._awaited.oldest / 1e9

    @property
    def results(self) -> dict[str, Any]:
        """The latest result, by topic."""
        return self._awaited.latest

    def drive(self, linear: float, angular: float) -> None:
        """Obey these velocities, m/s and rad/s, until the next ones or BASE_TIMEOUT."""
        self._velocity, self._commanded_at = (linear, angular), self._ticks

    def watch(self, message_type: type[Any], topic: str) -> None:
        """Wait for a result on this topic after each image."""

        def measure(message: Any, stamp: int) -> None:
            self.record.measure(message, stamp / 1e9 - FIRST_SECOND - self._entered * PERIOD)

        self._awaited.watch(self._suite.node, message_type, topic, measure)

    def publish(self, topic: str, message: Any) -> None:
        """See SuiteConnection."""
        self._suite.publish(topic, message)

    def call(self, service_type: type[Any], service: str, request: Any = None) -> Any:
        """See SuiteConnection."""
        return self._suite.call(service_type, service, request)

    def enter(self, world: World) -> None:
        """Move the robot into another world, where it is at rest."""
        self._world, self._velocity = world, (0.0, 0.0)
        self.record, self._entered = Record(), self._ticks
        self._waiting.clear()

    def await_results(self) -> None:
        """Step until every watched topic has had a result; raises DriveError after START_SECONDS."""
        end = time.monotonic() + START_SECONDS
        while silent := self._awaited.silent:
            if time.monotonic() > end:
                raise DriveError(
                    f"no result on {', '.join(silent)} within {START_SECONDS:g} s; see the logs of the nodes"
                )
            self.advance()
            self._suite.spin(0.1)
        self.images = self.missing = 0

    def advance(self) -> None:
        """Drive for a period; publish an image that is due, and wait for its results."""
        world = self.world
        if self._ticks - self._commanded_at > BASE_TIMEOUT / PERIOD:
            self._velocity = 0.0, 0.0
        world.step(PERIOD, *self._velocity)
        self._ticks += 1
        header = header_at(self._ticks)
        self.record.see(world, (self._ticks - self._entered) * PERIOD)
        self._topics.publish_clock(header)
        self._topics.publish_odometry(header, world)
        arrived = self._arrived_image()
        if arrived is not None and not self.stalled:
            self._topics.publish_image(arrived)
        if self._ticks % self.image_every == 0:  # rendered while the nodes process the arrived image
            self._waiting.append((self._ticks, image_message(header, self._pixels())))
        if arrived is None:
            return
        if not self.stalled:
            self._await(nanoseconds_of(arrived.header.stamp))
        if self.real_time:
            self._due = max(self._due + PERIOD, time.monotonic())
            self._suite.spin(self._due - time.monotonic())

    def _arrived_image(self) -> Image | None:
        """Return the image that arrives now, LATENCY after it was taken; None if there is none."""
        if not self._waiting or self._ticks - self._waiting[0][0] < LATENCY:
            return None
        return self._waiting.popleft()[1]

    def _await(self, stamp: int) -> None:
        """Wait for the results of a published image, unless in real time. stamp: of the image, ns."""
        self.images += 1
        if self.real_time:
            self.missing += self._awaited.oldest < stamp - round(1e9 * PERIOD)
            return
        period = self.image_every * PERIOD
        self.missing += not self._suite.spin(period, lambda: self._awaited.oldest >= stamp)

    def _on_velocity(self, message: Twist) -> None:
        self.drive(message.linear.x, message.angular.z)

    def _pixels(self) -> NDArray[np.uint8]:
        pixels = self.world.image()
        if self.film is not None:
            self.film.add(pixels, self.world)
        return pixels

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
from drive.robot_topics import FIRST_SECOND, RobotTopics, header_at, image_message
from drive.suite_connection import START_SECONDS, DriveError, SuiteConnection
from drive.truth import Record
from drive.worlds.robot_world import PERIOD, World
from edgetpu_driver.node_kit.messages.message_stamps import nanoseconds_of

LATENCY = 2
"""Periods from an image to its arrival, 67 ms: exposure, readout and transport of a webcam."""
BASE_TIMEOUT = 0.5
"""Seconds; cmd_vel_timeout of ros2_control's diff_drive_controller."""


class SimulatedRobot:
    """Steps a world, one image at a time; simulated time continues from world to world.

    After each image it waits for the results of its stamp, at most one period of real time; then the clock
    continues without them, and they count as missing.
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
        """Images on their way, with the tick at which they were taken."""
        self._world: World | None = None
        self.images = self.missing = 0
        """Images whose results were awaited, and those whose results were not all in time."""
        self.real_time = False
        """Whether the world runs no faster than real time. It then waits for no result, and the base stops
        after BASE_TIMEOUT without a velocity."""
        self.image_every = 1
        """Periods from one image of the camera to the next; results have as long."""
        self.stalled = False
        """Whether the camera gives no images."""
        self._due = 0.0
        self.record = Record()
        """What happens in the present world."""
        self._entered = 0
        """Tick before the first one of this world."""
        self.film: Film | None = None

    def close(self) -> None:
        """Leave the graph."""
        self._suite.close()

    @property
    def world(self) -> World:
        """The present one."""
        assert self._world is not None
        return self._world

    @property
    def velocity(self) -> tuple[float, float]:
        """The velocities that the robot was last given, m/s and rad/s."""
        return self._velocity

    @property
    def results_age(self) -> float:
        """Seconds since the image whose results were all there last."""
        return FIRST_SECOND + self._ticks * PERIOD - self._awaited.oldest / 1e9

    @property
    def results(self) -> dict[str, Any]:
        """The latest result, by topic."""
        return self._awaited.latest

    def drive(self, linear: float, angular: float) -> None:
        """Obey these velocities, m/s and rad/s, until the next ones."""
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
        """Be in another world from now on, at rest."""
        self._world, self._velocity = world, (0.0, 0.0)
        self.record, self._entered = Record(), self._ticks
        self._waiting.clear()

    def await_results(self) -> None:
        """Step until every watched topic has had a result; DriveError after START_SECONDS."""
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
        if self.real_time and self._ticks - self._commanded_at > BASE_TIMEOUT / PERIOD:
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
        if self._ticks % self.image_every == 0:  # rendered while the nodes are at work on the arrived one
            self._waiting.append((self._ticks, image_message(header, self._pixels())))
        if arrived is None:
            return
        if not self.stalled:
            self._await(nanoseconds_of(arrived.header.stamp))
        if self.real_time:
            self._due = max(self._due + PERIOD, time.monotonic())
            self._suite.spin(self._due - time.monotonic())

    def _arrived_image(self) -> Image | None:
        """Return the image that was taken LATENCY ago; None if there is none."""
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

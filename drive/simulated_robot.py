"""The robot of a world as a ROS node: images, odometry and /clock out, cmd_vel in, in lock step."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from typing import Any

import rclpy
from geometry_msgs.msg import Twist
from nav_msgs.msg import Odometry
from rclpy.executors import SingleThreadedExecutor
from rclpy.qos import qos_profile_sensor_data
from rclpy.signals import SignalHandlerOptions
from rosgraph_msgs.msg import Clock
from sensor_msgs.msg import CameraInfo, Image
from std_msgs.msg import Header

from drive.film import Film
from drive.truth import Record, Truth
from drive.worlds.world import FOCAL_LENGTH, HEIGHT, PERIOD, WIDTH, World
from edgetpu_dashboard.camera.calibration import pinhole_calibration
from edgetpu_dashboard.nodes.camera_info_messages import camera_info
from edgetpu_driver.errors import EdgeTpuError

LATENCY = 2
"""Periods from an image to its arrival, 67 ms: exposure, readout and transport of a webcam."""
FIRST_SECOND = 1000
"""Of simulated time; 0 means "no time" in ROS."""
BASE_TIMEOUT = 0.5
"""Seconds; cmd_vel_timeout of ros2_control's diff_drive_controller."""
START_SECONDS = 60.0
"""Real time that the nodes have for their first results."""
TICK = 0.05
"""Most seconds to wait in rclpy at a time: Python's signal handlers run only between two waits."""


class DriveError(EdgeTpuError):
    """The nodes publish no results, or rendering fails."""


class SimulatedRobot:
    """Steps a world, one image at a time; simulated time continues from world to world.

    After each image it waits for the results of its stamp, at most one period of real time; then the clock
    continues without them, and they count as missing.
    """

    def __init__(self, cmd_vel: str) -> None:
        """cmd_vel: topic of the velocities that the robot obeys."""
        # With rclpy's handlers a signal would end the context in the middle of a step.
        rclpy.init(signal_handler_options=SignalHandlerOptions.NO)
        self.node = rclpy.create_node("simulated_robot")
        self._executor = SingleThreadedExecutor()
        self._executor.add_node(self.node)
        make = self.node.create_publisher
        self._images = make(Image, "camera/image_raw", qos_profile_sensor_data)
        self._infos = make(CameraInfo, "camera/camera_info", qos_profile_sensor_data)
        self._odometry = make(Odometry, "odom", 10)
        self._clock = make(Clock, "/clock", 10)
        self.node.create_subscription(Twist, cmd_vel, self._on_velocity, 1)
        self._publishers: dict[str, Any] = {}
        self._velocity = (0.0, 0.0)
        self._ticks = self._told_at = 0
        self._waiting: deque[tuple[int, Header, Image]] = deque()
        """Images on their way: tick, header, image."""
        self._clients: dict[str, Any] = {}
        self._world: World | None = None
        self._answered: dict[str, int] = {}
        self.images = self.missing = 0
        """Images whose results were awaited, and those whose results were not all in time."""
        self.results: dict[str, Any] = {}
        """The latest result, by topic."""
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
        self._executor.shutdown()
        self.node.destroy_node()
        rclpy.shutdown()

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
        return FIRST_SECOND + self._ticks * PERIOD - min(self._answered.values()) / 1e9

    def drive(self, linear: float, angular: float) -> None:
        """Obey these velocities, m/s and rad/s, until the next ones."""
        self._velocity, self._told_at = (linear, angular), self._ticks

    def watch(self, message_type: type[Any], topic: str) -> None:
        """Wait for a result on this topic after each image."""
        self._answered[topic] = -1

        def on_result(message: Any) -> None:
            stamp = message.header.stamp
            self.results[topic] = message
            self._answered[topic] = stamp.sec * 10**9 + stamp.nanosec
            self.record.measure(message, self._answered[topic] / 1e9 - FIRST_SECOND - self._entered * PERIOD)

        self.node.create_subscription(message_type, topic, on_result, 10)

    def enter(self, world: World) -> None:
        """Be in another world from now on, at rest."""
        self._world, self._velocity = world, (0.0, 0.0)
        self.record, self._entered = Record(), self._ticks
        self._waiting.clear()

    def await_results(self) -> None:
        """Step until every watched topic has had a result; DriveError after START_SECONDS."""
        end = time.monotonic() + START_SECONDS
        while min(self._answered.values()) < 0:
            if time.monotonic() > end:
                silent = ", ".join(topic for topic, stamp in self._answered.items() if stamp < 0)
                raise DriveError(
                    f"no result on {silent} within {START_SECONDS:g} s; see the logs of the nodes"
                )
            self.advance()
            self._spin(0.1, lambda: False)
        self.images = self.missing = 0

    def advance(self) -> None:
        """Drive for a period; publish an image that is due, and wait for its results."""
        world = self.world
        if self.real_time and self._ticks - self._told_at > BASE_TIMEOUT / PERIOD:
            self._velocity = 0.0, 0.0
        world.step(PERIOD, *self._velocity)
        self._ticks += 1
        header = self._header()
        self.record.truths.append(Truth.of(world, (self._ticks - self._entered) * PERIOD))
        if self._ticks % self.image_every == 0:
            self._waiting.append((self._ticks, header, self._image(header)))
        self._clock.publish(Clock(clock=header.stamp))
        self._publish_odometry(header)
        if not self._waiting or self._ticks - self._waiting[0][0] < LATENCY:
            return
        _, late, image = self._waiting.popleft()
        if not self.stalled:
            self._give(late, image)
        if self.real_time:
            self._due = max(self._due + PERIOD, time.monotonic())
            self._spin(self._due - time.monotonic(), lambda: False)

    def _give(self, late: Header, image: Image) -> None:
        """Publish an image that has arrived, and wait for its results, unless in real time."""
        self._infos.publish(camera_info(late, pinhole_calibration(WIDTH, HEIGHT, FOCAL_LENGTH)))
        self._images.publish(image)
        stamp = late.stamp.sec * 10**9 + late.stamp.nanosec
        self.images += 1
        if self.real_time:
            self.missing += min(self._answered.values()) < stamp - round(1e9 * PERIOD)
            return
        period = self.image_every * PERIOD
        self.missing += not self._spin(period, lambda: min(self._answered.values()) >= stamp)

    def publish(self, topic: str, message: Any) -> None:
        """Publish a message to the nodes; DriveError if none of them subscribes."""
        if topic not in self._publishers:
            publisher = self._publishers[topic] = self.node.create_publisher(type(message), topic, 10)
            if not self._spin(START_SECONDS, lambda: publisher.get_subscription_count() > 0):
                raise DriveError(f"nobody subscribes to {topic}")
        self._publishers[topic].publish(message)

    def call(self, service_type: type[Any], service: str, request: Any = None) -> Any:
        """Call a service, by default without arguments; return its response. DriveError without one."""
        if service not in self._clients:
            self._clients[service] = self.node.create_client(service_type, service)
        client = self._clients[service]
        if not self._spin(START_SECONDS, client.service_is_ready):
            raise DriveError(f"nobody offers {service}")
        future = client.call_async(service_type.Request() if request is None else request)
        if not self._spin(START_SECONDS, future.done):
            raise DriveError(f"no answer from {service}")
        return future.result()

    def _on_velocity(self, message: Twist) -> None:
        self.drive(message.linear.x, message.angular.z)

    def _spin(self, seconds: float, done: Callable[[], bool]) -> bool:
        """Run callbacks until the condition holds, at most for `seconds`; return whether it holds."""
        end = time.monotonic() + seconds
        while not done():
            left = end - time.monotonic()
            if left <= 0:
                return False
            self._executor.spin_once(timeout_sec=min(left, TICK))
        return True

    def _header(self) -> Header:
        nanoseconds = FIRST_SECOND * 10**9 + round(self._ticks * PERIOD * 1e9)
        header = Header(frame_id="camera_optical_frame")
        header.stamp.sec, header.stamp.nanosec = divmod(nanoseconds, 10**9)
        return header

    def _image(self, header: Header) -> Image:
        pixels = self.world.image()
        if self.film is not None:
            self.film.add(pixels, self.world)
        return Image(
            header=header, height=HEIGHT, width=WIDTH, encoding="rgb8", step=3 * WIDTH, data=pixels.tobytes()
        )

    def _publish_odometry(self, header: Header) -> None:
        message = Odometry(header=Header(stamp=header.stamp, frame_id="odom"), child_frame_id="base_link")
        twist = message.twist.twist
        twist.linear.x, twist.angular.z = self.world.velocity
        message.pose.pose.position.x, message.pose.pose.position.y, _ = self.world.pose
        self._odometry.publish(message)

"""The topics of a simulated robot: the images of its camera, its odometry and the simulated time."""

from __future__ import annotations

import numpy as np
from nav_msgs.msg import Odometry
from numpy.typing import NDArray
from rclpy.node import Node
from rclpy.qos import qos_profile_sensor_data
from rosgraph_msgs.msg import Clock
from sensor_msgs.msg import CameraInfo, Image
from std_msgs.msg import Header

from drive.worlds.robot_world import FOCAL_LENGTH, HEIGHT, PERIOD, WIDTH, World
from edgetpu_dashboard.camera.calibration import pinhole_calibration
from edgetpu_dashboard.nodes.camera_info_messages import camera_info

FIRST_SECOND = 1000
"""Start of the simulated time, s; 0 would mean "no time" in ROS."""


class RobotTopics:
    """Publishes what a robot's camera and base measure."""

    def __init__(self, node: Node) -> None:
        self._images = node.create_publisher(Image, "camera/image_raw", qos_profile_sensor_data)
        self._infos = node.create_publisher(CameraInfo, "camera/camera_info", qos_profile_sensor_data)
        self._odometry = node.create_publisher(Odometry, "odom", 10)
        self._clock = node.create_publisher(Clock, "/clock", 10)

    def publish_clock(self, header: Header) -> None:
        """Publish the stamp of a header as the present time."""
        self._clock.publish(Clock(clock=header.stamp))

    def publish_odometry(self, header: Header, world: World) -> None:
        """Publish velocity and pose of the robot at the time of a header."""
        message = Odometry(header=Header(stamp=header.stamp, frame_id="odom"), child_frame_id="base_link")
        twist = message.twist.twist
        twist.linear.x, twist.angular.z = world.velocity
        message.pose.pose.position.x, message.pose.pose.position.y, _ = world.pose
        self._odometry.publish(message)

    def publish_image(self, image: Image) -> None:
        """Publish the CameraInfo of an image, then the image."""
        self._infos.publish(camera_info(image.header, pinhole_calibration(WIDTH, HEIGHT, FOCAL_LENGTH)))
        self._images.publish(image)


def header_at(tick: int) -> Header:
    """The header of the camera's image at a tick, which is counted in periods."""
    nanoseconds = FIRST_SECOND * 10**9 + round(tick * PERIOD * 1e9)
    header = Header(frame_id="camera_optical_frame")
    header.stamp.sec, header.stamp.nanosec = divmod(nanoseconds, 10**9)
    return header


def image_message(header: Header, pixels: NDArray[np.uint8]) -> Image:
    """The message of an RGB image, uint8 [height, width, 3]."""
    height, width = pixels.shape[:2]
    return Image(
        header=header, height=height, width=width, encoding="rgb8", step=3 * width, data=pixels.tobytes()
    )

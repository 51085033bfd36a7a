"""Sets a part of the camera's image as the template of the pattern tracker."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from std_msgs.msg import Header

from drive.simulated_robot_node import SimulatedRobot
from drive.simulated_robot_topics import image_message
from drive.worlds.robot_world import HEIGHT, WIDTH
from edgetpu_msgs.srv import SetTemplate

PATCH = WIDTH // 4, HEIGHT // 4
"""Width and height of the template in the image, px: 16 of the 64 px that the tracker searches."""


def set_template(robot: SimulatedRobot, view: NDArray[np.uint8], left: int, top: int) -> bool:
    """Set a part of the camera's present image as the template; return whether it was accepted.

    view: the image, uint8 [HEIGHT, WIDTH]. left, top: first column and row of the part, px.
    """
    right, bottom = left + PATCH[0], top + PATCH[1]
    world = robot.world
    corners = np.array([(x, y) for x in (left, right - 1) for y in (top, bottom - 1)])
    world.pattern = world.surfaces(world.camera.rays(np.vstack([corners.mean(axis=0), corners])))
    request = SetTemplate.Request(
        patch=image_message(Header(), view[top:bottom, left:right]), view=image_message(Header(), view)
    )
    return bool(robot.call(SetTemplate, "pattern_tracker/set_template", request).success)

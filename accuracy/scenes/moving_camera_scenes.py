"""Pairs of pictures of a camera that moves: held by hand, on a drone, or on a driving robot.

The picture does not move uniformly. The truth is its median motion, as a user of dense flow would take it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import numpy as np

from accuracy.scenes import drone_scenes, room_scenes
from accuracy.scenes.flow_scenes import Pair
from accuracy.scenes.panorama_turns import PHOTOGRAPHS, Turntable, load, orientation, pinhole
from accuracy.scenes.photographs import as_pixels
from accuracy.scenes.textured_hall import Floats, Hall, Pose, directions
from edgetpu_perception.camera_intrinsics import Pinhole
from edgetpu_perception.visual_compass.rotations import to_matrix

NOISE = 2.0
"""Standard deviation of each px, grey levels."""

FIELDS_OF_VIEW = (60.0, 90.0, 110.0)
"""Horizontal fields of view, deg, of cameras that only turn."""

TURNED = tuple(
    name for name in PHOTOGRAPHS if name not in ("hubble_deep_field.jpg", "retina.jpg", "rocket.jpg")
)
"""Photographs wrapped around cameras that only turn: those with texture in every direction."""

GROUND = (1.5, 1.5, 1.5)
"""Half of the width, height and depth, m, of a hall whose far wall serves as the ground."""

Scene = tuple[Pinhole, tuple[float, float, float], float, Pose, Floats, Floats]
"""Camera, half sizes of the hall in m, time between the pictures in s, pose of the first picture, velocity
in m/s, and angular velocity about the optical axes in rad/s."""


def held_over_ground(random: np.random.Generator) -> Scene:
    """Looking down from 1.5 m at 30 Hz, swaying and tilting like `looming_disturbed_scenes.over_ground`."""
    place = random.uniform(-0.1, 0.1, 3) * (1.0, 1.0, 0.0)
    pose = Pose(place, to_matrix(random.normal(0.0, 0.04, 3)))
    velocity = random.normal(0.0, 0.38, 3) * (1.0, 1.0, 0.1)
    return pinhole(320, 240, 58.0), GROUND, 1 / 30, pose, velocity, random.normal(0.0, 0.19, 3)


def drone(random: np.random.Generator, turns: tuple[float, float]) -> Scene:
    """Hovering in a hall at 20 Hz and 0.2 m/s; `turns`: range of the typical yaw rate, deg/s."""
    camera = pinhole(drone_scenes.WIDTH, drone_scenes.HEIGHT, drone_scenes.FOV)
    place = random.uniform(-0.5, 0.5, 3) * drone_scenes.HALF
    level = orientation(random.uniform(0.0, 360.0), random.uniform(-8.0, 8.0))
    pose = Pose(place, level @ to_matrix(np.array([0.0, 0.0, random.normal(0.0, 0.1)])))
    velocity = random.normal(0.0, 0.2, 3) * (1.0, 0.4, 1.0)
    turn = random.normal(0.0, math.radians(random.uniform(*turns)), 3) * (0.4, 1.0, 0.4)
    return camera, drone_scenes.HALF, 1 / drone_scenes.FRAME_RATE, pose, velocity, turn


def drive(random: np.random.Generator) -> Scene:
    """Driving forwards through a room at 15 Hz and 0.15 to 1 m/s, turning at about 10 deg/s."""
    camera = pinhole(room_scenes.WIDTH, room_scenes.HEIGHT, room_scenes.FOV)
    place = np.array([random.uniform(-1.5, 1.5), room_scenes.START[1], random.uniform(-4.0, 2.0)])
    pose = Pose(place, orientation(random.uniform(-15.0, 15.0)))
    velocity = pose.orientation[:, 2] * random.uniform(0.15, 1.0)
    turn = np.array([0.0, random.normal(0.0, math.radians(10.0)), 0.0])
    return camera, room_scenes.ROOM, 1 / room_scenes.FRAME_RATE, pose, velocity, turn


def pairs(draw: Callable[[np.random.Generator], Scene], count: int, seed: int) -> Iterator[Pair]:
    """`count` pairs, each of a new scene, with the median motion."""
    random = np.random.default_rng(seed)
    for _ in range(count):
        camera, half, seconds, before, velocity, turn = draw(random)
        hall = Hall.drawn(half, random)
        after = Pose(before.position + velocity * seconds, before.orientation @ to_matrix(turn * seconds))
        first, second = (hall.picture(camera, pose) for pose in (before, after))
        noise = random.normal(0.0, NOISE, (2, *first.shape))
        shift = hall.motion(camera, before, after)
        yield Pair(as_pixels(first + noise[0]), as_pixels(second + noise[1]), *shift, "moving camera")


def turns(count: int, seed: int) -> Iterator[Pair]:
    """`count` pairs of a turning wide-angle camera, with the median motion.

    The content of the middle moves by 0.5 to 6 px in any direction, and the camera also rolls, by about a
    third of the angle.
    """
    random = np.random.default_rng(seed)
    for k in range(count):
        camera = pinhole(320, 240, FIELDS_OF_VIEW[k % len(FIELDS_OF_VIEW)])
        angle = math.exp(random.uniform(math.log(0.5), math.log(6.0))) / camera.fx
        course = random.uniform(0.0, 2.0 * math.pi)
        axis = np.array([math.sin(course), math.cos(course), random.normal(0.0, 0.3)])
        before = orientation(random.uniform(0.0, 360.0), random.uniform(-15.0, 15.0))
        turn = to_matrix(axis * angle)
        table = Turntable(load(TURNED[k // len(FIELDS_OF_VIEW) % len(TURNED)]), camera, NOISE, samples=2)
        first, second = (table.image(pose, random) for pose in (before, before @ turn))
        rays = directions(camera)[::8, ::8].astype(np.float64)
        moved = rays @ turn
        shift = np.median(moved[..., :2] / moved[..., 2:] - rays[..., :2], axis=(0, 1))
        dx, dy = (shift * (camera.fx, camera.fy)).tolist()
        yield Pair(first, second, dx, dy, "turning camera")

"""A rendered camera in a room of known geometry, which gives each perception node something to measure.

The camera looks around (a lamp for the spot tracker, a poster for the pattern tracker), turns once about
itself (for the visual compass and optical flow) and, after a pause, drives towards a wall (for looming).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from edgetpu_dashboard.scene.room import LAMP, LAMP_RADIUS, POSTER, Room, on_wall_ahead, pixel_rays

Array = npt.NDArray[np.float64]

RAMP = 0.6
"""Time in which the turn and the drive speed up, and in which the turn slows down, s."""


@dataclass(frozen=True)
class Pose:
    """The camera at one time."""

    position: Array
    """x right, y down, z forward of the start, m."""
    yaw: float
    """rad, left positive."""
    tilt: float
    """rad, up positive."""

    @property
    def camera_from_world(self) -> Array:
        """Rotation into the optical frame, 3x3."""
        return camera_from_world(self.yaw, self.tilt)


@dataclass(frozen=True)
class Scene:
    """The camera and its motion; the defaults are the scene of the demo."""

    width: int = 320
    height: int = 240
    field_of_view: float = math.radians(60.0)
    """Horizontal, rad."""
    rate: float = 30.0
    """Frames per second."""
    frames: int = 345
    start_ns: int = 1_700_000_000_000_000_000
    """Stamp of the first frame, ns."""
    dark: tuple[float, float] = (2.1, 2.4)
    """Interval in which the lamp is off, s."""
    turn: tuple[float, float] = (3.0, 7.5)
    """Interval in which the camera turns once about itself, s; before, it looks around."""
    pause: float = 1.5
    """Pause without images after the turn, s, before the camera drives towards the wall."""
    speed: float = 0.85
    """Speed of the drive, m/s."""
    noise: float = 2.0
    """Standard deviation of the sensor's noise, grey levels."""
    seed: int = 7

    @property
    def focal_length(self) -> float:
        """Focal length, px, the same for x and y."""
        return (self.width / 2) / math.tan(self.field_of_view / 2)

    @property
    def centre(self) -> tuple[float, float]:
        """The principal point in px; the centre of the top left pixel is (0, 0)."""
        return (self.width - 1) / 2, (self.height - 1) / 2

    def time(self, frame: int) -> float:
        """Seconds since the first frame."""
        recorded = frame / self.rate
        return recorded if recorded < self.turn[1] else recorded + self.pause

    @property
    def drive(self) -> float:
        """Start of the drive, s."""
        return self.turn[1] + self.pause

    def stamp_ns(self, frame: int) -> int:
        """The stamp of a frame in ns."""
        return self.start_ns + round(self.time(frame) * 1e9)

    def lit(self, time: float) -> bool:
        """Whether the lamp is on."""
        return not self.dark[0] <= time < self.dark[1]

    def pose(self, time: float) -> Pose:
        """The camera at a time, s."""
        start, end = self.turn
        if time < start:
            yaw = math.radians(11.0) * math.sin(2 * math.pi * time / start)
            tilt = math.radians(7.0) * math.sin(4 * math.pi * time / start)
            return Pose(np.zeros(3), yaw, tilt)
        length = end - start
        turned = _ramped(min(time - start, length), length) / (length - RAMP)
        ahead = self.speed * _ramped(max(time - self.drive, 0.0), math.inf)
        return Pose(np.array([0.0, 0.0, ahead]), 2 * math.pi * turned, 0.0)

    def project(self, pose: Pose, point: Array) -> tuple[float, float] | None:
        """Position of a point of the world in the picture, px; None behind the camera."""
        right, down, ahead = pose.camera_from_world @ (point - pose.position)
        if ahead <= 0.1:
            return None
        cx, cy = self.centre
        return cx + self.focal_length * right / ahead, cy + self.focal_length * down / ahead

    def pattern_box(self) -> tuple[int, int, int, int]:
        """Left, top, width and height of the poster in the first frame, px: the pattern to look for."""
        width, height = self.width // 4, self.height // 4
        found = self.project(self.pose(0.0), on_wall_ahead(*POSTER))
        assert found is not None
        return round(found[0] - (width - 1) / 2), round(found[1] - (height - 1) / 2), width, height

    def pattern_point(self) -> Array:
        """The point of the world at the centre of `pattern_box`, [3], m."""
        left, top, width, height = self.pattern_box()
        cx, cy = self.centre
        depth = on_wall_ahead(0.0, 0.0)[2] / self.focal_length
        return on_wall_ahead((left + (width - 1) / 2 - cx) * depth, (top + (height - 1) / 2 - cy) * depth)

    def lamp_point(self) -> Array:
        """The centre of the lamp in the world, [3], m."""
        return on_wall_ahead(*LAMP)

    def lamp_radius(self, pose: Pose) -> float:
        """Radius of the lamp in the picture, px."""
        depth = float((pose.camera_from_world @ (self.lamp_point() - pose.position))[2])
        return self.focal_length * LAMP_RADIUS / max(depth, 0.1)


def _ramped(time: float, length: float) -> float:
    """Distance at a speed that grows to 1 within RAMP and falls to 0 at the end of `length`."""
    ramp = RAMP
    rising = time * time / (2 * ramp) if time < ramp else time - ramp / 2
    left = length - time
    return rising if left > ramp else length - ramp - left * left / (2 * ramp)


def camera_from_world(yaw: float, tilt: float) -> Array:
    """The 3x3 rotation into the optical frame (x right, y down, z forward) of a turned camera; angles in rad.

    At rest both frames are the same; the camera yaws about the vertical, then tilts about its own x axis.
    """
    cp, sp, ct, st = math.cos(yaw), math.sin(yaw), math.cos(tilt), math.sin(tilt)
    turn = np.array([[cp, 0.0, sp], [0.0, 1.0, 0.0], [-sp, 0.0, cp]])
    nod = np.array([[1.0, 0.0, 0.0], [0.0, ct, st], [0.0, -st, ct]])
    return np.asarray(nod @ turn, dtype=np.float64)


class SceneRenderer:
    """Takes the pictures of a scene."""

    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        self._room = Room(scene.seed)
        self._rays = pixel_rays(scene.width, scene.height, scene.focal_length)

    def picture(self, frame: int) -> npt.NDArray[np.uint8]:
        """Render a frame by its number, [height, width, 3] uint8 RGB."""
        scene = self._scene
        time = scene.time(frame)
        pose = scene.pose(time)
        pixels = self._room.render(pose.camera_from_world, pose.position, scene.lit(time), self._rays)
        random = np.random.default_rng((scene.seed, frame))
        pixels += np.float32(scene.noise) * random.standard_normal(pixels.shape, np.float32)
        return np.clip(np.rint(pixels), 0, 255).astype(np.uint8)


def render(scene: Scene) -> Iterator[npt.NDArray[np.uint8]]:
    """Yield the frames, [height, width, 3] uint8 RGB; two are rendered at a time."""
    renderer = SceneRenderer(scene)
    with ThreadPoolExecutor(2) as pool:
        yield from pool.map(renderer.picture, range(scene.frames))

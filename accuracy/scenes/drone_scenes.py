"""A drone that hovers and turns in a hall whose walls are photographs, with exact angular velocities."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise

import cv2
import numpy as np
from numpy.typing import NDArray

from accuracy.scenes.panorama_turns import orientation, pinhole
from accuracy.scenes.photographs import as_pixels
from accuracy.scenes.textured_hall import Hall, directions
from edgetpu_perception.camera_intrinsics import Pinhole
from edgetpu_perception.visual_compass.rotations import to_matrix, to_vector

FRAME_RATE = 20.0
SECONDS = 12.0
FOV = 79.0
"""Horizontal field of view, deg."""
WIDTH, HEIGHT = 320, 212
HALF = (30.0, 15.0, 30.0)
"""Half the width, height and depth of the hall, m."""
NOISE = 2.0
"""Standard deviation of each px, grey levels."""
READOUT = 0.01
"""Time from the first to the last row of a rolling shutter, s."""
BANDS = 8
"""Number of groups of rows; the rows of a group are exposed at the same time."""
VIBRATION_DEG, VIBRATION_M = 0.01, 0.001
"""Amplitudes of the vibration at 20 to 80 Hz along each axis."""
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class FlightClip:
    """Images of a flight with the true turns."""

    camera: Pinhole
    times: tuple[float, ...]
    """s"""
    velocity: Floats
    """Mean angular velocity about the optical axes since the previous image, deg/s: [n - 1, 3]."""
    yaw: Floats
    """Yaw since the first image, deg: [n]."""
    images: tuple[NDArray[np.uint8], ...]


@dataclass(frozen=True)
class Flight:
    """A flight in the middle half of the hall."""

    seed: int
    speed: float
    """Typical speed along each horizontal axis, m/s; vertically less."""
    turns: float
    """Typical yaw rate, deg/s; pitch and roll turn less."""

    def clip(self) -> FlightClip:
        """Render the images; each band of rows is exposed at its own time around the stamp."""
        random = np.random.default_rng(self.seed)
        camera = pinhole(WIDTH, HEIGHT, FOV)
        motion = _Motion.drawn(self, random)
        rays, hall = directions(camera), Hall.drawn(HALF, random)
        times = np.arange(round(SECONDS * FRAME_RATE) + 1) / FRAME_RATE
        images = []
        for time in times:
            fine = np.empty(rays.shape[:2], np.float32)
            for band in np.array_split(np.arange(len(rays)), BANDS):
                moment = time + (band.mean() / len(rays) - 0.5) * READOUT
                turned = rays[band] @ motion.orientation(moment).T.astype(np.float32)
                fine[band] = hall.look(motion.position(moment), turned)
            coarse = cv2.resize(fine, (WIDTH, HEIGHT), interpolation=cv2.INTER_AREA)
            images.append(as_pixels(coarse + random.normal(0.0, NOISE, coarse.shape)))
        poses = [motion.orientation(time) for time in times]
        velocity = [np.degrees(to_vector(a.T @ b)) * FRAME_RATE for a, b in pairwise(poses)]
        yaw = np.array([_yaw(poses[0].T @ pose) for pose in poses])
        return FlightClip(camera, tuple(times.tolist()), np.array(velocity), yaw, tuple(images))


@dataclass(frozen=True)
class _Motion:
    """Sums of sines for x, y and z, m, and pitch, yaw and roll, rad; arrays are [6, waves]."""

    amplitudes: Floats
    frequencies: Floats
    phases: Floats

    @classmethod
    def drawn(cls, flight: Flight, random: np.random.Generator) -> _Motion:
        """Three slow waves, a correction at 1 to 3 Hz, and the vibration."""
        slow = random.uniform(0.05, 0.5, (6, 3))
        rates = np.array([flight.speed * 0.7] * 3 + [math.radians(flight.turns)] * 3)
        rates *= np.array([1.0, 0.4, 1.0, 0.4, 1.0, 0.4]) / 1.5
        waves = rates[:, np.newaxis] / (2.0 * math.pi * slow)
        limits = np.array([*(half / 2 for half in HALF), *np.radians([15.0, 180.0, 15.0])])
        waves *= np.minimum(limits / (waves.sum(axis=1) + 1e-9), 1.0)[:, np.newaxis]
        corrections = np.array([0.01] * 3 + [math.radians(flight.turns / 40.0)] * 3)
        vibration = np.array([VIBRATION_M] * 3 + [math.radians(VIBRATION_DEG)] * 3)
        return cls(
            np.column_stack((waves, corrections, vibration)),
            np.hstack((slow, random.uniform(1.0, 3.0, (6, 1)), random.uniform(20.0, 80.0, (6, 1)))),
            random.uniform(0.0, 2.0 * math.pi, (6, 5)),
        )

    def _values(self, time: float) -> Floats:
        waves = self.amplitudes * np.sin(2.0 * math.pi * self.frequencies * time + self.phases)
        values: Floats = waves.sum(axis=1)
        return values

    def position(self, time: float) -> Floats:
        """Position from the middle of the hall, m."""
        return self._values(time)[:3]

    def orientation(self, time: float) -> Floats:
        """Orientation, whose columns are the optical axes in the hall."""
        pitch, yaw, roll = self._values(time)[3:].tolist()
        turned: Floats = orientation(math.degrees(yaw), math.degrees(pitch)) @ to_matrix(
            np.array([0.0, 0.0, roll])
        )
        return turned


def _yaw(turned: Floats) -> float:
    """Twist of a rotation about the vertical axis, deg; positive: to the left."""
    return math.degrees(2.0 * math.atan2(float(turned[2, 0] - turned[0, 2]), 1.0 + float(np.trace(turned))))

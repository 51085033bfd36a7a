"""Sequences with known angles that disturb a compass: moving objects and hard turns."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

from accuracy.scenes import photographs
from accuracy.scenes.panorama_turns import SAMPLES, Turntable, load, orientation, pinhole
from accuracy.scenes.photographs import as_pixels
from edgetpu_perception.camera_intrinsics import Pinhole

FRAME_RATE = 30.0
FOV = 75.0
"""Horizontal field of view, deg."""

STATIC_FOV = 60.0
"""Horizontal field of view of the static camera, deg; assumed, not calibrated."""

OBJECT_WIDTH = 0.2
"""Width of a crossing object, as a share of the picture."""

OWN_PARTS_HEIGHT = 0.25
"""Height of the robot's own parts, as a share of the picture."""

SETTLED = 5
"""Number of images at the start of a run that do not count: the compass's filter has no rate yet."""


@dataclass(frozen=True)
class Clip:
    """Images of one camera with their times, s, and the true yaw, deg."""

    camera: Pinhole
    times: tuple[float, ...]
    true_yaw: tuple[float, ...]
    images: tuple[NDArray[np.uint8], ...]
    fine_images: tuple[NDArray[np.uint8], ...] = ()
    """The same views with SAMPLES times as many px along each axis; empty if `images` have full size."""

    @property
    def full_size(self) -> tuple[tuple[NDArray[np.uint8], ...], Pinhole]:
        """Images of the camera's full size, and the intrinsics for them."""
        if not self.fine_images:
            return self.images, self.camera
        height, width = self.fine_images[0].shape
        return self.fine_images, pinhole(width, height, FOV)


@dataclass(frozen=True)
class Crossing:
    """A photograph of OBJECT_WIDTH crosses the picture of a camera that stands still or turns by 360 deg."""

    panorama: str
    photo: str
    rate: float
    """Turn rate of the camera, deg/s; 0: it stands still for one crossing and another second."""
    seed: int
    noise: float = 2.0
    """Standard deviation of each pixel, grey levels."""

    def clip(self) -> Clip:
        """Render the images. The object has 60 to 100 % of the picture's height and crosses in 1 to 4 s."""
        random = np.random.default_rng(self.seed)
        camera = pinhole(64, 64, FOV)
        table = Turntable(load(self.panorama), camera, self.noise)
        start, duration = float(random.uniform(0.0, 360.0)), float(random.uniform(1.0, 4.0))
        enters, side = float(random.uniform(0.3, 1.0)), float(random.choice((-1.0, 1.0)))
        seconds = enters + duration + 1.0 if self.rate == 0 else 360.0 / abs(self.rate)
        sprite = _sprite(self.photo, float(random.uniform(0.6, 1.0)))
        times = np.arange(round(seconds * FRAME_RATE) + 1) / FRAME_RATE
        top = float(random.uniform(0.0, 1.0)) * (64 * SAMPLES - sprite.shape[0])
        images, full = [], _FullSize(self.seed, self.noise)
        for time in times:
            fine = table.view(orientation(start + time * self.rate))
            # While the camera turns, the object crosses repeatedly, with pauses of a second.
            crossed = (time - enters) % (duration + 1.0) / duration if time >= enters else -1.0
            if 0.0 <= crossed <= 1.0 and time <= times[-1] - (0.5 if self.rate else 0.0):
                center = side * (crossed - 0.5) * (1.0 + OBJECT_WIDTH) + 0.5
                _paste(fine, sprite, center * fine.shape[1] - sprite.shape[1] / 2, top)
            images.append(table.exposed(fine, random))
            full.add(fine)
        yaw = (times * self.rate).tolist()
        return Clip(camera, tuple(times.tolist()), tuple(yaw), tuple(images), tuple(full.images))


@dataclass(frozen=True)
class OwnParts:
    """A robot that sees its own parts below the scene stands for a second, then turns by 360 deg.

    The picture may be letterboxed, with black bars at its top and bottom.
    """

    panorama: str
    photo: str
    """Name of the photograph that represents the robot's own parts."""
    rate: float
    """Turn rate, deg/s, reached within half a second."""
    seed: int
    height: float = OWN_PARTS_HEIGHT
    """Height of the own parts, as a share of the picture, including the strip behind the lower bar."""
    bars: float = 0.0
    """Height of each bar, as a share of the picture."""

    def clip(self) -> Clip:
        """Render the images, with a noise of 2 grey levels."""
        random = np.random.default_rng(self.seed)
        camera = pinhole(64, 64, FOV)
        table = Turntable(load(self.panorama), camera, 2.0)
        start = float(random.uniform(0.0, 360.0))
        own = _sprite(self.photo, self.height, 1.0)
        bar = round(self.bars * camera.height)
        times = np.arange(round((360.0 / abs(self.rate) + 1.25) * FRAME_RATE) + 1) / FRAME_RATE
        since = np.maximum(times - 1.0, 0.0)
        yaw = self.rate * np.where(since < 0.5, since**2, since - 0.25)
        images, full = [], _FullSize(self.seed, 2.0)
        for each in yaw:
            fine = table.view(orientation(start + float(each)))
            _paste(fine, own, 0.0, fine.shape[0] - own.shape[0])
            images.append(_barred(table.exposed(fine, random), bar))
            full.add(fine)
        fine_images = tuple(_barred(each, bar * SAMPLES) for each in full.images)
        return Clip(camera, tuple(times.tolist()), tuple(yaw.tolist()), tuple(images), fine_images)


@dataclass(frozen=True)
class HardTurn:
    """A full turn with noise of 8 grey levels, wobble of 3 deg, motion blur and steps of the exposure."""

    panorama: str
    rate: float
    """deg/s"""
    seed: int

    def clip(self) -> Clip:
        """Render the images. Pitch and roll swing at 1.3 and 0.9 Hz; the exposure lasts half a frame."""
        random = np.random.default_rng(self.seed)
        camera = pinhole(64, 64, FOV)
        table = Turntable(load(self.panorama), camera, noise=8.0)
        start = float(random.uniform(0.0, 360.0))
        phases = random.uniform(0.0, 2.0 * math.pi, 2)
        times = np.arange(round(360.0 / abs(self.rate) * FRAME_RATE) + 1) / FRAME_RATE
        gain, images, full = 1.0, [], _FullSize(self.seed, 8.0)
        for k, time in enumerate(times):
            if k % 20 == 19:
                gain = float(random.uniform(0.6, 1.3))
            # The exposure is centred on the stamp.
            moments = time + np.linspace(-0.25, 0.25, 3) / FRAME_RATE
            views = [table.view(self._turned(start, each, phases)) for each in moments]
            fine = (gain * np.mean(views, axis=0)).astype(np.float32)
            images.append(table.exposed(fine, random))
            full.add(fine)
        yaw = (times * self.rate).tolist()
        return Clip(camera, tuple(times.tolist()), tuple(yaw), tuple(images), tuple(full.images))

    def _turned(self, start: float, time: float, phases: NDArray[np.float64]) -> NDArray[np.float64]:
        fade = min(max(time, 0.0), 0.5, max(360.0 / abs(self.rate) - time, 0.0)) / 0.5
        pitch = 3.0 * fade * math.sin(2.0 * math.pi * 1.3 * time + phases[0])
        roll = 3.0 * fade * math.sin(2.0 * math.pi * 0.9 * time + phases[1])
        rolled = cv2.Rodrigues(np.array([0.0, 0.0, math.radians(roll)]))[0]
        turned: NDArray[np.float64] = orientation(start + time * self.rate, pitch) @ rolled
        return turned


class _FullSize:
    """Collects images of full size, in which every sample is a pixel with noise of its own."""

    def __init__(self, seed: int, noise: float) -> None:
        self.images: list[NDArray[np.uint8]] = []
        self._random = np.random.default_rng((seed, 1))
        self._noise = noise

    def add(self, fine: NDArray[np.float32]) -> None:
        self.images.append(as_pixels(fine + self._random.normal(0.0, self._noise, fine.shape)))


def static_camera(
    frames: Sequence[NDArray[np.uint8]], part: tuple[float, float, float, float], first: int, step: int = 1
) -> Clip:
    """The static camera from frame `first`, cropped to a part (left, top, right, bottom as shares).

    `step`: 2 for every second frame.
    """
    images = []
    for frame in frames[first::step]:
        height, width = frame.shape
        left, top, right, bottom = (
            round(share * size) for share, size in zip(part, (width, height, width, height), strict=True)
        )
        images.append(np.ascontiguousarray(frame[top:bottom, left:right]))
    height, width = images[0].shape
    half = (part[2] - part[0]) * math.tan(math.radians(STATIC_FOV / 2))
    camera = pinhole(width, height, math.degrees(2 * math.atan(half)))
    times = tuple(k * step / photographs.STATIC_CAMERA_RATE for k in range(len(images)))
    return Clip(camera, times, (0.0,) * len(images), tuple(images))


def _sprite(photo: str, height: float, width: float = OBJECT_WIDTH) -> NDArray[np.float32]:
    """A photograph that fills these shares of the picture's height and width, in samples."""
    grey = photographs.grey_photograph(photo)
    wide, high = round(width * 64 * SAMPLES), round(height * 64 * SAMPLES)
    # Cropped to this shape after scaling, so that its details stay visible.
    scale = max(high / grey.shape[0], wide / grey.shape[1])
    resized = cv2.resize(grey, None, fx=scale, fy=scale, interpolation=cv2.INTER_AREA)
    left = (resized.shape[1] - wide) // 2
    part: NDArray[np.float32] = resized[:high, left : left + wide].astype(np.float32)
    return part


def _paste(fine: NDArray[np.float32], sprite: NDArray[np.float32], left: float, top: float) -> None:
    """Put a sprite into a picture, clipped; positions are rounded to samples, a quarter of a pixel."""
    x, y = round(left), round(top)
    height, width = sprite.shape
    begin, end = max(x, 0), min(x + width, fine.shape[1])
    if begin < end:
        fine[y : y + height, begin:end] = sprite[:, begin - x : end - x]


def _barred(image: NDArray[np.uint8], height: int) -> NDArray[np.uint8]:
    """Letterbox an image in place, with black bars of `height` px, and return it."""
    if height:
        image[:height] = image[-height:] = 0
    return image

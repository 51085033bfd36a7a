"""Scenes with a known time to contact: photographs on planes, seen by a moving camera."""

from __future__ import annotations

import math
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from accuracy.scenes.photographs import as_pixels

Vector = NDArray[np.float64]

MOST_SAMPLES = 6
"""Most samples per pixel along each axis; where more are needed, a smaller copy of the photograph is used."""


@dataclass(frozen=True)
class Panel:
    """A photograph on a plane z = `distance`, x right, y down, mirrored beyond its edges."""

    photo: NDArray[np.float32]
    """Grey levels, [H, W]."""
    distance: float
    texel: float
    """Size of a pixel of the photograph, m."""
    center: tuple[float, float] = (0.0, 0.0)
    """Position of the middle of the photograph, m."""
    extent: tuple[float, float] | None = None
    """Width and height of the panel, m; None if unlimited."""


@dataclass(frozen=True)
class Pose:
    """Position and orientation of a camera (columns: its axes in the world)."""

    position: tuple[float, float, float] = (0.0, 0.0, 0.0)
    axes: Vector = field(default_factory=lambda: np.eye(3))


@dataclass(frozen=True)
class View:
    """A camera of size x size px with a horizontal field of view and noise."""

    size: int
    fov: float
    """rad"""
    noise: float
    """Standard deviation of each pixel, grey levels."""

    @property
    def focal_length(self) -> float:
        """Focal length, px."""
        return self.size / 2 / math.tan(self.fov / 2)

    def render(
        self, panels: Sequence[Panel], pose: Pose, random: np.random.Generator | None = None
    ) -> NDArray[np.uint8]:
        """One frame, [size, size], each pixel the average over its area; the first panel is in front."""
        clean = self._average(panels, pose)
        noisy = clean if random is None else clean + random.normal(0.0, self.noise, clean.shape)
        return as_pixels(noisy)

    def _average(self, panels: Sequence[Panel], pose: Pose) -> NDArray[Any]:
        texels = max(
            abs(panel.distance - pose.position[2]) / self.focal_length / panel.texel for panel in panels
        )
        samples = int(np.clip(math.ceil(texels), 2, MOST_SAMPLES))
        x, y, z = self._rays(samples, pose)
        fine = np.zeros(x.shape, np.float32)
        for panel in reversed(panels):
            depth = np.float32(panel.distance - pose.position[2]) / z
            u = np.float32(pose.position[0] - panel.center[0]) + depth * x
            v = np.float32(pose.position[1] - panel.center[1]) + depth * y
            spacing = abs(panel.distance - pose.position[2]) / self.focal_length / panel.texel / samples
            seen = _look_up(panel, u, v, spacing)
            if panel.extent is None:
                fine = seen
            else:
                inside = (np.abs(u) < panel.extent[0] / 2) & (np.abs(v) < panel.extent[1] / 2)
                fine = np.where(inside, seen, fine)
        frame: NDArray[Any] = cv2.resize(fine, (self.size, self.size), interpolation=cv2.INTER_AREA)
        return frame

    def _rays(self, samples: int, pose: Pose) -> tuple[NDArray[np.float32], ...]:
        along = (np.arange(self.size * samples) + 0.5) / samples - self.size / 2
        x, y = np.meshgrid(along / self.focal_length, along / self.focal_length)
        rays = np.stack([x, y, np.ones_like(x)], axis=-1) @ pose.axes.T
        return tuple(np.ascontiguousarray(rays[..., axis], np.float32) for axis in range(3))


def rotation(rate: Vector, seconds: float) -> Vector:
    """Axes of a camera after a turn of `seconds` s at `rate`, rad/s about its x, y and z axes: [3, 3]."""
    return np.asarray(cv2.Rodrigues(np.asarray(rate, np.float64) * seconds)[0], np.float64)


def _look_up(panel: Panel, u: NDArray[Any], v: NDArray[Any], spacing: float) -> NDArray[Any]:
    """Grey levels at positions (u, v) on a panel, m; `spacing`: distance between them, texels."""
    shrink = 2 ** max(math.ceil(math.log2(max(spacing, 1e-9))), 0)
    photo = panel.photo
    if shrink > 1:
        size = (photo.shape[1] // shrink, photo.shape[0] // shrink)
        photo = cv2.resize(photo[: size[1] * shrink, : size[0] * shrink], size, interpolation=cv2.INTER_AREA)
    height, width = photo.shape
    scale = np.float32(1 / (panel.texel * shrink))
    columns = u * scale + np.float32((width - 1) / 2)
    rows = v * scale + np.float32((height - 1) / 2)
    seen: NDArray[Any] = cv2.remap(photo, columns, rows, cv2.INTER_LINEAR, borderMode=cv2.BORDER_REFLECT)
    return seen


FRAME_RATE = 30.0

FARTHEST, NEAREST = 4.0, 0.45
"""Distances at the start and at the end of an approach at 1 m/s, m."""

NOISE = 4.0

KINDS = ("receding", "static", "rotation", "lateral")
"""Kinds of clips without an approach."""


def clip_random(kind: str, name: str, repeat: int) -> np.random.Generator:
    """Random numbers for a clip of a photograph, the same in whatever folder its file is."""
    key = kind, Path(name).name, repeat
    return np.random.default_rng(zlib.crc32(repr(key).encode()))


@dataclass(frozen=True)
class Clip:
    """A sequence of frames with the true times to contact."""

    source: str
    frames: NDArray[np.uint8]
    """[n, size, size]"""
    stamps: Vector
    """s"""
    ttc: Vector
    """s; +inf without an approach."""


@dataclass(frozen=True)
class Course:
    """Motion of a camera through a scene."""

    view: View
    panels: tuple[Panel, ...]
    """The panels, the one in front first: times to contact refer to it."""
    start: float
    """Position along z, m."""
    velocity: tuple[float, float, float]
    """m/s in the world."""
    turn: Vector = field(default_factory=lambda: np.zeros(3))
    """Axis of rotation times the rate, rad/s; for a swing, times its largest rate."""
    period: float = 0.0
    """Period of the swing, s; 0 for a constant rate."""

    def film(self, source: str, frames: int, random: np.random.Generator) -> Clip:
        """Render the clip."""
        stamps = np.arange(frames) / FRAME_RATE
        pictures = [self.view.render(self.panels, self._pose(stamp), random) for stamp in stamps]
        distance = self.panels[0].distance - self.start - self.velocity[2] * stamps
        ttc = distance / self.velocity[2] if self.velocity[2] > 0 else np.full(frames, np.inf)
        return Clip(source, np.array(pictures), stamps, ttc)

    def _pose(self, stamp: float) -> Pose:
        x, y, z = (speed * stamp for speed in self.velocity)
        angle = stamp
        if self.period:
            rate = 2 * math.pi / self.period
            angle = math.sin(rate * stamp) / rate
        return Pose((x, y, self.start + z), rotation(self.turn, angle))


def approach(photo: NDArray[np.float32], size: int, random: np.random.Generator) -> Course:
    """Straight on at 1 m/s; the focus of expansion is anywhere in the frame."""
    view = View(size, math.radians(random.uniform(60, 90)), NOISE)
    focus = random.uniform(-0.5, 0.5, 2) * 2 * math.tan(view.fov / 2)
    panel = _panel(photo, view, random)
    return Course(view, (panel,), 0.0, (float(focus[0]), float(focus[1]), 1.0))


def turning(course: Course, fastest: float, random: np.random.Generator) -> Course:
    """The same motion while turning about a random axis; about half of the clips swing.

    `fastest`: largest rate, deg/s.
    """
    axis = random.normal(size=3)
    rate = math.radians(random.uniform(0.3, 1.0) * fastest)
    period = random.uniform(1.5, 4.0) if random.random() < 0.5 else 0.0
    return replace(course, turn=axis / np.linalg.norm(axis) * rate, period=period)


def with_object(course: Course, photo: NDArray[np.float32], random: np.random.Generator) -> Course:
    """The same motion towards an object in front of a background.

    The object covers 0.3 to 0.6 of the width and of the height of the first frame and is near the focus of
    expansion; the background is 1 to 4 m behind it.
    """
    behind = random.uniform(1.0, 4.0)
    back = course.panels[0]
    scale = 1 + behind / FARTHEST
    field_of_view = 2 * FARTHEST * math.tan(course.view.fov / 2)
    velocity = (course.velocity[0] / 2, course.velocity[1] / 2, 1.0)
    front = Panel(
        photo,
        FARTHEST,
        back.texel,
        (
            FARTHEST * velocity[0] + random.uniform(-0.3, 0.3),
            FARTHEST * velocity[1] + random.uniform(-0.3, 0.3),
        ),
        (field_of_view * random.uniform(0.3, 0.6), field_of_view * random.uniform(0.3, 0.6)),
    )
    back = replace(back, distance=FARTHEST + behind, texel=back.texel * scale)
    return replace(course, panels=(front, back), velocity=velocity)


def no_approach(kind: str, course: Course, random: np.random.Generator) -> Course:
    """A clip of one of KINDS at a distance of 0.6 to 4 m."""
    start = random.uniform(0.0, FARTHEST - 0.6)
    if kind == "receding":
        x, y, _ = course.velocity
        speed = random.uniform(0.2, 1.0)
        return replace(course, start=start, velocity=(-speed * x, -speed * y, -speed))
    if kind == "lateral":
        angle, speed = random.uniform(0, 2 * math.pi), random.uniform(0.1, 1.0)
        return replace(course, start=start, velocity=(speed * math.cos(angle), speed * math.sin(angle), 0.0))
    still = replace(course, start=start, velocity=(0.0, 0.0, 0.0))
    return turning(still, 30.0, random) if kind == "rotation" else still


def _panel(photo: NDArray[np.float32], view: View, random: np.random.Generator) -> Panel:
    """A panel whose texels are as large as a px of an image of 64 px, at a distance of 0.45 to 1.2 m."""
    sharp = math.exp(random.uniform(math.log(NEAREST), math.log(1.2)))
    texel = sharp * 2 * math.tan(view.fov / 2) / 64
    height, width = photo.shape
    center = random.uniform(-0.5, 0.5) * width * texel, random.uniform(-0.5, 0.5) * height * texel
    return Panel(photo, FARTHEST, texel, center)

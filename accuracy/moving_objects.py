"""Accuracy of optical flow where things move by themselves: most of the picture is what counts."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import cv2
import numpy as np
from numpy.typing import NDArray

from accuracy import photographs
from accuracy.photographs import as_pixels
from edgetpu_perception.optical_flow.optical_flow import OpticalFlow
from measured_figures.row import Row

WIDTH, HEIGHT = 320, 240

TEXTURED = tuple(name for name in photographs.DEVELOPMENT if name not in ("moon", "page", "rocket"))
"""Photographs with texture everywhere. The others are mostly flat, so that an object would be most of it."""


@dataclass(frozen=True)
class MovingObject:
    """Two pictures, uint8 [240, 320], and the motion of the scene behind the object, px."""

    first: NDArray[np.uint8]
    second: NDArray[np.uint8]
    dx: float
    dy: float


def objects(
    names: Sequence[str], area: float, camera: float, count: int, seed: int
) -> Iterator[MovingObject]:
    """An ellipse of a photograph, a share `area` of the picture, moves by 4 to 16 px before another one.

    The scene moves by up to `camera` px along each axis. Noise of 2 grey levels.
    """
    random = np.random.default_rng(seed)
    for k in range(count):
        scene, other = (
            cv2.resize(
                photographs.grey_photograph(names[index % len(names)]),
                (480, 360),
                interpolation=cv2.INTER_AREA,
            )
            for index in (k, 5 * k + 3)
        )
        height = math.sqrt(area) * HEIGHT * random.uniform(0.9, 1.1)
        width = area * HEIGHT * WIDTH / height
        x, y = random.uniform(0, WIDTH - width), random.uniform(0, HEIGHT - height)
        speed, course = random.uniform(4.0, 16.0), random.uniform(0.0, 2.0 * math.pi)
        own = speed * math.cos(course), speed * math.sin(course)
        dx, dy = random.uniform(-camera, camera, 2).tolist()
        pictures = []
        for time in (0.0, 1.0):
            behind = _moved(scene, dx * time - 60.0, dy * time - 50.0)
            front = _moved(other, x - 80.0 + own[0] * time, y - 60.0 + own[1] * time)
            center = x + width / 2 + own[0] * time, y + height / 2 + own[1] * time
            covered = _ellipse(*center, width / 2, height / 2)
            picture = behind + covered * (front - behind)
            pictures.append(as_pixels(picture + random.normal(0, 2, picture.shape)))
        yield MovingObject(pictures[0], pictures[1], dx, dy)


def static_camera() -> Iterator[MovingObject]:
    """Neighbouring frames of the static camera; none if they are not present."""
    for first, second in pairwise(photographs.static_camera()):
        yield MovingObject(first, second, 0.0, 0.0)


def measure(flow: OpticalFlow, quick: bool) -> list[Row]:
    """Rows of the moving objects; the baseline is the median of OpenCV's DIS flow of the same 64x64 px."""
    count = 24 if quick else 160
    rows = []
    for label, area, camera in (
        ("an object of 17 % of the area, camera still", 0.17, 0.0),
        ("an object of 17 % of the area, camera moving", 0.17, 6.0),
        ("an object of 6 % of the area, camera moving", 0.06, 3.0),
    ):
        rows += _rows(flow, label, list(objects(TEXTURED, area, camera, count, 31)), 0.2)
    still = list(static_camera())
    if still:
        rows += _rows(flow, "static camera, people", still[:: 8 if quick else 1], 0.08)
    return rows


def _rows(flow: OpticalFlow, name: str, pairs: Sequence[MovingObject], reach: float) -> list[Row]:
    errors, sigmas = _errors(flow, pairs)
    valid = np.isfinite(errors[:, 0])
    away = np.hypot(*errors[valid].T)
    plain = np.hypot(*_dis_errors(pairs).T)
    inside = 100.0 * float(np.mean(np.abs(errors[valid]) <= sigmas[valid]))
    share = 100.0 * float(np.mean(valid))
    return [
        Row("flow", name, "median", float(np.median(away)), "px", reach, "lower", float(np.median(plain))),
        Row("flow", name, "rms", _rms(away), "px", None, "lower", _rms(plain)),
        Row("flow", name, "valid", share, "%", 95.0, "higher"),
        Row("flow", name, "inside one sigma", inside, "%", None, "higher"),
    ]


def _errors(
    flow: OpticalFlow, pairs: Iterable[MovingObject]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Errors and sigmas, px of the image, [n, 2]; NaN for results that are not valid."""
    errors, sigmas = [], []
    for pair in pairs:
        flow.reset()
        flow.update(pair.first, 0.0)
        result = flow.update(pair.second, 0.1)
        errors.append((result.dx - pair.dx, result.dy - pair.dy))
        sigmas.append((result.dx_sigma, result.dy_sigma))
    return np.array(errors), np.array(sigmas)


def _dis_errors(pairs: Iterable[MovingObject]) -> NDArray[np.float64]:
    dis = cv2.DISOpticalFlow.create(cv2.DISOPTICAL_FLOW_PRESET_MEDIUM)
    errors = []
    for pair in pairs:
        height, width = pair.first.shape
        first = cv2.resize(pair.first, (64, 64), interpolation=cv2.INTER_AREA)
        second = cv2.resize(pair.second, (64, 64), interpolation=cv2.INTER_AREA)
        dense = dis.calc(first, second, np.zeros((64, 64, 2), np.float32))
        dx, dy = np.median(dense, axis=(0, 1))
        errors.append((dx * width / 64 - pair.dx, dy * height / 64 - pair.dy))
    return np.array(errors)


def _rms(away: NDArray[np.float64]) -> float:
    return float(np.sqrt(np.mean(np.square(away))))


def _moved(photo: NDArray[np.float32], dx: float, dy: float) -> NDArray[np.float32]:
    part: NDArray[np.float32] = cv2.warpAffine(
        photo, np.array([[1, 0, dx], [0, 1, dy]], np.float32), (WIDTH, HEIGHT), flags=cv2.INTER_CUBIC
    )
    return part


def _ellipse(x: float, y: float, half_width: float, half_height: float) -> NDArray[np.float64]:
    """Share of each px that an ellipse covers."""
    mask = np.zeros((HEIGHT, WIDTH), np.uint8)
    center, axes = (round(16 * x), round(16 * y)), (round(16 * half_width), round(16 * half_height))
    cv2.ellipse(mask, center, axes, 0, 0, 360, 255, cv2.FILLED, cv2.LINE_AA, 4)
    return mask / 255.0

"""Scenes for looming with an independently moving object or a slanted plane.

Photographs at several scales (mip maps) keep distant and slanted textures free of aliasing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

from accuracy.scenes.looming_scenes import Clip, Vector
from accuracy.scenes.photographs import as_pixels, grey_photograph

Picture = NDArray[np.float32]

WIDTH, HEIGHT = 320, 240
"""Size of most images, px."""

WIDE = 1242, 375
"""Size of a wide image, px, like those of car cameras."""

NOISE = 2.0
"""Standard deviation of each pixel, grey levels."""

FINE = 2
"""Samples per pixel along each axis."""


@dataclass(frozen=True)
class Target:
    """Clip with an object whose box in each image is known."""

    clip: Clip
    boxes: NDArray[np.int64]
    """Left, top, width and height of the object, px, [n, 4]; it may reach beyond the image."""


class Texture:
    """A photograph at all scales, mirrored beyond its edges."""

    def __init__(self, photo: Picture) -> None:
        self._levels = [photo]
        while min(self._levels[-1].shape) >= 16:
            height, width = (side // 2 for side in self._levels[-1].shape)
            whole = self._levels[-1][: 2 * height, : 2 * width]
            self._levels.append(cv2.resize(whole, (width, height), interpolation=cv2.INTER_AREA))

    @property
    def shape(self) -> tuple[int, ...]:
        """Height and width, texels."""
        return self._levels[0].shape

    def at(self, u: Picture, v: Picture, footprint: Picture | np.float32) -> Picture:
        """Grey levels at positions (u, v), texels; `footprint`: distance between adjacent samples, texels."""
        level = np.clip(np.log2(np.maximum(footprint, 1e-6)), 0, len(self._levels) - 1.001)
        lower = np.floor(level).astype(int)
        seen = np.zeros(u.shape, np.float32)
        for number in range(int(np.min(lower)), int(np.max(lower)) + 2):
            weight = np.maximum(1 - np.abs(level - number), 0).astype(np.float32)
            scale = np.float32(0.5**number)
            # Over ground, each scale is that of a few rows.
            used = np.flatnonzero(weight.any(axis=1)) if weight.ndim else np.arange(len(seen))
            if not used.size:
                continue
            rows = slice(used[0], used[-1] + 1)
            seen[rows] += (weight[rows] if weight.ndim else weight) * cv2.remap(
                self._levels[number],
                ((u[rows] + 0.5) * scale - 0.5).astype(np.float32),
                ((v[rows] + 0.5) * scale - 0.5).astype(np.float32),
                cv2.INTER_LINEAR,
                borderMode=cv2.BORDER_REFLECT,
            )
        return seen


def slanted(name: str, degrees: float, random: np.random.Generator, size: int = 240) -> Clip:
    """A straight drive at 1 m/s towards a plane whose normal is `degrees` from the optical axis, at 30 Hz.

    The focus of expansion is within the middle third of the image. The time to contact ends when the camera
    reaches the plane.
    """
    texture = Texture(grey_photograph(name))
    focal = size / 2 / math.tan(math.radians(random.uniform(60, 80)) / 2)
    toward = random.uniform(0, 2 * math.pi)
    p, q = (math.tan(math.radians(degrees)) * each for each in (math.cos(toward), math.sin(toward)))
    velocity = np.array([*(random.uniform(-1, 1, 2) * size / 6 / focal), 1.0])
    start = 3.0
    # At a distance of about 1 m, a texel is as large as a pixel of the image.
    texel = random.uniform(0.6, 1.4) / focal
    along = (np.arange(size * FINE) + 0.5) / FINE - size / 2
    x, y = np.meshgrid((along / focal).astype(np.float32), (along / focal).astype(np.float32))
    facing = np.maximum(1 - p * x - q * y, 0.05).astype(np.float32)
    normal = np.array([-p, -q, 1.0])
    frames, stamps, ttc = [], np.arange(80) / 30, []
    for stamp in stamps:
        position = velocity * stamp
        left = start - float(normal @ position)  # depth on the optical axis: p x + q y + left
        depth = left / facing
        u = (position[0] + depth * x) / texel + texture.shape[1] / 2
        v = (position[1] + depth * y) / texel + texture.shape[0] / 2
        footprint = depth / (focal * texel * FINE) * np.sqrt(1 / facing)
        frames.append(_photographed(texture.at(u, v, footprint), (size, size), random))
        ttc.append(left / float(normal @ velocity))
    return Clip(name, np.array(frames), stamps, np.array(ttc))


SMALL, LARGE = (0.14, 0.2), (0.22, 0.34)
"""Ranges of the width of an approaching object 3 s before contact, as shares of the image's width."""


def approaching(
    name: str, behind: str, random: np.random.Generator, widths: tuple[float, float] = LARGE
) -> Target:
    """An object approaches a camera that stands still, from 6 s to 0.8 s before contact, at 30 Hz.

    Its centre misses the camera by up to a tenth of its width.
    """
    width = WIDTH * random.uniform(*widths)
    ratio = random.uniform(0.8, 1.3)
    place = np.array([WIDTH / 2, HEIGHT / 2]) + random.uniform(-0.15, 0.15, 2) * (WIDTH, HEIGHT)
    drift = random.uniform(-0.3, 0.3, 2) * width / 3
    ttc = np.arange(6.0, 0.8, -1 / 30)

    def box(frame: int) -> tuple[float, float, float, float]:
        scale = 3 / float(ttc[frame])
        center = place + drift * (scale - 1)
        return center[0], center[1], width * scale, width * ratio * scale

    return _film(name, behind, (WIDTH, HEIGHT), 30.0, ttc, box, random)


def crossing(name: str, behind: str, random: np.random.Generator) -> Target:
    """An object of 15 to 25 % of the width crosses the view of a camera that stands still, 30 Hz."""
    width = WIDTH * random.uniform(0.15, 0.25)
    ratio, speed = random.uniform(0.8, 1.8), random.uniform(60.0, 160.0) * random.choice([-1, 1])
    y, slope = HEIGHT * random.uniform(0.35, 0.65), random.uniform(-0.2, 0.2)
    begin = -width / 2 if speed > 0 else WIDTH + width / 2
    count = round(30 * (WIDTH + width) / abs(speed))

    def box(frame: int) -> tuple[float, float, float, float]:
        moved = speed * frame / 30
        return begin + moved, y + slope * moved, width, width * ratio

    return _film(name, behind, (WIDTH, HEIGHT), 30.0, np.full(count, np.inf), box, random)


def braking(name: str, behind: str, random: np.random.Generator) -> Target:
    """Wide images at 10 Hz of an object ahead, 60 to 75 px wide at first, from 13 s to 5.5 s before contact.

    The camera drives, so the background grows too, at a third to half of the rate; the camera sways by up to
    1 px.
    """
    ttc = np.arange(13.0, 5.5, -0.1)
    width, ratio = random.uniform(60, 75), random.uniform(0.75, 0.95)
    place = np.array(WIDE) * (random.uniform(0.42, 0.58), random.uniform(0.45, 0.6))
    drift = random.uniform(-6, 6, 2)
    sway = cv2.GaussianBlur(random.normal(0, 1.5, (len(ttc), 2)), (1, 9), 1.5)
    growth = random.uniform(0.33, 0.5)

    def box(frame: int) -> tuple[float, float, float, float]:
        scale = ttc[0] / float(ttc[frame])
        center = place + drift * (scale - 1) + sway[frame]
        return center[0], center[1], width * scale, width * ratio * scale

    def view(frame: int) -> tuple[float, float, float]:
        return (float(ttc[0] / ttc[frame])) ** growth, *sway[frame].tolist()

    return _film(name, behind, WIDE, 10.0, ttc, box, random, view)


def over_ground(name: str, random: np.random.Generator) -> Clip:
    """A hand-held camera that looks down at the ground: it sways, turns and tilts at a constant height."""
    texture = Texture(grey_photograph(name))
    size, focal = HEIGHT, 1.2 * HEIGHT
    stamps = np.arange(90) / 30
    swings = random.normal(0, 1, (5, 3)), random.uniform(0.4, 1.5, (5, 3)), random.uniform(0, 7, (5, 3))
    amplitude = np.array([0.06, 0.06, 0.03, 0.03, 0.03])  # m, m, rad, rad, rad
    drift = random.uniform(-0.25, 0.25, 2)
    along = ((np.arange(size * FINE) + 0.5) / FINE - size / 2) / focal
    rays = np.stack([*np.meshgrid(along, along), np.ones((size * FINE, size * FINE))], axis=-1)
    texel, frames = random.uniform(0.7, 1.3) * 1.5 / focal, []
    for stamp in stamps:
        motion = amplitude * (swings[0] * np.sin(2 * math.pi * swings[1] * stamp + swings[2])).sum(axis=1)
        axes = cv2.Rodrigues(motion[2:])[0]
        x, y, z = np.moveaxis(rays @ axes.T, -1, 0)
        depth = 1.5 / z
        u = ((motion[0] + drift[0] * stamp + depth * x) / texel + texture.shape[1] / 2).astype(np.float32)
        v = ((motion[1] + drift[1] * stamp + depth * y) / texel + texture.shape[0] / 2).astype(np.float32)
        footprint = (depth / (focal * texel * FINE)).astype(np.float32)
        frames.append(_photographed(texture.at(u, v, footprint), (size, size), random))
    return Clip(name, np.array(frames), stamps, np.full(len(stamps), np.inf))


def flying(name: str, behind: str, random: np.random.Generator) -> Clip:
    """A hand-held camera or drone moves level over ground, 20 to 80 % of its height per second, at 30 Hz.

    It looks down by up to 60 degrees and moves in a direction up to 45 degrees from where it looks; it sways
    and turns. Above the horizon is the upper half of another photograph, far away. Nothing is in its way.
    """
    ground, far = Texture(grey_photograph(name)), Texture(grey_photograph(behind))
    focal = WIDTH / 2 / math.tan(math.radians(random.uniform(60, 80)) / 2)
    stamps = np.arange(90) / 30
    swings = random.normal(0, 1, (5, 3)), random.uniform(0.4, 1.5, (5, 3)), random.uniform(0, 7, (5, 3))
    amplitude = np.array([0.02, 0.02, 0.01, 0.01, 0.01])  # heights, heights, rad, rad, rad
    down = cv2.Rodrigues(np.array([-math.radians(random.uniform(0, 60)), 0.0, 0.0]))[0]
    speed, course = random.uniform(0.2, 0.8), math.radians(random.uniform(-45, 45))
    x, y = (((np.arange(side * FINE) + 0.5) / FINE - side / 2) / focal for side in (WIDTH, HEIGHT))
    rays = np.stack([*np.meshgrid(x, y), np.ones((HEIGHT * FINE, WIDTH * FINE))], axis=-1)
    texel, frames = random.uniform(0.7, 1.3) * 2 / focal, []
    for stamp in stamps:
        motion = amplitude * (swings[0] * np.sin(2 * math.pi * swings[1] * stamp + swings[2])).sum(axis=1)
        across, below, ahead = np.moveaxis(rays @ (down @ cv2.Rodrigues(motion[2:])[0]).T, -1, 0)
        depth = 1 / np.maximum(below, 1e-3)
        u = (motion[0] + speed * math.sin(course) * stamp + depth * across) / texel
        v = (motion[1] + speed * math.cos(course) * stamp + depth * ahead) / texel
        footprint = depth * np.sqrt(depth) / (focal * texel * FINE)
        seen = ground.at(*_centered(ground, u, -v), footprint.astype(np.float32))
        scale = far.shape[1] / 2
        sky = far.at(*_centered(far, across / ahead * scale, below / ahead * scale), np.float32(1))
        frames.append(_photographed(np.where(below > 0.01, seen, sky), (WIDTH, HEIGHT), random))
    return Clip(name, np.array(frames), stamps, np.full(len(stamps), np.inf))


def _centered(texture: Texture, u: NDArray[np.float64], v: NDArray[np.float64]) -> tuple[Picture, Picture]:
    """Positions in a photograph, texels, from those relative to its middle."""
    return (u + texture.shape[1] / 2).astype(np.float32), (v + texture.shape[0] / 2).astype(np.float32)


def leaves(name: str, behind: str, random: np.random.Generator) -> Clip:
    """Thirty leaves, pieces of a photograph in front of another one, that sway independently, at 30 Hz."""
    back, front = Texture(grey_photograph(behind)), Texture(grey_photograph(name))
    stamps, count = np.arange(90) / 30, 30
    place = random.uniform(0, 1, (count, 2)) * (WIDTH, HEIGHT)
    swing, rate, phase = (
        random.uniform(3, 10, (count, 2)),
        random.uniform(0.5, 1.8, (count, 2)),
        random.uniform(0, 7, (count, 2)),
    )
    side, shape = random.uniform(24, 50, count), random.uniform(0.5, 1.0, count)
    frames = []
    still = _patch(back, (WIDTH / 2, HEIGHT / 2, WIDTH, HEIGHT), (WIDTH, HEIGHT))
    for stamp in stamps:
        picture = still.copy()
        for k in range(count):
            x, y = place[k] + swing[k] * np.sin(2 * math.pi * rate[k] * stamp + phase[k])
            box = float(x), float(y), float(side[k]), float(side[k] * shape[k])
            _paint(picture, front, box)
        frames.append(_photographed(picture, (WIDTH, HEIGHT), random))
    return Clip(name, np.array(frames), stamps, np.full(len(stamps), np.inf))


Box = Callable[[int], tuple[float, float, float, float]]


def _film(
    name: str,
    behind: str,
    size: tuple[int, int],
    rate: float,
    ttc: Vector,
    box: Box,
    random: np.random.Generator,
    view: Callable[[int], tuple[float, float, float]] | None = None,
) -> Target:
    """Render an ellipse of a photograph before a background; `view`: scale and shift of the background."""
    front, back = Texture(grey_photograph(name)), Texture(grey_photograph(behind))
    frames, boxes = [], []
    picture = np.zeros((1, 1), np.float32)
    for frame in range(len(ttc)):
        scale, x, y = (1.0, 0.0, 0.0) if view is None else view(frame)
        if view is not None or frame == 0:
            whole = size[0] / 2 + x, size[1] / 2 + y, size[0] * scale, size[1] * scale
            picture = _patch(back, whole, size)
        shown = picture.copy()
        place = box(frame)
        _paint(shown, front, place)
        frames.append(_photographed(shown, size, random))
        center_x, center_y, width, height = place
        boxes.append([center_x - width / 2, center_y - height / 2, width, height])
    stamps = np.arange(len(ttc)) / rate
    return Target(Clip(name, np.array(frames), stamps, ttc), np.rint(np.array(boxes)).astype(np.int64))


def _patch(texture: Texture, box: tuple[float, float, float, float], size: tuple[int, int]) -> Picture:
    """Samples of a photograph stretched over a box (centre, width and height, px): [FINE * H, FINE * W]."""
    x, y = (((np.arange(side * FINE) + 0.5) / FINE - 0.5).astype(np.float32) for side in size)
    return _stretched(texture, box, x, y)


def _stretched(texture: Texture, box: tuple[float, float, float, float], x: Picture, y: Picture) -> Picture:
    center_x, center_y, width, height = box
    across, down = texture.shape[1] / width, texture.shape[0] / height
    u, v = np.meshgrid(
        ((x - center_x) * across + texture.shape[1] / 2).astype(np.float32),
        ((y - center_y) * down + texture.shape[0] / 2).astype(np.float32),
    )
    return texture.at(u, v, np.float32(max(across, down) / FINE))


def _paint(picture: Picture, texture: Texture, box: tuple[float, float, float, float]) -> None:
    """Paint a photograph, cut to the ellipse that fills a box, onto a picture of FINE samples per px."""
    center_x, center_y, width, height = box
    top, bottom = (int(np.clip((center_y + s * height / 2 + s) * FINE, 0, picture.shape[0])) for s in (-1, 1))
    left, right = (int(np.clip((center_x + s * width / 2 + s) * FINE, 0, picture.shape[1])) for s in (-1, 1))
    if bottom <= top or right <= left:
        return
    x = ((np.arange(left, right) + 0.5) / FINE - 0.5).astype(np.float32)
    y = ((np.arange(top, bottom) + 0.5) / FINE - 0.5).astype(np.float32)
    part = picture[top:bottom, left:right]
    away = np.hypot(*np.meshgrid((x - center_x) / (width / 2), (y - center_y) / (height / 2)))
    covered = np.clip((1 - away) * min(width, height) / 2 * FINE + 0.5, 0, 1).astype(np.float32)
    part += covered * (_stretched(texture, box, x, y) - part)


def _photographed(fine: Picture, size: tuple[int, int], random: np.random.Generator) -> NDArray[np.uint8]:
    average = cv2.resize(fine, size, interpolation=cv2.INTER_AREA)
    return as_pixels(average + random.normal(0.0, NOISE, average.shape))


def pairs(names: tuple[str, ...], count: int) -> Iterator[tuple[str, str]]:
    """`count` pairs of photographs: of an object and of its background."""
    for k in range(count):
        yield names[k % len(names)], names[(k + 1 + k // len(names)) % len(names)]

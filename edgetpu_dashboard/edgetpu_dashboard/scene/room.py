"""A ray-traced room: a box with textured walls, a red lamp, and a poster on the wall ahead.

World frame: x right, y down, z forward, m; the origin is where the camera starts, looking along z.
"""

from __future__ import annotations

import cv2
import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]
Pixels = npt.NDArray[np.uint8]

LOW = np.array([-3.2, -2.3, -3.2], np.float32)
HIGH = np.array([3.2, 2.3, 4.5], np.float32)
"""Corners of the room, m."""

LAMP = (0.55, -0.35)
"""Centre of the lamp on the wall ahead: x, y, m."""
LAMP_RADIUS = 0.16
LAMP_COLOR = (255.0, 35.0, 25.0)

POSTER = (-0.7, 0.3)
"""Centre of the poster on the wall ahead: x, y, m."""
POSTER_SIZE = (1.1, 0.82)

_TEXELS = 1024  # along a wall
_WALL_AHEAD = 5  # walls in order: -x, +x, -y, +y, -z, +z
_OVERSAMPLING = 2  # rays for each pixel, along both axes


class Room:
    """The walls as textures, with the lamp on and off."""

    def __init__(self, seed: int) -> None:
        random = np.random.default_rng(seed)
        walls = [_wall(random) for _ in range(6)]
        _put_poster(walls[_WALL_AHEAD], random)
        self._dark = np.concatenate(walls)
        self._lit = self._dark.copy()
        _put_lamp(self._lit[_TEXELS * _WALL_AHEAD :])

    def render(
        self,
        camera_from_world: npt.NDArray[np.float64],
        position: npt.NDArray[np.float64],
        lit: bool,
        rays: Floats,
    ) -> Floats:
        """Take a picture, [height, width, 3] RGB in grey levels, not rounded.

        camera_from_world: rotation, 3x3. position: of the camera, m. rays: from `pixel_rays`.
        """
        directions = np.tensordot(camera_from_world.T.astype(np.float32), rays, axes=1)
        start = position.astype(np.float32)
        with np.errstate(divide="ignore"):
            to_walls = [
                np.where(d > 0, high - p, p - low) / np.abs(d)
                for d, p, low, high in zip(directions, start, LOW, HIGH, strict=True)
            ]
        nearest = np.minimum(np.minimum(to_walls[0], to_walls[1]), to_walls[2])
        texels = [
            (nearest * d + (p - low)) * ((_TEXELS - 1) / (high - low))
            for d, p, low, high in zip(directions, start, LOW, HIGH, strict=True)
        ]
        on_sides, on_floor = to_walls[0] == nearest, to_walls[1] == nearest
        columns = np.where(on_sides, texels[2], texels[0])
        rows = np.where(on_floor, texels[2], texels[1])
        for axis, on_wall in enumerate((on_sides, on_floor & ~on_sides, ~(on_sides | on_floor))):
            rows += on_wall * (np.float32(2 * axis) + (directions[axis] > 0)) * np.float32(_TEXELS)
        texture = self._lit if lit else self._dark
        fine = cv2.remap(texture, columns, rows, cv2.INTER_LINEAR)
        size = (fine.shape[1] // _OVERSAMPLING, fine.shape[0] // _OVERSAMPLING)
        return np.asarray(cv2.resize(fine, size, interpolation=cv2.INTER_AREA), np.float32)


def pixel_rays(width: int, height: int, focal_length: float) -> Floats:
    """Directions through the subpixels, [3, rows, columns], in the optical frame, for `render`."""
    columns = (np.arange(width * _OVERSAMPLING) + 0.5) / _OVERSAMPLING - width / 2
    rows = (np.arange(height * _OVERSAMPLING) + 0.5) / _OVERSAMPLING - height / 2
    x, y = np.meshgrid(columns / focal_length, rows / focal_length)
    return np.stack([x, y, np.ones_like(x)]).astype(np.float32)


def on_wall_ahead(x: float, y: float) -> npt.NDArray[np.float64]:
    """A point of the wall ahead in the world, [3], m."""
    return np.array([x, y, float(HIGH[2])])


def _wall(random: np.random.Generator) -> Floats:
    """Noise of every size and some panels, [_TEXELS, _TEXELS, 3]."""
    grey = np.full((_TEXELS, _TEXELS), random.uniform(75, 95), np.float32)
    for cells, contrast in ((6, 12.0), (16, 11.0), (40, 10.0), (100, 9.0), (240, 8.0), (500, 7.0)):
        noise = random.normal(scale=contrast, size=(cells, cells)).astype(np.float32)
        grey += cv2.resize(noise, (_TEXELS, _TEXELS), interpolation=cv2.INTER_CUBIC)
    for _ in range(14):
        left, top = random.integers(0, _TEXELS - 100, size=2)
        width, height = random.integers(40, 220, size=2)
        grey[top : top + height, left : left + width] += random.choice([-28.0, 28.0])
    tint = 1 + random.uniform(-0.05, 0.05, size=3).astype(np.float32)
    clipped = np.clip(grey, 15, 165)
    return np.asarray(cv2.merge([clipped * each for each in tint]), np.float32)


def _texel(x: float, y: float) -> tuple[float, float]:
    """Column and row of a point of the wall ahead in its texture."""
    (column, row) = (np.array([x, y]) - LOW[:2]) / (HIGH - LOW)[:2] * (_TEXELS - 1)
    return float(column), float(row)


def _put_poster(wall: Floats, random: np.random.Generator) -> None:
    left, top = (
        round(value) for value in _texel(POSTER[0] - POSTER_SIZE[0] / 2, POSTER[1] - POSTER_SIZE[1] / 2)
    )
    right, bottom = (
        round(value) for value in _texel(POSTER[0] + POSTER_SIZE[0] / 2, POSTER[1] + POSTER_SIZE[1] / 2)
    )
    cells = random.permutation(np.repeat([20.0, 190.0], 24)).reshape(6, 8).astype(np.float32)
    picture = cv2.resize(cells, (right - left, bottom - top), interpolation=cv2.INTER_CUBIC)
    wall[top:bottom, left:right] = np.clip(picture, 10, 200)[..., None]


def _put_lamp(wall: Floats) -> None:
    column, row = _texel(*LAMP)
    per_metre = (_TEXELS - 1) / (HIGH - LOW)[:2]
    reach = (LAMP_RADIUS + 0.02) * per_metre
    across, down = (
        np.arange(int(middle - each), int(middle + each) + 2)
        for middle, each in zip((column, row), reach, strict=True)
    )
    columns, rows = np.meshgrid((across - column) / per_metre[0], (down - row) / per_metre[1])
    light = np.clip((LAMP_RADIUS - np.hypot(columns, rows)) / 0.02 + 0.5, 0, 1)[..., None]
    around = wall[down[0] : down[-1] + 1, across[0] : across[-1] + 1]
    around[:] = around * (1 - light) + np.array(LAMP_COLOR, np.float32) * light

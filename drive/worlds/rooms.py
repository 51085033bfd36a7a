"""A flat of six different rooms with walls, pictures and furniture, made from a seed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from drive.worlds.robot_world import ROOM, Box

COLUMNS, ROWS = 3, 2
"""Number of rooms along x and along y."""
FLAT = ROOM - 0.2
"""Width and length of the flat, which is inside of the world's walls, m."""
WIDTH, LENGTH = FLAT / COLUMNS, FLAT / ROWS
"""Size of a room along x and along y, m."""
DOOR = 1.0
"""Width of a door, m."""
DOOR_SHIFT = 0.3
"""Greatest distance of a door from the middle of its wall, m."""
THICKNESS = 0.03
"""Half the thickness of a room's own side of a wall, m."""
WALL_HEIGHT = 2.5
"""Height of the walls, m."""
FURNITURE, PICTURES = 3, 2
"""Number of pieces of furniture in corners of a room, and of pictures on its walls."""
_SIDES = np.array([[-1, 0], [1, 0], [0, -1], [0, 1]])
"""Sides of a room, as directions from its centre."""

Position = tuple[float, float]
"""x, y, m."""


@dataclass(frozen=True)
class Room:
    """One room of the flat."""

    name: str
    x: float
    """Position of its centre along x, m."""
    y: float

    def contains(self, x: float, y: float) -> bool:
        """Whether a position, m, is in the room."""
        return abs(x - self.x) <= WIDTH / 2 and abs(y - self.y) <= LENGTH / 2


@dataclass(frozen=True)
class Flat:
    """Rooms in the order of a round through their doors, with all their contents."""

    rooms: tuple[Room, ...]
    doors: tuple[Position, ...]
    """Middle of the door from each room to the next, m; the last door leads back to the first room."""
    boxes: tuple[Box, ...]

    def reversed(self) -> Flat:
        """Return the same flat for a round in the other direction, starting from the same door."""
        return Flat(self.rooms[::-1], (*self.doors[-2::-1], self.doors[-1]), self.boxes)


def make_flat(seed: int) -> Flat:
    """Return the flat of a seed."""
    random = np.random.default_rng(seed)
    there = [(column, 0) for column in range(COLUMNS)]
    back = [(column, 1) for column in reversed(range(COLUMNS))]
    rooms = tuple(
        Room(f"room {number}", (column + 0.5) * WIDTH - FLAT / 2, (row + 0.5) * LENGTH - FLAT / 2)
        for number, (column, row) in enumerate(there + back, 1)
    )
    doors = tuple(
        _door(room, following, random.uniform(-DOOR_SHIFT, DOOR_SHIFT))
        for room, following in zip(rooms, (*rooms[1:], rooms[0]), strict=True)
    )
    return Flat(rooms, doors, tuple(box for room in rooms for box in _fitted_out(room, doors, random)))


def _door(room: Room, other: Room, shift: float) -> Position:
    """Middle of the door between two rooms, m; shift: of the door along the wall, m."""
    x, y = (room.x + other.x) / 2, (room.y + other.y) / 2
    return (x + shift, y) if room.x == other.x else (x, y + shift)


def _fitted_out(room: Room, doors: Sequence[Position], random: np.random.Generator) -> list[Box]:
    """The walls of a room as seen from inside, with pictures, and furniture in the corners."""
    boxes = [panel for side in _SIDES for panel in _wall(room, side, doors)]
    for side in random.permutation(_SIDES)[:PICTURES]:
        half, _ = _extent(side)
        aside = 0.7 * half * random.choice((-1.0, 1.0))
        width, height = random.uniform(0.3, 0.5), random.uniform(0.4, 0.8)
        boxes.append(_panel(room, side, aside, width, 3 * THICKNESS, height, bottom=0.35))
    for corner in random.permutation(4)[:FURNITURE]:
        half_x, half_y = random.uniform(0.2, 0.4, 2)
        x = (1 - 2 * (corner % 2)) * (WIDTH / 2 - 3 * THICKNESS - half_x)
        y = (1 - 2 * (corner // 2)) * (LENGTH / 2 - 3 * THICKNESS - half_y)
        boxes.append(Box(room.x + x, room.y + y, 0.0, half_x, half_y, random.uniform(0.4, 1.8)))
    return boxes


def _wall(room: Room, side: NDArray[np.int_], doors: Sequence[Position]) -> list[Box]:
    """One wall, or its two parts beside a door."""
    half, away = _extent(side)
    offsets = np.array(doors) - (room.x, room.y)
    along = offsets @ np.abs(side[::-1])
    in_wall = along[np.isclose(offsets @ side, away) & (np.abs(along) < half)]
    if not len(in_wall):
        return [_panel(room, side, 0.0, half, THICKNESS)]
    parts = ((-half, in_wall[0] - DOOR / 2), (in_wall[0] + DOOR / 2, half))
    return [_panel(room, side, (low + high) / 2, (high - low) / 2, THICKNESS) for low, high in parts]


def _extent(side: NDArray[np.int_]) -> tuple[float, float]:
    """Half the length of the wall on this side of a room, and its distance from the centre, m."""
    return (LENGTH / 2, WIDTH / 2) if side[0] else (WIDTH / 2, LENGTH / 2)


def _panel(
    room: Room,
    side: NDArray[np.int_],
    aside: float,
    half_width: float,
    half_depth: float,
    height: float = WALL_HEIGHT,
    bottom: float = 0.0,
) -> Box:
    """A part of a wall; aside: position along the wall from its middle, m."""
    away = _extent(side)[1] - half_depth
    x, y = (room.x, room.y) + away * side + aside * np.abs(side[::-1])
    return Box(x, y, math.atan2(side[1], side[0]), half_depth, half_width, height, bottom=bottom)

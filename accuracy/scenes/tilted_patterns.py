"""Boards and posters that a camera sees from the front first and then tilted, in pictures of 640x480 px."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

from accuracy.scenes.pattern_pictures import HEIGHT, PATCH_HEIGHT, PATCH_WIDTH, WIDTH, Image
from accuracy.scenes.photographs import as_pixels, grey_photograph

FOCAL = 600.0
"""Focal length, px: a field of view of 56 degrees."""
TEXELS = 4
"""Texels of a board per px of a frontal picture."""
BORDER = 16
"""Width of the board's border around the patch, px."""
SAMPLES = 3
"""Samples per px of a picture, along each axis."""
LIGHT = (0.2, 20.0)
"""Largest relative change of contrast, and largest change of brightness, grey levels."""
NOISE = 4.0
"""Standard deviation of each pixel, grey levels."""
TURN = 5.0
"""Largest rotation in the picture, degrees."""
SHIFT = 40.0
"""Largest distance of the board's centre from the picture's centre along each axis, px."""

Texture = NDArray[np.float32]
Board = Callable[[np.random.Generator], Texture]


@dataclass(frozen=True)
class Tilted:
    """A patch of a board, cut out of a frontal view, and a later picture of the tilted board."""

    view: Image
    patch: Image
    later: Image
    x: float
    """Centre of the patch in the later picture, px."""
    y: float
    other: Image
    """The later picture with another board of the same kind, or another poster, in its place."""
    ambiguous: bool
    """Whether the board is one of tags or dots, whose parts look alike, unlike those of a poster."""


def _paper() -> Texture:
    size = (PATCH_HEIGHT + 2 * BORDER) * TEXELS, (PATCH_WIDTH + 2 * BORDER) * TEXELS
    return np.full(size, 230.0, np.float32)


def tags(random: np.random.Generator) -> Texture:
    """A board of 4x3 tags, each with 6x6 random fields in a dark frame."""
    paper, cell, field = _paper(), 40 * TEXELS, 4 * TEXELS
    for row in range(3):
        for column in range(4):
            tag = np.full((8, 8), 25.0, np.float32)
            tag[1:7, 1:7] = np.where(random.random((6, 6)) < 0.5, 25.0, 230.0)
            top, left = (BORDER + 4) * TEXELS + row * cell, (BORDER + 4) * TEXELS + column * cell
            paper[top : top + 8 * field, left : left + 8 * field] = np.kron(tag, np.ones((field, field)))
    return paper


def dots(random: np.random.Generator) -> Texture:
    """A board of 7x5 dots of two sizes at random; every second row is offset by half the spacing."""
    paper, apart = _paper(), 20 * TEXELS
    for row in range(5):
        for column in range(7):
            x, y = (column + 0.5 * (row % 2)) * apart, row * apart
            center = round((BORDER + 15) * TEXELS + x), round((BORDER + 20) * TEXELS + y)
            cv2.circle(paper, center, round(random.choice([0.2, 0.35]) * apart), 25.0, -1)
    return paper


def poster(photograph: Texture) -> Board:
    """A function that makes boards with random parts of a photograph."""

    def board(random: np.random.Generator) -> Texture:
        height, width = _paper().shape
        factor = max(1.0, 1.3 * max(height / photograph.shape[0], width / photograph.shape[1]) / TEXELS)
        enlarged = cv2.resize(photograph, None, fx=factor, fy=factor, interpolation=cv2.INTER_CUBIC)
        rows, columns = height // TEXELS, width // TEXELS
        top, left = (
            random.integers(0, length - part + 1)
            for length, part in zip(enlarged.shape, (rows, columns), strict=True)
        )
        part = enlarged[top : top + rows, left : left + columns]
        seen: Texture = cv2.resize(part, (width, height), interpolation=cv2.INTER_CUBIC)
        return seen

    return board


def tilted(
    boards: Sequence[Board],
    backgrounds: Sequence[str],
    count: int,
    seed: int,
    tilts: tuple[float, float],
    sizes: tuple[float, float] = (0.95, 1.05),
) -> Iterator[Tilted]:
    """`count` boards; `tilts`: range of the tilt about a random axis, deg; `sizes`: range of the scale."""
    random = np.random.default_rng(seed)
    for index in range(count):
        board_of = boards[index % len(boards)]
        board = board_of(random)
        behind = _background(grey_photograph(backgrounds[(index + 1) % len(backgrounds)]))
        first = _projection(np.eye(3), 1.0, np.zeros(2))
        view = as_pixels(_seen(board, first, behind))
        left, top = (WIDTH - PATCH_WIDTH) // 2, (HEIGHT - PATCH_HEIGHT) // 2
        patch = view[top : top + PATCH_HEIGHT, left : left + PATCH_WIDTH]
        shift, size = random.uniform(-SHIFT, SHIFT, 2), math.exp(random.uniform(*np.log(sizes)))
        turned = _rotation(
            math.radians(random.uniform(*tilts)),
            random.uniform(0.0, 2 * math.pi),
            math.radians(random.uniform(-TURN, TURN)),
        )
        projection = _projection(turned, size, shift)
        gain, offset = 1 + random.uniform(-LIGHT[0], LIGHT[0]), random.uniform(-LIGHT[1], LIGHT[1])
        seen = _seen(board, projection, behind) * gain + offset
        later = as_pixels(seen + random.normal(0.0, NOISE, seen.shape))
        ambiguous, elsewhere = board_of in (tags, dots), np.random.default_rng([seed, index])
        other = board_of if ambiguous else boards[(index + 1) % len(boards)]
        seen = _seen(other(elsewhere), projection, behind) * gain + offset
        instead = as_pixels(seen + elsewhere.normal(0.0, NOISE, seen.shape))
        middle = (np.array(board.shape[::-1]) - 1) / 2
        at = projection @ np.array([*middle, 1.0])
        yield Tilted(view, patch, later, float(at[0] / at[2]), float(at[1] / at[2]), instead, ambiguous)


def _rotation(tilt: float, axis: float, turn: float) -> NDArray[np.float64]:
    about = cv2.Rodrigues(tilt * np.array([math.cos(axis), math.sin(axis), 0.0]))[0]
    matrix: NDArray[np.float64] = cv2.Rodrigues(np.array([0.0, 0.0, turn]))[0] @ about
    return matrix


def _projection(turned: NDArray[np.float64], size: float, shift: NDArray[np.float64]) -> NDArray[np.float64]:
    """Homography from texels of a board to px of a picture; `shift`: px; `size`: scale of the board."""
    height, width = _paper().shape
    distance = FOCAL * TEXELS  # in texels: there, a frontal board has TEXELS texels per px
    to_middle = np.array([[1.0, 0.0, -(width - 1) / 2], [0.0, 1.0, -(height - 1) / 2], [0.0, 0.0, 1.0]])
    place = distance / size * np.array([shift[0] / FOCAL, shift[1] / FOCAL, 1.0])
    pose = np.column_stack([turned[:, 0], turned[:, 1], place])
    camera = np.array([[FOCAL, 0.0, (WIDTH - 1) / 2], [0.0, FOCAL, (HEIGHT - 1) / 2], [0.0, 0.0, 1.0]])
    matrix: NDArray[np.float64] = camera @ pose @ to_middle
    return matrix


def _seen(board: Texture, projection: NDArray[np.float64], behind: Texture) -> Texture:
    """Picture of a board in front of a background, float32 [480, 640]; each px is the mean over its area."""
    fine = np.array([[SAMPLES, 0.0, (SAMPLES - 1) / 2], [0.0, SAMPLES, (SAMPLES - 1) / 2], [0.0, 0.0, 1.0]])
    size = SAMPLES * WIDTH, SAMPLES * HEIGHT
    shown, covered = (
        cv2.resize(
            cv2.warpPerspective(each, fine @ projection, size), (WIDTH, HEIGHT), interpolation=cv2.INTER_AREA
        )
        for each in (board, np.ones_like(board))
    )
    seen: Texture = shown + (1.0 - covered) * behind
    return seen


def _background(photograph: Texture) -> Texture:
    resized: Texture = cv2.resize(photograph, (WIDTH, HEIGHT), interpolation=cv2.INTER_LINEAR)
    return resized

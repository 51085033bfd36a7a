"""An animated GIF of the camera's images and the nodes' debug images side by side."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from pathlib import Path

import cv2
import numpy as np
import numpy.typing as npt
from PIL import Image

from demo.bag.frames import Frame

Pixels = npt.NDArray[np.uint8]

TILE = (192, 144)
"""Width and height of a picture, px. Uncritical."""
TITLE = 18
"""Height of its title, px. Uncritical."""
COLUMNS = 3
GREYS = 16
MARKS = (
    (255, 45, 30),
    (190, 40, 30),
    (70, 210, 80),
    (40, 130, 50),
    (255, 160, 20),
    (240, 220, 60),
    (60, 160, 230),
)
"""Colours of the lamp and of the nodes' drawings, which a palette computed from the pictures would lack."""
MILLISECONDS = 250
"""Time between two frames, ms. Uncritical."""
FRAMES = 36
"""Largest number of frames. Uncritical."""


def write_animation(path: Path, camera: Sequence[Frame], nodes: Mapping[str, Sequence[Frame]]) -> None:
    """Write the images of the camera and the debug images of each node side by side."""
    strips = {"camera": camera, **nodes}
    by_number = {name: {frame.number: frame for frame in frames} for name, frames in strips.items()}
    numbers = sorted(set.intersection(*(set(frames) for frames in by_number.values())))
    numbers = numbers[:: -(-len(numbers) // FRAMES)]
    mosaics = [_mosaic({name: frames[number] for name, frames in by_number.items()}) for number in numbers]
    palette = Image.new("P", (1, 1))
    greys = [(level, level, level) for level in np.linspace(0, 255, GREYS).astype(int).tolist()]
    palette.putpalette([part for color in (*greys, *MARKS) for part in color])
    pictures = [Image.fromarray(each).quantize(palette=palette, dither=Image.Dither.NONE) for each in mosaics]
    path.parent.mkdir(parents=True, exist_ok=True)
    pictures[0].save(
        path, save_all=True, append_images=pictures[1:], duration=MILLISECONDS, loop=0, optimize=True
    )


def _mosaic(frames: Mapping[str, Frame]) -> Pixels:
    tiles = [_tile(name, frame) for name, frame in frames.items()]
    blank = np.full_like(tiles[0], 255)
    tiles += [blank] * (-len(tiles) % COLUMNS)
    rows = [np.hstack(tiles[start : start + COLUMNS]) for start in range(0, len(tiles), COLUMNS)]
    return np.vstack(rows)


def _tile(name: str, frame: Frame) -> Pixels:
    """A picture below its title, with the noise smoothed, since noise would take most of the file."""
    data = np.frombuffer(base64.b64decode(frame.url.partition(",")[2]), np.uint8)
    bgr = cv2.bilateralFilter(cv2.imdecode(data, cv2.IMREAD_COLOR), 9, 40, 5)
    picture = cv2.cvtColor(cv2.resize(bgr, TILE, interpolation=cv2.INTER_AREA), cv2.COLOR_BGR2RGB)
    title = np.full((TITLE, TILE[0], 3), 255, np.uint8)
    cv2.putText(
        title,
        name.replace("_", " "),
        (4, TITLE - 5),
        cv2.FONT_HERSHEY_SIMPLEX,
        0.42,
        (30, 30, 30),
        1,
        cv2.LINE_AA,
    )
    return np.asarray(np.vstack([title, picture]), np.uint8)

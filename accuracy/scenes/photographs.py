"""Real photographs for rendered scenes, from scikit-image and `testdata`."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from testdata import DATA

DEVELOPMENT = (
    "astronaut",
    "brick",
    "camera",
    "chelsea",
    "coffee",
    "coins",
    "grass",
    "gravel",
    "moon",
    "page",
    "rocket",
)
"""Names in skimage.data; constants of the algorithms were chosen on these."""

TEXTURED = tuple(name for name in DEVELOPMENT if name not in ("moon", "page", "rocket"))
"""Photographs with texture everywhere. In the others, an object would have most of the texture."""

HELD_OUT = ("cell", "clock", "hubble_deep_field", "immunohistochemistry", "text")
"""Names in skimage.data on which no constants were chosen, unless a protocol says so."""


STATIC_CAMERA_RATE = 10.0
"""Frame rate of the static camera, Hz."""


def held_out() -> tuple[str, ...]:
    """Further pictures: HELD_OUT, the panoramas, and every 30th frame of a video."""
    return HELD_OUT + unseen()


def unseen() -> tuple[str, ...]:
    """Paths of the panoramas and of every 30th frame of a video; only those that are present."""
    return _present(DATA.names("compass/panoramas/")) + video_frames(range(100, 251, 30))


def video_frames(numbers: Iterable[int]) -> tuple[str, ...]:
    """Paths of frames of a video of a walking person; only those that are present."""
    return _present(f"tracking/dlib_video_frames/frame_{number:06}.jpg" for number in numbers)


def grey_photograph(name: str) -> NDArray[np.float32]:
    """A photograph as grey levels, [H, W]; `name`: a name in skimage.data or a path."""
    grey = cv2.imread(name, cv2.IMREAD_GRAYSCALE) if Path(name).is_absolute() else _of_skimage(name)
    if grey is None:
        raise FileNotFoundError(f"expected an image that OpenCV reads; got {name}")
    return grey.astype(np.float32)


def color_photograph(name: str) -> NDArray[np.uint8]:
    """A photograph as RGB, [H, W, 3]; `name`: a name in skimage.data or a path."""
    if not Path(name).is_absolute():
        from skimage import data

        pixels: NDArray[np.uint8] = getattr(data, name)()
        return np.repeat(pixels[..., np.newaxis], 3, axis=2) if pixels.ndim == 2 else pixels[..., :3]
    colors = cv2.imread(name, cv2.IMREAD_COLOR)
    if colors is None:
        raise FileNotFoundError(f"expected an image that OpenCV reads; got {name}")
    rgb: NDArray[np.uint8] = cv2.cvtColor(colors, cv2.COLOR_BGR2RGB)
    return rgb


@cache
def shared_color_photograph(name: str) -> NDArray[np.uint8]:
    """Like color_photograph, but read once for all callers, who must not write to it."""
    return color_photograph(name)


def random_part(
    photo: NDArray[Any], width: int, height: int, random: np.random.Generator
) -> NDArray[np.float32]:
    """A random part of a photograph, of half to all of its size: [height, width, ..]."""
    scale = random.uniform(0.5, 1.0) * min(photo.shape[1] / width, photo.shape[0] / height)
    columns, rows = int(scale * width), int(scale * height)
    left, top = (
        random.integers(0, photo.shape[1] - columns + 1),
        random.integers(0, photo.shape[0] - rows + 1),
    )
    how = cv2.INTER_AREA if scale > 1.0 else cv2.INTER_LINEAR
    part = cv2.resize(photo[top : top + rows, left : left + columns], (width, height), interpolation=how)
    view: NDArray[np.float32] = part.astype(np.float32)
    return view


def static_camera() -> list[NDArray[np.uint8]]:
    """Grey frames of a camera that stands still while people walk through; only those that are present."""
    return [as_pixels(grey_photograph(path)) for path in _present(DATA.names("static_camera/"))]


def as_pixels(picture: NDArray[Any]) -> NDArray[np.uint8]:
    """Round and clip grey levels or colours to uint8, like a camera."""
    pixels: NDArray[np.uint8] = np.clip(np.rint(picture), 0, 255).astype(np.uint8)
    return pixels


def _present(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(str(path) for path in map(DATA.find, names) if path is not None)


def _of_skimage(name: str) -> NDArray[Any] | None:
    from skimage import data

    pixels: NDArray[Any] = getattr(data, name)()
    grey: NDArray[Any] = pixels if pixels.ndim == 2 else cv2.cvtColor(pixels[..., :3], cv2.COLOR_RGB2GRAY)
    return grey

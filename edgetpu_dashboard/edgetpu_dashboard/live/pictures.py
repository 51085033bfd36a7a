"""Pictures for the browser, reduced to the size in which it shows them, as JPEG or PNG."""

from __future__ import annotations

import cv2
import numpy as np
import numpy.typing as npt

from edgetpu_driver.errors import InputError

Pixels = npt.NDArray[np.uint8]

CAMERA_VIEW = "camera image"
"""In place of a node's name: the camera's images."""

GREY = 0.1
"""Difference of a colour's channels, as a share of the largest, up to which it is taken for grey. Chosen: a
white balance that is wrong by 10 % tints grey things as much."""

DARK_LEVELS = 8
"""Difference of a colour's channels, of 255, that is taken for grey however dark it is. Chosen: the noise and
the colour subsampling of a camera tint dark things by a few levels, which is a large share of them."""

JPEG_QUALITY = 80
"""JPEG quality at which block edges are hard to see; OpenCV's default, 95, needs three times the bytes."""


def jpeg(picture: Pixels, widest: int = 0) -> bytes:
    """Encode uint8 [H, W] or [H, W, 3] RGB, reduced to at most `widest` px of width; 0: not reduced."""
    return _encoded(".jpg", _narrowed(picture, widest), [cv2.IMWRITE_JPEG_QUALITY, JPEG_QUALITY])


def png(picture: Pixels) -> bytes:
    """Encode uint8 [H, W] or [H, W, 3] RGB without loss."""
    return _encoded(".png", picture, [])


def box_of(
    corners: tuple[float, float, float, float], width: int, height: int, least: int = 2
) -> tuple[int, int, int, int]:
    """Return x, y, width and height, px, of a box given by two corners as shares; InputError if too small."""
    xs = sorted(min(max(round(share * width), 0), width) for share in (corners[0], corners[2]))
    ys = sorted(min(max(round(share * height), 0), height) for share in (corners[1], corners[3]))
    box = xs[0], ys[0], xs[1] - xs[0], ys[1] - ys[0]
    if box[2] < least or box[3] < least:
        raise InputError(f"expected a box of at least {least} x {least} px; got {box[2]} x {box[3]}")
    return box


def color_at(image: Pixels, column: float, row: float, radius: int = 3) -> tuple[int, int, int]:
    """Return the median RGB colour around a point of uint8 [H, W] or [H, W, 3] RGB.

    column, row: the point, as shares of the image's width and height. radius: px on each side.
    """
    height, width = image.shape[:2]
    x, y = (min(max(int(share * size), 0), size - 1) for share, size in ((column, width), (row, height)))
    patch = image[max(y - radius, 0) : y + radius + 1, max(x - radius, 0) : x + radius + 1]
    levels = np.broadcast_to(np.median(patch, axis=(0, 1)), 3)
    return int(levels[0]), int(levels[1]), int(levels[2])


def is_grey(rgb: tuple[int, int, int]) -> bool:
    """Whether a colour differs from grey no more than a white thing in light of another colour, or noise."""
    return max(rgb) - min(rgb) <= max(GREY * max(rgb), DARK_LEVELS)


def spot_weights(rgb: tuple[int, int, int]) -> list[float]:
    """Return a spot tracker's weights for a colour: its difference from grey, so that grey pixels cancel.

    Those for a grey are equal: only its brightness tells it from others.
    """
    if is_grey(rgb):
        return [1.0, 1.0, 1.0]
    grey = sum(rgb) / 3
    return [value - grey for value in rgb]


def error_picture(weights: npt.NDArray[np.float32], row_scales: npt.NDArray[np.float32]) -> Pixels:
    """Draw the rounding of each weight: white none, blue down, red up by half a step.

    weights: [rows, columns]. row_scales: the step of each row, as the driver answers.
    """
    steps = weights / np.where(row_scales > 0, row_scales, 1.0)[:, None]
    off = np.clip(2.0 * (np.rint(steps) - steps), -1.0, 1.0)
    clipped = np.abs(steps) > 128
    strength = np.abs(off)[..., None]
    tint = np.where(off[..., None] > 0, np.array([214.0, 39.0, 40.0]), np.array([31.0, 119.0, 180.0]))
    picture = 255.0 * (1 - strength) + tint * strength
    picture[clipped] = (0.0, 0.0, 0.0)
    return np.asarray(np.rint(picture), np.uint8)


def _narrowed(picture: Pixels, widest: int) -> Pixels:
    height, width = picture.shape[:2]
    if not widest or width <= widest:
        return picture
    size = widest, max(1, round(height * widest / width))
    return np.asarray(cv2.resize(picture, size, interpolation=cv2.INTER_AREA), np.uint8)


def _encoded(kind: str, picture: Pixels, options: list[int]) -> bytes:
    pixels = picture if picture.ndim == 2 else cv2.cvtColor(picture, cv2.COLOR_RGB2BGR)
    try:
        done, data = cv2.imencode(kind, pixels, options)
    except cv2.error:
        done = False
    if not done:  # a JPEG has at most 65535 rows
        raise InputError(f"expected a picture; OpenCV cannot encode one of {picture.shape}")
    return bytes(data)

"""Pictures for the browser, reduced to the size in which it shows them, as JPEG or PNG."""

from __future__ import annotations

import cv2
import numpy as np
import numpy.typing as npt

from edgetpu_driver.errors import InputError
from edgetpu_driver.weights.replaceable_weights import INT8_MAX

Pixels = npt.NDArray[np.uint8]

CAMERA_VIEW = "camera image"
"""Name of the view of the camera's images, in place of a node's name."""

JPEG_QUALITY = 80
"""JPEG quality at which block edges are hard to see; OpenCV's default, 95, needs three times the bytes."""

_BLUE, _RED = np.array([31.0, 119.0, 180.0]), np.array([214.0, 39.0, 40.0])


def _shades() -> Pixels:
    """From blue over white to red, uint8 [513, 3]: a step changes a channel by one level at most."""
    off = np.linspace(-1.0, 1.0, 513)[:, None]
    return np.asarray(np.rint(255.0 + np.abs(off) * (np.where(off > 0, _RED, _BLUE) - 255.0)), np.uint8)


_SHADES = _shades()


def jpeg(picture: Pixels, widest: int = 0) -> bytes:
    """Encode uint8 [H, W] or [H, W, 3] RGB, reduced to at most `widest` px of width; 0: not reduced."""
    return _encoded(".jpg", _narrowed(picture, widest), [cv2.IMWRITE_JPEG_QUALITY, JPEG_QUALITY])


def png(picture: Pixels) -> bytes:
    """Encode uint8 [H, W] or [H, W, 3] RGB without loss."""
    return _encoded(".png", picture, [])


def error_picture(
    weights: npt.NDArray[np.float32], row_scales: npt.NDArray[np.float32], *, has_clipped: bool = True
) -> Pixels:
    """Draw the rounding of each weight: white none, blue down, red up by half a step, black out of range.

    weights: float32 [rows, columns]. row_scales: step of each row, and has_clipped: whether weights were
    clipped, both from the driver's answer. The range is assumed to be int8's; that of uint8 weights reaches
    further on one side.
    """
    row_steps = np.where(row_scales > 0, row_scales, 1.0).astype(np.float32)[:, None]
    with np.errstate(over="ignore"):
        steps = np.clip(weights / row_steps, -256.0, 256.0)
    rounded = np.rint(steps)
    off = np.clip(2.0 * (rounded - steps), -1.0, 1.0)
    shades = np.rint((off + 1) * (len(_SHADES) // 2)).astype(np.uint16)
    picture: Pixels = _SHADES[shades]
    if has_clipped:
        picture[np.abs(rounded) > INT8_MAX] = 0
    return picture


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

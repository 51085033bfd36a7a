"""Cuts the template for the pattern tracker out of the first image of a bag."""

from __future__ import annotations

from pathlib import Path

import cv2
import numpy as np

from demo.bag.frames import decode_record
from demo.bag.image_bag import ImageBag
from edgetpu_driver.images.encodings import ImageError, Pixels, to_grey

PART = 4
"""Size of the image relative to the pattern, as of the tracker's search image relative to its template."""


def write_pattern(bag: ImageBag, path: Path) -> bool:
    """Write the part of the first good image with the most contrast as a PNG; False if no image is good."""
    for record in bag.records():
        if record.topic != bag.topic.name:
            continue
        try:
            pixels = to_grey(decode_record(record))
        except ImageError:
            continue
        pattern = _strongest(pixels)
        path.parent.mkdir(parents=True, exist_ok=True)
        return bool(pattern.std() > 1.0 and cv2.imwrite(str(path), pattern))
    return False


def _strongest(pixels: Pixels) -> Pixels:
    """Return the part of a grey image with the most contrast, clear of the border."""
    height, width = (max(size // PART, 1) for size in pixels.shape)
    corners = [
        (top, left)
        for top in np.linspace(height // 2, pixels.shape[0] - height * 3 // 2, 5).astype(int)
        for left in np.linspace(width // 2, pixels.shape[1] - width * 3 // 2, 5).astype(int)
    ]
    parts = [pixels[max(top, 0) :, max(left, 0) :][:height, :width] for top, left in corners]
    return max(parts, key=lambda part: float(part.std()))

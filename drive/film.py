"""A video of one world: the camera's picture, and the room from above."""

from __future__ import annotations

import base64
import io

import cv2
import numpy as np
from numpy.typing import NDArray
from PIL import Image

from drive.worlds.robot_world import PERIOD, World

EVERY = 6
"""Images of the camera per picture of the film: five pictures a second."""
MOST = 150
"""Largest number of pictures; a longer drive is cut off, so that the report has only a few megabytes."""
HEIGHT = 180
"""Height of the pictures, px."""
QUALITY = 50
"""Quality of WebP, 0 to 100."""


class Film:
    """Pictures of a drive."""

    def __init__(self, every: int = EVERY) -> None:
        """every: images of the camera per picture; more of them show a drive faster."""
        self._every = every
        self._pictures: list[NDArray[np.uint8]] = []
        self._seen = 0

    def add(self, image: NDArray[np.uint8], world: World) -> None:
        """Take an image of the camera, uint8[h, w, 3] RGB; one of `every` becomes a picture of the film."""
        self._seen += 1
        if self._seen % self._every == 0 and len(self._pictures) < MOST:
            self._pictures.append(np.hstack([_scaled(image), _scaled(world.from_above())]))

    def url(self) -> str:
        """Return the film as a data URL of an animated WebP; an empty string without pictures."""
        if not self._pictures:
            return ""
        first, *others = map(Image.fromarray, self._pictures)
        data = io.BytesIO()
        first.save(
            data,
            "WEBP",
            save_all=True,
            append_images=others,
            duration=round(1000 * EVERY * PERIOD),
            loop=0,
            quality=QUALITY,
        )
        return "data:image/webp;base64," + base64.b64encode(data.getvalue()).decode()


def _scaled(image: NDArray[np.uint8]) -> NDArray[np.uint8]:
    width = round(image.shape[1] * HEIGHT / image.shape[0])
    small = cv2.resize(image, (width, HEIGHT), interpolation=cv2.INTER_AREA)
    return np.asarray(small, np.uint8)

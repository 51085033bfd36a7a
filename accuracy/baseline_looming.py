"""Baseline of looming, as a user would write it with OpenCV: the growth of tracked corners."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from accuracy.looming_tracks import Track
from accuracy.scenes.looming_scenes import Clip
from edgetpu_driver.images.region import Region
from edgetpu_perception.time_to_contact.looming import MIN_EXPANSION_RATE, LoomingResult

MODEL_SIZE = (64, 64)
"""Width and height of the model's input, px."""

INTERVAL = 5
"""Distance of the compared images, in images: from one to the next the growth is too small."""

MIN_CORNERS = 6
"""Fewest corners for the fit of an affine motion."""


def lucas_kanade(
    clip: Clip, size: tuple[int, int] | None = MODEL_SIZE, region: Callable[[int], Region] | None = None
) -> Track:
    """Expansion rate from the affine motion of up to 100 corners over INTERVAL images, fitted by RANSAC.

    `size`: width and height that the images are reduced to; None: full size. `region`: gives the part of
    each image to look at, by the image's number. From MIN_EXPANSION_RATE, an approach is claimed.
    """
    results = []
    for number, stamp in enumerate(clip.stamps.tolist()):
        rate = math.nan
        if number >= INTERVAL:
            part = None if region is None else region(number)
            before, after = (_shown(clip.frames[k], part, size) for k in (number - INTERVAL, number))
            seconds = stamp - float(clip.stamps[number - INTERVAL])
            # At a constant speed, the mean rate of the interval is the rate in its middle.
            middle = _growth(before, after) / seconds
            rate = middle / (1 - min(middle * seconds / 2, 0.5))
        valid = not math.isnan(rate)
        ttc = 1 / rate if valid and rate > 0 else math.inf if valid else math.nan
        results.append(
            LoomingResult(
                stamp, valid, float(valid), ttc, expansion_rate=rate, approaching=rate >= MIN_EXPANSION_RATE
            )
        )
    return Track(clip, tuple(results))


def _shown(image: NDArray[np.uint8], part: Region | None, size: tuple[int, int] | None) -> NDArray[Any]:
    if part is not None:
        rows = slice(part.y_offset, part.y_offset + part.height)
        image = image[rows, part.x_offset : part.x_offset + part.width]
    return image if size is None else cv2.resize(image, size, interpolation=cv2.INTER_AREA)


def _growth(before: NDArray[Any], after: NDArray[Any]) -> float:
    """Logarithm of the scale from one image to another; NaN if too few corners are found again."""
    fine = max(before.shape) > max(MODEL_SIZE)
    corners = cv2.goodFeaturesToTrack(before, 100, 0.01, 7 if fine else 3)
    if corners is None or len(corners) < MIN_CORNERS:
        return math.nan
    window = (21, 21) if fine else (11, 11)
    moved, found, _ = cv2.calcOpticalFlowPyrLK(before, after, corners, None, winSize=window)
    ok = found.ravel() == 1
    if np.count_nonzero(ok) < MIN_CORNERS:
        return math.nan
    motion, _ = cv2.estimateAffine2D(corners[ok], moved[ok], method=cv2.RANSAC)
    if motion is None:
        return math.nan
    return 0.5 * math.log(max(abs(float(np.linalg.det(motion[:, :2]))), 1e-3))

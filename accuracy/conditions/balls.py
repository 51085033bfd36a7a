"""Accuracy of the spot tracker on shaded balls and bodies: white, next to a glare, and large red ones."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import cv2
import numpy as np
from numpy.typing import NDArray

from accuracy.scenes import ball_scenes as scenes
from accuracy.scenes import body_scenes, photographs
from accuracy.scenes.ball_scenes import HEIGHT, WIDTH, BallScene
from edgetpu_perception import SpotTracker
from measured_figures.row import Row

GLARE_SIGMAS = (17.0, 60.0)
"""Standard deviations of the glares, px of 320x240."""

NEAR_PX = 5.0
"""Largest error that counts as right, px of 320x240: the width of a cell of 64x64."""

NEAR_LARGE_PX = 10.0
"""The same for large bodies: a quarter of the longer semiaxis of the smallest."""

MOST_WRONG = 3.0
"""Limit for the percentage of wrong results."""

AMONG_RED = (80.0, 5.0)
"""Limits for the percentages of right and wrong large bodies in photographs two of which are full of red
things."""

CLOSE_PX = 1.0
"""Largest error that counts as close, px of 320x240; next to the narrowest glare it has a limit."""

DIMMED = (0.4, 0.9)
"""Range of the factor by which the photographs behind a white ball are darkened."""

OpenTracker = Callable[[str | None], SpotTracker]
"""Makes a tracker of a colour."""


def measure(open_tracker: OpenTracker, quick: bool = False) -> list[Row]:
    """Rows of the balls; the baselines are the largest contour of the colour in 64x64 px and at full size."""
    count = 60 if quick else 300
    rows = []
    for label, names in (("", photographs.DEVELOPMENT), ("more: ", photographs.held_out())):
        red = open_tracker("red")
        for sigma in GLARE_SIGMAS:
            drawn = list(scenes.balls(names, scenes.RED, (0.3, 1.0), count, 31, sigma))
            case = f"{label}red ball touching glare of sigma {sigma:g} px"
            rows += _rows(red, case, drawn, _reddest, 90.0, 90.0 if sigma == GLARE_SIGMAS[0] else None)
        drawn = list(scenes.balls(names, scenes.WHITE, DIMMED, count, 32))
        rows += _rows(open_tracker("white"), f"{label}white ball of real colour", drawn, _whitest, 90.0)
        large = list(body_scenes.bodies(names, count, 33))
        reach, most_wrong = AMONG_RED if names is photographs.DEVELOPMENT else (90.0, MOST_WRONG)
        case = f"{label}large red body"
        rows += _rows(red, case, large, _reddest, reach, near=NEAR_LARGE_PX, most_wrong=most_wrong)
    return rows


def _rows(
    tracker: SpotTracker,
    name: str,
    drawn: Sequence[BallScene],
    plain: Callable[[NDArray[np.uint8]], NDArray[np.uint8]],
    reach: float,
    close_reach: float | None = None,
    near: float = NEAR_PX,
    most_wrong: float = MOST_WRONG,
) -> list[Row]:
    """Rows of one case; `close_reach`: limit for the percentage within CLOSE_PX; None: no limit.

    `near`: largest error that counts as right, px; `reach`, `most_wrong`: limits for the percentages of right
    and wrong ones.
    """
    distances = np.array([_distance(tracker, scene) for scene in drawn])
    small, full = (
        _shares(np.array([_plain_distance(plain, scene, size) for scene in drawn]), near)
        for size in ((64, 64), (WIDTH, HEIGHT))
    )
    right, wrong, close = _shares(distances, near)
    within = f"within {CLOSE_PX:g} px"
    return [
        Row("spot", name, "right", right, "%", reach, "higher", small[0], full_size_baseline=full[0]),
        Row("spot", name, "wrong", wrong, "%", most_wrong, "lower", small[1], full_size_baseline=full[1]),
        Row("spot", name, within, close, "%", close_reach, "higher", small[2], full_size_baseline=full[2]),
    ]


def _shares(distances: NDArray[np.float64], near: float) -> tuple[float, float, float]:
    """Percentages of right, wrong and close results; results that are not valid count as none of these."""
    right, wrong, close = (
        100.0 * float(each.mean()) for each in (distances <= near, distances > near, distances <= CLOSE_PX)
    )
    return right, wrong, close


def _distance(tracker: SpotTracker, scene: BallScene) -> float:
    """Error of the position, px; NaN if the result is not valid."""
    result = tracker.update(scene.image)
    return math.hypot((result.x + 1) * (WIDTH - 1) / 2 - scene.x, (result.y + 1) * (HEIGHT - 1) / 2 - scene.y)


def _plain_distance(
    mask: Callable[[NDArray[np.uint8]], NDArray[np.uint8]], scene: BallScene, size: tuple[int, int]
) -> float:
    """Error of the centroid of the largest contour, px; NaN without one.

    `size`: width and height that the picture is resized to.
    """
    cells = mask(cv2.resize(scene.image, size, interpolation=cv2.INTER_AREA))
    contours = cv2.findContours(cells, cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_NONE)[0]
    moments = cv2.moments(max(contours, key=cv2.contourArea)) if contours else {"m00": 0.0}
    if not moments["m00"]:
        return math.nan
    x, y = moments["m10"] / moments["m00"], moments["m01"] / moments["m00"]
    return math.hypot(
        (x + 0.5) * WIDTH / size[0] - 0.5 - scene.x, (y + 0.5) * HEIGHT / size[1] - 0.5 - scene.y
    )


def _reddest(image: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Mask of an RGB image, [height, width]: 255 where its hue is a saturated red."""
    hsv = cv2.cvtColor(image, cv2.COLOR_RGB2HSV)
    lower: NDArray[np.uint8] = cv2.inRange(hsv, (0, 120, 70), (10, 255, 255))
    upper: NDArray[np.uint8] = cv2.inRange(hsv, (170, 120, 70), (180, 255, 255))
    return lower | upper


def _whitest(image: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Mask of an RGB image, [height, width]: 255 where it is bright and little saturated."""
    hsv = cv2.cvtColor(image, cv2.COLOR_RGB2HSV)
    white: NDArray[np.uint8] = cv2.inRange(hsv, (0, 0, 180), (180, 60, 255))
    return white

"""Accuracy of the pattern tracker with patterns at half to twice the size of the template."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray

from accuracy.scenes.pattern_pictures import HEIGHT, RIGHT_PX, WIDTH, Image, Picture
from edgetpu_perception.pattern_tracker.pattern_tracker import MatchResult, PatternTracker
from measured_figures.row import Row

IMAGES = 10
"""Times that the same picture is shown: the tracker looks for one scale, of eight, in each."""
PLAIN_SCALES = tuple(2.0 ** (power / 8) for power in range(-8, 9))
"""At which a user of cv2.matchTemplate tries the template: 9 % apart, as in tutorials."""
MODEL_SIZE, MODEL_SIDE = 64, 16


class Guess(NamedTuple):
    """A position, px of the picture, and a size over that in the view."""

    x: float
    y: float
    size: float


def measure(case: str, tracker: PatternTracker, drawn: Iterable[Picture], reach: float | None) -> list[Row]:
    """Rows for the patches that are accepted, compared with cv2.matchTemplate at PLAIN_SCALES."""
    right: list[bool] = []
    small: list[tuple[Guess, Picture]] = []
    full: list[tuple[Guess, Picture]] = []
    scales, inside, scale_inside, claimed, images = [], [], [], [], []
    for one in drawn:
        if not tracker.set_template(one.patch, view=one.view).accepted:
            continue
        claimed.append(any(tracker.update(one.without).valid for _ in range(IMAGES)))
        tracker.set_template(one.patch, view=one.view)
        found = [tracker.update(one.later) for _ in range(IMAGES)]
        last = found[-1]
        images.append(next((n for n, each in enumerate(found, 1) if each.valid), math.inf))
        right.append(_is_right(last, one))
        if right[-1]:
            scales.append(100 * abs(last.scale / one.size - 1))
            scale_inside.append(abs(last.scale - one.size) < last.scale_sigma)
            inside += [abs(last.x - one.x) < last.x_sigma, abs(last.y - one.y) < last.y_sigma]
        small.append((_plain(one, small=True), one))
        full.append((_plain(one, small=False), one))
    return [
        Row(
            "pattern",
            case,
            f"within {RIGHT_PX:g} px of {WIDTH}x{HEIGHT}",
            _percent(right),
            "%",
            reach,
            "higher",
            _plain_right(small),
            full_size_baseline=_plain_right(full),
        ),
        Row(
            "pattern",
            case,
            "error of the scale, median",
            float(np.median(scales)),
            "%",
            None,
            "lower",
            _plain_scale(small),
            full_size_baseline=_plain_scale(full),
        ),
        Row(
            "pattern", case, "error of the scale, 95th", float(np.percentile(scales, 95)), "%", None, "lower"
        ),
        Row("pattern", case, "scale inside one sigma", _percent(scale_inside), "%", None, "higher"),
        Row("pattern", case, "inside one sigma", _percent(inside), "%", None, "higher"),
        Row("pattern", case, "images until it is found, 95th", _percentile(images), "", None, "lower"),
        Row("pattern", case, f"absent: valid in any of {IMAGES}", _percent(claimed), "%", None, "lower"),
    ]


def _percentile(images: list[float]) -> float:
    return float(np.percentile(images, 95, method="higher"))


def _percent(cases: list[bool]) -> float:
    return 100.0 * float(np.mean(cases))


def _is_right(found: MatchResult | Guess, drawn: Picture) -> bool:
    return math.hypot(found.x - drawn.x, found.y - drawn.y) < RIGHT_PX


def _plain_right(guesses: list[tuple[Guess, Picture]]) -> float:
    return _percent([_is_right(*each) for each in guesses])


def _plain_scale(guesses: list[tuple[Guess, Picture]]) -> float:
    """Median error of the scale where the position is right to a tenth of the patch, %."""
    near = [
        100 * abs(guess.size / drawn.size - 1)
        for guess, drawn in guesses
        if math.hypot(guess.x - drawn.x, guess.y - drawn.y) < 0.1 * drawn.patch.shape[1] * drawn.size
    ]
    return float(np.median(near)) if near else math.nan


def _plain(drawn: Picture, small: bool) -> Guess:
    """The highest peak of cv2.matchTemplate over PLAIN_SCALES, at the model's size or at full size."""
    image, width, height = drawn.later, drawn.patch.shape[1], drawn.patch.shape[0]
    if small:
        image = cv2.resize(image, (MODEL_SIZE, MODEL_SIZE), interpolation=cv2.INTER_AREA)
        width = height = MODEL_SIDE
    best, guess = -1.0, Guess(math.nan, math.nan, math.nan)
    for scale in PLAIN_SCALES:
        patch = _resized(drawn.patch, round(width * scale), round(height * scale))
        _, score, _, (column, row) = cv2.minMaxLoc(cv2.matchTemplate(image, patch, cv2.TM_CCOEFF_NORMED))
        if score > best:
            x_cell, y_cell = WIDTH / image.shape[1], HEIGHT / image.shape[0]
            x = (column + patch.shape[1] / 2) * x_cell - 0.5
            y = (row + patch.shape[0] / 2) * y_cell - 0.5
            best, guess = score, Guess(x, y, scale)
    return guess


def _resized(patch: Image, width: int, height: int) -> NDArray[np.uint8]:
    smaller = width < patch.shape[1]
    interpolation = cv2.INTER_AREA if smaller else cv2.INTER_LINEAR
    resized: NDArray[np.uint8] = cv2.resize(patch, (width, height), interpolation=interpolation)
    return resized

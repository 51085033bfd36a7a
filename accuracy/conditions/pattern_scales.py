"""Accuracy of the pattern tracker with patterns at half to twice the size of the template."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray

from accuracy.scenes.pattern_pictures import HEIGHT, RIGHT_PX, WIDTH, Image, Picture
from edgetpu_perception.pattern_tracker.pattern_tracker import MatchResult, PatternTracker
from measured_figures.row import Row

IMAGES = 10
"""How often the same picture is shown: the tracker searches one of eight scales in each."""
PLAIN_SCALES = tuple(2.0 ** (power / 8) for power in range(-8, 9))
"""Scales at which a user of cv2.matchTemplate tries the template: 9 % apart, as in tutorials."""
MODEL_SIZE, MODEL_SIDE = 64, 16


class Guess(NamedTuple):
    """A position, px of the picture, and the size of the patch relative to that in the view."""

    x: float
    y: float
    size: float


@dataclass(frozen=True)
class Search:
    """Results of the tracker for one picture, shown IMAGES times, and of a user's search with OpenCV."""

    drawn: Picture
    found: MatchResult
    """Result for the last image."""
    images: float
    """Number of images up to the first valid result; infinite if there is none."""
    claimed: bool
    """Whether any result was valid for an image without the pattern."""
    plain: Guess
    """Result of cv2.matchTemplate at the size of the model."""
    plain_full: Guess
    """Result of cv2.matchTemplate at full size."""

    @property
    def scale_error(self) -> float:
        """Error of the scale, %."""
        return 100.0 * abs(self.found.scale / self.drawn.size - 1.0)

    @property
    def scale_inside(self) -> bool:
        """Whether the scale is within its sigma."""
        return abs(self.found.scale - self.drawn.size) < self.found.scale_sigma

    @property
    def inside(self) -> list[bool]:
        """Whether x and y are within their sigmas."""
        found, drawn = self.found, self.drawn
        return [abs(found.x - drawn.x) < found.x_sigma, abs(found.y - drawn.y) < found.y_sigma]


def measure(case: str, tracker: PatternTracker, drawn: Iterable[Picture], reach: float | None) -> list[Row]:
    """Rows for the patches that are accepted, compared with cv2.matchTemplate at PLAIN_SCALES."""
    searches = [search for one in drawn if (search := _search(tracker, one))]
    right = [each for each in searches if _is_right(each.found, each.drawn)]
    scale_errors = [each.scale_error for each in right]
    small = [(each.plain, each.drawn) for each in searches]
    full = [(each.plain_full, each.drawn) for each in searches]
    return [
        Row(
            "pattern",
            case,
            f"within {RIGHT_PX:g} px of {WIDTH}x{HEIGHT}",
            100.0 * len(right) / len(searches),
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
            float(np.median(scale_errors)),
            "%",
            None,
            "lower",
            _plain_scale(small),
            full_size_baseline=_plain_scale(full),
        ),
        *(
            Row("pattern", case, metric, value, unit, None, "higher" if "inside" in metric else "lower")
            for metric, value, unit in (
                ("error of the scale, 95th", float(np.percentile(scale_errors, 95)), "%"),
                ("scale inside one sigma", _percent([each.scale_inside for each in right]), "%"),
                ("inside one sigma", _percent([hit for each in right for hit in each.inside]), "%"),
                ("images until it is found, 95th", _percentile([each.images for each in searches]), ""),
                (f"absent: valid in any of {IMAGES}", _percent([each.claimed for each in searches]), "%"),
            )
        ),
    ]


def _search(tracker: PatternTracker, drawn: Picture) -> Search | None:
    """Look for a patch, first in a picture without it, then in one with it; None if it is not accepted."""
    if not tracker.set_template(drawn.patch, view=drawn.view).accepted:
        return None
    claimed = any(tracker.update(drawn.without).valid for _ in range(IMAGES))
    tracker.set_template(drawn.patch, view=drawn.view)
    found = [tracker.update(drawn.later) for _ in range(IMAGES)]
    images = next((n for n, each in enumerate(found, 1) if each.valid), math.inf)
    return Search(drawn, found[-1], images, claimed, _plain(drawn, small=True), _plain(drawn, small=False))


def _percentile(images: list[float]) -> float:
    return float(np.percentile(images, 95, method="higher"))


def _percent(cases: list[bool]) -> float:
    return 100.0 * float(np.mean(cases))


def _is_right(found: MatchResult | Guess, drawn: Picture) -> bool:
    return math.hypot(found.x - drawn.x, found.y - drawn.y) < RIGHT_PX


def _plain_right(guesses: list[tuple[Guess, Picture]]) -> float:
    return _percent([_is_right(*each) for each in guesses])


def _plain_scale(guesses: list[tuple[Guess, Picture]]) -> float:
    """Median error of the scale, %, of guesses whose position is right to a tenth of the patch."""
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

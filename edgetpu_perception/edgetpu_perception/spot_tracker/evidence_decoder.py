"""Position of a spot from an evidence map: the weighted centroid of its strongest blob."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray

from edgetpu_driver.tflite.tensor import TensorSpec
from edgetpu_perception.confidence_ramp import ramp
from edgetpu_perception.spot_tracker.background import clear_thresholds
from edgetpu_perception.spot_tracker.blob import Blob, FoundBlob, find_blob
from edgetpu_perception.spot_tracker.blob_measurement import (
    has_steep_outline,
    measure_blob,
    most_noise_outside,
    noise_outside,
)
from edgetpu_perception.spot_tracker.camera_lamp import find_camera_lamp, place_small_spot
from edgetpu_perception.spot_tracker.color_purity import purity_of_large_spot, purity_of_small_spot
from edgetpu_perception.spot_tracker.disc_around_spot import SUFFICIENT_CONFIDENCE, spot_by_disc, whole_disc
from edgetpu_perception.spot_tracker.evidence_map import EvidenceMap
from edgetpu_perception.spot_tracker.fine_disc import find_fine_disc
from edgetpu_perception.spot_tracker.fine_outline import place_by_outline
from edgetpu_perception.spot_tracker.flat_target import (
    SHADE_TOLERANCE,
    cells_of_color,
    find_flat_target,
    flat_spot,
    refined_by_outline,
)
from edgetpu_perception.spot_tracker.round_target import MAX_ROUND_CONFIDENCE, find_round_target
from edgetpu_perception.spot_tracker.small_spot import SmallSpot, find_small_spot
from edgetpu_perception.spot_tracker.spot_decoder import (
    FULL_CONFIDENCE_CONTRAST,
    MIN_CONTRAST,
    NO_SPOT,
    CameraPixels,
    Position,
    Spot,
)

BRIGHT_SHARES = tuple(step / 20 for step in range(5, 19))
"""Shares of the contrast tried as threshold for a bright spot: 0.25 to 0.9.

The lowest one that is clear of the background is used, as the flanks of a spot help to locate it. Rows: spot,
smooth spots, rmse; discs on texture, rmse.
"""

COLOR_SHARES = tuple(step / 20 for step in range(7, 19))
"""The same for a coloured target: 0.35 to 0.9, as the scene has some of its colour.

The dark side of a ball has half the light of the bright one. Rows: spot, white ball of real colour, right;
red ball touching glare, right; colours, half contrast, rmse.
"""

SHADE_SHARE = 0.25
"""Share tried last for a colour other than white, of which most scenes have some: for a dark side with less
light.

Rows: spot, large red body, right. Derived: half of the light that COLOR_SHARES allow for.
"""

MAX_SHADE_CONFIDENCE = 0.45
"""Upper limit of the confidence in a spot found at that share.

Derived: below SUFFICIENT_CONFIDENCE (disc_around_spot.py), as it comes after all other shapes.
"""

CLEAR_SIGMAS = (5.5, 8.5)
"""Contrast over noise, times the square root of the number of independent cells: no spot up to the first,
full confidence from the second on. The largest of a few thousand cells of noise reaches 4. Rows: spot, none.
Uncritical."""

BRIGHT_SOLIDITY = (0.82, 0.95)
"""Solidity up to which a shape is no spot, and from which it has full confidence.

Rows: spot, half out of the frame, inside one sigma.
"""

COLOR_SOLIDITY = (0.9, 0.99)
"""The same for a colour, where a target may have merged with part of the scene.

Rows: spot, colours, full contrast, right or unsure. Uncritical below 1.
"""

CERTAIN_CONFIDENCE = 0.9
"""Confidence from which no further shape is tried for a colour: at a low threshold a target may have
merged with part of the scene. Rows: spot, colours, full contrast, right or unsure."""

MIN_RIVAL_CONTRAST_SHARE = 0.75
"""A blob is a candidate if it reaches this share of the contrast. Rows: spot, two equal spots."""

UNIQUENESS = (-0.75, -0.5)
"""Largest contrast of the map elsewhere, as a share of the spot's, negated: no spot up to the first, full
confidence from the second on. Rows: spot, photographs without a lamp; white discs on half-contrast grey
photographs (0.46 at most)."""

SMALL_SPOT_CONTRAST_FACTOR = 1.3
"""Contrast of the brightest cell over that of the map from which a spot too small for the map is looked for.
Rows: spot, lamps of radius 5 px; discs of radius 2-4, rmse."""

REMOVED_CONTRAST_SHARE = 0.6
"""Share of the map's contrast that the graph must remove from a cell before the camera's pixels are searched
for a lamp besides a certain spot. Averaging over 3x3 cells removes up to half from the edge of a spot.

Rows: spot, lamps of radius 1.5 px on a dull day.
"""

SAME_SPOT_CELLS = 2.0
"""A small spot this close to the blob is the blob. Derived: what 3x3 cells and a soft edge reach."""

WHOLE_STEP_SHARE = 0.75
"""Least step of the map across the outline of a white object without shade, as a share of the contrast; no
disc is looked for around such an object. Limits the time. It is less than 1, as the background may be
brighter next to the object than elsewhere. Rows: spot, white ball of real colour, right and wrong."""

SQUEEZED = 2.0
"""Longer side of a cell over the shorter one above which a spot may be few cells wide and many long: cells on
its outline then determine its position. Derived: more than images of 16:9 have. Rows: none;
test_a_lamp_in_a_very_wide_or_high_image_is_placed_in_its_pixels.
"""

_FLANK_CELLS = np.ones((5, 5), np.uint8)
"""Neighbourhood within the flank of a spot. Derived: 1 cell for the 3x3 average and 1 for a soft edge."""


class _Image(NamedTuple):
    """One image, and what is known of it."""

    pixels: NDArray[np.uint8]
    """The model's input, [H, W, channels]."""
    output: EvidenceMap
    near: Position | None
    """See SpotDecoder.decode, as for the following fields."""
    cell: tuple[float, float]
    camera: CameraPixels | None


class EvidenceDecoder:
    """Weighted centroid of the strongest blob of an evidence map [1, height, width, 1]."""

    def __init__(
        self,
        output: TensorSpec,
        colored: bool = False,
        weights: Sequence[float] | None = None,
        *,
        is_pure: bool = False,
    ) -> None:
        """`weights`: those of a colour filter (RGB); without them no small spot of a colour is found.

        `is_pure`: whether a pure colour is looked for; with other weights it may be a tint.
        """
        self._is_pure = is_pure
        self._weights = None if weights is None else np.array([weights], np.float32)
        self._name = output.name
        self._dtype = output.dtype
        self._colored = colored
        # A colour whose weights do not cancel on grey: shade makes parts of the object as grey as the scene.
        self._is_white = weights is not None and min(weights) > 0.0
        self._solidity_range = COLOR_SOLIDITY if colored else BRIGHT_SOLIDITY
        self._shares = COLOR_SHARES if colored else BRIGHT_SHARES

    def decode(
        self,
        image: NDArray[np.uint8],
        outputs: Mapping[str, NDArray[Any]],
        near: Position | None,
        cell: tuple[float, float] = (1.0, 1.0),
        camera: CameraPixels | None = None,
    ) -> Spot:
        """See SpotDecoder.decode; NO_SPOT if nothing stands out."""
        output = EvidenceMap.of(outputs[self._name][0, :, :, 0], self._dtype)
        seen = _Image(image[0], output, near, cell, camera)
        large, blob = self._large_spot(seen)
        grey = self._grey(image[0])
        if grey is None:
            return large
        by_outline = None
        if self._may_be_part_of_disc(large, blob, output):
            disc = find_fine_disc(grey, cell, camera, self._weighted_sum)
            of_blob, large = large, (spot_by_disc if self._is_white else whole_disc)(large, disc)
            by_outline = disc if large is not of_blob else None
        if self._colored and not self._is_white:
            shaded = self._shaded_spot(seen, large.confidence)
            if shaded is not NO_SPOT:
                large, by_outline = shaded, None
        if self._is_pure and self._weights is not None and large.confidence:
            purity = purity_of_large_spot(image[0], output.peak, by_outline, self._weights)
            large = _less_confident(large, purity)
        found = self._small_or_large(seen, grey, large)
        sure = SUFFICIENT_CONFIDENCE if found is large else CERTAIN_CONFIDENCE
        hidden = found is large and _may_hide_lamp(large, grey, output)
        if camera is None or (found.confidence >= sure and not hidden):
            return found
        lamp = find_camera_lamp(grey, camera, self._weighted_sum)
        return lamp if lamp.confidence >= found.confidence else found

    def _small_or_large(self, seen: _Image, grey: NDArray[np.uint8], large: Spot) -> Spot:
        """The spot too small for the map, if brighter or more certain than the large one; else that one."""
        output = seen.output
        level, least = output.background.level, SMALL_SPOT_CONTRAST_FACTOR * output.contrast
        if cv2.norm(grey, cv2.NORM_INF) - level < least:
            return large
        small = find_small_spot(grey, seen.cell[0] * seen.cell[1], seen.near)
        if self._is_pure and self._weights is not None and small.confidence:
            purity = purity_of_small_spot(seen.pixels, small, seen.camera, self._weights)
            small = small._replace(confidence=small.confidence * purity)
        brighter = small.level - level >= least
        if _is_same(small, large) or not (brighter or small.confidence > large.confidence):
            return large
        spot = place_small_spot(small, grey, seen.camera, self._weighted_sum)
        spot = self._placed(spot, small.blob_in(grey.shape), seen) or spot
        return large if spot is NO_SPOT else spot

    def _large_spot(self, seen: _Image) -> tuple[Spot, Blob | None]:
        """The strongest blob of the map, which averages over 3x3 cells; NO_SPOT if there is none."""
        image, output = seen.pixels, seen.output
        clarity = ramp(output.contrast, MIN_CONTRAST, FULL_CONFIDENCE_CONTRAST)
        if clarity == 0.0:
            return NO_SPOT, None
        best, best_blob = self._strongest_blob(seen, clarity)
        placed = None if best_blob is None else self._placed(best, best_blob, seen)
        if not self._colored:
            return placed or best, best_blob
        if placed is not None:
            best = placed
        elif best.confidence >= SUFFICIENT_CONFIDENCE and best_blob is not None:
            best = refined_by_outline(best, best_blob, output.evidence, image)
        if best.confidence >= (SUFFICIENT_CONFIDENCE if best.is_outlined else CERTAIN_CONFIDENCE):
            return best, best_blob
        flat = cells_of_color(image, output.peak)
        shade = cells_of_color(image, output.peak, SHADE_TOLERANCE)
        target = find_flat_target(flat, shade, seen.near)
        if target is not None and clarity * target.confidence > best.confidence:
            best, best_blob = flat_spot(target, clarity * target.confidence), target.blob
            best = self._placed(best, best_blob, seen) or best
        # White targets are searched for as shaded discs, too, which also finds discs of one flat level.
        return (best if self._is_white else _best_round_shape(best, flat, clarity)), best_blob

    def _strongest_blob(self, seen: _Image, clarity: float) -> tuple[Spot, Blob | None]:
        """The spot of the best blob over all thresholds. `clarity`: confidence, 0..1, by the contrast."""
        background, contrast = seen.output.background, seen.output.contrast
        best: tuple[Spot, Blob | None] = NO_SPOT, None
        for threshold in clear_thresholds(background, contrast, self._shares):
            best = max(best, self._spot_above(threshold, seen, clarity, best[0].confidence), key=_confidence)
            if best[0].confidence >= SUFFICIENT_CONFIDENCE:
                break
        return best

    def _shaded_spot(self, seen: _Image, least: float) -> Spot:
        """The spot at SHADE_SHARE if it has an outline all around and more confidence than `least`."""
        background, contrast = seen.output.background, seen.output.contrast
        clarity = min(ramp(contrast, MIN_CONTRAST, FULL_CONFIDENCE_CONTRAST), MAX_SHADE_CONFIDENCE)
        if clarity <= least or not self._may_be_pure(seen):
            return NO_SPOT
        if not clear_thresholds(background, contrast, self._shares):
            return NO_SPOT
        spot, blob = self._spot_above(background.level + SHADE_SHARE * contrast, seen, clarity, least)
        # Only the outline of a body in the shade makes a spot of a colour uneven.
        if blob is None or not spot.is_uneven or spot.confidence <= least:
            return NO_SPOT
        return self._placed(spot, blob, seen) or spot

    def _may_be_pure(self, seen: _Image) -> bool:
        """Whether the peak is not excluded by its purity; it takes less time than measuring a spot."""
        if not self._is_pure or self._weights is None:
            return True
        return purity_of_large_spot(seen.pixels, seen.output.peak, None, self._weights) > 0.0

    def _spot_above(
        self, threshold: float, seen: _Image, clarity: float, least: float
    ) -> tuple[Spot, Blob | None]:
        """The spot of the best blob above a threshold; NO_SPOT if its confidence is not above `least`."""
        output = seen.output
        grey = None if self._colored else seen.pixels[:, :, 0]
        rival = output.background.level + MIN_RIVAL_CONTRAST_SHARE * output.contrast
        found = find_blob(output.evidence, threshold, output.peak, rival, seen.near)
        confidence = clarity * found.share * found.blob.compactness
        confidence *= _uniqueness(output, found, threshold)
        confidence *= _clearness(seen.pixels, found, output.contrast)
        if confidence <= least:
            return NO_SPOT, None
        spot = measure_blob(
            output, grey, threshold, found.blob, confidence, self._solidity_range, seen.camera
        )
        return spot if found.rival is None else spot._replace(rival=found.rival), found.blob

    def _placed(self, spot: Spot, blob: Blob, seen: _Image) -> Spot | None:
        """Measure the spot by its outline in the camera's pixels; None if they do not show it.

        Bright and white spots are measured this way only if the border cuts them off, bright ones also if
        the cells are far wider than high, or higher than wide. Otherwise the glow of a light and the shade of
        a white ball tell their positions.
        """
        if seen.camera is None or spot is NO_SPOT:
            return None
        is_colored = self._colored and self._weights is not None and not self._is_white
        squeezed = not self._colored and max(seen.cell) > SQUEEZED * min(seen.cell)
        if not (is_colored or squeezed or any(blob.touches_border)):
            return None
        return place_by_outline(spot, blob, seen.camera, self._weighted_sum)

    def _may_be_part_of_disc(self, large: Spot, blob: Blob | None, output: EvidenceMap) -> bool:
        """Whether the target may be a disc around the spot: a ball of which the spot is the bright side."""
        if not self._is_white:
            return self._colored and large.confidence < CERTAIN_CONFIDENCE
        if blob is None or large.is_uneven or large.confidence < SUFFICIENT_CONFIDENCE:
            return True
        if large.is_outlined:
            return False
        # White objects have shade, but one without shade and with an outline all around is a whole object.
        return any(blob.touches_border) or not has_steep_outline(output, blob, WHOLE_STEP_SHARE)

    def _grey(self, image: NDArray[np.uint8]) -> NDArray[np.uint8] | None:
        """What the graph removes hot pixels from, uint8 [H, W]; None if a colour's weights are unknown."""
        if not self._colored:
            return image[:, :, 0]
        return None if self._weights is None else self._weighted_sum(image)

    def _weighted_sum(self, pixels: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """Amount of the colour, uint8 [h, w]; grey pixels are returned as they are."""
        if not self._colored:
            return pixels
        assert self._weights is not None
        weighted: NDArray[np.uint8] = cv2.transform(pixels, self._weights)
        return weighted


def _confidence(found: tuple[Spot, Blob | None]) -> float:
    """The confidence of a spot with its blob."""
    return found[0].confidence


def _less_confident(spot: Spot, factor: float) -> Spot:
    """The spot with its confidence times a factor; NO_SPOT if none is left."""
    confidence = factor * spot.confidence
    return spot._replace(confidence=confidence) if confidence else NO_SPOT


def _may_hide_lamp(large: Spot, grey: NDArray[np.uint8], output: EvidenceMap) -> bool:
    """Whether the graph has removed something elsewhere that may be a lamp brighter than the spot."""
    evidence, least = output.evidence, REMOVED_CONTRAST_SHARE * output.contrast
    if evidence.dtype != np.uint8 or cv2.norm(grey, evidence, cv2.NORM_INF) <= least:
        return False
    _, removed, _, peak = cv2.minMaxLoc(cv2.subtract(grey, evidence))
    is_elsewhere = math.dist(peak, (large.x, large.y)) > SAME_SPOT_CELLS
    return is_elsewhere and removed > least


def _is_same(small: SmallSpot, large: Spot) -> bool:
    """Whether the blob is the small spot, and certain, so that its flanks tell the position better."""
    apart = math.dist(small.middle, (large.x, large.y))
    return large.confidence >= SUFFICIENT_CONFIDENCE and apart < SAME_SPOT_CELLS


def _uniqueness(output: EvidenceMap, found: FoundBlob, threshold: float) -> float:
    """1 if the map stays well below the spot everywhere else, 0 if it comes near, as in a scene without one.

    The flanks of the spot and of others like it do not count.
    """
    below, level = output.background.below, output.background.level
    least = min(threshold, level - UNIQUENESS[1] * output.contrast)
    if below[-1] - below[int(least) + 1] <= found.blob.area:
        return 1.0  # all cells that would count are in the blob
    most = cv2.norm(output.evidence, cv2.NORM_INF, cv2.erode(found.outside(), _FLANK_CELLS))
    return ramp(level - most, *(share * output.contrast for share in UNIQUENESS))


def _clearness(image: NDArray[np.uint8], found: FoundBlob, contrast: float) -> float:
    """1 if a blob stands out from the noise outside of it, 0 if noise alone may look like it."""
    area = found.blob.area
    height = contrast * math.sqrt(area) / 3.0
    if found.rival is None and height >= CLEAR_SIGMAS[1] * most_noise_outside(image, area):
        return 1.0
    return ramp(height / noise_outside(image, found.outside()), *CLEAR_SIGMAS)


def _best_round_shape(best: Spot, flat: NDArray[np.uint8], clarity: float) -> Spot:
    """The best disc among the cells of the peak's colour, or `best` if none has more confidence."""
    if best.confidence < clarity * MAX_ROUND_CONFIDENCE:
        disc = find_round_target(flat)
        if disc is not None and clarity * disc.confidence > best.confidence:
            return Spot(disc.x, disc.y, disc.x_sigma, disc.y_sigma, clarity * disc.confidence)
    return best

"""Refines a match at the resolution of the camera image, of which the model sees a reduced copy."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray

from edgetpu_driver.images.encodings import Pixels
from edgetpu_perception.pattern_tracker.expected_scores import EXPECTED_NOISE
from edgetpu_perception.pattern_tracker.fine_patch import SMOOTHING, FinePatch, coarser, smoothed
from edgetpu_perception.pattern_tracker.fine_patch_check import LEAST_SHARE, FinePatchCheck, Seen
from edgetpu_perception.pattern_tracker.patch_alignment import ROUNDING_PX, PatchAligner, PatchAlignment
from edgetpu_perception.pattern_tracker.plane_alignment import Homography, PlaneAligner, scaled

MARGIN_PX = 2
"""Fine px around a patch that are cut out with it.

Derived: the reach of the alignment and of its interpolation. Limits the time.
"""

REACH_PX = 1.5
"""How far a match in the search image may be off, fine px along an axis.

Derived: a third of a px of the search image, with 5 fine px to one.
"""

CONVERGED_PX = 0.15
"""A step that moves no corner of the patch by more than this is the last one, fine px: steps converge
quadratically. Rows: pattern, whole picture, within 2 px."""

PLANE_CONVERGED_PX = 0.05
"""The same for the last alignment in perspective, whose steps are less exact.

Rows: pattern, tilted posters, error of valid, median.
"""

LARGEST_GROWTH = 1.1
"""Size of the cut-out part of an image over that of the patch, in addition to MARGIN_PX.

Derived: 5 degrees and 5 %, which a pattern may turn and grow.
"""

TILTED_GROWTH = 1.3
"""The same for a tilted patch.

Derived: the nearer half of a patch as large as a third of the picture, tilted by 45 degrees, looks larger.
"""

MIN_GAIN_OF_TILT = 0.06
"""Share of the unexplained part of a match that a tilt must explain before one is searched for.

Rows: pattern, tilted posters and whole picture, inside one sigma.
"""

START_TILT = 35.0
"""Tilt with which the alignment of a doubtful match starts, degrees, in addition to a start without a tilt.

Derived: a match that is tilted less than half as much is nearer to the start without a tilt.
"""


class FineAligner:
    """Aligns one fine patch, starting from matches in the search image."""

    def __init__(self, patch: FinePatch) -> None:
        patches = [each for each in (patch, patch.finer) if each is not None]
        levels = [_Level(each, last=each is patches[-1]) for each in patches]
        coarse = coarser(patch)
        self._upright = levels if patch.smooth else levels[:1]
        self._levels = levels if coarse is None else [_Level(coarse, last=False), *levels]
        self._checked = levels[0]
        self._check = FinePatchCheck(patch)

    def refine(self, image: Pixels, search: tuple[int, int], match: PatchAlignment) -> PatchAlignment | None:
        """Align a match in the image [H, W], of which the search image is a reduced copy.

        `search`: height and width of the search image; position and sigmas remain in its px. Returns the
        match itself if it cannot be improved, and None if the image shows something else there.
        """
        start: Homography | None = None
        seen: list[Seen | None] = []
        for level in self._upright:
            found = level.upright(image, search, match)
            match, start = found.match, found.tilted if start is None else start
            seen.append(found.seen)
        contradicted = self._check.is_contradicted(
            seen[0],
            lambda: (
                seen[1] if len(seen) > 1 else self._finer(image, search, _upright_map(image, search, match))
            ),
        )
        if start is not None:
            match, to_image = self._tilted(image, search, match, start)
            contradicted = contradicted and self._check.is_contradicted(
                self._checked.seen(image, search, to_image), lambda: self._finer(image, search, to_image)
            )
        return None if contradicted else match

    def _finer(self, image: Pixels, search: tuple[int, int], to_image: Homography) -> Seen | None:
        return self._levels[-1].seen(image, search, to_image)

    def _tilted(
        self, image: Pixels, search: tuple[int, int], match: PatchAlignment, upright: Homography
    ) -> tuple[PatchAlignment, Homography]:
        """Align a match in perspective; returns it and its `to_image`. `upright`: start, see `_Level.tilted`.

        If the patch does not determine its tilt well enough, the upright match is returned. Its sigmas are
        then those of the tilted one and include the distance between both.
        """
        tilted, to_image = match, upright
        for level in self._levels:
            tilted, to_image = level.tilted(image, search, tilted, (to_image, upright))
        if is_nearer(tilted, match):
            return tilted, to_image
        match = match._replace(
            x_sigma=tilted.x_sigma, y_sigma=tilted.y_sigma, growth_sigma=tilted.growth_sigma
        ).less_certain(tilted.x - match.x, tilted.y - match.y)
        return match, to_image

    def confirm(
        self, image: Pixels, search: tuple[int, int], match: PatchAlignment, known: Homography | None = None
    ) -> Confirmation | None:
        """Align a doubtful match in perspective; None if the image does not show enough of the patch there.

        `image`, `search`: as for `refine`; `known`: where to begin, the `to_image` of an earlier
        confirmation.
        """
        if not self._check.can_confirm:
            return None
        starts, share = _tilted_starts(image, search, match) if known is None else [known], 0.0
        tilted, to_image = match, starts[0]
        seen: Seen | None = None
        for level in self._levels:
            tilted, to_image = level.tilted(image, search, tilted, starts)
            starts = [to_image]
            if level is self._checked:
                seen = level.seen(image, search, to_image)
                share = self._check.share(seen)
                if share < LEAST_SHARE or self._check.is_contradicted(seen):
                    return None
        if self._check.is_contradicted(seen, lambda: self._finer(image, search, to_image)):
            return None
        return Confirmation(tilted, to_image, share, _frontal_scale(image, search, to_image))


class Confirmation(NamedTuple):
    """A match in perspective, confirmed by the camera image."""

    match: PatchAlignment
    to_image: Homography
    """From px of the search image, relative to the template's centre where it was cut out, to image px."""
    share: float
    """Share of the blocks of the patch that agree, LEAST_SHARE..1."""
    frontal_scale: float
    """Scale along the axis of the tilt, which the tilt does not change."""

    @property
    def turn(self) -> float:
        """Rotation in the image, rad."""
        return math.atan2(self.match.sine, self.match.cosine)

    @property
    def surplus(self) -> float:
        """Position of `share` between LEAST_SHARE and 1, 0..1."""
        return (self.share - LEAST_SHARE) / (1.0 - LEAST_SHARE)


class _Upright(NamedTuple):
    """A match aligned with rotation and scale."""

    match: PatchAlignment
    tilted: Homography | None
    """The start for `_Level.tilted`, if a tilt would explain the image better; else None."""
    seen: Seen | None
    """What the image shows there; overwritten by the next alignment. None if it has fewer px than the
    patch."""


class _Squares(NamedTuple):
    """A part of an image, averaged over squares."""

    levels: NDArray[np.float32]
    """Grey levels minus the mean of the patch, [H, W]."""
    left: int
    """First column of the image, px; `top`: first row."""
    top: int
    x_side: float
    """Width of a square, px of the image; `y_side`: its height."""
    y_side: float

    @property
    def noise(self) -> float:
        """Expected noise of a square, one standard deviation, grey levels."""
        return EXPECTED_NOISE / math.sqrt(self.x_side * self.y_side)

    @property
    def to_image(self) -> Homography:
        """From squares to px of the image; (0, 0) is the centre of the first square, or px."""
        x, y = self.x_side, self.y_side
        first = self.left + x / 2 - 0.5, self.top + y / 2 - 0.5
        return np.array([[x, 0.0, first[0]], [0.0, y, first[1]], [0.0, 0.0, 1.0]])


class _Level:
    """Aligns a patch in squares of one size."""

    def __init__(self, patch: FinePatch, *, last: bool) -> None:
        """`last`: whether no level with finer squares follows."""
        self._patch = patch
        self._aligner = PatchAligner(
            patch.values,
            patch.mask,
            REACH_PX,
            converged=CONVERGED_PX,
            sigma_floor=ROUNDING_PX,
            blur=SMOOTHING if patch.smooth else 0.0,
        )
        self._plane = PlaneAligner(patch.values, patch.mask, PLANE_CONVERGED_PX if last else CONVERGED_PX)
        x, y = self._plane.extent / patch.x_scale, self._plane.extent / patch.y_scale
        self._to_template = np.array([[x, 0.0, patch.offset[0]], [0.0, y, patch.offset[1]], [0.0, 0.0, 1.0]])
        """From coordinates on the patch to px of the search image, relative to the centre of the template."""
        self._from_template = np.linalg.inv(self._to_template)

    def upright(self, image: Pixels, search: tuple[int, int], match: PatchAlignment) -> _Upright:
        """Align a match with rotation and scale."""
        patch = self._patch
        x_cell, y_cell = _cell(image, search)
        u = (match.x + patch.offset[0] + 0.5) * x_cell
        v = (match.y + patch.offset[1] + 0.5) * y_cell
        squares = self._squares(image, search, u, v, LARGEST_GROWTH)
        if squares is None:
            return _Upright(match, None, None)
        levels, left, top, x_side, y_side = squares
        x, y = (u - left) / x_side - 0.5, (v - top) / y_side - 0.5
        found = self._aligner.align([levels], x, y, pose=(match.cosine, match.sine))
        x_sigma, y_sigma = found.x_sigma * x_side / x_cell, found.y_sigma * y_side / y_cell
        if x_sigma + y_sigma > match.x_sigma + match.y_sigma:
            return _Upright(match, None, self.seen(image, search, _upright_map(image, search, match)))
        grown = self._grown(squares, image, search)
        refined = match._replace(
            x=(left + (found.x + 0.5) * x_side) / x_cell - 0.5 - patch.offset[0],
            y=(top + (found.y + 0.5) * y_side) / y_cell - 0.5 - patch.offset[1],
            cosine=grown * found.cosine,
            sine=grown * found.sine,
            x_sigma=x_sigma,
            y_sigma=y_sigma,
            growth_sigma=found.growth_sigma,
        )
        upright = self._plane.upright(found.x, found.y, found.cosine, found.sine)
        tilt = self._plane.hidden_tilt(levels, upright)
        seen = self._plane.compared, squares.noise
        if tilt.gain >= MIN_GAIN_OF_TILT:
            return _Upright(refined, squares.to_image @ upright @ self._from_template, seen)
        refined = refined.less_certain(tilt.x * x_side / x_cell, tilt.y * y_side / y_cell)
        return _Upright(refined, None, seen)

    def tilted(
        self, image: Pixels, search: tuple[int, int], match: PatchAlignment, starts: Sequence[Homography]
    ) -> tuple[PatchAlignment, Homography]:
        """Align a match in perspective, from the best start; returns it and its `to_image`.

        `starts`: homographies like `to_image`, see Confirmation.
        """
        squares, maps = self._located(image, search, starts)
        if squares is None:
            return match, starts[0]
        found = self._plane.align(squares.levels, maps)
        if not math.isfinite(found.x_sigma):
            return match, starts[0]
        x_cell, y_cell = _cell(image, search)
        to_image = scaled(squares.to_image @ found.to_image @ self._from_template)
        u, v = to_image[:2, 2] + 0.5
        local = self._grown(squares, image, search) * self._plane.local(found.to_image)
        scale = math.sqrt(abs(float(np.linalg.det(local))))
        turn = math.atan2(local[1, 0] - local[0, 1], local[0, 0] + local[1, 1])
        aligned = match._replace(
            x=float(u) / x_cell - 0.5,
            y=float(v) / y_cell - 0.5,
            cosine=scale * math.cos(turn),
            sine=scale * math.sin(turn),
            x_sigma=found.x_sigma * squares.x_side / x_cell,
            y_sigma=found.y_sigma * squares.y_side / y_cell,
            growth_sigma=found.growth_sigma,
            upright_scale=match.search_scale,
        )
        return aligned, to_image

    def seen(self, image: Pixels, search: tuple[int, int], to_image: Homography) -> Seen | None:
        """What the image shows of the patch; None if it has fewer px than the patch.

        `to_image`: as `tilted` returned it.
        """
        squares, maps = self._located(image, search, [to_image])
        if squares is None:
            return None
        return self._plane.window(squares.levels, maps[0]), squares.noise

    def _located(
        self, image: Pixels, search: tuple[int, int], starts: Sequence[Homography]
    ) -> tuple[_Squares | None, list[Homography]]:
        """The squares around the first start, and all starts, from coordinates on the patch to squares."""
        maps = [start @ self._to_template for start in starts]
        u, v = maps[0][:2, 2] / maps[0][2, 2] + 0.5
        squares = self._squares(image, search, u, v, TILTED_GROWTH)
        if squares is None:
            return None, []
        to_squares = np.linalg.inv(squares.to_image)
        return squares, [scaled(to_squares @ upright) for upright in maps]

    def _squares(
        self, image: Pixels, search: tuple[int, int], u: float, v: float, growth: float
    ) -> _Squares | None:
        """The squares around (u, v), px of the image; its first px reaches from 0 to 1.

        None if the image has fewer px than the patch. `growth`: see LARGEST_GROWTH.
        """
        patch = self._patch
        x_cell, y_cell = _cell(image, search)
        x_side, y_side = x_cell / patch.x_scale, y_cell / patch.y_scale  # px of the image in a fine px
        if min(x_side, y_side) < 0.9:
            return None
        height, width = patch.values.shape
        left, columns = _span(u, x_side, width, image.shape[1], growth)
        top, rows = _span(v, y_side, height, image.shape[0], growth)
        if columns < 2 or rows < 2:
            return None
        part = image[top : top + round(rows * y_side), left : left + round(columns * x_side)]
        x_side, y_side = part.shape[1] / columns, part.shape[0] / rows
        if patch.smooth:
            part = smoothed(part, x_side, y_side)
        averages = cv2.resize(part, (columns, rows), interpolation=cv2.INTER_AREA)
        return _Squares(self._aligner.levels(averages)[0], left, top, x_side, y_side)

    def _grown(self, squares: _Squares, image: Pixels, search: tuple[int, int]) -> float:
        """Side of a square over that of a square of the patch, both in px of the search image."""
        x_cell, y_cell = _cell(image, search)
        x, y = squares.x_side * self._patch.x_scale, squares.y_side * self._patch.y_scale
        return math.sqrt(x / x_cell * (y / y_cell))


def is_nearer(tilted: PatchAlignment, upright: PatchAlignment) -> bool:
    """Whether a tilted match is expected to be nearer to the truth than the upright one.

    The squared error of an upright match is its variance plus the squared bias of ignoring the tilt: the
    squared distance of the two matches less the difference of their variances (Hausman, 1978).
    """
    by_noise = tilted.x_sigma**2 + tilted.y_sigma**2 - upright.x_sigma**2 - upright.y_sigma**2
    apart = (tilted.x - upright.x) ** 2 + (tilted.y - upright.y) ** 2
    return 2.0 * by_noise <= apart


def _upright_map(image: Pixels, search: tuple[int, int], match: PatchAlignment) -> Homography:
    """The `to_image`, see Confirmation, of a match that is not tilted."""
    x_cell, y_cell = _cell(image, search)
    upright = np.eye(3)
    upright[:2, :2] = np.array([[match.cosine, -match.sine], [match.sine, match.cosine]]) * (x_cell, y_cell)
    upright[:2, 2] = (match.x + 0.5) * x_cell - 0.5, (match.y + 0.5) * y_cell - 0.5
    return upright


def _tilted_starts(image: Pixels, search: tuple[int, int], match: PatchAlignment) -> list[Homography]:
    """Starts: a match without a tilt, and with the same area tilted about four axes."""
    upright, cell = _upright_map(image, search, match), np.diag(_cell(image, search))
    starts = [upright]
    for direction in (0.0, 45.0, 90.0, 135.0):
        axis = np.array([math.cos(math.radians(direction)), math.sin(math.radians(direction))])
        narrow = math.sqrt(math.cos(math.radians(START_TILT)))
        along = np.eye(2) / narrow + (narrow - 1 / narrow) * np.outer(axis, axis)
        start = upright.copy()
        start[:2, :2] = upright[:2, :2] @ np.linalg.inv(cell) @ along @ cell
        starts.append(start)
    return starts


def _frontal_scale(image: Pixels, search: tuple[int, int], to_image: Homography) -> float:
    """Scale along the axis of a tilt, over that of the template; `to_image`: see Confirmation."""
    local = to_image[:2, :2] - np.outer(to_image[:2, 2], to_image[2, :2])
    return float(np.linalg.norm(local / _cell(image, search), 2))


def _cell(image: Pixels, search: tuple[int, int]) -> tuple[float, float]:
    """Width and height of a px of the search image, px of the image."""
    return image.shape[1] / search[1], image.shape[0] / search[0]


def _span(center: float, side: float, length: int, last: int, growth: float) -> tuple[int, int]:
    """First px of an image around a patch of `length` fine px, and how many fine px from there to take.

    The squares of the patch begin where those of the image do if the match is right: then both averages are
    the same.
    """
    first = round(center - length / 2 * side)
    margin = min(round(length / 2 * (growth - 1.0)) + MARGIN_PX, max(int(first / side), 0))
    first = max(first - round(margin * side), 0)
    return first, min(length + 2 * MARGIN_PX + int(length * (growth - 1.0)), int((last - first) / side))

"""Registration of two feature maps by a shift: search over all shifts by FFT, then a least-squares step."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np

from edgetpu_perception.optical_flow.faint_part import FaintPart
from edgetpu_perception.optical_flow.followed_part import FollowedPart, PartFinder
from edgetpu_perception.optical_flow.image_noise import ImageNoise
from edgetpu_perception.optical_flow.larger_part import Pair
from edgetpu_perception.optical_flow.normal_equations import (
    MIN_ENERGY,
    NEIGHBOURHOOD_CELLS,
    UNKNOWNS,
    Floats,
    Vector,
    agreement,
    matrix,
)
from edgetpu_perception.optical_flow.part_areas import AreaLead
from edgetpu_perception.optical_flow.shift_sigmas import ShiftSigmas

_FLAT_VARIANCES = 4
"""Variance of flat features over that of rounding. Derived: twice its standard deviation."""

MIN_NEIGHBOURHOODS = 4
"""Fewest neighbourhoods along each axis with which independent motion is looked for. Uncritical."""

MAX_STEP_CELLS = 2.0
"""Limit of steps in the third-order term, cells; for a wrong whole shift the term would overflow.

Derived: twice the error of a whole shift.
"""


@dataclass(frozen=True)
class Texture:
    """Features of a frame, prepared once for all comparisons."""

    maps: Floats
    """[channels, rows, columns]"""
    gradient: Floats
    """Derivatives of the maps along x and y: [2, channels, rows, columns]."""
    weight: Floats
    """1 for usable features, 0 for clipped ones; of a shape that broadcasts to the maps."""
    spectra: tuple[Any, ...]
    """Fourier transform of each map, in OpenCV's packed format."""
    energy: Floats
    """Sum of squares over the overlap after each shift: [2 reach_y + 1, 2 reach_x + 1]."""


@dataclass(frozen=True)
class ShiftScores:
    """Scores of each whole shift (dx, dy) of the content, indexed [reach_y + dy, reach_x + dx]."""

    correlation: Floats
    """Normalised over the overlap, -1..1."""
    evidence: Floats
    """Twice the log-likelihood ratio to unrelated frames, as if all features were independent."""


@dataclass(frozen=True)
class Shift:
    """A shift with subpixel precision and its standard deviations, px of the maps."""

    dx: float
    dy: float
    dx_sigma: float
    dy_sigma: float
    following: float
    """Share of the picture that has texture and follows the shift, 0..1; 1 if nothing moves independently."""
    agreement: float
    """Correlation of the frames in that part; 1 if it is all of the picture, for which see ShiftScores."""
    textured: float = 1.0
    """Share of the overlap that has texture, 0..1; 1 if independent motion is not looked for."""
    doubt: tuple[float, float] = (0.0, 0.0)
    """Variances of dx and dy, px^2, because the part that follows a distant motion may be larger."""


class Registration:
    """Registers maps of one size by shifts of up to `reach_x` and `reach_y` px."""

    def __init__(
        self,
        rows: int,
        columns: int,
        reach_x: int,
        reach_y: int,
        *,
        noise: float,
        border: int = 0,
        block: int = 12,
        roughness: float = 0.0,
        image_noise: ImageNoise | None = None,
        remove_mean: bool = False,
        neighbourhood: int = NEIGHBOURHOOD_CELLS,
    ) -> None:
        """`reach_x`, `reach_y`: largest shift searched, px; less than the size of the maps.

        `noise`: standard deviation of a feature from rounding alone. `border`: px of the picture on each side
        of the maps. `block`: distance at which errors of features are independent, px. `roughness`: variance
        of a derivative of the features per variance of the features for white image noise; 0 if unknown.
        `image_noise`: effect of such noise on features; None if unknown.
        `remove_mean`: subtract means over the overlap, which change with the view. `neighbourhood`: side of
        the neighbourhoods whose motions are compared, px.
        """
        self.reach_x, self.reach_y = reach_x, reach_y
        self.sees_parts = min(rows, columns) >= MIN_NEIGHBOURHOODS * neighbourhood
        """Whether the maps are large enough to detect parts that move independently."""
        self._noise = noise
        whole = rows + 2 * border, columns + 2 * border
        self._parts = PartFinder(noise, roughness, *whole, neighbourhood)
        self._neighbourhood = neighbourhood
        self._remove_mean = remove_mean
        self._sigmas = ShiftSigmas(noise, block, image_noise)
        self._dx, self._dy = np.arange(-reach_x, reach_x + 1), np.arange(-reach_y, reach_y + 1)
        # Padded so that no shift within reach wraps around.
        self._padded = np.zeros((_dft_size(rows + reach_y), _dft_size(columns + reach_x)), np.float32)
        self._top, self._bottom = np.maximum(0, -self._dy), np.minimum(rows, rows - self._dy)
        self._left, self._right = np.maximum(0, -self._dx), np.minimum(columns, columns - self._dx)
        overlap = np.outer(self._bottom - self._top, self._right - self._left)
        self._overlap: Floats = overlap.astype(np.float32)

    def describe(self, maps: Floats, gradient: Floats, weight: Floats) -> Texture:
        """Prepare a frame's features for `compare` and `refine`; see Texture for the shapes."""
        rows, columns = maps.shape[1:]
        spectra = []
        for plane in maps:
            self._padded[:rows, :columns] = plane
            spectra.append(cv2.dft(self._padded, nonzeroRows=rows))
        return Texture(maps, gradient, weight, tuple(spectra), self._energy(maps))

    def compare(self, first: Texture, second: Texture) -> ShiftScores:
        """Score all shifts of the content from the first frame to the second."""
        # The overlap in the second frame is that of the opposite shift in the first.
        energy = first.energy * second.energy[::-1, ::-1]
        correlation = self._products(first, second) / np.sqrt(energy + MIN_ENERGY)
        np.clip(correlation, -0.9999, 0.9999, out=correlation)
        evidence = np.log1p(-np.square(np.maximum(correlation, 0)))
        evidence *= self._overlap * np.float32(-len(first.maps))
        return ShiftScores(correlation, evidence)

    def strongest(self, first: Texture, second: Texture) -> tuple[int, int]:
        """Index in ShiftScores of the shift by which most of the frames' contrast agrees.

        Unlike evidence, this agreement is small if little of a frame is left in the overlap.
        """
        return highest(self._products(first, second))

    def _products(self, first: Texture, second: Texture) -> Floats:
        """Sum of the products of both frames over the overlap after each shift, indexed like ShiftScores."""
        cross: Any = 0.0
        for before, after in zip(first.spectra, second.spectra, strict=True):
            cross = cross + cv2.mulSpectrums(after, before, 0, conjB=True)
        products = cv2.idft(cross, flags=cv2.DFT_REAL_OUTPUT | cv2.DFT_SCALE)
        within_reach: Floats = products.take(self._dy, axis=0).take(self._dx, axis=1)
        return within_reach

    def without(self, first: Texture, second: Texture, shift: Shift, *, keep_flat: bool = False) -> Texture:
        """The first frame without the part that follows a shift to the second.

        `keep_flat`: with its flat parts, although they follow any shift.
        """
        dx, dy = self.nearest(shift)
        equations = self._equations(first, second, dx, dy)
        others = self._parts.non_followers(equations, _step(shift, dx, dy), keep_flat=keep_flat)
        weight = np.ones_like(first.maps[0])
        weight[_overlap(weight.shape[0], dy)[0], _overlap(weight.shape[1], dx)[0]] = others
        return self.describe(first.maps * weight, first.gradient, first.weight * weight)

    def nearest(self, shift: Shift) -> tuple[int, int]:
        """The nearest whole shift, dx and dy, that is searched."""
        dx, dy = (
            round(min(max(along, -reach), reach))
            for along, reach in ((shift.dx, self.reach_x), (shift.dy, self.reach_y))
        )
        return dx, dy

    def lead(self, first: Texture, second: Texture, one: Shift, other: Shift) -> AreaLead | None:
        """By how much the part of the picture that follows one shift is larger than that of the other.

        None if the other shift has no part.
        """
        whole = self.nearest(one), self.nearest(other)
        equations = self._same_neighbourhoods(first, second, whole)
        return self._parts.lead(equations, (_step(one, *whole[0]), _step(other, *whole[1])))

    def faint(
        self, first: Texture, second: Texture, other: Shift, dx: int, dy: int
    ) -> tuple[Shift, FaintPart]:
        """The shift near a whole one that the part follows which does not follow another shift.

        Faint texture counts, too; see `faint_part`. Requires `sees_parts`.
        """
        whole = self.nearest(other)
        equations = self._same_neighbourhoods(first, second, (whole, (dx, dy)))
        part, faint = self._parts.faint(equations, _step(other, *whole)[:2])
        return self._refined(equations[1], part, dx, dy), faint

    def equalised(self, texture: Texture) -> Texture:
        """The texture with the same contrast everywhere, except in flat parts, which have only rounding."""
        side = (self._neighbourhood + 1, self._neighbourhood + 1)
        power = cv2.blur(np.square(texture.maps).sum(axis=0), side) / len(texture.maps)
        maps = texture.maps / np.sqrt(power + _FLAT_VARIANCES * np.float32(self._noise**2))
        return self.describe(maps, texture.gradient, texture.weight)

    def texture_over_rounding(self, first: Texture, second: Texture, row: int, column: int) -> float:
        """Root mean square of the weaker frame's features in the overlap, over that of rounding alone.

        `row`, `column`: index of the shift in ShiftScores.
        """
        energy = min(first.energy[row, column], second.energy[-1 - row, -1 - column])
        return math.sqrt(energy / (self._overlap[row, column] * len(first.maps))) / self._noise

    def rival(self, first: Texture, second: Texture, dx: int, dy: int) -> Shift:
        """Refine a whole shift only far enough to compare it with others; its sigmas are infinite.

        The result is the motion near it that most of the area follows. Requires `sees_parts`.
        """
        part = self._parts.rival(self._equations(first, second, dx, dy))
        assert part.weights is not None
        alike = part.normal.agreement(part.step, part.weights)
        moved = dx + part.step[0], dy + part.step[1]
        return Shift(*moved, math.inf, math.inf, part.share, alike, part.textured)

    def refine(self, first: Texture, second: Texture, dx: int, dy: int, *, of_most: bool = False) -> Shift:
        """Refine a whole shift, which must be right to about 1 px, by least squares.

        The mean of both frames' gradients makes one step exact to second order (Benhimane and Malis, 2004).
        The contrast may change by an unknown factor. Noise makes gradients look larger than they are; this
        bias is removed by the amount of noise in the residual (errors in variables).

        Where parts of the picture move by themselves, only those that follow the motion of most of the area
        count (`followed_part`); with `of_most` this is done even if nearly all parts follow one motion. Of a
        motion that changes smoothly across the picture, the result is the median (`smooth_motion`). Slowly
        moving parts are left out while most of the texture deviates less.

        The sigmas are those of `shift_sigmas`.
        """
        equations = self._equations(first, second, dx, dy)
        if self.sees_parts:
            part = self._parts.find(equations, of_most=of_most)
        else:
            part = self._parts.everything(equations)
        return self._refined(equations, part, dx, dy)

    def _refined(self, equations: Floats, part: FollowedPart, dx: int, dy: int) -> Shift:
        """The whole shift `dx`, `dy`, refined by least squares over a part; `equations` are overwritten."""
        step, inverse, following = part.step, part.inverse, part.share
        if part.weights is not None:
            equations *= part.normal.spread(part.weights)
        terms, residual = equations[:UNKNOWNS], equations[UNKNOWNS]
        flat = terms.reshape(UNKNOWNS, -1)
        residual += _third_order(terms, *(min(max(e, -MAX_STEP_CELLS), MAX_STEP_CELLS) for e in step[:2]))
        covariance = matrix(inverse)
        influence = (covariance[:2].astype(np.float32) @ flat).reshape(terms[:2].shape)
        refined = covariance @ (flat @ residual.ravel())
        residual -= (refined.astype(np.float32) @ flat).reshape(residual.shape)
        dx_sigma, dy_sigma = self._sigmas.measure(covariance, influence, residual, part.doubt)
        alike = 1.0
        if following < 1.0:
            alike = agreement(float(np.square(terms[2]).sum()), float(np.square(residual).sum()))
        return Shift(
            dx + float(refined[0]),
            dy + float(refined[1]),
            dx_sigma,
            dy_sigma,
            following,
            alike,
            part.textured,
        )

    def _same_neighbourhoods(
        self, first: Texture, second: Texture, whole: Pair[tuple[int, int]]
    ) -> Pair[Floats]:
        """Equations of two whole shifts, dx and dy, for the same neighbourhoods."""
        one, other = (self._equations(first, second, *each) for each in whole)
        # Overlaps are in the middle of the picture, so both can be cut to the same neighbourhoods.
        rows, columns = (min(one.shape[axis], other.shape[axis]) for axis in (2, 3))
        return _middle(one, rows, columns), _middle(other, rows, columns)

    def _equations(self, first: Texture, second: Texture, dx: int, dy: int) -> Floats:
        equations = _equations(first, second, dx, dy)
        if self._remove_mean:
            equations -= equations.mean(axis=(2, 3), keepdims=True)
        return equations

    def _energy(self, maps: Floats) -> Floats:
        squares = np.square(maps)
        total = cv2.integral(squares[0] if len(maps) == 1 else squares.sum(axis=0))
        strips = total.take(self._bottom, axis=0) - total.take(self._top, axis=0)
        energy: Floats = strips.take(self._right, axis=1) - strips.take(self._left, axis=1)
        return energy.astype(np.float32)


def highest(scores: Floats) -> tuple[int, int]:
    """Row and column of the largest of the scores of all shifts."""
    row, column = divmod(int(scores.argmax()), scores.shape[1])
    return row, column


def _middle(equations: Floats, rows: int, columns: int) -> Floats:
    """The middle rows x columns of the equations."""
    top, left = (equations.shape[2] - rows) // 2, (equations.shape[3] - columns) // 2
    return equations[..., top : top + rows, left : left + columns]


def _step(shift: Shift, dx: int, dy: int) -> Vector:
    """A shift relative to a whole one, without a change of contrast."""
    return shift.dx - dx, shift.dy - dy, 0.0


def _equations(first: Texture, second: Texture, dx: int, dy: int) -> Floats:
    """Derivatives with respect to dx, dy and contrast, and the difference of the frames: [4, channels, ...].

    All are doubled: they belong to the sum of the frames, not to their mean.
    """
    a, b = _overlap(first.maps.shape[1], dy), _overlap(first.maps.shape[2], dx)
    here, there = (..., a[0], b[0]), (..., a[1], b[1])
    before, after = first.maps[here], second.maps[there]
    equations = np.empty((UNKNOWNS + 1, *before.shape), np.float32)
    np.add(first.gradient[here], second.gradient[there], out=equations[:2])
    np.add(before, after, out=equations[2])
    np.subtract(before, after, out=equations[3])
    equations[3] *= 2
    equations *= first.weight[here] * second.weight[there]
    return equations


def _third_order(terms: Floats, ex: float, ey: float) -> Floats:
    """Third-order term of the difference of the frames, for steps that are not small: (e grad)^3 / 12."""
    along, across, both = ex * ex / 12, ey * ey / 12, ex * ey / 24
    middle = -2 * (along + across)
    second = np.array([[both, across, -both], [along, middle, along], [-both, across, both]])
    moved = np.float32(ex) * terms[0] + np.float32(ey) * terms[1]
    third: Floats = np.empty_like(moved)
    for plane, term in zip(moved, third, strict=True):
        cv2.filter2D(plane, -1, second, dst=term)
    return third


def _overlap(size: int, shift: int) -> tuple[slice, slice]:
    """Range of the content that stays in view, before and after the shift."""
    low, high = max(0, -shift), min(size, size - shift)
    return slice(low, high), slice(low + shift, high + shift)


def _dft_size(least: int) -> int:
    """A size that OpenCV transforms fast: multiples of 16 are much faster than its optimal sizes."""
    return 16 * cv2.getOptimalDFTSize(-(-least // 16))

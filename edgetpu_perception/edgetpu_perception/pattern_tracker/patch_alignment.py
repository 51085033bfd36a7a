"""Subpixel position of a patch in an image, with small rotation and change of scale.

Inverse compositional alignment (Baker and Matthews, 2004) of a similarity, scored by normalised
cross-correlation. A prior holds rotation and change of scale near 0, so that they cannot fit much that is not
the patch.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray

from edgetpu_perception.graphs.pattern_tracker_correlation import without_mean
from edgetpu_perception.pattern_tracker.clipped_patch import ClippedPatch
from edgetpu_perception.pattern_tracker.window_score import window_score

TURN_SIGMA = math.radians(4.0)
"""Expected rotation, one standard deviation. Derived: rounded from the 5 degrees that a pattern may turn."""

GROWTH_SIGMA = 0.04
"""Expected relative change of scale, one standard deviation.

Derived: rounded from the 5 % that it may grow.
"""

PRIOR_NOISE = 3.0
"""Standard deviation in grey levels of the pixel noise against which the prior is weighted.

Rows: pattern, accepted, changed, rmse.
"""

FINE_REACH_PX = 1.5
"""How far the alignment on pooled px may be off, px.

Rows: pattern, 128/32, accepted, changed, within 2 px.
"""

MAX_STEPS = 8
"""Largest number of steps of one alignment; about half of them are usual. Limits the time."""

CONVERGED_PX = 0.06
"""A step that moves no corner of the patch by more than this is the last one, px.

Rows: pattern, accepted, between px, rmse.
"""

ROUNDING_PX = 1 / 32 / math.sqrt(12)
"""Standard deviation of OpenCV's rounding of coordinates to 1/32 px, px."""

SIGMA_FLOOR_PX = 0.018
"""Standard deviation in px of the errors by OpenCV's rounding of coordinates to 1/32 px (1/32 / sqrt(12) =
0.009) and by interpolation. Rows: pattern, 128/32, accepted, between px, inside one sigma."""

GROWTH_FLOOR_PX = 0.035
"""Standard deviation of the error of the scale, px at a corner of the patch, in an image that interpolation
or another resolution has left more or less blurred than the patch: blur looks like growth.

Rows: pattern, scaled, scale inside one sigma.
"""

SIGMA_GAIN = 1.1
"""Factor on the sigmas, as real residuals are smooth, not independent.

Rows: pattern, accepted, changed, inside one sigma.
"""


class _Step(NamedTuple):
    """A change of the patch: px, rad, logarithm of the scale."""

    x: float
    y: float
    turn: float
    growth: float


_NO_STEP = _Step(0.0, 0.0, 0.0, 0.0)
"""No change of the patch."""


class _Map(NamedTuple):
    """Similarity from patch to image: centre (px), and scale times cosine and sine of the rotation."""

    x: float
    y: float
    cosine: float
    sine: float

    def moved(self, step: _Step) -> _Map:
        """The map after the inverse of a change of the patch."""
        cosine = math.exp(-step.growth) * math.cos(step.turn)
        sine = -math.exp(-step.growth) * math.sin(step.turn)
        u, v = sine * step.y - cosine * step.x, -sine * step.x - cosine * step.y
        return _Map(
            self.x + self.cosine * u - self.sine * v,
            self.y + self.sine * u + self.cosine * v,
            self.cosine * cosine - self.sine * sine,
            self.cosine * sine + self.sine * cosine,
        )


class PatchAlignment(NamedTuple):
    """Position of a patch: its centre in px of the image, (0, 0) being the centre of the first pixel."""

    score: float
    """Normalised cross-correlation there, -1..1."""
    x: float
    y: float
    cosine: float
    """Scale times cosine of the rotation from the patch to the image ..."""
    sine: float
    """... and times sine, x towards y."""
    gain: float
    """Contrast of the image there over that of the patch."""
    start_score: float
    """Score at the start, without rotation and change of scale."""
    x_sigma: float
    y_sigma: float
    growth_sigma: float = math.inf
    """Standard deviation of the logarithm of the scale."""
    upright_scale: float = math.nan
    """Scale of the best match that is not tilted; NaN if this is one."""

    @property
    def scale(self) -> float:
        """Size in the image over that of the patch."""
        return math.hypot(self.cosine, self.sine)

    @property
    def search_scale(self) -> float:
        """Scale to search for in other images: that without a tilt."""
        return self.scale if math.isnan(self.upright_scale) else self.upright_scale

    def less_certain(self, x: float, y: float) -> PatchAlignment:
        """The same match with a further error of its position in its sigmas, px."""
        return self._replace(x_sigma=math.hypot(self.x_sigma, x), y_sigma=math.hypot(self.y_sigma, y))

    @property
    def pose_deviation(self) -> float:
        """Rotation and change of scale in standard deviations of those expected."""
        turn, growth = math.atan2(self.sine, self.cosine), math.log(self.scale)
        return math.hypot(turn / TURN_SIGMA, growth / GROWTH_SIGMA)


def pooled(
    values: NDArray[np.float32], mask: NDArray[np.bool_], pool: int
) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
    """Values and mask, [h, w], averaged over pool x pool px; a cell counts if at least 90 % of it does."""
    if pool == 1:
        return values, mask
    size = values.shape[1] // pool, values.shape[0] // pool
    share = cv2.resize(mask.astype(np.float32), size, interpolation=cv2.INTER_AREA)
    return cv2.resize(values, size, interpolation=cv2.INTER_AREA), share > 0.9 * share.max()


class PatchAligner:
    """Aligns one patch, grey levels float32 [h, w], of which the pixels in `mask` count.

    With `pool` > 1 the alignment starts on image and patch averaged over pool x pool px.
    """

    def __init__(
        self,
        patch: NDArray[np.float32],
        mask: NDArray[np.bool_],
        reach: float,
        pool: int = 1,
        *,
        converged: float = CONVERGED_PX,
        sigma_floor: float = SIGMA_FLOOR_PX,
        blur: float = 0.0,
    ) -> None:
        """`reach`: largest distance from the start along an axis, px of the pooled image.

        `converged`: a step that moves no corner by more than this is the last, px; `sigma_floor`: least
        standard deviation of a position, px; `blur`: standard deviation of the blur that images have had, px,
        which correlates the noise of neighbours.
        """
        self._pool = pool
        self._converged, self._sigma_floor = converged, sigma_floor
        self._coarse = PatchAligner(*pooled(patch, mask, pool), reach) if pool > 1 else None
        height, width = patch.shape
        self._size = width, height
        self._x_center, self._y_center = (width - 1) / 2, (height - 1) / 2
        self._extent = math.hypot(self._x_center, self._y_center)
        self._reach = reach if pool == 1 else FINE_REACH_PX
        self._mask = None if mask.all() else mask.ravel().astype(np.float32)
        self._count = int(np.count_nonzero(mask))
        self._mean = patch[mask].mean(dtype=np.float64)
        deviation = without_mean(patch, mask)
        self.norm = max(float(np.linalg.norm(deviation)), 1e-6)
        """Euclidean norm of the patch without its mean, grey levels."""
        direction = deviation.ravel() / self.norm
        self._clipped_patch = ClippedPatch(deviation, mask, float(self._mean))
        jacobian = self._jacobian(patch, mask, direction)
        prior = (PRIOR_NOISE / self.norm) ** 2 * np.array([0, 0, TURN_SIGMA**-2, GROWTH_SIGMA**-2])
        information = jacobian.T @ jacobian
        # The small terms avoid a division by zero for a patch without structure along an axis.
        self._covariance = np.linalg.inv(information + np.diag(prior + 1e-6 + 1e-9 * np.trace(information)))
        self._prior_pull = (self._covariance * prior)[:, 2:].tolist()
        estimators = self._covariance @ jacobian.T
        alike = _blurred_noise(estimators.reshape(4, height, width), blur) if blur else np.ones(4)
        self._variances = np.diag(self._covariance) * alike
        self._rows = np.vstack([estimators, direction, mask.ravel()]).astype(np.float32)
        self._matrix = np.empty((2, 3))
        self._window = np.empty((height, width), np.float32)

    def _jacobian(
        self, patch: NDArray[np.float32], mask: NDArray[np.bool_], direction: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Derivatives of the normalised patch with respect to x, y, rotation and scale: [h * w, 4].

        Without their parts that change only brightness and contrast.
        """
        down, right = np.gradient(patch.astype(np.float64))
        y, x = np.indices(patch.shape, dtype=np.float64)
        x, y = x - self._x_center, y - self._y_center
        columns = (
            np.stack([right, down, down * x - right * y, right * x + down * y], axis=-1)[mask] / self.norm
        )
        columns -= columns.mean(axis=0)
        columns -= np.outer(direction[mask.ravel()], direction[mask.ravel()] @ columns)
        jacobian = np.zeros((mask.size, 4))
        jacobian[mask.ravel()] = columns
        return jacobian

    def sigma(self, noise: float) -> float:
        """Standard deviation in px of the position along its worst axis, for a noise in grey levels."""
        return noise / self.norm * math.sqrt(float(np.linalg.eigvalsh(self._covariance[:2, :2])[-1]))

    def levels(self, image: NDArray[np.uint8]) -> tuple[NDArray[np.float32], ...]:
        """Prepare an image [H, W] for `align`: brightness minus the patch's mean, and the same pooled."""
        fine = cv2.subtract(image, self._mean, dtype=cv2.CV_32F)  # small numbers: float32 has 24 bits
        if self._coarse is None:
            return (fine,)
        size = image.shape[1] // self._pool, image.shape[0] // self._pool
        return fine, cv2.resize(fine, size, interpolation=cv2.INTER_AREA)

    def align(
        self,
        levels: Sequence[NDArray[np.float32]],
        x: float,
        y: float,
        score_to_beat: float = -1.0,
        pose: tuple[float, float] = (1.0, 0.0),
    ) -> PatchAlignment:
        """Align the patch in an image in which its centre is near (x, y), px.

        The search ends early if it can no longer reach `score_to_beat`. `pose`: scale times cosine and sine
        of the rotation to start with; only without pooling.
        """
        start = _Map(x, y, *pose)
        if self._coarse is None:
            return self._descend(levels[0], start, score_to_beat)
        shift = (self._pool - 1) / 2
        coarse = self._coarse.align(levels[1:], (x - shift) / self._pool, (y - shift) / self._pool)
        turned = _Map(
            coarse.x * self._pool + shift, coarse.y * self._pool + shift, coarse.cosine, coarse.sine
        )
        start_score, turned_score = (self._compare(levels[0], each)[2] for each in (start, turned))
        better = turned if turned_score > start_score else start
        return self._descend(levels[0], better, score_to_beat)._replace(start_score=start_score)

    def _descend(self, image: NDArray[np.float32], start: _Map, score_to_beat: float) -> PatchAlignment:
        """Gauss-Newton steps from a similarity; a step that lowers the score is halved."""
        here, step = start, _NO_STEP
        best, best_score, best_gain, start_score = start, -1.0, 0.0, 0.0
        for count in range(MAX_STEPS):
            change, gain, score = self._compare(image, here)
            progress = score - best_score
            if count == 0:
                start_score = score
            if progress > 0.0 and gain > 0.0:
                best, best_score, best_gain = here, score, gain
                step = self._step(change, gain, here)
            elif count == 0:
                break
            else:
                step = _Step(*(0.5 * part for part in step))
            if count > 1 and best_score + 2.0 * max(progress, 0.0) < score_to_beat:
                break
            here = best.moved(step)
            if abs(here.x - start.x) > self._reach or abs(here.y - start.y) > self._reach:
                break
            turned = self._extent * max(abs(step.turn), abs(step.growth))
            if max(abs(step.x), abs(step.y)) + turned < self._converged:
                best = here if progress > 0.0 else best
                break
        sigmas = self._sigmas(best_score)
        return PatchAlignment(best_score, *best, best_gain / self.norm, start_score, *sigmas)

    def _step(self, change: list[float], gain: float, here: _Map) -> _Step:
        """The Gauss-Newton step for `change`, including the pull of the prior."""
        turn, growth = math.atan2(here.sine, here.cosine), math.log(math.hypot(here.cosine, here.sine))
        x, y, about, along = self._prior_pull
        return _Step(
            change[0] / gain + x[0] * turn + x[1] * growth,
            change[1] / gain + y[0] * turn + y[1] * growth,
            change[2] / gain + about[0] * turn + about[1] * growth,
            change[3] / gain + along[0] * turn + along[1] * growth,
        )

    def _compare(self, image: NDArray[np.float32], here: _Map) -> tuple[list[float], float, float]:
        """Step times gain, gain (grey levels) and score of the patch at `here` in the image."""
        x, y, a, b = here
        matrix = self._matrix
        matrix[0] = a, -b, x - a * self._x_center + b * self._y_center
        matrix[1] = b, a, y - b * self._x_center - a * self._y_center
        cv2.warpAffine(
            image,
            matrix,
            self._size,
            self._window,
            flags=cv2.INTER_CUBIC | cv2.WARP_INVERSE_MAP,
            borderMode=cv2.BORDER_REPLICATE,
        )
        window = self._window.ravel()
        *change, gain, total = (self._rows @ window).tolist()
        return change, gain, window_score(window, self._mask, gain, total, self._count)

    def clipped(self, levels: Sequence[NDArray[np.float32]], match: PatchAlignment) -> PatchAlignment:
        """The same match, scored with the patch clipped like the image there, if that is higher."""
        self._compare(levels[0], _Map(match.x, match.y, match.cosine, match.sine))
        score = self._clipped_patch.score(self._window.ravel())
        if score <= match.score:
            return match
        x_sigma, y_sigma, growth_sigma = self._sigmas(score)
        return match._replace(score=score, x_sigma=x_sigma, y_sigma=y_sigma, growth_sigma=growth_sigma)

    def _sigmas(self, score: float) -> tuple[float, float, float]:
        """Standard deviations of x and y, px, and of the logarithm of the scale."""
        if score <= 0.0:
            return math.inf, math.inf, math.inf
        variance = SIGMA_GAIN**2 * (1.0 / score**2 - 1.0) / max(self._count - 6, 1)
        return (
            math.sqrt(variance * float(self._variances[0]) + self._sigma_floor**2),
            math.sqrt(variance * float(self._variances[1]) + self._sigma_floor**2),
            math.sqrt(variance * float(self._variances[3]) + (GROWTH_FLOOR_PX / self._extent) ** 2),
        )


def _blurred_noise(estimators: NDArray[np.float64], blur: float) -> NDArray[np.float64]:
    """Variance of estimates from blurred white noise over that from equally strong white noise, [n].

    `estimators`: weights of px, [n, h, w]; `blur`: standard deviation of the blur, px.
    """
    side = 2 * math.ceil(4 * blur) + 1
    kernel = cv2.getGaussianKernel(side, blur)
    blurred = [
        cv2.sepFilter2D(each, cv2.CV_64F, kernel, kernel, borderType=cv2.BORDER_CONSTANT)
        for each in estimators
    ]
    left_of_noise = float(np.sum(np.square(kernel))) ** 2
    before, after = (np.sum(np.square(each), axis=(1, 2)) for each in (estimators, np.stack(blurred)))
    gains: NDArray[np.float64] = after / np.maximum(before, 1e-300) / left_of_noise
    return gains

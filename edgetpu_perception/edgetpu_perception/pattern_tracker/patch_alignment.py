"""Position of a patch in an image to a fraction of a pixel, whatever small rotation and scale it has there.

Inverse compositional alignment (Baker and Matthews, 2004) of a similarity, with the score of normalised
cross-correlation. Rotation and scale are held near 0 by a prior, so that they explain little of what is not
the patch.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray

TURN_SIGMA = math.radians(4.0)
GROWTH_SIGMA = 0.04
"""Rotation and scale that are expected, one standard deviation."""

NOISE = 3.0
"""Standard deviation of the noise of a pixel that the prior is weighed against, grey levels."""

FINE_REACH = 1.5
"""How far the alignment on pooled px may be off, px."""

LEAST_UNCLIPPED = 0.25
"""Share of a patch that must be neither black nor white in an image to tell how the rest is clipped."""

INT8_MAX = 8
"""Most steps of one alignment; half of it are usual."""

CONVERGED = 0.06
"""A step that moves no corner of the patch by more than this is the last one, px."""

SIGMA_FLOOR = 0.018
"""What OpenCV's rounding of coordinates to 1/32 px and interpolation leave, px."""

SIGMA_GAIN = 1.1
"""How much more than independent residuals the real ones, which are smooth, move the patch."""


class _Step(NamedTuple):
    """A change of the patch: px, rad, logarithm of the scale."""

    x: float
    y: float
    turn: float
    growth: float


_NO_STEP = _Step(0.0, 0.0, 0.0, 0.0)


class _Map(NamedTuple):
    """From the patch to the image: where its centre goes, and scale times cosine and sine of the rotation."""

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


class Alignment(NamedTuple):
    """Where a patch is, px of the image; its centre in an image whose first pixel is at (0, 0)."""

    score: float
    """Normalised cross-correlation there, -1..1."""
    x: float
    y: float
    cosine: float
    """Scale times cosine of the rotation from the patch to the image ..."""
    sine: float
    """... and times sine, x towards y."""
    gain: float
    """Contrast over the patch's own."""
    start_score: float
    """The score where the search began, without rotation and scale."""
    x_sigma: float
    y_sigma: float


def pooled(
    values: NDArray[np.float32], mask: NDArray[np.bool_], pool: int
) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
    """Values and mask averaged over pool x pool px; a cell counts when about all of it does."""
    if pool == 1:
        return values, mask
    size = values.shape[1] // pool, values.shape[0] // pool
    share = cv2.resize(mask.astype(np.float32), size, interpolation=cv2.INTER_AREA)
    return cv2.resize(values, size, interpolation=cv2.INTER_AREA), share > 0.9 * share.max()


class Aligner:
    """Aligns one patch, grey levels float32 [h, w], of which the pixels in `mask` count.

    With `pool` > 1 it starts on an image, and a patch, averaged over pool x pool px.
    """

    def __init__(
        self, patch: NDArray[np.float32], mask: NDArray[np.bool_], reach: float, pool: int = 1
    ) -> None:
        """`reach`: how far from where it starts an alignment may go along an axis, px of the pooled image."""
        self._pool = pool
        self._coarse = Aligner(*pooled(patch, mask, pool), reach) if pool > 1 else None
        height, width = patch.shape
        self._size = width, height
        self._x_center, self._y_center = (width - 1) / 2, (height - 1) / 2
        self._extent = math.hypot(self._x_center, self._y_center)
        self._reach = reach if pool == 1 else FINE_REACH
        self._mask = None if mask.all() else mask.ravel().astype(np.float32)
        self._count = int(np.count_nonzero(mask))
        self._mean = patch[mask].mean(dtype=np.float64)
        deviation = np.where(mask, patch - self._mean, 0.0)
        self.norm = max(float(np.linalg.norm(deviation)), 1e-6)
        """Length of the patch without its mean, grey levels."""
        direction = deviation.ravel() / self.norm
        self._counting = np.flatnonzero(mask)
        self._deviation = deviation[mask].astype(np.float32)
        self._black, self._white = -float(self._mean), 255.0 - float(self._mean)
        jacobian = self._jacobian(patch, mask, direction)
        prior = (NOISE / self.norm) ** 2 * np.array([0, 0, TURN_SIGMA**-2, GROWTH_SIGMA**-2])
        information = jacobian.T @ jacobian
        # A patch without structure along an axis gets no motion along it rather than a division by zero.
        self._covariance = np.linalg.inv(information + np.diag(prior + 1e-6 + 1e-9 * np.trace(information)))
        self._pull = (self._covariance * prior)[:, 2:].tolist()
        self._rows = np.vstack([self._covariance @ jacobian.T, direction, mask.ravel()]).astype(np.float32)
        self._matrix = np.empty((2, 3))
        self._window = np.empty((height, width), np.float32)

    def _jacobian(
        self, patch: NDArray[np.float32], mask: NDArray[np.bool_], direction: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """How x, y, rotation and scale change the patch of length 1, beside its brightness and contrast."""
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
        """Standard deviation of the position along its worst axis for noise of so many grey levels, px."""
        return noise / self.norm * math.sqrt(float(np.linalg.eigvalsh(self._covariance[:2, :2])[-1]))

    def levels(self, image: NDArray[np.uint8]) -> tuple[NDArray[np.float32], ...]:
        """Make an image [H, W] ready for `align`: brightness over the patch's, and the same pooled."""
        fine = cv2.subtract(image, self._mean, dtype=cv2.CV_32F)  # small numbers: float32 has 24 bits
        if self._coarse is None:
            return (fine,)
        size = image.shape[1] // self._pool, image.shape[0] // self._pool
        return fine, cv2.resize(fine, size, interpolation=cv2.INTER_AREA)

    def align(
        self, levels: Sequence[NDArray[np.float32]], x: float, y: float, hope: float = -1.0
    ) -> Alignment:
        """Find the patch, whose centre is near (x, y), in an image.

        `hope`: a score that must be reached to matter; where it comes out of reach the search ends early.
        """
        start = _Map(x, y, 1.0, 0.0)
        if self._coarse is None:
            return self._descend(levels[0], start, hope)
        shift = (self._pool - 1) / 2
        coarse = self._coarse.align(levels[1:], (x - shift) / self._pool, (y - shift) / self._pool)
        turned = _Map(
            coarse.x * self._pool + shift, coarse.y * self._pool + shift, coarse.cosine, coarse.sine
        )
        start_score, turned_score = (self._compare(levels[0], place)[2] for place in (start, turned))
        better = turned if turned_score > start_score else start
        return self._descend(levels[0], better, hope)._replace(start_score=start_score)

    def _descend(self, image: NDArray[np.float32], start: _Map, hope: float) -> Alignment:
        """Gauss-Newton steps from a map; one that makes the score worse is halved."""
        here, step = start, _NO_STEP
        best, best_score, best_gain, start_score = start, -1.0, 0.0, 0.0
        for count in range(INT8_MAX):
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
            if count > 1 and best_score + 2.0 * max(progress, 0.0) < hope:
                break
            here = best.moved(step)
            if abs(here.x - start.x) > self._reach or abs(here.y - start.y) > self._reach:
                break
            turned = self._extent * max(abs(step.turn), abs(step.growth))
            if max(abs(step.x), abs(step.y)) + turned < CONVERGED:
                best = here if progress > 0.0 else best
                break
        x_sigma, y_sigma = self._sigmas(best_score)
        return Alignment(best_score, *best, best_gain / self.norm, start_score, x_sigma, y_sigma)

    def _step(self, change: list[float], gain: float, here: _Map) -> _Step:
        """The change of the patch that explains what is seen, pulled by the prior."""
        turn, growth = math.atan2(here.sine, here.cosine), math.log(math.hypot(here.cosine, here.sine))
        x, y, about, along = self._pull
        return _Step(
            change[0] / gain + x[0] * turn + x[1] * growth,
            change[1] / gain + y[0] * turn + y[1] * growth,
            change[2] / gain + about[0] * turn + about[1] * growth,
            change[3] / gain + along[0] * turn + along[1] * growth,
        )

    def _compare(self, image: NDArray[np.float32], here: _Map) -> tuple[list[float], float, float]:
        """Step times gain, gain (grey levels) and score of the patch against the image under a map."""
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
        seen = window if self._mask is None else window * self._mask
        power = float(seen @ window) - total * total / self._count
        return change, gain, min(gain / math.sqrt(power), 1.0) if power > 1e-6 else 0.0

    def clipped(self, levels: Sequence[NDArray[np.float32]], place: Alignment) -> Alignment:
        """The same place with the score of the patch clipped as the image is there, if that is higher."""
        score = self._score_of_clipped(levels[0], _Map(place.x, place.y, place.cosine, place.sine))
        if score <= place.score:
            return place
        x_sigma, y_sigma = self._sigmas(score)
        return place._replace(score=score, x_sigma=x_sigma, y_sigma=y_sigma)

    def _score_of_clipped(self, image: NDArray[np.float32], here: _Map) -> float:
        """-1 where nothing is clipped, or too much to tell."""
        self._compare(image, here)
        window, patch = self._window.ravel()[self._counting], self._deviation
        whole = (window > self._black + 1.0) & (window < self._white - 1.0)
        if not LEAST_UNCLIPPED * self._count <= np.count_nonzero(whole) < self._count:
            return -1.0
        patch_mean, window_mean = patch[whole].mean(), window[whole].mean()
        slope = patch[whole] - patch_mean
        gain = float(slope @ window[whole]) / max(float(slope @ slope), 1e-6)
        expected = np.clip(gain * (patch - patch_mean) + window_mean, self._black, self._white)
        expected, window = expected - expected.mean(), window - window.mean()
        power = float(expected @ expected) * float(window @ window)
        return float(expected @ window) / math.sqrt(power) if gain > 0.0 and power > 1e-6 else -1.0

    def _sigmas(self, score: float) -> tuple[float, float]:
        if score <= 0.0:
            return math.inf, math.inf
        variance = SIGMA_GAIN**2 * (1.0 / score**2 - 1.0) / max(self._count - 6, 1)
        return (
            math.sqrt(variance * float(self._covariance[0, 0]) + SIGMA_FLOOR**2),
            math.sqrt(variance * float(self._covariance[1, 1]) + SIGMA_FLOOR**2),
        )

"""Scores to expect of a patch, measured on changed copies of it before it is tracked."""

from __future__ import annotations

import math
from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

from edgetpu_perception.graphs.pattern_tracker_correlation import without_mean
from edgetpu_perception.pattern_tracker.patch_alignment import PatchAligner

EXPECTED_NOISE = 4.0
"""Pixel noise that a template has to withstand: one standard deviation, grey levels.

Derived: the noise of the "accepted, changed" scenes of make accuracy.
"""

EXPECTED_TURN = math.radians(5.0)
"""Rotation that a template has to withstand. Derived: that of the "accepted, changed" scenes."""

EXPECTED_GROWTH = 0.05
"""Relative change of scale that a template has to withstand.

Derived: that of the "accepted, changed" scenes.
"""


@dataclass(frozen=True)
class ExpectedScores:
    """Scores of a patch and of other parts of pictures.

    A match leaves 1 - score of the picture unexplained; how much is normal depends on the patch.
    """

    unexplained: float
    """1 - score of the patch itself after rotation, scaling, noise and alignment, on average."""
    min_start_score: float
    """Lowest of its scores before alignment."""
    chance_unexplained: float
    """1 - score of natural pictures without the patch, at one standard deviation."""

    @property
    def clarity(self) -> float:
        """Logarithm of chance_unexplained over unexplained: the larger, the safer."""
        return math.log(max(self.chance_unexplained, 1e-9) / self.unexplained)


def expected_scores(
    patch: NDArray[np.float32], mask: NDArray[np.bool_], aligner: PatchAligner
) -> ExpectedScores:
    """Measure a patch, float32 [h, w] grey levels, on rotated, scaled, shifted and noisy copies of itself."""
    margin = 4  # even, so that pooled cells begin where the patch does
    height, width = patch.shape
    padded = cv2.copyMakeBorder(patch, margin, margin, margin, margin, cv2.BORDER_REFLECT_101)
    x_center, y_center = margin + (width - 1) / 2, margin + (height - 1) / 2
    random = np.random.default_rng(0)
    scores, starts = [], []
    for turn in (-EXPECTED_TURN, EXPECTED_TURN):
        for growth in (1 / (1 + EXPECTED_GROWTH), 1 + EXPECTED_GROWTH):
            for shift in (0.0, 0.5):
                a, b = growth * math.cos(turn), growth * math.sin(turn)
                x, y = x_center + shift, y_center + shift
                matrix = np.array(
                    [[a, -b, x - a * x_center + b * y_center], [b, a, y - b * x_center - a * y_center]]
                )
                copy = cv2.warpAffine(padded, matrix, padded.shape[::-1], borderMode=cv2.BORDER_REFLECT_101)
                copy += random.normal(0.0, EXPECTED_NOISE, copy.shape).astype(np.float32)
                found = aligner.align(aligner.levels(copy), x_center, y_center)
                scores.append(found.score)
                starts.append(found.start_score)
    unexplained = min(max(1.0 - float(np.mean(scores)), 1e-4), 1.0)
    return ExpectedScores(unexplained, min(starts), 1.0 - _chance_score(patch, mask))


def _chance_score(patch: NDArray[np.float32], mask: NDArray[np.bool_]) -> float:
    """Standard deviation of the score at a random position of a natural picture.

    Natural pictures have spectra of about 1/f^2: the mean squared difference of grey levels grows with the
    distance. The score of a patch t of norm 1 then has the variance -sum t_i t_j d_ij over that of the
    picture under the mask.
    """
    height, width = patch.shape
    size = (2 * height, 2 * width)
    deviation = without_mean(patch, mask)
    distance = np.hypot(*np.meshgrid(*(np.fft.fftfreq(n, 1 / n) for n in size), indexing="ij"))
    power = float(np.sum(deviation**2))
    patch_variance = -float(np.sum(_autocorrelation(deviation, size) * distance)) / max(power, 1e-9)
    picture_variance = float(np.sum(_autocorrelation(mask, size) * distance)) / np.count_nonzero(mask)
    return math.sqrt(min(max(patch_variance / picture_variance, 0.0), 1.0))


def _autocorrelation(values: NDArray[np.generic], size: tuple[int, int]) -> NDArray[np.float64]:
    spectrum = np.fft.rfft2(np.asarray(values, np.float64), size)
    return np.fft.irfft2(np.abs(spectrum) ** 2, size)

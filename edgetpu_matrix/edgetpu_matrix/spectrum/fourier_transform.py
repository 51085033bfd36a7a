"""The amplitude spectrum of a block of samples: a discrete Fourier transform as one matrix product."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from edgetpu_driver.errors import InputError
from edgetpu_driver.matrix.product_passes import RealProduct
from edgetpu_driver.matrix.scaling import ALWAYS

HEADROOM = ALWAYS
"""See `matrix.scaling`: a line in the signal has an output far above the RMS of all outputs.

Chosen on the rows "spectrum" of `make bench`: with scaling.OUTPUT_HEADROOM white noise gains 9 dB, but lines
lose 3 dB (compiled scales) to 8 dB (rescaled rows).
"""

WINDOWS: dict[str, Callable[[int], NDArray[np.float64]]] = {
    "rectangular": np.ones,
    "hann": lambda length: 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(length) / length),
    "hamming": lambda length: 0.54 - 0.46 * np.cos(2 * np.pi * np.arange(length) / length),
    "blackman": lambda length: (
        0.42
        - 0.5 * np.cos(2 * np.pi * np.arange(length) / length)
        + 0.08 * np.cos(4 * np.pi * np.arange(length) / length)
    ),
}
"""Windows by name; periodic, with the length of the block as period."""

LARGEST_LENGTH = 1024
"""Largest number of samples of a block, and of columns of its matrix: models written here have up to 1024."""


@dataclass(frozen=True)
class AmplitudeSpectrum:
    """The amplitude spectrum of a block."""

    amplitudes: NDArray[np.float64]
    """[length / 2 + 1] in the unit of the signal, from 0 Hz to half the sample rate. A sine of amplitude A at
    the frequency of a bin has the amplitude A there."""
    frequency_step: float
    """Hz between neighbouring amplitudes."""
    sigma: float
    """One standard deviation of an amplitude, over all bins, from rounding to eight bits and to float64. For
    a signal that is periodic within the block, most of the error is in few bins."""
    peak_frequency: float
    """Frequency in Hz of the strongest line above 0 Hz, interpolated between bins by a parabola."""
    peak_amplitude: float
    """Amplitude of the bin of that line, in the unit of the signal."""


class SpectrumTransform:
    """Transforms blocks of `length` samples; the rows of the matrix are cosines, then sines.

    window: a name in WINDOWS. Raises InputError for a length that is odd, too small or too large, and for
    another window.
    """

    def __init__(self, length: int = 256, window: str = "hann") -> None:
        if length % 2 or not 8 <= length <= LARGEST_LENGTH:
            raise InputError(f"expected an even block length of 8 to {LARGEST_LENGTH}; got {length}")
        if window not in WINDOWS:
            raise InputError(f"expected a window of {', '.join(WINDOWS)}; got '{window}'")
        self.length = length
        self.bins = length // 2 + 1
        self._window = WINDOWS[window](length)
        self._numbers = np.arange(length)
        # Negative frequencies carry the other half of a sine, except at 0 Hz and half the sample rate.
        factors = np.full(self.bins, 2.0)
        factors[[0, -1]] = 1.0
        self._factors = factors / self._window.sum()

    def matrix(self) -> NDArray[np.float64]:
        """The transform, [length - 1, length]: real parts of all bins above 0 Hz, then imaginary parts.

        The last bin has no imaginary part, and the amplitude at 0 Hz is the mean of the block.
        """
        angles = 2 * np.pi / self.length * np.outer(np.arange(1, self.bins), np.arange(self.length))
        return np.concatenate((np.cos(angles), -np.sin(angles[:-1])))

    def preprocess(self, samples: NDArray[np.float64]) -> NDArray[np.float64]:
        """Subtract the mean of a block, [length], and apply the window; returns the vector to multiply."""
        windowed: NDArray[np.float64] = (samples - samples.mean()) * self._window
        return windowed

    def postprocess(
        self, samples: NDArray[np.float64], sample_rate: float, product: RealProduct
    ) -> AmplitudeSpectrum:
        """Compute the spectrum of a block from the product of the matrix and `preprocess(samples)`.

        At the bins around the strongest line, the transform of the rounding error of the inputs is added
        back: with a periodic signal that error is periodic, too, and changes the line itself.
        """
        real = product.outputs
        spectrum = np.zeros(self.bins, np.complex128)
        spectrum[1:] = real[: self.bins - 1]
        spectrum[1:-1] += 1j * real[self.bins - 1 :]
        lost = self.preprocess(samples) - product.inputs
        peak = 1 + int(np.argmax((np.abs(spectrum) * self._factors)[1:]))
        around = np.arange(max(peak - 1, 1), min(peak + 2, self.bins))
        spectrum[around] += np.exp(-2j * np.pi / self.length * np.outer(around, self._numbers)) @ lost
        amplitudes = np.abs(spectrum) * self._factors
        amplitudes[0] = abs(float(samples.mean()))
        rounding = np.mean(product.errors.sigma**2) + np.dot(lost, lost) / 2
        # The mean and interpolated samples are rounded as well: even a constant signal then varies.
        resolution = float(np.abs(samples).max()) * np.finfo(np.float64).eps
        sigma = float(np.hypot(np.sqrt(rounding) * self._factors[1], resolution))
        step = sample_rate / self.length
        return AmplitudeSpectrum(
            amplitudes, step, sigma, step * (peak + self._offset(amplitudes, peak)), float(amplitudes[peak])
        )

    def _offset(self, amplitudes: NDArray[np.float64], peak: int) -> float:
        """Offset of the line from the peak's bin, in bins, from the neighbouring amplitudes."""
        if not 1 < peak < self.bins - 1:
            return 0.0
        around = amplitudes[peak - 1 : peak + 2]
        before, at, after = np.log(np.maximum(around, 1e-6 * amplitudes[peak] + 1e-300))
        curvature = before - 2 * at + after
        return float(np.clip(0.5 * (before - after) / curvature, -0.5, 0.5)) if curvature < 0 else 0.0

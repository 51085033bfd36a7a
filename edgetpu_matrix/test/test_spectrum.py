"""Spectra against NumPy's FFT, within what eight bits allow."""

from __future__ import annotations

from typing import Any
from unittest import mock

import numpy as np
import pytest
from numpy.typing import NDArray

from edgetpu_driver.errors import InputError
from edgetpu_driver.matrix.product_passes import RealProduct, RoundingErrors
from edgetpu_matrix.spectrum.fourier_transform import HEADROOM, WINDOWS, AmplitudeSpectrum, SpectrumTransform

random = np.random.default_rng(4)
RATE = 1000.0
LENGTH = 256
TIME = np.arange(LENGTH) / RATE
BIN = RATE / LENGTH

SIGNALS = {
    "a line": 2.0 * np.sin(2 * np.pi * 40 * BIN * TIME),
    "a line between bins": 0.01 * np.sin(2 * np.pi * 40.37 * BIN * TIME + 0.3),
    "three lines": sum(a * np.cos(2 * np.pi * f * BIN * TIME) for a, f in ((1, 10), (0.5, 33.2), (0.2, 90))),
    "a line in noise on an offset": 50
    + np.sin(2 * np.pi * 20 * BIN * TIME)
    + 0.3 * random.normal(size=LENGTH),
    "noise": random.normal(size=LENGTH),
    "a step": np.repeat([-1.0, 1.0], LENGTH // 2),
    "a click": np.eye(LENGTH)[100],
}

# Least signal to noise ratio in dB: power of NumPy's amplitudes / power of the deviations from them.
REACH = {
    "a line": 34,
    "a line between bins": 36,
    "three lines": 39,
    "a line in noise on an offset": 30,
    "noise": 29,
    "a step": 31,
    "a click": 18,
}


def exactly(transform: SpectrumTransform, samples: NDArray[np.float64]) -> AmplitudeSpectrum:
    prepared = transform.preprocess(samples)
    outputs = transform.matrix() @ prepared
    errors = mock.create_autospec(RoundingErrors, instance=True, sigma=np.zeros(len(outputs)))
    return transform.postprocess(samples, RATE, RealProduct(outputs, prepared, errors))


def by_fft(samples: NDArray[np.float64], window: NDArray[np.float64]) -> NDArray[np.float64]:
    amplitudes = np.abs(np.fft.rfft((samples - samples.mean()) * window)) * 2 / window.sum()
    amplitudes[-1] /= 2
    amplitudes[0] = abs(samples.mean())
    return amplitudes


@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("length", [8, 256, 1000])
def test_the_transform_is_that_of_numpy(window: str, length: int) -> None:
    samples = random.normal(size=length)
    spectrum = exactly(SpectrumTransform(length, window), samples)
    assert spectrum.amplitudes == pytest.approx(by_fft(samples, WINDOWS[window](length)))
    assert spectrum.frequency_step == RATE / length


@pytest.mark.parametrize("value", [0.1, 9.80665])
def test_rounding_of_a_constant_signal_is_not_a_line(value: float) -> None:
    spectrum = exactly(SpectrumTransform(100), np.full(100, value))
    assert 0 < spectrum.peak_amplitude < 2 * spectrum.sigma < 1e-15 * value


@pytest.mark.parametrize("window", WINDOWS)
def test_a_sine_has_its_amplitude(window: str) -> None:
    spectrum = exactly(SpectrumTransform(LENGTH, window), 3 + SIGNALS["a line"])
    assert spectrum.amplitudes[40] == pytest.approx(2.0)
    assert spectrum.amplitudes[0] == pytest.approx(3.0)
    assert (spectrum.peak_frequency, spectrum.peak_amplitude) == pytest.approx((40 * BIN, 2.0))


def test_a_line_between_bins_is_found_there() -> None:
    spectrum = exactly(SpectrumTransform(LENGTH, "hann"), SIGNALS["a line between bins"])
    assert spectrum.peak_frequency == pytest.approx(40.37 * BIN, abs=0.03 * BIN)


@pytest.mark.parametrize("name", SIGNALS)
def test_eight_bits_are_as_close_to_the_fft_as_they_can_be(on_cpu: Any, name: str) -> None:
    samples, transform = SIGNALS[name], SpectrumTransform(LENGTH)
    matrix = on_cpu(transform.matrix(), headroom=HEADROOM)
    spectrum = transform.postprocess(samples, RATE, matrix.multiply(transform.preprocess(samples)))
    exact = by_fft(samples, WINDOWS["hann"](LENGTH))
    error = (spectrum.amplitudes - exact)[1:]
    snr = 10 * np.log10((exact[1:] ** 2).sum() / (error**2).sum())
    print(f"{name}: {snr:.1f} dB")
    assert snr > REACH[name]
    rms = float(np.sqrt((error**2).mean()))
    assert rms < 1.3 * spectrum.sigma
    # Without noise, the amplitudes of bins without signal are exact.
    assert "noise" not in name or rms > 0.7 * spectrum.sigma


@pytest.mark.parametrize("rescale_rows", [False, True], ids=["compiled scales", "rescaled rows"])
@pytest.mark.parametrize("window", ["rectangular", "hann"])
@pytest.mark.parametrize("offset", [0.0, 0.5], ids=["on a bin", "anywhere"])
def test_sigma_covers_the_error_of_a_line(
    on_cpu: Any, rescale_rows: bool, window: str, offset: float
) -> None:
    length, generator = 64, np.random.default_rng(7)
    transform = SpectrumTransform(length, window)
    matrix = on_cpu(transform.matrix(), headroom=HEADROOM, rescale_rows=rescale_rows)
    at_the_line, over_all_bins = [], []
    for _ in range(300):
        frequency = generator.integers(2, 31) + generator.uniform(-offset, offset)
        phase = generator.uniform(0, 2 * np.pi)
        samples = np.cos(2 * np.pi * frequency / length * np.arange(length) + phase)
        spectrum = transform.postprocess(samples, RATE, matrix.multiply(transform.preprocess(samples)))
        exact = by_fft(samples, WINDOWS[window](length))
        errors = (spectrum.amplitudes - exact)[1:] / spectrum.sigma
        at_the_line.append(errors[exact[1:].argmax()])
        over_all_bins.append(np.sqrt(np.mean(errors**2)))
    assert 0.60 <= np.mean(np.abs(at_the_line) <= 1.0) <= 0.76
    assert np.sqrt(np.mean(np.square(at_the_line))) == pytest.approx(0.9, abs=0.15)
    assert np.mean(over_all_bins) <= 1.05


@pytest.mark.parametrize("arguments", [(255,), (6,), (1026,), (256, "square")], ids=str)
def test_bad_arguments_are_refused(arguments: tuple[Any, ...]) -> None:
    with pytest.raises(InputError, match="expected"):
        SpectrumTransform(*arguments)

"""The spectrum node with a driver and a virtual stick: blocks, gaps, bursts and jitter of an IMU."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("edgetpu_msgs", reason="needs a built workspace (make test)")
pytest.importorskip("ai_edge_litert", reason="needs LiteRT")

from geometry_msgs.msg import Vector3
from sensor_msgs.msg import Imu
from std_msgs.msg import Header

from edgetpu_msgs.msg import Spectrum
from testdata.running_nodes.matrix_node_messages import (
    MATRIX,
    Exchange,
    options,
    start_matrix_driver,
    time_of,
)


def imu(seconds: float, z: float) -> Imu:
    header = Header(stamp=time_of(seconds), frame_id="imu")
    return Imu(header=header, linear_acceleration=Vector3(z=float(z)))


@pytest.fixture(scope="module")
def spectrum(start_node: Callable[..., Any], matrix_home: Path) -> Any:
    """A spectrum node with a driver."""
    start_matrix_driver(start_node, matrix_home)
    parameters = options(matrix_home)
    del parameters["directory"]
    return start_node(
        MATRIX,
        "spectrum",
        *("-r", "signal:=/vibration"),
        length=128,
        input_type="sensor_msgs/msg/Imu",
        input_fields="linear_acceleration.z",
        **parameters,
    )


@pytest.fixture(scope="module")
def vibration(graph: Any, spectrum: Any) -> Exchange:  # noqa: ARG001
    return Exchange(graph, Imu, "/vibration", Spectrum, "/spectrum/spectrum")


class TestSpectrum:
    RATE = 500.0
    TIMES = 1000 + np.arange(192) / RATE

    def spectra(self, vibration: Exchange, signal: np.ndarray, offset: float = 0.0) -> list[Spectrum]:
        for seconds, value in zip(self.TIMES + offset, signal, strict=True):
            vibration.say(imu(seconds, value))
        return vibration.wait(2)

    def test_blocks_of_an_axis_of_an_imu(self, vibration: Exchange) -> None:
        signal = 9.81 + 0.5 * np.sin(2 * np.pi * 62.5 * self.TIMES)
        first, second = self.spectra(vibration, signal)
        assert first.header == Header(stamp=time_of(self.TIMES[127]), frame_id="imu")
        assert second.header.stamp == time_of(self.TIMES[191])
        assert first.sample_rate == pytest.approx(self.RATE)
        assert first.frequency_step == pytest.approx(self.RATE / 128)
        assert len(first.amplitudes) == 65
        assert first.valid
        assert not first.resampled
        assert first.peak_frequency == pytest.approx(62.5, abs=0.2)
        assert first.peak_amplitude == pytest.approx(0.5, abs=5 * first.sigma)
        assert first.amplitudes[0] == pytest.approx(9.81, abs=0.01)
        window = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(128) / 128)
        exact = np.abs(np.fft.rfft((signal[:128] - signal[:128].mean()) * window))[1:] * 2 / window.sum()
        error = np.array(first.amplitudes)[1:] - exact
        assert 10 * np.log10((exact**2).sum() / (error**2).sum()) > 33

    def test_a_constant_has_no_line(self, vibration: Exchange) -> None:
        spectrum = self.spectra(vibration, np.full(192, 9.81), offset=10.0)[0]
        assert not spectrum.valid
        assert math.isnan(spectrum.peak_frequency)
        assert math.isnan(spectrum.peak_amplitude)

    def test_a_gap_begins_a_block_anew(self, vibration: Exchange) -> None:
        for sample in range(100):
            vibration.say(imu(2000 + sample / self.RATE, 1.0))
        spectra = self.spectra(vibration, np.sin(self.TIMES), offset=2000.0)
        assert spectra[0].header.stamp == time_of(3000 + 127 / self.RATE)

    def test_samples_that_come_in_bursts_have_a_spectrum(self, vibration: Exchange, spectrum: Any) -> None:
        numbers = np.arange(192)
        bursts = 5000 + (numbers // 8 + 1) * 8 / self.RATE + numbers % 8 * 1e-4
        for seconds, value in zip(bursts, np.sin(2 * np.pi * 62.5 * numbers / self.RATE), strict=True):
            vibration.say(imu(seconds, value))
        spectra = vibration.wait(2)
        assert [spectrum.sample_rate for spectrum in spectra] == pytest.approx([self.RATE] * 2)
        assert not spectra[0].resampled
        assert spectra[0].peak_frequency == pytest.approx(62.5, abs=0.2)
        assert spectra[0].peak_amplitude == pytest.approx(1.0, abs=5 * spectra[0].sigma)
        assert spectrum.output.count("/vibration come in bursts") == 1

    def test_samples_with_jitter_in_their_stamps_are_resampled(
        self, vibration: Exchange, spectrum: Any
    ) -> None:
        stamps = 6000 + (np.arange(128) + np.random.default_rng(3).uniform(-0.2, 0.2, 128)) / self.RATE
        for seconds in stamps:
            vibration.say(imu(seconds, math.sin(2 * math.pi * 62.5 * seconds)))
        (found,) = vibration.wait(1)
        assert found.valid
        assert found.resampled
        assert found.peak_frequency == pytest.approx(62.5, abs=0.2)
        assert found.peak_amplitude == pytest.approx(1.0, abs=5 * found.sigma)
        assert spectrum.output.count("samples are interpolated to") == 1

    def test_it_stops_cleanly(self, spectrum: Any) -> None:
        spectrum.stop()

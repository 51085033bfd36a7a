"""The spectrum as a node: a signal in, ~/spectrum out for every block of it."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from std_msgs.msg import Header

from edgetpu_driver.errors import InputError
from edgetpu_driver.node_kit.parameters import Setting
from edgetpu_driver.node_kit.spin import FatalError, run
from edgetpu_matrix.nodes.matrix_client import ProductResult
from edgetpu_matrix.nodes.matrix_node import QOS_RESULTS, MatrixNode
from edgetpu_matrix.nodes.request_queue import WorkQueue
from edgetpu_matrix.nodes.signal_messages import SAMPLE_FORMATS
from edgetpu_matrix.spectrum.fourier_transform import (
    HEADROOM,
    LARGEST_LENGTH,
    WINDOWS,
    AmplitudeSpectrum,
    SpectrumTransform,
)
from edgetpu_matrix.spectrum.sample_blocks import GAP_OF_ARRIVALS, SampleBlock, SampleBlocks
from edgetpu_msgs.msg import Spectrum

WAITING_BLOCKS = 16
"""Blocks that wait for the driver before the oldest gives way."""

SIGNIFICANCE = 5.0
"""A line of less than so many sigma may be rounding alone."""

SETTINGS = (
    Setting(
        "input_format",
        "",
        "What the bytes of a uint8[] stand for, such as the data of audio_common_msgs/msg/AudioData. "
        "Empty (default): each for itself, and numbers are numbers.",
        choices=tuple(SAMPLE_FORMATS),
    ),
    Setting(
        "sample_rate",
        0.0,
        "Samples per second, Hz. 0 (default): measured from the stamps of messages of one sample each, from "
        "the times of their arrival where they have none.",
        0.0,
        1e9,
    ),
    Setting("length", 256, "Samples of a block; even. Default: 256.", 8, LARGEST_LENGTH),
    Setting("overlap", 0.5, "Share of a block that the next one has too, 0..0.99. Default: 0.5.", 0.0, 0.99),
    Setting("window", "hann", "Of the transform. Default: hann.", choices=tuple(WINDOWS)),
)


@dataclass(frozen=True)
class _Work:
    header: Header
    block: SampleBlock


class SpectrumNode(MatrixNode):
    """Publishes the amplitude spectrum of a signal, block by block."""

    def __init__(self, **options: Any) -> None:
        super().__init__("spectrum", SETTINGS, **options)

    def make(self) -> None:
        """Make transform and interfaces from the parameters."""
        length = self.values["length"]
        hop = max(1, round(length * (1 - self.values["overlap"])))
        try:
            self._transform = SpectrumTransform(length, self.values["window"])
            self._blocks = SampleBlocks(length, hop, self.values["sample_rate"])
        except InputError as error:
            raise FatalError(str(error)) from None
        self._queue = WorkQueue[_Work](self._start, WAITING_BLOCKS)
        self._spectra = self.create_publisher(Spectrum, "~/spectrum", QOS_RESULTS)
        self.client = self.make_client(HEADROOM)
        self.client.set_matrix(self._transform.matrix())
        if not self.subscribe("signal", self._on_samples).has_header:
            self._blocks.gap = GAP_OF_ARRIVALS

    def on_ready(self) -> None:
        """Work on the blocks that waited."""
        self._queue.resume()

    def problems(self) -> list[str]:
        """Say that the signal had gaps."""
        gaps, self._blocks.gaps = self._blocks.gaps, 0
        return [f"{gaps} gaps in the signal"] if gaps else []

    def _on_samples(self, header: Header, samples: NDArray[np.float64]) -> None:
        stamp = header.stamp.sec + 1e-9 * header.stamp.nanosec
        for block in self._blocks.add(samples, stamp):
            self._queue.offer(_Work(header, block))
        self.counters.dropped = self._queue.dropped

    def _start(self, work: _Work) -> bool:
        assert self.client is not None
        prepared = self._transform.preprocess(work.block.samples)
        return self.client.multiply(prepared, functools.partial(self._on_product, work))

    def _on_product(self, work: _Work, result: ProductResult) -> None:
        assert self.client is not None
        if result.product is not None:
            block = work.block
            spectrum = self._transform.postprocess(block.samples, block.sample_rate, result.product)
            self._publish(work, spectrum)
        elif not self.client.ready:
            self._queue.put_back()
            return
        elif result.error is not None:
            self.on_failure(result.error)
        self._queue.finished()

    def _publish(self, work: _Work, spectrum: AmplitudeSpectrum) -> None:
        valid = spectrum.peak_amplitude > SIGNIFICANCE * spectrum.sigma
        self._spectra.publish(
            Spectrum(
                header=work.header,
                valid=valid,
                sample_rate=work.block.sample_rate,
                frequency_step=spectrum.frequency_step,
                amplitudes=spectrum.amplitudes.astype(np.float32),
                sigma=spectrum.sigma,
                peak_frequency=spectrum.peak_frequency if valid else float("nan"),
                peak_amplitude=spectrum.peak_amplitude if valid else float("nan"),
            )
        )
        self.counters.results += 1


def main() -> int:
    """Run the node as a process of its own."""
    return run(lambda: [SpectrumNode()])

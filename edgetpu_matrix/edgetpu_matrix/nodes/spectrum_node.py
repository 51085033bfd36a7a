"""The spectrum node: subscribes to a signal and publishes ~/spectrum for each block of it."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import numpy as np
from diagnostic_msgs.msg import DiagnosticStatus, KeyValue
from numpy.typing import NDArray
from std_msgs.msg import Header

from edgetpu_driver.errors import InputError
from edgetpu_driver.matrix.product_passes import RealProduct
from edgetpu_driver.node_kit.clients.matmul_in_progress import ProductResult
from edgetpu_driver.node_kit.executor.work_queue import WorkQueue
from edgetpu_driver.node_kit.fatal_error import FatalError
from edgetpu_driver.node_kit.messages.message_stamps import seconds_of
from edgetpu_driver.node_kit.middleware.qos_profiles import QOS_RESULTS
from edgetpu_driver.node_kit.parameters import Setting
from edgetpu_driver.node_kit.result_topics import ResultTopic, ResultValue
from edgetpu_matrix.nodes.matrix_node import MatrixNode
from edgetpu_matrix.nodes.matrix_parameters import matrix_settings
from edgetpu_matrix.nodes.result_rows import spectrum_row
from edgetpu_matrix.nodes.signal_fields import SAMPLE_FORMATS
from edgetpu_matrix.spectrum.fourier_transform import (
    HEADROOM,
    LARGEST_LENGTH,
    WINDOWS,
    SpectrumTransform,
)
from edgetpu_matrix.spectrum.sample_blocks import SampleBlock, SampleBlocks, Timing
from edgetpu_msgs.msg import Spectrum

WAITING_BLOCKS = 16
"""Number of blocks that may wait for the driver before the oldest is dropped."""

SIGNIFICANCE = 5.0
"""Smallest amplitude of a valid line, in sigma; a smaller one may be due to rounding alone."""

_SETTINGS = (
    Setting(
        "input_format",
        "",
        "Type of the samples in the bytes of a uint8[], such as the data of audio_common_msgs/msg/AudioData. "
        "Empty: each byte is a sample; other fields hold numbers.",
        choices=tuple(SAMPLE_FORMATS),
    ),
    Setting(
        "sample_rate",
        0.0,
        "Samples per second, Hz. 0: measured from the stamps of messages of one sample each, or from "
        "their times of arrival if they have none; samples with jitter in their stamps are resampled.",
        0.0,
        1e9,
    ),
    Setting("length", 256, "Samples in a block; even.", 8, LARGEST_LENGTH),
    Setting("overlap", 0.5, "Share of a block that the next one repeats.", 0.0, 0.99),
    Setting("window", "hann", "Window function of the transform.", choices=tuple(WINDOWS)),
)


@dataclass(frozen=True)
class _Work:
    header: Header
    block: SampleBlock


class SpectrumNode(MatrixNode):
    """Publishes the amplitude spectrum of a signal, block by block."""

    settings = matrix_settings(*_SETTINGS)
    results = ResultTopic(
        "spectrum",
        Spectrum,
        (
            ResultValue("peak_frequency", "strongest line", "Hz"),
            ResultValue("peak_amplitude", "its amplitude", "", "sigma"),
        ),
        row=spectrum_row,
    )

    def __init__(self, **options: Any) -> None:
        super().__init__("spectrum", **options)
        with self.destroyed_on_error():
            self._set_up()

    def _set_up(self) -> None:
        length = self.values["length"]
        hop = max(1, round(length * (1 - self.values["overlap"])))
        try:
            self._transform = SpectrumTransform(length, self.values["window"])
            self._blocks = SampleBlocks(length, hop, self.values["sample_rate"])
        except InputError as error:
            raise FatalError(str(error)) from None
        self._timing = Timing.EVEN
        self._queue = WorkQueue[_Work](self._start, WAITING_BLOCKS)
        self._spectra = self.create_publisher(Spectrum, "~/spectrum", QOS_RESULTS)
        self.client = self.make_client(HEADROOM)
        self.client.set_matrix(self._transform.matrix())
        self._blocks.arrival_stamps = not self.subscribe("signal", self._on_samples).has_header
        self.start_diagnostics()

    def on_ready(self) -> None:
        """Process the blocks that waited."""
        self._queue.resume()

    def problems(self) -> list[str]:
        """Return what keeps this node from its results, and that the signal had gaps."""
        gaps, self._blocks.gaps = self._blocks.gaps, 0
        return super().problems() + ([f"{gaps} gaps in the signal"] if gaps else [])

    def diagnostic(self) -> DiagnosticStatus:
        """Add to the node's entry of /diagnostics how the latest samples became evenly spaced."""
        status = super().diagnostic()
        status.values = [*status.values, KeyValue(key="timing", value=self._timing.name.lower())]
        return status

    def _on_samples(self, header: Header, samples: NDArray[np.float64]) -> None:
        stamp = seconds_of(header)
        for block in self._blocks.add(samples, stamp):
            self._report_timing(block)
            self._queue.offer(_Work(header, block))
        self.counters.dropped = self._queue.dropped

    def _report_timing(self, block: SampleBlock) -> None:
        """Log when the samples begin to be treated in another way."""
        if block.timing is self._timing:
            return
        self._timing = block.timing
        topic = self.resolve_topic_name("signal")
        rate = f"{block.sample_rate:.6g} Hz"
        self.get_logger().info(
            {
                Timing.EVEN: f"the stamps on {topic} are evenly spaced again, at {rate}",
                Timing.RESAMPLED: f"the stamps on {topic} have jitter of {block.jitter:.2g} sample "
                f"intervals: samples are interpolated to {rate}",
                Timing.SPREAD: f"the messages on {topic} come in bursts or without stamps: samples are taken "
                f"to be evenly spaced, at {rate}",
            }[block.timing]
        )

    def _start(self, work: _Work) -> bool:
        assert self.client is not None
        prepared = self._transform.preprocess(work.block.samples)
        return self.client.multiply(prepared, functools.partial(self._on_product, work))

    def _on_product(self, work: _Work, result: ProductResult) -> None:
        assert self.client is not None
        if result.product is not None:
            try:
                self._publish(work, result.product)
            except Exception as error:  # which must not hold up the blocks that follow
                self.on_callback_failure("spectrum", error)
        elif not self.client.ready:
            self._queue.put_back()
            return
        elif result.error is not None:
            self.on_failure(result.error)
        self._queue.finished()

    def _publish(self, work: _Work, product: RealProduct) -> None:
        block = work.block
        spectrum = self._transform.postprocess(block.samples, block.sample_rate, product)
        valid = bool(spectrum.peak_amplitude > SIGNIFICANCE * spectrum.sigma)
        self._spectra.publish(
            Spectrum(
                header=work.header,
                valid=valid,
                sample_rate=float(block.sample_rate),
                frequency_step=float(spectrum.frequency_step),
                amplitudes=spectrum.amplitudes.astype(np.float32),
                sigma=float(spectrum.sigma),
                peak_frequency=float(spectrum.peak_frequency) if valid else float("nan"),
                peak_amplitude=float(spectrum.peak_amplitude) if valid else float("nan"),
                resampled=block.timing is Timing.RESAMPLED,
            )
        )
        self.counters.results += 1

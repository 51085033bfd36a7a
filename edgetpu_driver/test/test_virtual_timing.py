"""The simulated time of transfers and computation on a virtual stick."""

from __future__ import annotations

import numpy as np
import pytest

from edgetpu_driver import CompiledModel, EdgeTpu, VirtualEdgeTpu
from edgetpu_driver.tflite.model_reader import parse_model
from edgetpu_driver.usb.chip_clock import ClockPreset
from edgetpu_driver.virtual.simulated_timing import compute_cycles, compute_seconds
from testdata import ModelFolder


def inference_time(
    golden: ModelFolder,
    name: str,
    speed: str = "super",
    preset: ClockPreset = ClockPreset.HIGH,
    runs: int = 2,
) -> float:
    """Duration of the last of several inferences, seconds."""
    source = golden.model(f"{name}.tflite")
    model = CompiledModel.load(golden.model(f"{name}_edgetpu.tflite"))
    stick = VirtualEdgeTpu(speed=speed).register_model(model, source)
    inputs = {spec.name: np.zeros(spec.shape, spec.dtype) for spec in model.inputs}
    with EdgeTpu.open(usb_backend=stick, preset=preset) as tpu:
        for _ in range(runs):
            tpu.run(model, inputs)
    return stick.last_inference_time


def test_a_dense_inference_takes_what_it_is_reported_to_take(golden: ModelFolder) -> None:
    assert inference_time(golden, "dense_256") == pytest.approx(0.28e-3, rel=0.1)


def test_usb_2_is_slower(golden: ModelFolder) -> None:
    super_speed, high_speed = (inference_time(golden, "gabor_64x64_p4", speed) for speed in ("super", "high"))
    assert high_speed > 2 * super_speed


def test_an_upload_is_no_part_of_the_inference_but_takes_time_of_its_own(golden: ModelFolder) -> None:
    model = CompiledModel.load(golden.model("dense_256_edgetpu.tflite"))
    stick = VirtualEdgeTpu().register_model(model, golden.model("dense_256.tflite"))
    inputs = {model.inputs[0].name: np.zeros(model.inputs[0].shape, np.uint8)}
    with EdgeTpu.open(usb_backend=stick) as tpu:
        start = stick.clock.monotonic()
        tpu.run(model, inputs)
        first = stick.clock.monotonic() - start
        alone = stick.last_inference_time
    # Plus three transfers and 68 680 bytes at 210 MB/s.
    assert first - alone == pytest.approx(3 * 60e-6 + 68_680 / 210e6, rel=1e-3)


def test_a_faster_clock_saves_the_time_of_computing_only(golden: ModelFolder) -> None:
    cycles = compute_cycles(parse_model(golden.model("gabor_64x64_p4.tflite").read_bytes()).subgraphs[0])
    slow, fast = (
        inference_time(golden, "gabor_64x64_p4", preset=preset)
        for preset in (ClockPreset.LOW, ClockPreset.MAX)
    )
    assert slow - fast == pytest.approx(cycles / 63e6 - cycles / 500e6)


def test_cycles_are_those_of_cells_that_take_four_inputs_at_once(golden: ModelFolder) -> None:
    graph = parse_model(golden.model("dense_256.tflite").read_bytes()).subgraphs[0]
    # 64 steps of four inputs each; quantising 256 values to and fro takes one cycle each.
    assert compute_cycles(graph) == 64 + 2
    assert compute_seconds(500, clock_divider=0) == 1e-6

"""The colours and models of the spot tracker."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from edgetpu_driver.compiled_model import CompiledModel
from edgetpu_driver.engines.cpu_engine import CpuEngine
from edgetpu_driver.engines.protocol import SwappableEngine
from edgetpu_driver.engines.stick_engine import StickEngine
from edgetpu_driver.errors import ModelUnsupportedError
from edgetpu_driver.stick.edge_tpu import EdgeTpu
from edgetpu_driver.tflite.tensor import TensorSpec
from edgetpu_driver.virtual import VirtualEdgeTpu
from edgetpu_driver.virtual.graph_packer import pack
from edgetpu_driver.weights.sidecar_files import SidecarFiles
from edgetpu_driver.weights.weight_request import WeightRequest
from edgetpu_perception import SpotTracker
from edgetpu_perception.graphs import spot_tracker_evidence as graph
from edgetpu_perception.graphs.color_weights import ColorError, color_filter
from edgetpu_perception.graphs.families import build
from testdata import ModelFolder
from testdata.pictures.spots import block, in_px
from testdata.same_results import same

pytest.importorskip("ai_edge_litert", reason="needs LiteRT")


def test_a_color_can_be_changed() -> None:
    red, blue = block(20, 40), block(40, 10)
    image = np.stack([red, np.zeros_like(red), blue], axis=2)
    tracker = SpotTracker(color="red")
    assert in_px(tracker.update(image)) == pytest.approx((41.5, 21.5), abs=1e-4)
    tracker.set_color([-0.5, -0.5, 1.0])
    assert in_px(tracker.update(image)) == pytest.approx((11.5, 41.5), abs=1e-4)


def test_an_unknown_color_changes_nothing() -> None:
    tracker = SpotTracker(color="red")
    with pytest.raises(ColorError):
        tracker.set_color("brown")
    assert tracker.model == "spot_color_7ec1c1_64x64"


def primaries() -> NDArray[np.uint8]:
    """A red, a green and a blue block."""
    return np.stack([block(20, 40), block(50, 50), block(40, 10)], axis=2)


def virtual_engine(data: bytes, name: str) -> StickEngine:
    model = CompiledModel.parse(pack(data, name=name))
    stick = VirtualEdgeTpu()
    stick.register_model(model, data)
    return StickEngine(EdgeTpu.open(stick), model, SidecarFiles(data))


@pytest.mark.parametrize("make", [lambda data, _: CpuEngine(data), virtual_engine], ids=["cpu", "virtual"])
def test_the_model_of_a_given_engine_gets_the_weights_of_another_color(
    make: Callable[[bytes, str], SwappableEngine],
) -> None:
    name = graph.name("red")
    tracker = SpotTracker(make(build(name), name), color="red")
    for color, position in (("blue", (11.5, 41.5)), ([-1, 1, -1], (51.5, 51.5)), ("red", (41.5, 21.5))):
        tracker.set_color(color)
        assert tracker.color == color
        result = tracker.update(primaries())
        assert same(result, SpotTracker(color=color).update(primaries()))
        assert in_px(result) == pytest.approx(position, abs=1e-4)


@pytest.mark.parametrize("compiled", [False, True], ids=["plain", "compiled"])
def test_a_published_model_for_red_can_track_blue(golden: ModelFolder, compiled: bool) -> None:
    plain = golden.model("color_red_64x64.tflite")
    tracker = SpotTracker(compiled_engine(plain) if compiled else CpuEngine(plain), color="red")
    tracker.set_color("blue")
    # One step of its int8 output is 0.34 px.
    assert in_px(tracker.update(primaries())) == pytest.approx((11.5, 41.5), abs=0.34)


def compiled_engine(plain: Path) -> StickEngine:
    model = CompiledModel.load(plain.with_name(f"{plain.stem}_edgetpu.tflite"))
    stick = VirtualEdgeTpu()
    stick.register_model(model, plain.read_bytes())
    return StickEngine(EdgeTpu.open(stick), model)


def test_a_model_for_brightness_cannot_be_given_a_color() -> None:
    tracker = SpotTracker(CpuEngine(graph.build()))
    with pytest.raises(ModelUnsupportedError, match="got one with a grey input"):
        tracker.set_color("red")
    assert tracker.color is None


def test_a_tracker_for_brightness_without_an_engine_turns_to_a_color() -> None:
    tracker = SpotTracker()
    tracker.update(primaries())
    tracker.set_color("blue")
    assert in_px(tracker.update(primaries())) == pytest.approx((11.5, 41.5), abs=1e-4)


@pytest.mark.parametrize("size", [96, 128])
def test_a_larger_input_finds_the_same_and_keeps_its_size_with_another_color(size: int) -> None:
    tracker = SpotTracker(color="red", size=size)
    assert tracker.model == graph.name("red", size, size)
    assert in_px(tracker.update(primaries())) == pytest.approx((41.5, 21.5), abs=0.05)
    tracker.set_color("blue")
    assert tracker.model == graph.name("blue", size, size)
    assert in_px(tracker.update(primaries())) == pytest.approx((11.5, 41.5), abs=0.05)
    assert SpotTracker(size=size).model == f"spot_bright_{size}x{size}"


def test_an_engine_that_keeps_its_weights_keeps_the_color() -> None:
    class Fixed:
        def __init__(self) -> None:
            engine = CpuEngine(build(graph.name("red")))
            self.inputs, self.outputs, self.run = engine.inputs, engine.outputs, engine.run

    tracker = SpotTracker(Fixed(), color="red")
    with pytest.raises(ModelUnsupportedError, match="whose weights can be replaced; got Fixed"):
        tracker.set_color("blue")
    assert tracker.color == "red"


def test_without_an_engine_set_color_changes_only_the_decoder() -> None:
    engine = CpuEngine(build(graph.name("red")))
    tracker = SpotTracker(color="red")
    tracker.bind(engine.inputs, engine.outputs)
    engine.set_weights(WeightRequest(color_filter("blue")))
    tracker.set_color("blue")
    frame = tracker.preprocess(primaries())
    assert in_px(tracker.postprocess(frame, engine.run(frame.inputs))) == pytest.approx(
        (11.5, 41.5), abs=1e-4
    )


@pytest.mark.parametrize(
    ("name", "color"), [("bright_64x64", None), ("color_red_64x64", "red"), ("color_red_64x64", None)]
)
@pytest.mark.parametrize("radius", [2.5, 5.3, 9.7])
def test_models_with_two_coordinates_are_accepted(
    golden: ModelFolder, scenes: object, name: str, color: str | None, radius: float
) -> None:
    tracker = SpotTracker(CpuEngine(golden.model(f"{name}.tflite")), color=color)
    disc = scenes.disc(40, 30, radius)
    image = disc if name.startswith("bright") else np.stack([disc, disc // 4, disc // 4], axis=2)
    result = tracker.update(image)
    assert result.valid
    # One step of their int8 output is 0.34 px.
    assert in_px(result) == pytest.approx((40, 30), abs=0.34)


@pytest.mark.parametrize("level", [0, 255], ids=["black", "white"])
def test_two_coordinates_without_a_spot_are_not_valid(golden: ModelFolder, level: int) -> None:
    tracker = SpotTracker(CpuEngine(golden.model("bright_64x64.tflite")))
    assert tracker.update(np.full((64, 64), level, np.uint8)).valid is False


def test_two_coordinates_at_the_end_of_their_range_are_not_valid(golden: ModelFolder, scenes: object) -> None:
    tracker = SpotTracker(CpuEngine(golden.model("bright_64x64.tflite")))
    # x of these models ends at -0.872.
    assert tracker.update(scenes.disc(2, 30, 2)).valid is False


def test_a_model_of_another_kind_is_refused(golden: ModelFolder) -> None:
    with pytest.raises(ModelUnsupportedError, match=r"expected an output .* or two coordinates; got"):
        SpotTracker(CpuEngine(golden.model("looming_64x64_3x3.tflite")))


@pytest.mark.parametrize("side", [8, 16])
def test_a_model_for_patterns_is_refused_by_its_coordinates(
    golden: ModelFolder, scenes: object, side: int
) -> None:
    tracker = SpotTracker(CpuEngine(golden.model(f"pattern_64x64_{side}x{side}_1ch.tflite")))
    with pytest.raises(ModelUnsupportedError, match=r"coordinates of the brightest cells, .*; got"):
        tracker.update(scenes.disc(40, 30, 9))


def test_a_model_without_an_image_is_refused() -> None:
    vector = TensorSpec("x", (1, 4), np.dtype(np.int8), 1.0, 0)
    with pytest.raises(ModelUnsupportedError, match="expected one input"):
        SpotTracker().bind([vector], [vector])

"""The graphs of the pattern tracker, and the models that it takes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

import numpy as np
import pytest

from edgetpu_driver.compiled_model import CompiledModel
from edgetpu_driver.engines.cpu_engine import CpuEngine
from edgetpu_driver.engines.stick_engine import StickEngine
from edgetpu_driver.errors import GraphError, ModelUnsupportedError
from edgetpu_driver.stick.edge_tpu import EdgeTpu
from edgetpu_driver.tflite.model_reader import parse_model
from edgetpu_driver.tflite.tensor import TensorSpec
from edgetpu_driver.virtual import VirtualEdgeTpu
from edgetpu_driver.virtual.graph_packer import pack
from edgetpu_driver.weights.sidecar_files import SidecarFiles
from edgetpu_perception.graphs import pattern_tracker_correlation as pattern
from edgetpu_perception.pattern_tracker.pattern_tracker import MatchResult, PatternTracker
from testdata import ModelFolder
from testdata.pictures.patterns import SIZES, cut, pixels, texture

pytest.importorskip("ai_edge_litert", reason="needs LiteRT")


@pytest.mark.parametrize(
    ("search", "side", "shape"), [(64, 8, 57), (64, 16, 49), (128, 16, 113), (128, 32, 49)]
)
def test_the_graph_responds_for_every_position(search: int, side: int, shape: int) -> None:
    engine = CpuEngine(pattern.build((search, search), (side, side)))
    assert [spec.shape for spec in engine.inputs] == [(1, search, search, 1)]
    assert [spec.shape for spec in engine.outputs] == [(1, shape, shape, 1)]


def test_no_convolution_is_larger_than_the_compiler_maps() -> None:
    graph = parse_model(pattern.build((128, 128), (32, 32))).subgraphs[0]
    assert [operator.name for operator in graph.operators] == ["QUANTIZE", "AVERAGE_POOL_2D", "CONV_2D"]
    assert [t.shape for t in graph.tensors if t.name == pattern.WEIGHTS] == [(1, 15, 15, 1)]


def test_a_graph_is_named_by_its_sizes_and_has_constant_bytes() -> None:
    name = PatternTracker(search=(128, 96), template=(32, 16)).model
    assert name == "pattern_128x96_32x16"
    assert pattern.parse(name) == ((128, 96), (32, 16))
    assert pattern.parse("spot_bright_64x64") is None
    assert pattern.build() == pattern.build()


@pytest.mark.parametrize("template", [(1, 16), (65, 16), (33, 33)])
def test_sizes_without_a_graph_are_refused(template: tuple[int, int]) -> None:
    with pytest.raises(GraphError, match="expected"):
        PatternTracker(template=template)


@contextmanager
def on_a_stick(graph: bytes) -> Iterator[StickEngine]:
    model = CompiledModel.parse(pack(graph, name="pattern"))
    stick = VirtualEdgeTpu()
    stick.register_model(model, graph)
    with EdgeTpu.open(stick) as tpu:
        yield StickEngine(tpu, model, SidecarFiles(graph))


@pytest.mark.parametrize(("search", "side"), SIZES)
def test_a_stick_gives_the_responses_of_the_cpu_to_every_template(search: int, side: int) -> None:
    graph = pattern.build((search, search), (side, side))
    with on_a_stick(graph) as on_stick:
        engines = CpuEngine(graph), on_stick
        trackers = [PatternTracker(engine, template=(side, side)) for engine in engines]
        image = texture(1, search)
        for x, y in ((20, 30), (9, 5)):
            for tracker in trackers:
                assert tracker.set_template(cut(image, x, y, side), view=image).accepted
            given = {"image": image.reshape(1, search, search, 1)}
            responses = [engine.run(given)["response"].astype(int) for engine in engines]
            assert np.abs(responses[1] - responses[0]).max() <= 1
            results = [tracker.update(image) for tracker in trackers]
            assert (results[1].x, results[1].y) == pytest.approx((results[0].x, results[0].y), abs=1e-3)


def test_a_model_for_templates_of_another_size_is_refused() -> None:
    with pytest.raises(
        ModelUnsupportedError, match=r"expected an output \[1, 57, 57, 1\] or two coordinates"
    ):
        PatternTracker(CpuEngine(pattern.build()), template=(8, 8))


def test_a_model_for_spots_is_recognised_by_its_weights_and_refused(golden: ModelFolder) -> None:
    tracker = PatternTracker(CpuEngine(golden.model("bright_64x64.tflite").read_bytes()))
    image = texture(1)
    with pytest.raises(ModelUnsupportedError, match="expected a model with one kernel"):
        tracker.set_template(cut(image, 20, 30), view=image)
    assert not tracker.update(image).valid


def test_a_model_without_an_image_is_refused() -> None:
    vector = TensorSpec("x", (1, 4), np.dtype(np.int8), 1.0, 0)
    with pytest.raises(ModelUnsupportedError, match="expected one input"):
        PatternTracker().bind([vector], [vector])


@pytest.mark.parametrize("side", [8, 16])
@pytest.mark.parametrize("engine", ["cpu", "stick"])
def test_models_with_two_coordinates_are_accepted(golden: ModelFolder, side: int, engine: str) -> None:
    graph = golden.model(f"pattern_64x64_{side}x{side}_1ch.tflite").read_bytes()
    with nullcontext(CpuEngine(graph)) if engine == "cpu" else on_a_stick(graph) as running:
        tracker = PatternTracker(running, template=(side, side))
        # Their response is not normalised: the pattern must have the highest contrast in the image.
        image = pixels(128 + (texture(1).astype(float) - 128) / 3)
        target = texture(2, side)
        image[30 : 30 + side, 22 : 22 + side] = target
        assert tracker.set_template(target, view=image).accepted
        result: MatchResult = tracker.update(image)
        assert result.valid
        assert (result.x, result.y) == pytest.approx((22 + (side - 1) / 2, 30 + (side - 1) / 2), abs=0.02)
        assert not tracker.update(texture(5)).valid

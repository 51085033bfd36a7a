"""Rows of a layer of a network that are given other scales, with the bias that they share them with."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

pytest.importorskip("ai_edge_litert", reason="needs LiteRT: pip install ai-edge-litert")

from edgetpu_driver.compiled_model import CompiledModel
from edgetpu_driver.darwinn.parameters.layer_layout import LayerLayout
from edgetpu_driver.darwinn.requantisation import multipliers
from edgetpu_driver.engines.cpu_engine import CpuEngine
from edgetpu_driver.engines.stick_engine import StickEngine
from edgetpu_driver.errors import ClippingError, ModelUnsupportedError
from edgetpu_driver.stick.edge_tpu import EdgeTpu
from edgetpu_driver.tflite.model_reader import parse_model
from edgetpu_driver.virtual import VirtualEdgeTpu
from edgetpu_driver.weights.quantisation import WeightQuantiser
from edgetpu_driver.weights.replaceable_weights import WeightTensor
from edgetpu_driver.weights.sidecar_files import SidecarFiles
from edgetpu_driver.weights.weight_locations import WeightLocation, WeightLocations
from edgetpu_driver.weights.weight_request import WeightRequest
from testdata import GOLDEN

NAMES = {name.rpartition("/")[2]: name for name in GOLDEN.names("", ".tflite")}
MOVENET = "movenet_single_pose_lightning_ptq"


@dataclass(frozen=True)
class Network:
    """A compiled file with its graph, and where its weights are."""

    model: CompiledModel
    sidecars: SidecarFiles
    part: bytes
    """The part of the graph that the chip runs."""
    locations: tuple[WeightLocation, ...]

    @property
    def cached(self) -> NDArray[np.uint8]:
        """The cached parameters."""
        return np.frombuffer(self.model.parameters.cached, np.uint8)


@cache
def movenet() -> Network:
    model = CompiledModel.load(GOLDEN.path(NAMES[f"{MOVENET}_edgetpu.tflite"]))
    sidecars = SidecarFiles(GOLDEN.path(NAMES[f"{MOVENET}.tflite"]).read_bytes())
    found = WeightLocations(model, sidecars).known
    return Network(model, sidecars, model.source_part(sidecars.graph), found)


@pytest.fixture
def engine() -> Iterator[StickEngine]:
    stick = VirtualEdgeTpu()
    network = movenet()
    stick.register_model(network.model, network.part)
    made = StickEngine(EdgeTpu.open(usb_backend=stick), network.model, network.sidecars)
    yield made
    made.close()


def location(operator: str) -> WeightLocation:
    """The third layer of a kind that has a bias."""
    of_kind = [each for each in movenet().locations if each.tensor.operator == operator and each.tensor.bias]
    return of_kind[2]


def by_row(tensor: WeightTensor, values: NDArray[Any]) -> NDArray[np.float64]:
    """Values of rows in a shape that weights can be multiplied by."""
    form = (-1,) if tensor.rows_last else (-1, *(1,) * (len(tensor.shape) - 1))
    return values.astype(np.float64).reshape(form)


def own_weights(tensor: WeightTensor) -> NDArray[np.float64]:
    """The real weights of the graph."""
    stored = next(
        each for each in parse_model(movenet().part).subgraphs[0].tensors if each.name == tensor.name
    )
    steps = np.frombuffer(stored.data, np.int8).reshape(tensor.shape)
    return steps * by_row(tensor, tensor.scales)


def larger_weights(tensor: WeightTensor) -> NDArray[np.float64]:
    """The weights of the graph, each row by another factor of up to 5."""
    factors = np.random.default_rng(3).uniform(0.2, 5, tensor.scales.size)
    return own_weights(tensor) * by_row(tensor, factors)


def results(engine: StickEngine | CpuEngine) -> list[NDArray[Any]]:
    pixels = np.random.default_rng(1).integers(-128, 128, engine.inputs[0].shape).astype(np.int8)
    return list(engine.run({engine.inputs[0].name: pixels}).values())


@pytest.mark.parametrize("operator", ["CONV_2D", "DEPTHWISE_CONV_2D"])
def test_a_stick_computes_what_litert_does_with_the_rescaled_rows(engine: StickEngine, operator: str) -> None:
    tensor = location(operator).tensor
    weights = larger_weights(tensor)
    with pytest.raises(ClippingError):
        engine.set_weights(WeightRequest(weights, tensor.name))
    cpu = CpuEngine(movenet().part)
    for each in (engine, cpu):
        result = each.set_weights(WeightRequest(weights, tensor.name, rescale_rows=True))
        assert result.clipped == 0
        largest = np.abs(weights).max(axis=(0, 1, 2) if tensor.rows_last else (1, 2, 3))
        np.testing.assert_allclose(result.row_scales, largest / 127, rtol=1e-6)
    before = results(CpuEngine(movenet().part))
    after = results(cpu)
    assert any(np.any(old != new) for old, new in zip(before, after, strict=True))
    for ours, theirs in zip(results(engine), after, strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_multipliers_and_bias_are_those_that_the_compiler_would_write_for_the_scales(
    engine: StickEngine,
) -> None:
    place = location("CONV_2D")
    tensor, layout = place.tensor, place.layout
    assert isinstance(layout, LayerLayout)
    assert place.requantisation is not None
    assert tensor.bias_scales is not None
    result = engine.set_weights(WeightRequest(larger_weights(tensor), tensor.name, rescale_rows=True))
    own = place.section_of(movenet().cached)
    section = place.section_of(engine._cached)
    source, output = place.requantisation
    expected = multipliers(source, result.row_scales, output)
    np.testing.assert_array_equal(layout.decode_multipliers(section), expected)
    real = layout.decode_bias(own) * tensor.bias_scales
    finer = tensor.bias_scales * (result.row_scales / tensor.scales.astype(np.float64))
    np.testing.assert_array_equal(layout.decode_bias(section), np.rint(real / finer))


def test_weights_at_the_models_own_scales_bring_back_its_multipliers_and_bias(engine: StickEngine) -> None:
    tensor = location("DEPTHWISE_CONV_2D").tensor
    engine.set_weights(WeightRequest(larger_weights(tensor), tensor.name, rescale_rows=True))
    assert np.any(engine._cached != movenet().cached)
    engine.set_weights(WeightRequest(own_weights(tensor), tensor.name))
    np.testing.assert_array_equal(engine._cached, movenet().cached)


def test_a_scale_is_coarse_enough_for_the_bias_of_the_row() -> None:
    scales = np.array([0.1, 0.1], np.float32)
    tensor = WeightTensor(
        "w", "CONV_2D", (2, 1, 1, 1), scales, has_row_scales=True, bias="b", bias_scales=scales * 0.5
    )
    weights = np.array([1e-9, 1.0]).reshape(tensor.shape)
    quantiser = WeightQuantiser(tensor)
    result = quantiser.quantise(WeightRequest(weights, bias=np.array([1e4, 1e-3]), rescale_rows=True))
    assert result.clipped == 0
    np.testing.assert_allclose(result.row_scales, [1e4 / (0.5 * 2**30), 1 / 127], rtol=1e-6)
    assert quantiser.bias is not None
    np.testing.assert_array_equal(quantiser.bias, [2**30, 0])


def test_a_layer_with_one_scale_cannot_be_rescaled(engine: StickEngine) -> None:
    single = next(each.tensor for each in movenet().locations if each.requantisation is None)
    request = WeightRequest(np.zeros(single.shape), single.name, rescale_rows=True)
    with pytest.raises(ModelUnsupportedError, match="multiplier for every row to rescale"):
        engine.set_weights(request)
    with pytest.raises(ModelUnsupportedError, match="scale for every row to rescale"):
        CpuEngine(movenet().part).set_weights(request)

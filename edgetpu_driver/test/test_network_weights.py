"""New weights for a layer of a whole network: its section alone changes, and results are the graph's."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

pytest.importorskip("ai_edge_litert", reason="needs LiteRT: pip install ai-edge-litert")

from edgetpu_driver.compiled_model import CompiledModel, Parameters
from edgetpu_driver.engines.cpu_engine import CpuEngine
from edgetpu_driver.engines.stick_engine import StickEngine
from edgetpu_driver.errors import ClippingError, InputError, ModelUnsupportedError
from edgetpu_driver.host.models.weight_history import WeightHistory
from edgetpu_driver.stick.edge_tpu import EdgeTpu
from edgetpu_driver.tflite.constant_patch import replace_tensors
from edgetpu_driver.tflite.model_reader import parse_model
from edgetpu_driver.tflite.subgraph_extraction import extract_between
from edgetpu_driver.virtual import VirtualEdgeTpu
from edgetpu_driver.virtual.graph_packer import pack
from edgetpu_driver.weights.network_weights import NetworkWeights
from edgetpu_driver.weights.replaceable_weights import WeightTensor
from edgetpu_driver.weights.section_search import locate_sections
from edgetpu_driver.weights.sidecar_files import SidecarFiles
from edgetpu_driver.weights.weight_locations import WeightLocations
from edgetpu_driver.weights.weight_request import WeightRequest
from testdata import GOLDEN
from testdata.graphs.compiled_graphs import compiled_graph, source_graph

NAMES = {name.rpartition("/")[2].removesuffix(".tflite"): name for name in GOLDEN.names("", ".tflite")}
MOBILENET = "mobilenet_v1_0.25_128_quant"
EXTRACTOR = "mobilenet_v1_1.0_224_quant_embedding_extractor"
RNG = np.random.default_rng(4)


@dataclass(frozen=True)
class Network:
    """A compiled file with its graph."""

    model: CompiledModel
    graph: bytes
    part: bytes
    """The part of the graph that the chip runs."""

    def tensors(self) -> dict[str, WeightTensor]:
        """What can be set, by name."""
        return {each.tensor.name: each.tensor for each in locations(self.model, self.graph).known}


@cache
def network(name: str) -> Network:
    model = CompiledModel.load(GOLDEN.path(NAMES[f"{name}_edgetpu"]))
    graph = GOLDEN.path(NAMES[name]).read_bytes()
    return Network(model, graph, model.source_part(graph))


@cache
def locations(model: CompiledModel, graph: bytes) -> WeightLocations:
    return WeightLocations(model, SidecarFiles(graph))


def stick_engine(name: str, stick: VirtualEdgeTpu) -> StickEngine:
    each = network(name)
    stick.register_model(each.model, each.part)
    return StickEngine(EdgeTpu.open(usb_backend=stick), each.model, SidecarFiles(each.graph))


@pytest.fixture
def mobilenet() -> Iterator[StickEngine]:
    engine = stick_engine(MOBILENET, VirtualEdgeTpu())
    yield engine
    engine.close()


def drawn(tensor: WeightTensor, *, with_bias: bool = True) -> WeightRequest:
    """Random weights within the range of a tensor, and a bias."""
    least, most = tensor.limits
    steps = RNG.integers(least, most + 1, tensor.shape)
    form = (-1,) if tensor.rows_last else (-1, *(1,) * (len(tensor.shape) - 1))
    weights = steps * tensor.scales.astype(np.float64).reshape(form)
    bias = None
    if with_bias and tensor.bias_scales is not None:
        bias = RNG.integers(-500, 500, tensor.scales.size) * tensor.bias_scales
    return WeightRequest(weights, tensor.name, bias=bias)


def stored(tensor: WeightTensor, request: WeightRequest) -> dict[str, NDArray[Any]]:
    """The weights and the bias as the graph stores them, by NumPy alone."""
    form = (-1,) if tensor.rows_last else (-1, *(1,) * (len(tensor.shape) - 1))
    steps = np.rint(request.weights / tensor.scales.astype(np.float64).reshape(form)) + tensor.zero_point
    values: dict[str, NDArray[Any]] = {tensor.name: steps.astype(tensor.dtype)}
    if request.bias is not None:
        assert tensor.bias_scales is not None
        values[tensor.bias] = np.rint(request.bias / tensor.bias_scales).astype(np.int32)
    return values


def patched(graph: bytes, tensor: WeightTensor, request: WeightRequest) -> bytes:
    """The graph with these weights and bias."""
    return replace_tensors(graph, stored(tensor, request))


def inputs_of(engine: StickEngine | CpuEngine) -> dict[str, NDArray[np.generic]]:
    rng = np.random.default_rng(1)
    return {
        spec.name: rng.integers(0, 256, spec.shape).astype(np.uint8).view(spec.dtype)
        for spec in engine.inputs
    }


def same_results(engine: StickEngine, graph: bytes) -> bool:
    """Whether the stick computes what LiteRT does with the graph."""
    reference = CpuEngine(graph)
    pairs = zip(
        engine.run(inputs_of(engine)).values(), reference.run(inputs_of(reference)).values(), strict=True
    )
    return all(np.array_equal(*pair) for pair in pairs)


LAYERS = [
    (MOBILENET, "CONV_2D", (8, 3, 3, 3)),
    (MOBILENET, "DEPTHWISE_CONV_2D", (1, 3, 3, 128)),
    (MOBILENET, "CONV_2D", (1001, 1, 1, 256)),
    ("looming_64x64_3x3", "CONV_2D", (1, 3, 3, 1)),
    ("gabor_64x64_p4", "DEPTHWISE_CONV_2D", (1, 7, 7, 8)),
    ("bright_64x64", "FULLY_CONNECTED", (1, 4096)),
]


@pytest.mark.parametrize(("name", "operator", "shape"), LAYERS)
def test_a_layer_with_new_weights_computes_what_its_graph_does(
    name: str, operator: str, shape: tuple[int, ...]
) -> None:
    tensor = next(
        each for each in network(name).tensors().values() if (each.operator, each.shape) == (operator, shape)
    )
    request = drawn(tensor)
    engine = stick_engine(name, VirtualEdgeTpu())
    result = engine.set_weights(request)
    assert (result.version, result.clipped) == (1, 0)
    assert result.worst_error <= 1e-6 * tensor.scales.max()
    assert same_results(engine, patched(network(name).part, tensor, request))
    engine.close()


@pytest.mark.parametrize(
    "name",
    [
        "deeplabv3_mnv2_pascal_quant",
        "movenet_single_pose_lightning_ptq",
        "posenet_mobilenet_v1_075_353_481_16_quant_decoder",
        EXTRACTOR,
        MOBILENET,
    ],
)
def test_new_weights_of_every_layer_are_those_of_a_graph_with_them(name: str) -> None:
    """Written into the parameters one after the other, and read out of them."""
    each = network(name)
    blob = np.frombuffer(each.model.parameters.cached, np.uint8).copy()
    values: dict[str, NDArray[Any]] = {}
    for location in locations(each.model, each.graph).known:
        new = stored(location.tensor, drawn(location.tensor))
        section = location.section_of(blob)
        location.layout.encode(new[location.tensor.name], section)
        if location.layout.has_bias:
            location.layout.encode_bias(new[location.tensor.bias], section)
        values |= new
    parameters = Parameters(blob.tobytes(), each.model.parameters.streamed)
    graph = NetworkWeights(each.model, each.part).graph_with(parameters)
    assert graph == replace_tensors(each.part, values)


def _constant(graph: bytes, name: str) -> bytes:
    return next(each.data for each in parse_model(graph).subgraphs[0].tensors if each.name == name)


def test_a_row_of_a_classifier_changes_its_logit_and_no_other(mobilenet: StickEngine) -> None:
    each = network(MOBILENET)
    tensor = next(t for t in each.tensors().values() if t.shape[0] == 1001)
    own = np.frombuffer(_constant(each.part, tensor.name), np.uint8).reshape(tensor.shape)
    real = (own.astype(np.float64) - tensor.zero_point) * tensor.scales[0]
    chosen = 283
    real[chosen] = drawn(tensor).weights[chosen]
    mobilenet.set_weights(WeightRequest(real, tensor.name))
    changed = patched(each.part, tensor, WeightRequest(real))
    assert same_results(mobilenet, changed)

    graph = parse_model(each.part).subgraphs[0]
    softmax = next(operator for operator in graph.operators if operator.name == "SOFTMAX")
    logits = []
    for data in (each.part, changed):
        engine = CpuEngine(extract_between(data, graph, graph.inputs, softmax.inputs[:1]))
        logits.append(next(iter(engine.run(inputs_of(engine)).values())).ravel())
    assert np.flatnonzero(logits[0] != logits[1]).tolist() == [chosen]


def test_nothing_but_the_section_of_the_layer_is_changed(mobilenet: StickEngine) -> None:
    each = network(MOBILENET)
    sections = locate_sections(each.model, each.graph)
    tensor = next(t for t in each.tensors().values() if t.shape == (256, 1, 1, 128))
    placed = next(each for each in sections.placed if each.section.name == tensor.name)
    location = locations(each.model, each.graph).select(tensor.name, "mobilenet")
    assert (location.offset, location.layout.size) == (placed.offset, placed.size)
    mobilenet.set_weights(drawn(tensor))
    own = np.frombuffer(each.model.parameters.cached, np.uint8)
    different = np.flatnonzero(mobilenet._cached != own)
    assert placed.offset <= different.min() <= different.max() < placed.offset + placed.size
    assert different.size > placed.size // 2


def test_weights_without_a_bias_leave_the_bias_that_was_set(mobilenet: StickEngine) -> None:
    tensor = next(t for t in network(MOBILENET).tensors().values() if t.shape == (8, 3, 3, 3))
    first, second = drawn(tensor), drawn(tensor, with_bias=False)
    mobilenet.set_weights(first)
    mobilenet.set_weights(second)
    graph = patched(network(MOBILENET).part, tensor, replace(second, bias=first.bias))
    assert same_results(mobilenet, graph)


def test_several_layers_are_set_one_after_the_other(mobilenet: StickEngine) -> None:
    graph = network(MOBILENET).part
    tensors = list(network(MOBILENET).tensors().values())
    for tensor in (tensors[0], tensors[5], tensors[-1]):
        request = drawn(tensor)
        mobilenet.set_weights(request)
        graph = patched(graph, tensor, request)
    assert same_results(mobilenet, graph)


def test_clipping_of_unsigned_weights_is_reported_with_their_range(mobilenet: StickEngine) -> None:
    tensor = next(t for t in network(MOBILENET).tensors().values() if t.shape == (8, 3, 3, 3))
    scale, (least, most) = float(tensor.scales[0]), tensor.limits
    assert (least, most) == (-tensor.zero_point, 255 - tensor.zero_point)
    weights = np.zeros(tensor.shape)
    weights[0, 0, 0, :2] = scale * (least - 10), scale * (most + 20)
    with pytest.raises(ClippingError, match=r"expected weights from -.* to .*; 2 of 216 are beyond") as error:
        mobilenet.set_weights(WeightRequest(weights, tensor.name))
    assert error.value.clipped == 2
    assert same_results(mobilenet, network(MOBILENET).part)
    result = mobilenet.set_weights(WeightRequest(weights, tensor.name, accept_clipping=True))
    assert (result.clipped, result.worst_error) == (2, pytest.approx(20 * scale, rel=1e-5))
    weights[0, 0, 0, :2] = scale * least, scale * most
    assert same_results(mobilenet, patched(network(MOBILENET).part, tensor, WeightRequest(weights)))


@pytest.mark.parametrize("bias", [np.zeros(7), np.full(8, np.nan), np.zeros((8, 1))])
def test_a_bias_of_another_form_is_refused(mobilenet: StickEngine, bias: NDArray[np.float64]) -> None:
    tensor = next(t for t in network(MOBILENET).tensors().values() if t.shape == (8, 3, 3, 3))
    with pytest.raises(InputError, match=r"expected a finite bias \[8\]; got float64"):
        mobilenet.set_weights(WeightRequest(np.zeros(tensor.shape), tensor.name, bias=bias))


@pytest.mark.parametrize(
    ("weights", "bias"), [([[1.0, 2.0], [3.0]], None), (np.zeros((8, 3, 3, 3)), [[1.0], 2.0])]
)
def test_lists_of_different_lengths_are_refused(mobilenet: StickEngine, weights: Any, bias: Any) -> None:
    tensor = next(t for t in network(MOBILENET).tensors().values() if t.shape == (8, 3, 3, 3))
    reason = "(setting an array element with a sequence|got object)"  # NumPy before 1.24 says the second
    with pytest.raises(InputError, match=f"of real numbers; {reason}"):
        mobilenet.set_weights(WeightRequest(weights, tensor.name, bias=bias))


def test_a_bias_beyond_32_bits_is_clipped_only_if_that_is_accepted(mobilenet: StickEngine) -> None:
    tensor = next(t for t in network(MOBILENET).tensors().values() if t.shape == (8, 3, 3, 3))
    bias = np.array([1e12, *[0.0] * 7])
    request = WeightRequest(np.zeros(tensor.shape), tensor.name, bias=bias)
    with pytest.raises(ClippingError, match=r"expected a bias of at most .*; 1 of 8 are beyond"):
        mobilenet.set_weights(request)
    result = mobilenet.set_weights(replace(request, accept_clipping=True))
    assert result.clipped == 1
    assert result.worst_bias_error == pytest.approx(1e12, rel=1e-3)


def test_a_layer_compiled_without_a_bias_takes_none() -> None:
    engine = stick_engine("looming_64x64_3x3", VirtualEdgeTpu())
    tensor = engine.weight_tensor("tfl.pseudo_qconst")
    with pytest.raises(ModelUnsupportedError, match="layer without a bias, and none can be added"):
        engine.set_weights(WeightRequest(np.zeros(tensor.shape), tensor.name, bias=np.zeros(1)))
    engine.close()


def test_a_layer_outside_the_part_of_the_edge_tpu_is_refused_by_name() -> None:
    part = CompiledModel.parse_parts(compiled_graph(2))[0]
    found = WeightLocations(part, SidecarFiles(source_graph(2)))
    (elsewhere,) = found.refused
    assert [each.tensor.name for each in found.known] != [elsewhere]
    with pytest.raises(ModelUnsupportedError, match=r"the part .* that the Edge TPU runs has no such"):
        found.select(elsewhere, "parts")


def test_a_layer_that_the_parameters_do_not_hold_is_refused_by_name() -> None:
    """The graph next to the file was trained on, in one layer."""
    each = network(MOBILENET)
    tensor = next(iter(each.tensors().values()))
    other = patched(each.graph, tensor, drawn(tensor))
    found = WeightLocations(each.model, SidecarFiles(other))
    assert len(found.known) == 27
    with pytest.raises(ModelUnsupportedError, match="do not contain its weights in this layout"):
        found.select(tensor.name, "mobilenet")


def test_other_bytes_than_weights_and_a_bias_compute_noise() -> None:
    each = network(MOBILENET)
    weights = NetworkWeights(each.model, each.part)
    own = each.model.parameters
    for offset in (0, 518_656):  # the first bias, a row of the softmax
        blob = bytearray(own.cached)
        blob[offset] ^= 1
        graph = weights.graph_with(Parameters(bytes(blob), own.streamed))
        assert (graph is None) is (offset > 0)
    assert weights.graph_with(Parameters(own.cached[:-64], own.streamed)) is None


def test_a_plain_graph_on_the_virtual_stick_takes_weights_and_a_bias_in_any_layer() -> None:
    graph = network(MOBILENET).part
    model = CompiledModel.parse(pack(graph, name="packed"), "packed")
    stick = VirtualEdgeTpu()
    stick.register_model(model, graph)
    engine = StickEngine(EdgeTpu.open(usb_backend=stick), model, SidecarFiles(graph))
    tensor = next(t for t in network(MOBILENET).tensors().values() if t.shape == (1, 3, 3, 128))
    request = drawn(tensor)
    engine.set_weights(request)
    assert same_results(engine, patched(graph, tensor, request))
    engine.close()


def test_the_cpu_takes_the_same_weights_and_bias() -> None:
    graph = network(MOBILENET).part
    tensor = next(iter(network(MOBILENET).tensors().values()))
    request = drawn(tensor)
    engine = CpuEngine(graph)
    engine.set_weights(request)
    reference = CpuEngine(patched(graph, tensor, request))
    for name, values in engine.run(inputs_of(engine)).items():
        np.testing.assert_array_equal(values, reference.run(inputs_of(reference))[name])


def test_a_bias_that_was_set_is_restored_with_later_weights_of_its_layer() -> None:
    history = WeightHistory()
    weights = np.zeros((2, 2))
    with_bias = WeightRequest(weights, "a", bias=np.ones(2))
    requests = [
        with_bias,
        WeightRequest(weights, "b"),
        WeightRequest(weights, "a"),
        WeightRequest(weights, "a"),
    ]
    for request in requests:
        history.record(request)
    assert history.since(0) == [(1, with_bias), (2, requests[1]), (4, requests[3])]
    again = replace(with_bias)
    history.record(again)
    assert history.since(0) == [(2, requests[1]), (5, again)]

"""The reference for a compiled model: its source graph, run with the weights that crossed the bus."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from edgetpu_driver.compiled_model import CompiledModel, Parameters
from edgetpu_driver.darwinn.output_tiles import TileGather
from edgetpu_driver.darwinn.requantisation import ACTIVATIONS, clamps
from edgetpu_driver.darwinn.wire_format import input_from_wire
from edgetpu_driver.engines.cpu_engine import CpuEngine
from edgetpu_driver.errors import EdgeTpuError, ModelUnsupportedError
from edgetpu_driver.tflite.checks.graph_checks import check_graph
from edgetpu_driver.tflite.constant_patch import replace_tensor
from edgetpu_driver.tflite.model_reader import ABSENT, Subgraph
from edgetpu_driver.tflite.tensor import TensorSpec
from edgetpu_driver.virtual.simulated_timing import compute_cycles
from edgetpu_driver.weights.compiler_layout import layout_in
from edgetpu_driver.weights.network_weights import NetworkWeights
from edgetpu_driver.weights.packed_layout import parameters_of, with_parameters
from edgetpu_driver.weights.parameter_layout import LayerWeights, ParameterLayout
from edgetpu_driver.weights.replaceable_weights import select_tensor, weight_tensors
from edgetpu_driver.weights.sidecar_files import SidecarFiles
from edgetpu_driver.weights.weight_locations import WeightLocation, WeightLocations


class _Engine(Protocol):
    def run(self, inputs: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]: ...


class ReferenceModel:
    """A compiled model and its source graph, which defines what the program computes.

    If the layout of the parameters is known (weights.packed_layout, weights.compiler_layout, the sections of
    weights.section_search, or locations listed in a sidecar), the weights are those that crossed the bus.
    Otherwise the graph's weights represent the file's own parameters. A graph with another calibration than
    the compiled file, such as a public one of BodyPix, is computed in the file's steps.
    """

    def __init__(
        self,
        compiled: CompiledModel,
        source: bytes,
        make_engine: Callable[[bytes], CpuEngine] = CpuEngine,
    ) -> None:
        """make_engine: makes the engine that computes the graph.

        Raises ModelUnsupportedError unless inputs and outputs of the two correspond: tensors of the graph by
        name or, if the names are not the graph's, its inputs and outputs one to one, in order.
        """
        source = compiled.source_part(source)
        self._model = check_graph(source)
        graph = self._model.subgraphs[0]
        inputs, outputs = graph.input_specs, graph.output_specs
        _check_same("input", compiled.inputs, inputs)
        _check_same("output", compiled.outputs, outputs)
        self.cycles = compute_cycles(graph)
        """Cycles of the chip's main clock for one inference."""
        self._source = source
        self._lock = threading.Lock()
        self._make_cpu_engine = make_engine
        self._cpu_engine: CpuEngine | None = None
        self._own = _parameters(compiled)
        self._packed = parameters_of(source) == b"".join(self._own)
        self._layout = None if self._packed else self._known_layout(compiled)
        unknown = not self._packed and self._layout is None
        self._locations = self._listed_locations(compiled) if unknown else ()
        self._compiled = compiled
        self._network: NetworkWeights | None = None
        self._inputs = list(zip(inputs, compiled.input_layers, strict=True))
        self._outputs = [
            (spec, TileGather(layer)) for spec, layer in zip(outputs, compiled.output_layers, strict=True)
        ]
        self._engines: dict[tuple[bytes, bytes], _Engine | None] = {}

    def computes_as(self, other: ReferenceModel) -> bool:
        """Whether it is the same model, registered again."""
        listed = self._locations or other._locations
        return not listed and (self._source, self._own) == (other._source, other._own)

    def is_of(self, compiled: CompiledModel) -> bool:
        """Whether it has the parameters of that model."""
        return self._own == _parameters(compiled)

    def rest(self) -> None:
        """End the process of the engine, if there is one; the next evaluation makes another engine."""
        with self._lock:
            self._engines.clear()
            engine, self._cpu_engine = self._cpu_engine, None
        if engine is not None:
            engine.close()

    def evaluate(
        self, inputs: Mapping[str, bytearray], cached: bytes, streamed: bytes
    ) -> dict[str, bytes] | None:
        """Compute output layers, as the chip sends them, from input layers as received.

        None if the parameters belong to another model.
        """
        arrays: dict[str, NDArray[Any]] = {}
        for spec, layer in self._inputs:
            wire = np.frombuffer(inputs[layer.name], np.uint8)
            arrays[spec.name] = input_from_wire(layer, wire).view(spec.dtype).reshape(spec.shape)
        with self._lock:  # sticks that share a library each have their own parameters
            engine = self._engine(cached, streamed)
            if engine is None:
                return None
            results = engine.run(arrays)
        return {
            gather.layer.name: gather.scatter(results[spec.name]).tobytes() for spec, gather in self._outputs
        }

    def _engine(self, cached: bytes, streamed: bytes) -> _Engine | None:
        key = (cached, streamed)
        if key not in self._engines:
            self._engines.clear()  # only one set of parameters is in use at a time
            self._engines[key] = self._make_engine(cached, streamed)
        return self._engines[key]

    def _make_engine(self, cached: bytes, streamed: bytes) -> _Engine | None:
        if self._packed:
            return self._engine_for(with_parameters(self._source, cached or streamed))
        if self._layout is not None:
            try:
                decoded = self._layout.decode(Parameters(cached, streamed))
            except EdgeTpuError:
                return None  # meaningless bytes
            return self._engine_of(self._layout, decoded)
        if self._locations:
            return self._engine_of_locations(cached, streamed)
        own_cached, own_streamed = self._own
        # Outputs may leave before the last parameters arrive.
        streamed += own_streamed[len(streamed) :]
        if cached == own_cached and streamed == own_streamed:
            return self._engine_for(self._source)
        if self._network is None:
            self._network = NetworkWeights(self._compiled, self._source)
        graph = self._network.graph_with(Parameters(cached, streamed))
        return None if graph is None else self._engine_for(graph)

    def _engine_for(self, graph: bytes) -> _Engine:
        """The engine that runs the source graph, with the constants of this copy."""
        if self._cpu_engine is None:
            self._cpu_engine = self._make_cpu_engine(graph)
        else:
            self._cpu_engine.replace_graph(graph)
        return self._cpu_engine

    def _engine_of(self, layout: ParameterLayout, decoded: ParameterLayout) -> _Engine | None:
        for ours, theirs in zip(layout.layers, decoded.layers, strict=True):
            if theirs.multipliers is None or ours.multipliers is None:
                continue
            if not np.array_equal(theirs.multipliers, ours.multipliers):
                return _dense(self._model.subgraphs[0], theirs)
        tensors = self._model.subgraphs[0].tensors
        graph = self._source
        for layer in decoded.layers:
            graph = replace_tensor(graph, tensors[layer.tensor].name, layer.weights)
        return self._engine_for(graph)

    def _engine_of_locations(self, cached: bytes, streamed: bytes) -> _Engine | None:
        """The graph with the weights at the listed locations, provided nothing else differs."""
        blobs = [blob.copy() for blob in Parameters(cached, streamed).arrays]
        own = Parameters(*self._own).arrays
        if [blob.size for blob in blobs] != [blob.size for blob in own]:
            return None
        graph = self._source
        for location in self._locations:
            section = location.section_of(blobs[location.streamed])
            weights = location.layout.decode(section)
            graph = replace_tensor(graph, location.tensor.name, weights)
            location.layout.encode(
                location.layout.decode(location.section_of(own[location.streamed])), section
            )
        unchanged = all(np.array_equal(*pair) for pair in zip(blobs, own, strict=True))
        return self._engine_for(graph) if unchanged else None

    def _listed_locations(self, compiled: CompiledModel) -> tuple[WeightLocation, ...]:
        """The weight locations listed in a sidecar file, by the tensor of the graph."""
        try:
            sidecars = replace(SidecarFiles.next_to(compiled.path), graph=b"")
            (location,) = WeightLocations(compiled, sidecars).known
            tensor = select_tensor(weight_tensors(self._model), "")
        except (EdgeTpuError, ValueError):
            return ()
        return (replace(location, tensor=tensor),) if tensor.shape == location.tensor.shape else ()

    def _known_layout(self, compiled: CompiledModel) -> ParameterLayout | None:
        """The layout of the parameters, if it is known and consistent with the file."""
        try:
            layout = layout_in(compiled, self._model)
            layout.decode(Parameters(*self._own))
        except EdgeTpuError:
            return None
        return layout


@dataclass(frozen=True, eq=False)
class _Dense:
    """A Dense layer with other multipliers than the graph's, in the chip's own arithmetic.

    output[r] = clip(round(clip(m[r] * (sum_c(w[r, c] * (x[c] - zero point of x)) + bias[r])))
                     + zero point of the output)
    """

    weights: NDArray[np.float64]
    """In float64, so that sums stay exact."""
    multipliers: NDArray[np.float32]
    bias: NDArray[np.int32]
    limits: tuple[float, float]
    """The clamps, which include an activation."""
    source: TensorSpec
    result: TensorSpec

    def run(self, inputs: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        values = inputs[self.source.name].reshape(-1).astype(np.float64) - self.source.zero_point
        steps = np.clip(self.multipliers * (self.weights @ values + self.bias), *self.limits)
        ends = np.iinfo(self.result.dtype)
        outputs = np.clip(np.rint(steps) + self.result.zero_point, ends.min, ends.max)
        return {self.result.name: outputs.astype(self.result.dtype).reshape(self.result.shape)}


def _dense(graph: Subgraph, layer: LayerWeights) -> _Dense | None:
    """The only layer of a graph with these weights and multipliers; None for an unknown activation."""
    assert layer.multipliers is not None
    (source,), (result,) = graph.input_specs, graph.output_specs
    operator = next(each for each in graph.operators if each.inputs[1:2] == (layer.tensor,))
    if operator.activation not in ACTIVATIONS:
        return None
    biases = [graph.tensors[index].data for index in operator.inputs[2:] if index != ABSENT]
    unsigned = result.zero_point - np.iinfo(result.dtype).min
    return _Dense(
        layer.weights.astype(np.float64),
        layer.multipliers,
        np.frombuffer(biases[0], np.int32) if biases else np.zeros(len(layer.weights), np.int32),
        clamps(result.scale, unsigned, ACTIVATIONS[operator.activation]),
        source,
        result,
    )


def _parameters(compiled: CompiledModel) -> tuple[bytes, bytes]:
    """The parameters in a model's file: cached and streamed."""
    cached = compiled.caching.parameters if compiled.caching else b""
    return bytes(cached), bytes(compiled.execution.parameters)


def _check_same(kind: str, compiled: Sequence[TensorSpec], source: Sequence[TensorSpec]) -> None:
    expected = [(spec.dtype, int(np.prod(spec.shape))) for spec in compiled]
    if expected != [(spec.dtype, int(np.prod(spec.shape))) for spec in source]:
        raise ModelUnsupportedError(
            f"expected a source graph with the {kind}s {', '.join(map(str, compiled))};"
            f" it has {', '.join(map(str, source))}"
        )

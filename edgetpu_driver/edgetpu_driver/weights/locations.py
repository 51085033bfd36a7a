"""Where a compiled model keeps the weights whose values can be replaced.

A place counts as known when one of these says so:

- the plain graph the model was compiled from: laid out as edgetpu_compiler or the virtual packer does, its
  weights are byte for byte the model's own;
- the model alone, if it is one Dense layer: the blob has its size and form, and its headers give the scales;
- a sidecar file that lists the offsets of a convolution's weights, or gives the scale of a colour filter.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgetpu_driver.compiled_model import CompiledModel
from edgetpu_driver.darwinn.parameters.channelwise import RoutingLayout
from edgetpu_driver.darwinn.parameters.dense import DenseLayout, requantisation_multipliers
from edgetpu_driver.darwinn.parameters.scattered import ScatteredLayout
from edgetpu_driver.darwinn.parameters.section import Section
from edgetpu_driver.darwinn.parameters.single_output import convolution_layout
from edgetpu_driver.errors import EdgeTpuError, InputError, ModelFormatError, ModelUnsupportedError
from edgetpu_driver.tensor import TensorSpec
from edgetpu_driver.tflite.model_reader import Model, Subgraph, parse_model
from edgetpu_driver.weights.compiler_layout import ParameterBlobs, ParameterLayout, parameter_layout
from edgetpu_driver.weights.packed_layout import parameters_of, weight_offsets
from edgetpu_driver.weights.quantisation import WeightTensor, weight_tensors

_SAME_MULTIPLIER = 3e-7  # relative; two bits of float32
_COLOUR_ROUTING = RoutingLayout(16)
_COLOUR_BYTES = {64: 132_416, 128: 1_344}
"""Cached parameter bytes of colour trackers, by the side of their image."""


@dataclass(frozen=True)
class SidecarFiles:
    """The files beside a compiled model that say more of it."""

    graph: bytes = b""
    """The plain graph it was compiled from; empty where there is none."""
    sidecar: Mapping[str, Any] | None = None

    @classmethod
    def beside(cls, path: Path | None) -> SidecarFiles:
        """Those of x_edgetpu.tflite: x.tflite and x_edgetpu.json."""
        if path is None:
            return cls()
        graph = path.with_name(f"{path.stem.removesuffix('_edgetpu')}.tflite")
        try:
            data = graph.read_bytes() if graph != path and graph.is_file() else b""
            text = path.with_suffix(".json").read_text() if path.with_suffix(".json").is_file() else "null"
            content = json.loads(text)
        except (OSError, ValueError) as error:
            raise ModelFormatError(f"cannot read what lies beside {path.name}: {error}") from None
        return cls(data, content if isinstance(content, dict) else None)


@dataclass(frozen=True, eq=False)
class WeightPlace:
    """One weight tensor of a compiled model and where it is kept."""

    tensor: WeightTensor
    section: Section
    start: int
    """First byte of the section in its blob."""
    streamed: bool = False
    """Whether that blob is the one sent with every inference, not the cached one."""
    requantisation: tuple[float, float] | None = None
    """Scales of the layer's input and output, where its section holds a multiplier for every row."""

    def section_of(self, blob: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """The view of a blob in which the weights are."""
        return blob[self.start : self.start + self.section.size]

    def encode_scales(self, scales: NDArray[np.float32], section: NDArray[np.uint8]) -> None:
        """Write the multipliers that go with the weights' scales; InputError where they get too large."""
        assert self.requantisation is not None
        assert isinstance(self.section, DenseLayout)
        source, result = self.requantisation
        with np.errstate(over="ignore"):
            multipliers = requantisation_multipliers(source, scales, result)
        self.section.encode_multipliers(multipliers, section)


def weight_places(model: CompiledModel, sidecars: SidecarFiles) -> tuple[WeightPlace, ...]:
    """Every weight tensor whose place is known; ModelUnsupportedError if there is none."""
    for places in (
        _from_graph(model, sidecars.graph) if sidecars.graph else (),
        _dense(model),
        _from_sidecar(model, sidecars.sidecar or {}),
    ):
        if places:
            return places
    raise ModelUnsupportedError(
        f"it is not known where '{model.name}' keeps its weights: expected a Dense model, the graph it was "
        "compiled from beside it with a layout that is known, or a sidecar with the offsets of its weights"
    )


def _blobs(model: CompiledModel) -> ParameterBlobs:
    cached = model.caching.parameters if model.caching else b""
    return ParameterBlobs(bytes(cached), bytes(model.execution.parameters))


def _from_graph(model: CompiledModel, data: bytes) -> tuple[WeightPlace, ...]:
    graph = parse_model(data)
    tensors = {tensor.name: tensor for tensor in weight_tensors(graph)}
    if not _corresponds(model, graph.subgraphs[0]):
        return ()
    layout = _compiler_layout(graph)
    blobs = _blobs(model)
    if layout is not None:
        return _layers(layout, graph.subgraphs[0], tensors) if _encodes(layout, blobs) else ()
    plain = parameters_of(data)
    if plain != blobs.caching + blobs.execution or not plain:
        return ()
    return tuple(
        WeightPlace(
            tensors[name],
            ScatteredLayout(tensors[name].shape, slice(None), prod(tensors[name].shape)),
            start,
            streamed=not blobs.caching,
        )
        for name, start in weight_offsets(data).items()
        if name in tensors
    )


def _encodes(layout: ParameterLayout, blobs: ParameterBlobs) -> bool:
    """Whether the blobs are of this layout and hold its weights; multipliers may differ in their last bit."""
    if layout.encode() == blobs:
        return True
    try:
        found = layout.decode(blobs).multipliers
    except ModelFormatError:
        return False
    same = layout.with_multipliers(found).encode() == blobs
    return same and all(
        np.allclose(found[layer.tensor], layer.multipliers, rtol=_SAME_MULTIPLIER, atol=0)
        for layer, _, _ in layout.layers()
        if layer.multipliers is not None
    )


def _corresponds(model: CompiledModel, graph: Subgraph) -> bool:
    """Whether inputs and outputs are the same, down to their scales."""

    def forms(specs: tuple[TensorSpec, ...]) -> list[tuple[Any, ...]]:
        return [(spec.dtype, prod(spec.shape), spec.scale, spec.zero_point) for spec in specs]

    same_inputs = forms(model.inputs) == forms(graph.input_specs)
    return same_inputs and forms(model.outputs) == forms(graph.output_specs)


def _compiler_layout(graph: Model) -> ParameterLayout | None:
    try:
        return parameter_layout(graph)
    except ModelUnsupportedError:
        return None


def _layers(
    layout: ParameterLayout, graph: Subgraph, tensors: Mapping[str, WeightTensor]
) -> tuple[WeightPlace, ...]:
    users = {operator.inputs[1]: operator for operator in graph.operators if len(operator.inputs) > 1}
    places = []
    for layer, start, streamed in layout.layers():
        tensor = tensors.get(graph.tensors[layer.tensor].name)
        if tensor is None:
            continue
        requantisation = None
        if layer.multipliers is not None:
            operator = users[layer.tensor]
            source, result = (
                graph.tensors[index].spec.scale for index in (operator.inputs[0], operator.outputs[0])
            )
            requantisation = source, result
        places.append(WeightPlace(tensor, layer.section, start, streamed, requantisation))
    return tuple(places)


def _dense(model: CompiledModel) -> tuple[WeightPlace, ...]:
    """The matrix of a model that is one Dense layer, with the scales that its headers hold."""
    blob = np.frombuffer(_blobs(model).caching, np.uint8)
    if len(model.inputs) != 1 or len(model.outputs) != 1 or len(model.execution.parameters):
        return ()
    (source,), (result,) = model.inputs, model.outputs
    try:
        layout = DenseLayout(prod(result.shape), prod(source.shape))
        layout.decode(blob)
        multipliers = layout.decode_multipliers(blob)
    except EdgeTpuError:
        return ()
    if not (source.scale > 0 and result.scale > 0 and np.all(multipliers > 0)):
        return ()
    scales = (multipliers * (result.scale / source.scale)).astype(np.float32)
    tensor = WeightTensor("weights", "FULLY_CONNECTED", layout.shape, scales, is_pure_matmul=True)
    return (WeightPlace(tensor, layout, 0, requantisation=(source.scale, result.scale)),)


def _from_sidecar(model: CompiledModel, sidecar: Mapping[str, Any]) -> tuple[WeightPlace, ...]:
    try:
        if "conv_weight_offsets" in sidecar:
            return (_listed(model, sidecar),)
        if "color_weight_scale" in sidecar:
            return _colour(model, float(sidecar["color_weight_scale"]))
    except (KeyError, TypeError, ValueError) as error:
        raise ModelUnsupportedError(f"the sidecar of '{model.name}' cannot be used: {error}") from None
    return ()


def _listed(model: CompiledModel, sidecar: Mapping[str, Any]) -> WeightPlace:
    shape = (1, *(int(sidecar[key]) for key in ("kernel_height", "kernel_width", "channels")))
    blob = str(sidecar["conv_weight_blob"])
    scale = float(sidecar["conv_weight_scale"])
    if blob not in ("pc_params", "eo_params") or not scale > 0 or int(sidecar["conv_weight_zero_point"]):
        raise InputError("expected weights in pc_params or eo_params with a scale and zero point 0")
    streamed = blob == "eo_params"
    blobs = _blobs(model)
    data = np.frombuffer(blobs.execution if streamed else blobs.caching, np.uint8)
    offsets = np.asarray(sidecar["conv_weight_offsets"], np.intp)
    layout = ScatteredLayout(shape, offsets, data.size)
    _check_form(shape, offsets, data)
    return WeightPlace(_kernel(shape, scale), layout, 0, streamed)


def _check_form(shape: tuple[int, ...], offsets: NDArray[np.intp], data: NDArray[np.uint8]) -> None:
    """InputError where offsets are those of a layout that is known, and the parameters not of its form."""
    try:
        known = convolution_layout(*shape[1:])
    except ModelUnsupportedError:
        return  # nothing but the offsets is known
    if np.array_equal(known.weight_offsets.ravel(), offsets):
        try:
            known.decode(data[: known.size])
        except ModelFormatError as error:
            raise InputError(f"it is of another model than these parameters: {error}") from None


def _colour(model: CompiledModel, scale: float) -> tuple[WeightPlace, ...]:
    """The 1x1 filter of a colour tracker, which comes first and is followed by rows that never change."""
    shape = model.inputs[0].shape
    blob = np.frombuffer(_blobs(model).caching, np.uint8)
    side = shape[1] if len(shape) == 4 and shape[1:] == (shape[1], shape[1], 3) else 0
    layout = convolution_layout(1, 1, 3)
    if len(model.inputs) != 1 or _COLOUR_BYTES.get(side) != blob.size or not scale > 0:
        return ()
    try:
        layout.decode(blob[: layout.size])
        _COLOUR_ROUTING.check(blob[layout.size : layout.size + _COLOUR_ROUTING.size])
    except ModelFormatError:
        return ()
    return (WeightPlace(_kernel(layout.shape, scale), layout, 0),)


def _kernel(shape: tuple[int, ...], scale: float) -> WeightTensor:
    return WeightTensor("weights", "CONV_2D", shape, np.array([scale], np.float32))

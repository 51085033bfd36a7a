"""Where a compiled model keeps the weights whose values can be replaced.

A location counts as known if one of these tells it:

- the plain graph the model was compiled from, if its weights, laid out as edgetpu_compiler or the virtual
  packer does, are byte for byte the model's own;
- the model alone, if it is Dense: its parameters have the size and form of one matrix, and their headers
  give the scales;
- a sidecar file with the byte offsets of a convolution's weights, or the scale of a colour filter.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgetpu_driver.compiled_model import CompiledModel
from edgetpu_driver.darwinn.parameters.channelwise import RoutingLayout
from edgetpu_driver.darwinn.parameters.dense import DenseLayout, PaddedDenseLayout
from edgetpu_driver.darwinn.parameters.scattered import ScatteredLayout
from edgetpu_driver.darwinn.parameters.section_codec import Section
from edgetpu_driver.darwinn.parameters.single_output import convolution_layout
from edgetpu_driver.darwinn.requantisation import multipliers
from edgetpu_driver.errors import InputError, ModelFormatError, ModelUnsupportedError
from edgetpu_driver.tflite.model_reader import Model, Subgraph, parse_model
from edgetpu_driver.tflite.tensor import TensorSpec
from edgetpu_driver.weights.compiler_layout import layout_in
from edgetpu_driver.weights.dense_layer import clamps_outputs, dense_layout
from edgetpu_driver.weights.packed_layout import parameters_of, weight_offsets
from edgetpu_driver.weights.parameter_layout import ParameterLayout
from edgetpu_driver.weights.sidecar_files import SidecarFiles
from edgetpu_driver.weights.weight_tensors import WeightTensor, weight_tensors

_COLOUR_ROUTING = RoutingLayout(16)
_COLOUR_BYTES = {64: 132_416, 128: 1_344}
"""Cached parameter bytes of colour trackers, by the side of their image in px."""


@dataclass(frozen=True, eq=False)
class WeightLocation:
    """One weight tensor of a compiled model and where its parameters keep it."""

    tensor: WeightTensor
    section: Section
    offset: int
    """Byte offset of the section in the cached or streamed parameters."""
    streamed: bool = False
    """Whether the section is in the streamed parameters instead of the cached ones."""
    requantisation: tuple[float, float] | None = None
    """Scales of the layer's input and output, if its section holds a multiplier for every row."""

    def section_of(self, parameters: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """The view of parameter bytes that holds the section."""
        return parameters[self.offset : self.offset + self.section.size]

    def encode_scales(self, scales: NDArray[np.float32], section: NDArray[np.uint8]) -> None:
        """Write the multipliers for the scales of the weights; InputError if they overflow float32."""
        assert self.requantisation is not None
        assert isinstance(self.section, DenseLayout)
        source, result = self.requantisation
        with np.errstate(over="ignore"):
            of_rows = multipliers(source, scales, result)
        self.section.encode_multipliers(of_rows, section)


def weight_locations(model: CompiledModel, sidecars: SidecarFiles) -> tuple[WeightLocation, ...]:
    """Every weight tensor whose location is known; ModelUnsupportedError if there is none."""
    for locations in (
        _from_graph(model, sidecars.graph) if sidecars.graph else (),
        _dense(model),
        _from_sidecar(model, sidecars.sidecar or {}),
    ):
        if locations:
            return locations
    raise ModelUnsupportedError(
        f"it is not known where '{model.name}' keeps its weights: expected a Dense model, the graph it was "
        "compiled from beside it with a layout that is known, or a sidecar with the offsets of its weights"
    )


def _from_graph(model: CompiledModel, data: bytes) -> tuple[WeightLocation, ...]:
    graph = parse_model(data)
    tensors = {tensor.name: tensor for tensor in weight_tensors(graph)}
    if not _corresponds(model, graph.subgraphs[0]):
        return ()
    layout = _layout_in(model, graph)
    if layout is not None:
        same = layout.encode() == model.parameters
        return _layers(layout, graph.subgraphs[0], tensors) if same else ()
    packed = parameters_of(data)
    if not packed or packed != b"".join((model.parameters.cached, model.parameters.streamed)):
        return ()
    return tuple(
        WeightLocation(
            tensors[name],
            ScatteredLayout(tensors[name].shape, slice(None), prod(tensors[name].shape)),
            start,
            streamed=not model.parameters.cached,
        )
        for name, start in weight_offsets(data).items()
        if name in tensors
    )


def _corresponds(model: CompiledModel, graph: Subgraph) -> bool:
    """Whether inputs and outputs agree in dtype, size, scale and zero point."""

    def forms(specs: tuple[TensorSpec, ...]) -> list[tuple[Any, ...]]:
        return [(spec.dtype, prod(spec.shape), spec.scale, spec.zero_point) for spec in specs]

    same_inputs = forms(model.inputs) == forms(graph.input_specs)
    return same_inputs and forms(model.outputs) == forms(graph.output_specs)


def _layout_in(model: CompiledModel, graph: Model) -> ParameterLayout | None:
    try:
        return layout_in(model, graph)
    except ModelUnsupportedError:
        return None


def _layers(
    layout: ParameterLayout, graph: Subgraph, tensors: Mapping[str, WeightTensor]
) -> tuple[WeightLocation, ...]:
    users = {operator.inputs[1]: operator for operator in graph.operators if len(operator.inputs) > 1}
    locations = []
    for layer, offset, streamed in layout.offsets():
        tensor = tensors.get(graph.tensors[layer.tensor].name)
        if tensor is None:
            continue
        requantisation = None
        if layer.multipliers is not None and not _has_bias_columns(layer.section):
            operator = users[layer.tensor]
            source, result = (
                graph.tensors[index].spec.scale for index in (operator.inputs[0], operator.outputs[0])
            )
            requantisation = source, result
        locations.append(WeightLocation(tensor, layer.section, offset, streamed, requantisation))
    return tuple(locations)


def _has_bias_columns(section: Section) -> bool:
    """Whether a matrix has a bias in the unit of its rows, which other scales would change."""
    return isinstance(section, PaddedDenseLayout) and section.has_bias


def _dense(model: CompiledModel) -> tuple[WeightLocation, ...]:
    """The matrix of a Dense model, with the scales that its headers hold."""
    layout = dense_layout(model)
    if layout is None:
        return ()
    (source,), (result,) = model.inputs, model.outputs
    if not (source.scale > 0 and result.scale > 0):
        return ()
    of_rows = layout.decode_multipliers(np.frombuffer(model.parameters.cached, np.uint8))
    scales = (of_rows * (result.scale / source.scale)).astype(np.float32)
    biased = _has_bias_columns(layout)
    pure = not biased and not clamps_outputs(model)
    tensor = WeightTensor("weights", "FULLY_CONNECTED", layout.shape, scales, is_pure_matmul=pure)
    requantisation = None if biased else (source.scale, result.scale)
    return (WeightLocation(tensor, layout, 0, requantisation=requantisation),)


def _from_sidecar(model: CompiledModel, sidecar: Mapping[str, Any]) -> tuple[WeightLocation, ...]:
    try:
        if "conv_weight_offsets" in sidecar:
            return (_listed(model, sidecar),)
        if "color_weight_scale" in sidecar:
            return _colour(model, float(sidecar["color_weight_scale"]))
    except (KeyError, TypeError, ValueError) as error:
        raise ModelUnsupportedError(f"the sidecar of '{model.name}' cannot be used: {error}") from None
    return ()


def _listed(model: CompiledModel, sidecar: Mapping[str, Any]) -> WeightLocation:
    shape = (1, *(int(sidecar[key]) for key in ("kernel_height", "kernel_width", "channels")))
    blob = str(sidecar["conv_weight_blob"])
    scale = float(sidecar["conv_weight_scale"])
    if blob not in ("pc_params", "eo_params") or not scale > 0 or int(sidecar["conv_weight_zero_point"]):
        raise InputError("expected weights in pc_params or eo_params with a scale and zero point 0")
    streamed = blob == "eo_params"
    data = np.frombuffer(model.parameters.streamed if streamed else model.parameters.cached, np.uint8)
    offsets = np.asarray(sidecar["conv_weight_offsets"], np.intp)
    layout = ScatteredLayout(shape, offsets, data.size)
    _check_form(shape, offsets, data)
    return WeightLocation(_kernel(shape, scale), layout, 0, streamed)


def _check_form(shape: tuple[int, ...], offsets: NDArray[np.intp], data: NDArray[np.uint8]) -> None:
    """InputError if the offsets are those of a known layout and the parameters are not of its form."""
    try:
        known = convolution_layout(*shape[1:])
    except ModelUnsupportedError:
        return  # only the offsets are known
    if np.array_equal(known.weight_offsets.ravel(), offsets):
        try:
            known.decode(data[: known.size])
        except ModelFormatError as error:
            raise InputError(f"it is of another model than these parameters: {error}") from None


def _colour(model: CompiledModel, scale: float) -> tuple[WeightLocation, ...]:
    """The 1x1 filter of a colour tracker: the first section, followed by rows that never change."""
    shape = model.inputs[0].shape
    blob = np.frombuffer(model.parameters.cached, np.uint8)
    side = shape[1] if len(shape) == 4 and shape[1:] == (shape[1], shape[1], 3) else 0
    layout = convolution_layout(1, 1, 3)
    if len(model.inputs) != 1 or _COLOUR_BYTES.get(side) != blob.size or not scale > 0:
        return ()
    try:
        layout.decode(blob[: layout.size])
        _COLOUR_ROUTING.check(blob[layout.size : layout.size + _COLOUR_ROUTING.size])
    except ModelFormatError:
        return ()
    return (WeightLocation(_kernel(layout.shape, scale), layout, 0),)


def _kernel(shape: tuple[int, ...], scale: float) -> WeightTensor:
    return WeightTensor("weights", "CONV_2D", shape, np.array([scale], np.float32))

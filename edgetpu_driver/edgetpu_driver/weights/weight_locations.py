"""Finds the weights of a compiled model whose values can be replaced.

A location counts as known if it follows from one of these:

- the plain graph the model was compiled from, for each layer whose section, in the layout of
  edgetpu_compiler or of the virtual packer, is byte for byte in the model's parameters;
- the model alone, if it is Dense: its parameters have the size and form of one matrix, and their headers
  give the scales;
- a sidecar file with the byte offsets of a convolution's weights, or the scale of a colour filter.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgetpu_driver.compiled_model import DENSE_COMPILER, CompiledModel
from edgetpu_driver.darwinn.parameters.dense_layout import PaddedDenseLayout
from edgetpu_driver.darwinn.parameters.layer_layout import LayerLayout, convolution_layout
from edgetpu_driver.darwinn.parameters.routing_layout import RoutingLayout
from edgetpu_driver.darwinn.parameters.scattered_layout import ScatteredLayout
from edgetpu_driver.darwinn.parameters.section_codec import WeightLayout
from edgetpu_driver.darwinn.requantisation import multipliers
from edgetpu_driver.errors import InputError, ModelFormatError, ModelUnsupportedError
from edgetpu_driver.tflite.model_reader import ABSENT, Model, Subgraph, parse_model
from edgetpu_driver.tflite.tensor import TensorSpec
from edgetpu_driver.weights.dense_model_weights import clamps_outputs, dense_layout
from edgetpu_driver.weights.dense_program_plan import plan_dense_program
from edgetpu_driver.weights.packed_layout import parameters_of, weight_offsets
from edgetpu_driver.weights.parameter_layout import ParameterLayout
from edgetpu_driver.weights.replaceable_weights import WeightTensor, select_tensor, weight_tensors
from edgetpu_driver.weights.section_search import locate_sections
from edgetpu_driver.weights.sidecar_files import SidecarFiles

NOT_IN_PART = "the part of the model that the Edge TPU runs has no such tensor"
"""The reason for refusing a tensor of the graph that belongs to another part or to the CPU."""
_BIAS_BYTES = 4
"""Length of an int32."""
_COLOUR_ROUTING = RoutingLayout(16)
_COLOUR_BYTES = {64: 132_416, 128: 1_344}
"""Cached parameter bytes of colour trackers, by the side of their image in px."""


@dataclass(frozen=True, eq=False)
class WeightLocation:
    """One weight tensor of a compiled model and its place in the parameters."""

    tensor: WeightTensor
    layout: WeightLayout
    offset: int
    """Byte offset of the section in the cached or streamed parameters."""
    streamed: bool = False
    """Whether the section is in the streamed parameters instead of the cached ones."""
    requantisation: tuple[float, float] | None = None
    """Scales of the layer's input and output, if its section holds a multiplier for every row."""

    def section_of(self, parameters: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """The view of parameter bytes that holds the section."""
        return parameters[self.offset : self.offset + self.layout.size]

    def encode_scales(self, scales: NDArray[np.float32], section: NDArray[np.uint8]) -> None:
        """Write the multipliers for the scales of the weights; InputError if they overflow float32."""
        assert self.requantisation is not None
        assert isinstance(self.layout, LayerLayout)
        source, result = self.requantisation
        with np.errstate(over="ignore"):
            of_rows = multipliers(source, scales, result)
        self.layout.encode_multipliers(of_rows, section)


class WeightLocations:
    """The weight tensors of a model and their locations, searched once, when they are first needed.

    The engines of one model share an object: there may be hundreds, one for each tile of a matrix. All
    members but `holds_for` raise ModelUnsupportedError if no location is known. Errors are not kept: a
    missing file may be there later.
    """

    def __init__(
        self, model: CompiledModel, sidecars: SidecarFiles | Callable[[], SidecarFiles] | None = None
    ) -> None:
        """sidecars: or a function that reads them when needed; by default, the files next to the model."""
        self._model = model
        self._sidecars = sidecars or partial(SidecarFiles.next_to, model.path)

    @property
    def known(self) -> tuple[WeightLocation, ...]:
        """The tensors whose locations are known."""
        return self._found[0]

    @property
    def refused(self) -> Mapping[str, str]:
        """Names of weight tensors of the graph that cannot be replaced, and the reason."""
        return self._found[1]

    def select(self, tensor: str, model: str) -> WeightLocation:
        """The location of the tensor of that name; for "" see `select_tensor`.

        model: its name, for messages. Raises ModelUnsupportedError, with the reason, for a tensor that is
        refused, and what `select_tensor` raises.
        """
        if tensor in self.refused:
            raise ModelUnsupportedError(f"cannot replace '{tensor}' of '{model}': {self.refused[tensor]}")
        chosen = select_tensor([each.tensor for each in self.known], tensor)
        return next(each for each in self.known if each.tensor is chosen)

    def holds_for(self, model: CompiledModel) -> bool:
        """Whether another model, such as a co-compiled copy, has the same parameters."""
        return model.parameters == self._model.parameters

    @cached_property
    def _found(self) -> tuple[tuple[WeightLocation, ...], Mapping[str, str]]:
        sidecars = self._sidecars
        return search(self._model, sidecars if isinstance(sidecars, SidecarFiles) else sidecars())


def search(
    model: CompiledModel, sidecars: SidecarFiles
) -> tuple[tuple[WeightLocation, ...], Mapping[str, str]]:
    """The known locations, and the reasons why others are refused; see WeightLocations."""
    refused: dict[str, str] = {}
    found = _from_graph(model, sidecars.graph, refused) if sidecars.graph else ()
    found = found or _dense(model) or _from_sidecar(model, sidecars.sidecar or {})
    if found:
        return found, refused
    raise ModelUnsupportedError(
        f"it is not known where '{model.name}' keeps its weights: expected a Dense model, the graph it was "
        "compiled from next to it with a layout that is known, or a sidecar with the offsets of its weights"
    )


def _from_graph(model: CompiledModel, data: bytes, refused: dict[str, str]) -> tuple[WeightLocation, ...]:
    """The locations known from a graph; adds the reasons for refusing others to `refused`."""
    if model.compiler == DENSE_COMPILER:
        return _of_dense_program(model, parse_model(data))
    part = model.source_part(data)
    graph = parse_model(part)
    tensors = {tensor.name: tensor for tensor in weight_tensors(graph)}
    packed = parameters_of(part)
    if packed and packed == b"".join((model.parameters.cached, model.parameters.streamed)):
        found = _packed(model, part, tensors)
    else:
        found = _compiled(model, part, tensors, refused)
    for tensor in weight_tensors(parse_model(data)):
        if tensor.name not in tensors:
            refused[tensor.name] = NOT_IN_PART
    return found


def _packed(
    model: CompiledModel, graph: bytes, tensors: Mapping[str, WeightTensor]
) -> tuple[WeightLocation, ...]:
    """The locations to which the virtual packer writes weights and biases."""
    parameters = model.parameters
    size = len(parameters.cached or parameters.streamed)
    offsets = weight_offsets(graph)
    locations = []
    for tensor in tensors.values():
        start = offsets[tensor.name]
        bias = offsets.get(tensor.bias, -1)
        layout = ScatteredLayout(
            tensor.shape,
            slice(start, start + prod(tensor.shape)),
            size,
            dtype=tensor.dtype.type,
            bias=slice(bias, bias + _BIAS_BYTES * tensor.scales.size) if bias >= 0 else None,
        )
        locations.append(WeightLocation(tensor, layout, 0, streamed=not parameters.cached))
    return tuple(locations)


def _compiled(
    model: CompiledModel, graph: bytes, tensors: Mapping[str, WeightTensor], refused: dict[str, str]
) -> tuple[WeightLocation, ...]:
    """The locations to which edgetpu_compiler wrote weights and biases."""
    sections = locate_sections(model, graph)
    locations = []
    for placed in sections.placed:
        section = placed.section
        tensor = tensors.get(section.name)
        if tensor is None or section.tensor == ABSENT:
            continue
        layout = section.weight_layout
        if placed.ambiguous:
            refused[section.name] = "the parameters contain its values more than once"
            continue
        if placed.own_scales:
            refused[section.name] = "the file was compiled with other scales than the graph's"
            continue
        if not layout.has_bias:
            tensor = replace(tensor, bias="", bias_scales=None)
        operator = sections.graph.operators[section.operator]
        ends = (sections.graph.tensors[each[0]].spec.scale for each in (operator.inputs, operator.outputs))
        rescalable = tensor.has_row_scales and layout.header.multipliers
        requantisation = (next(ends), next(ends)) if rescalable else None
        locations.append(WeightLocation(tensor, layout, placed.offset, placed.streamed, requantisation))
    refused |= {each.name: each.reason for each in sections.missing}
    return tuple(locations)


def _of_dense_program(model: CompiledModel, graph: Model) -> tuple[WeightLocation, ...]:
    """Locations in a generated program, which may be for a larger matrix than the graph's."""
    if not _corresponds(model, graph.subgraphs[0]):
        return ()
    try:
        layout = plan_dense_program(graph).layout
    except ModelUnsupportedError:
        return ()
    if layout.encode() != model.parameters:
        return ()
    return _layers(layout, graph.subgraphs[0], {each.name: each for each in weight_tensors(graph)})


def _corresponds(model: CompiledModel, graph: Subgraph) -> bool:
    """Whether inputs and outputs agree in dtype, size, scale and zero point."""

    def forms(specs: tuple[TensorSpec, ...]) -> list[tuple[Any, ...]]:
        return [(spec.dtype, prod(spec.shape), spec.scale, spec.zero_point) for spec in specs]

    same_inputs = forms(model.inputs) == forms(graph.input_specs)
    return same_inputs and forms(model.outputs) == forms(graph.output_specs)


def _layers(
    layout: ParameterLayout, graph: Subgraph, tensors: Mapping[str, WeightTensor]
) -> tuple[WeightLocation, ...]:
    users = {operator.inputs[1]: operator for operator in graph.operators if len(operator.inputs) > 1}
    locations = []
    for layer, offset, streamed in layout.offsets():
        tensor = tensors.get(graph.tensors[layer.tensor].name)
        if tensor is None:
            continue
        tensor = replace(tensor, bias="", bias_scales=None)  # these sections have no space for one
        requantisation = None
        if layer.multipliers is not None and not _has_bias_columns(layer.layout):
            operator = users[layer.tensor]
            source, result = (
                graph.tensors[index].spec.scale for index in (operator.inputs[0], operator.outputs[0])
            )
            requantisation = source, result
        locations.append(WeightLocation(tensor, layer.layout, offset, streamed, requantisation))
    return tuple(locations)


def _has_bias_columns(layout: WeightLayout) -> bool:
    """Whether a matrix has a bias in steps of its rows, which other scales would change."""
    return isinstance(layout, PaddedDenseLayout) and layout.has_bias_columns


def _dense(model: CompiledModel) -> tuple[WeightLocation, ...]:
    """The matrix of a Dense model, with the scales from its headers."""
    layout = dense_layout(model)
    if layout is None:
        return ()
    (source,), (result,) = model.inputs, model.outputs
    if not (source.scale > 0 and result.scale > 0):
        return ()
    of_rows = layout.decode_multipliers(np.frombuffer(model.parameters.cached, np.uint8))
    with np.errstate(over="ignore", under="ignore"):
        scales = (of_rows * np.float64(result.scale / source.scale)).astype(np.float32)
    if not np.all((scales > 0) & np.isfinite(scales)):
        return ()
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
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise ModelUnsupportedError(f"the sidecar of '{model.name}' cannot be used: {error}") from None
    return ()


def _listed(model: CompiledModel, sidecar: Mapping[str, Any]) -> WeightLocation:
    shape = (1, *(int(sidecar[key]) for key in ("kernel_height", "kernel_width", "channels")))
    blob = str(sidecar["conv_weight_blob"])
    scale = float(sidecar["conv_weight_scale"])
    zero_point = int(sidecar["conv_weight_zero_point"])
    known_blob = blob in ("pc_params", "eo_params")
    if not known_blob or not 0 < scale < np.inf or zero_point:
        raise InputError(
            "expected weights in pc_params or eo_params with a scale above 0 and zero point 0; got "
            f"'{blob}', scale {scale:g} and zero point {zero_point}"
        )
    streamed = blob == "eo_params"
    data = model.parameters.arrays[streamed]
    offsets = np.asarray(sidecar["conv_weight_offsets"], np.intp)
    layout = ScatteredLayout(shape, offsets, data.size)
    _check_form(shape, offsets, data)
    return WeightLocation(_kernel(shape, scale), layout, 0, streamed)


def _check_form(shape: tuple[int, ...], offsets: NDArray[np.intp], data: NDArray[np.uint8]) -> None:
    """Raise InputError if the offsets are those of a known layout but the parameters do not have its form."""
    try:
        known = convolution_layout(shape)
    except ModelUnsupportedError:
        return  # only the offsets are known
    if np.array_equal(known.weight_offsets.ravel(), offsets):
        try:
            known.decode(data[: known.size])
        except ModelFormatError as error:
            raise InputError(f"it belongs to another model than these parameters: {error}") from None


def _colour(model: CompiledModel, scale: float) -> tuple[WeightLocation, ...]:
    """The 1x1 filter of a colour tracker: the first section, followed by rows that never change."""
    shape = model.inputs[0].shape
    blob = np.frombuffer(model.parameters.cached, np.uint8)
    side = shape[1] if len(shape) == 4 and shape[1:] == (shape[1], shape[1], 3) else 0
    layout = convolution_layout((1, 1, 1, 3))
    if len(model.inputs) != 1 or _COLOUR_BYTES.get(side) != blob.size or not 0 < scale < np.inf:
        return ()
    try:
        layout.decode(blob[: layout.size])
        _COLOUR_ROUTING.check(blob[layout.size : layout.size + _COLOUR_ROUTING.size])
    except ModelFormatError:
        return ()
    return (WeightLocation(_kernel(layout.shape, scale), layout, 0),)


def _kernel(shape: tuple[int, ...], scale: float) -> WeightTensor:
    return WeightTensor("weights", "CONV_2D", shape, np.array([scale], np.float32))

"""Recognises compiled models by their sidecar files, their graphs or their tensors.

The names and keys are those of LibrEdgeTPU's templates: x_edgetpu.tflite, the graph x.tflite it was compiled
from, and x_edgetpu.json.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

from edgetpu_driver.compiled_model import CompiledModel
from edgetpu_driver.errors import ModelFormatError, ModelUnsupportedError
from edgetpu_driver.tflite.model_reader import parse_model
from edgetpu_driver.tflite.tensor import TensorSpec
from edgetpu_driver.weights.compiler_layout import parameter_layout
from edgetpu_driver.weights.dense_model_weights import dense_layout


@dataclass(frozen=True)
class Kind:
    """The kind of a model and its uses."""

    name: str
    use: str


DENSE = Kind("dense", "matrix engine: its weights can be replaced at run time")
SPOT = Kind("spot", "spot_tracker: two coordinates of the brightest spot")
SPOT_COLOR = Kind(
    "spot_color", "spot_tracker: two coordinates of a colour, which can be replaced at run time"
)
LOOMING = Kind("looming", "looming: edge energy in zones, without a time to contact")
GABOR = Kind("gabor", "optical_flow and visual_compass: Gabor features")
PATTERN = Kind("pattern", "pattern_tracker: two coordinates of a template, which can be replaced at run time")
OTHER = Kind("other", "a vision node, if one suits its outputs; ~/invoke; edgetpu run")

# Keys particular to the sidecar of each kind, and the required image description; the first match counts.
_MARKS = (
    ("matrix_size", DENSE, ("matrix_size",)),
    ("conv_weight_offsets", PATTERN, ("search_height", "search_width", "channels")),
    ("color_weight_scale", SPOT_COLOR, ("height", "width", "channels")),
    ("variant", SPOT, ("height", "width", "channels")),
    ("zones", LOOMING, ("height", "width")),
    ("gabor_weight_scale", GABOR, ("height", "width")),
)

_GRAPHS = {"FULLY_CONNECTED": DENSE, "DEPTHWISE_CONV_2D": GABOR, "RESHAPE": SPOT}
_LARGEST_ERROR = 1e-6  # between a scale in a sidecar and in the model, relative


def parse_sidecar(data: bytes) -> dict[str, Any]:
    """The content of a sidecar; ModelFormatError unless it is a JSON object."""
    try:
        content = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise ModelFormatError(f"its sidecar is not JSON: {error}") from None
    if not isinstance(content, dict):
        raise ModelFormatError(f"expected a JSON object in its sidecar; got {type(content).__name__}")
    return content


def recognise(
    inputs: tuple[TensorSpec, ...],
    outputs: tuple[TensorSpec, ...],
    *,
    compiled: CompiledModel | None,
    graph: bytes | None,
    sidecar: Mapping[str, Any] | None,
) -> Kind:
    """Recognise a model by its compiled form, its graph and its sidecar, each optional.

    Raises ModelFormatError if the sidecar contradicts the model.
    """
    if sidecar is not None:
        for mark, kind, sizes in _MARKS:
            if mark in sidecar:
                _check_sidecar(kind, [sidecar.get(size) for size in sizes], sidecar, inputs, outputs)
                if kind is PATTERN:
                    _check_offsets(sidecar, compiled)
                return kind
    if graph is not None:
        return _kind_of_graph(graph)
    return DENSE if compiled is not None and dense_layout(compiled) is not None else OTHER


def _kind_of_graph(data: bytes) -> Kind:
    """The kind of a graph whose weight locations are known."""
    model = parse_model(data)
    try:
        parameter_layout(model)
    except ModelUnsupportedError:
        return OTHER
    names = [operator.name for operator in model.subgraphs[0].operators]
    if names[1] == "CONV_2D":
        return LOOMING if "MUL" in names else SPOT_COLOR
    return _GRAPHS[names[1]]


def _check_sidecar(
    kind: Kind,
    sizes: list[Any],
    sidecar: Mapping[str, Any],
    inputs: tuple[TensorSpec, ...],
    outputs: tuple[TensorSpec, ...],
) -> None:
    if len(inputs) != 1 or len(outputs) != 1:
        raise ModelFormatError(f"its sidecar is that of a {kind.name} model, of one input and one output")
    expected = inputs[0].shape[1 : 1 + len(sizes)]
    if tuple(sizes) != expected:
        raise ModelFormatError(
            f"its sidecar states an input {sizes}, the model has {list(expected)} ({inputs[0]})"
        )
    for key, spec in (("input", inputs[0]), ("output", outputs[0])):
        scale, point = sidecar.get(f"{key}_scale"), sidecar.get(f"{key}_zero_point")
        number = isinstance(scale, int | float) and (
            spec.scale * (1 - _LARGEST_ERROR) <= scale <= spec.scale * (1 + _LARGEST_ERROR)
        )
        if not number or point != spec.zero_point:
            raise ModelFormatError(
                f"its sidecar states {key} scale {scale} and zero point {point}, the model has {spec.scale} "
                f"and {spec.zero_point}"
            )


def _check_offsets(sidecar: Mapping[str, Any], compiled: CompiledModel | None) -> None:
    """A pattern's kernel: one byte offset for every weight, all inside the named blob."""
    offsets, blob = sidecar["conv_weight_offsets"], sidecar.get("conv_weight_blob")
    stated = [sidecar.get(key) for key in ("kernel_height", "kernel_width", "channels")]
    sizes = [size for size in stated if isinstance(size, int) and size > 0]
    if len(sizes) != len(stated):
        raise ModelFormatError(f"expected a kernel size in its sidecar; got {stated}")
    valid = isinstance(offsets, list) and all(isinstance(each, int) and each >= 0 for each in offsets)
    if not valid or len(set(offsets)) != len(offsets) or len(offsets) != prod(sizes):
        raise ModelFormatError(f"its sidecar does not give {prod(sizes)} different weight offsets")
    if compiled is None:
        return
    executable = {"pc_params": compiled.caching, "eo_params": compiled.execution}.get(str(blob))
    length = len(executable.parameters) if executable is not None else 0
    if max(offsets) >= length:
        raise ModelFormatError(
            f"its sidecar gives weight offsets up to {max(offsets)} in '{blob}', which has {length} bytes"
        )

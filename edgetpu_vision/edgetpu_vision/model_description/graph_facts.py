"""The meaning of a graph's inputs and outputs, derived from the operators at its ends."""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from edgetpu_driver.errors import ModelFormatError
from edgetpu_driver.tflite import flexbuffer
from edgetpu_driver.tflite.model_reader import Operator, Subgraph, Tensor
from edgetpu_driver.tflite.quantised_inputs import quantised_inputs
from edgetpu_driver.tflite.tensor import TensorSpec
from edgetpu_vision.preprocessing.pixel_scaling import Normalisation

_POST_PROCESS = "TFLite_Detection_PostProcess"
_SHAPING = {"RESHAPE", "SQUEEZE", "EXPAND_DIMS"}
"""Operators that do not change values."""
_TRANSPARENT = _SHAPING | {"DEQUANTIZE", "QUANTIZE", "CAST", "CONCATENATION"}
"""Operators that do not change the meaning of values."""
_PROBABILITIES = {"SOFTMAX", "LOGISTIC"}


@dataclass(frozen=True, eq=False)
class PostProcess:
    """The operator TFLite_Detection_PostProcess at the end of an SSD: its anchors and options."""

    anchors: NDArray[np.float32]
    """float32[n, 4]: y and x of the centre, height and width, as parts of the image."""
    scales: tuple[float, float, float, float]
    """Divisors of y, x, height and width in box encodings."""
    classes: int
    """Number of classes without the background."""
    max_detections: int
    score_threshold: float
    """Least score of a box before non-maximum suppression."""
    iou_threshold: float
    """Intersection over union above which one of two boxes is suppressed."""
    per_class: bool
    """Whether suppression is done for each class separately, rather than once for all."""
    outputs: tuple[str, ...]
    """Names of the boxes, classes, scores and count among the outputs of the graph; "" for inner tensors."""
    entries: int = 1
    """Number of entries in the lists for each box that is counted: its best classes."""


@dataclass(frozen=True, eq=False)
class GraphFacts:
    """Facts about one graph."""

    post_process: PostProcess | None = None
    class_counts: Mapping[str, int] = field(default_factory=dict)
    """For outputs that are an argmax, the number of values that it was taken over, by name."""
    probabilities: frozenset[str] = frozenset()
    """Names of outputs that SOFTMAX or LOGISTIC computed."""
    quantised_inputs: Mapping[str, Normalisation] = field(default_factory=dict)
    """For float inputs that are quantised immediately: the normalisation that covers the range, by name."""
    dequantised_outputs: Mapping[str, TensorSpec] = field(default_factory=dict)
    """For float outputs whose values are dequantised at the end: the tensor that they come from, by name."""


def graph_facts(graph: Subgraph) -> GraphFacts:
    """Read a graph; unknown facts are left out. Raises ModelFormatError for malformed options."""
    made_by = {tensor: operator for operator in graph.operators for tensor in operator.outputs}
    output_names = dict(zip(graph.outputs, (spec.name for spec in graph.output_specs), strict=True))
    counts = {}
    probabilities = set()
    dequantised = {}
    for tensor, name in output_names.items():
        operator = _source(tensor, made_by, _SHAPING)
        if operator is not None and operator.name == "DEQUANTIZE" and operator.inputs:
            inside = graph.tensors[operator.inputs[0]].spec
            if inside.dtype.kind in "iu":
                dequantised[name] = inside
        source = _source(tensor, made_by)
        if source is None:
            continue
        if source.name in _PROBABILITIES:
            probabilities.add(name)
        if source.name == "ARG_MAX" and source.inputs and (shape := graph.tensors[source.inputs[0]].shape):
            counts[name] = shape[-1]
    input_names = dict(zip(graph.inputs, (spec.name for spec in graph.input_specs), strict=True))
    ranges = {
        input_names[index]: Normalisation.of_range(*spec.real_limits)
        for index, spec in quantised_inputs(graph).items()
    }
    return GraphFacts(
        _post_process(graph, output_names), counts, frozenset(probabilities), ranges, dequantised
    )


def _source(
    tensor: int, made_by: Mapping[int, Operator], skipped: Set[str] = _TRANSPARENT
) -> Operator | None:
    """The operator that computed the values of a tensor; those that only pass values on are skipped."""
    seen: set[int] = set()
    while tensor in made_by and tensor not in seen:
        seen.add(tensor)
        operator = made_by[tensor]
        if operator.name not in skipped or not operator.inputs:
            return operator
        tensor = operator.inputs[0]
    return None


def _post_process(graph: Subgraph, output_names: Mapping[int, str]) -> PostProcess | None:
    operator = next((each for each in graph.operators if each.custom_code == _POST_PROCESS), None)
    if operator is None or len(operator.inputs) < 3:
        return None
    anchors = graph.tensors[operator.inputs[2]]
    if len(anchors.shape) != 2 or anchors.shape[1] != 4 or not anchors.data:
        return None
    return _with_options(operator, anchors, tuple(output_names.get(each, "") for each in operator.outputs))


def _with_options(operator: Operator, anchors: Tensor, outputs: tuple[str, ...]) -> PostProcess:
    """Options as the operator's documentation names them, with its defaults for absent ones."""
    options = flexbuffer.decode(operator.custom_options)
    if not isinstance(options, Mapping):
        raise ModelFormatError(f"{_POST_PROCESS}: expected its options as a map")

    def number(key: str, default: float) -> float:
        value = options.get(key, default)
        if not isinstance(value, bool | int | float) or not np.isfinite(value):
            raise ModelFormatError(f"{_POST_PROCESS}.{key}: expected a number, got {value!r}")
        return float(value)

    scales = tuple(number(key, 1.0) for key in ("y_scale", "x_scale", "h_scale", "w_scale"))
    if min(scales) <= 0:
        raise ModelFormatError(f"{_POST_PROCESS}: expected positive scales, got {scales}")
    classes, per_class = int(number("num_classes", 0)), bool(number("use_regular_nms", 0))
    entries = 1 if per_class else min(int(number("max_classes_per_detection", 1)), classes or 1)
    return PostProcess(
        anchors=_real(anchors),
        scales=(scales[0], scales[1], scales[2], scales[3]),
        classes=classes,
        max_detections=int(number("max_detections", 0)),
        score_threshold=number("nms_score_threshold", 0.0),
        iou_threshold=number("nms_iou_threshold", 0.6),
        per_class=per_class,
        outputs=outputs,
        entries=max(entries, 1),
    )


def _real(tensor: Tensor) -> NDArray[np.float32]:
    values = np.frombuffer(tensor.data, tensor.dtype).reshape(tensor.shape)
    spec = tensor.spec
    return spec.dequantise(values) if spec.scale > 0 else values.astype(np.float32)

"""Recognises Dense models, which only multiply by one matrix, and encodes their weights."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from edgetpu_driver.darwinn.instructions.operations import split
from edgetpu_driver.darwinn.instructions.tensor_operation import read_requantisation, requantises
from edgetpu_driver.darwinn.parameters.dense_layout import DenseLayout, PaddedDenseLayout
from edgetpu_driver.darwinn.programs.dense_program import SIZES
from edgetpu_driver.errors import EdgeTpuError, ModelUnsupportedError
from edgetpu_driver.tflite.model_reader import ABSENT, NO_ACTIVATION, Operator, Subgraph

if TYPE_CHECKING:
    from edgetpu_driver.compiled_model import CompiledModel

_LARGEST_OUTPUT = 255
"""Largest uint8, the type of the chip's outputs."""
_ONE_STEP = 1.0
"""Tolerance, in output steps, for the rounding of clamps. Clamps further inside are an activation."""


def is_pure_matmul(graph: Subgraph, operator: Operator) -> bool:
    """Whether a graph only multiplies by the matrix of this operator: no bias, activation or other layer."""
    others = {each.name for each in graph.operators if each is not operator}
    biases = (graph.tensors[index] for index in operator.inputs[2:] if index != ABSENT)
    without_bias = all(bias.data and not bias.data.strip(b"\0") for bias in biases)
    matrix = operator.name == "FULLY_CONNECTED" and operator.activation == NO_ACTIVATION
    return matrix and without_bias and others <= {"QUANTIZE", "RESHAPE"}


def dense_layout(model: CompiledModel) -> DenseLayout | None:
    """The layout of a compiled Dense model's cached parameters; None for any other model.

    A model counts as Dense if it has one input and one output, no streamed parameters, and cached parameters
    of the size and form of one matrix with a positive multiplier for every row.
    """
    if len(model.inputs) != 1 or len(model.outputs) != 1 or model.parameters.streamed:
        return None
    blob = np.frombuffer(model.parameters.cached, np.uint8)
    try:
        layout = _layout(prod(model.outputs[0].shape), prod(model.inputs[0].shape), blob)
        layout.decode(blob)
        positive = np.all(layout.decode_multipliers(blob) > 0)
    except EdgeTpuError:
        return None
    return layout if positive else None


def clamps_outputs(model: CompiledModel) -> bool:
    """Whether the program of a Dense model clamps outputs within their range, which is an activation."""
    for chunk in split(bitstream.data for bitstream in model.execution.bitstreams):
        for operation in filter(requantises, chunk.operations):
            read = read_requantisation(operation)
            lowest, highest = -read.output_zero_point, _LARGEST_OUTPUT - read.output_zero_point
            if read.minimum > lowest + _ONE_STEP or read.maximum < highest - _ONE_STEP:
                return True
    return False


def _layout(rows: int, columns: int, blob: NDArray[np.uint8]) -> DenseLayout:
    """The layout of a matrix, alone or in a corner of a larger one; EdgeTpuError for other bytes."""
    size = next((size for size in SIZES if DenseLayout.bytes_of(size, size) == blob.size), 0)
    if max(rows, columns) > size or (rows, columns) == (size, size):
        return DenseLayout(rows, columns)
    further_columns = DenseLayout(size).decode(blob)[:rows, columns:]
    return PaddedDenseLayout(rows, columns, size, further_columns)


def dense_parameters(model: CompiledModel, weights: NDArray[Any]) -> bytes:
    """The cached parameter bytes of a Dense model with other weights, at the scales it was compiled with.

    weights: int8[outputs, inputs]. Raises InputError for another dtype or shape, ModelUnsupportedError for a
    model that is not Dense.
    """
    layout = dense_layout(model)
    if layout is None:
        raise ModelUnsupportedError(
            f"expected a Dense model to take a weight matrix; the {len(model.parameters.cached)} cached "
            f"parameter bytes of '{model.name}' are not those of one matrix"
        )
    blob = np.frombuffer(model.parameters.cached, np.uint8).copy()
    layout.encode(weights, blob)
    return blob.tobytes()

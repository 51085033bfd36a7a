"""The inputs of real numbers that a graph quantises at once."""

from __future__ import annotations

import numpy as np

from edgetpu_driver.tflite.model_reader import Subgraph
from edgetpu_driver.tflite.tensor import TensorSpec


def quantised_inputs(graph: Subgraph) -> dict[int, TensorSpec]:
    """What each float32 input is quantised to that the graph quantises to 8 bits and uses for nothing else.

    The keys are indices into the graph's tensors. Converters choose the quantisation of an input such that
    its range is that of the data, e.g. -1..1 for pixels that were scaled so.
    """
    found: dict[int, TensorSpec] = {}
    for index, spec in zip(graph.inputs, graph.input_specs, strict=True):
        users = [operator for operator in graph.operators if index in operator.inputs]
        if spec.dtype != np.float32 or [user.name for user in users] != ["QUANTIZE"] or not users[0].outputs:
            continue
        target = graph.tensors[users[0].outputs[0]].spec
        if target.scale > 0 and target.dtype in (np.uint8, np.int8):
            found[index] = target
    return found

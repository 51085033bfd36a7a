"""Finds float inputs that a graph quantises immediately."""

from __future__ import annotations

import numpy as np

from edgetpu_driver.tflite.model_reader import Subgraph
from edgetpu_driver.tflite.tensor import TensorSpec


def quantised_inputs(graph: Subgraph) -> dict[int, TensorSpec]:
    """The 8-bit tensor that each float32 input is quantised to, for inputs that the graph only quantises.

    Keys are tensor indices. Converters choose the quantisation so that it covers the range of the data, e.g.
    -1..1 for scaled pixels.
    """
    found: dict[int, TensorSpec] = {}
    for index, spec in zip(graph.inputs, graph.input_specs, strict=True):
        users = [graph.operators[user] for user in graph.users.get(index, ())]
        if spec.dtype != np.float32 or [user.name for user in users] != ["QUANTIZE"] or not users[0].outputs:
            continue
        target = graph.tensors[users[0].outputs[0]].spec
        if target.scale > 0 and target.dtype in (np.uint8, np.int8):
            found[index] = target
    return found

"""Recognises the models that can be heads of a joint graph, and reads a head's results from its outputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgetpu_driver.errors import EdgeTpuError, ModelUnsupportedError
from edgetpu_driver.files.compiled_file_names import is_compiled, plain_stem
from edgetpu_driver.tflite.model_reader import parse_model
from edgetpu_driver.tflite.tensor import TensorSpec
from edgetpu_driver.toolchain.graph_catalogue import catalogue
from edgetpu_driver.toolchain.graph_family import build_graph, draft_graph, head_prefix
from edgetpu_driver.weights.replaceable_weights import select_tensor, weight_tensors

_SIGN_BIT = np.uint8(0x80)
"""XOR mask that turns an int8 value into the uint8 value that is larger by 128."""


def head_name(path: Path, data: bytes, inputs: Sequence[TensorSpec], outputs: Sequence[TensorSpec]) -> str:
    """Name of the catalogue's graph that a model file is, or was compiled from; "" if it cannot be a head.

    A graph must equal the catalogue's byte for byte. A compiled model is recognised by its file name, and
    must have the same inputs and outputs. inputs, outputs: of the model.
    """
    if not _takes_image(inputs):
        return ""
    try:
        name = plain_stem(path) if is_compiled(path) else parse_model(data).description
        graph = draft_graph(name, catalogue().families).build()
        if not is_compiled(path):
            return name if graph == data else ""
        built = parse_model(graph).subgraphs[0]
    except EdgeTpuError:
        return ""
    return name if (built.input_specs, built.output_specs) == (tuple(inputs), tuple(outputs)) else ""


def build_joint_graph(name: str) -> bytes:
    """Build the joint graph of that name; ModelNameError if there is none."""
    return build_graph(name, catalogue().families)


def weight_tensor_name(head: str, tensor: str) -> str:
    """Name of a weight tensor of the catalogue's graph `head`; tensor: see WeightRequest.

    Raises InputError and ModelUnsupportedError.
    """
    graph = draft_graph(head, catalogue().families).build()
    return select_tensor(weight_tensors(parse_model(graph)), tensor).name


@dataclass(frozen=True)
class HeadOutputs:
    """The outputs of one head among those of a joint model."""

    names: tuple[tuple[str, str], ...]
    """The name of each output of the head and its name in the joint model."""
    unsigned: frozenset[str]
    """Outputs that are int8 in the joint model and uint8 in the head's own graph."""

    @classmethod
    def of(cls, number: int, head: Sequence[TensorSpec], joint: Sequence[TensorSpec]) -> HeadOutputs:
        """Find the outputs of a head by its number; ModelUnsupportedError if the model does not have them."""
        given = {spec.name: spec for spec in joint}
        names, unsigned = [], set()
        for spec in head:
            found = given.get(f"{head_prefix(number)}{spec.name}")
            if found is None:  # left int8
                found = next((each for each in joint if _signed(each, spec, head_prefix(number))), None)
                unsigned.add(spec.name)
            if found is None or (spec.name not in unsigned and found != replace(spec, name=found.name)):
                raise ModelUnsupportedError(f"expected the output {spec} of head {number}; got {list(given)}")
            names.append((spec.name, found.name))
        return cls(tuple(names), frozenset(unsigned))

    def read(self, outputs: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        """The head's outputs by name, read-only, equal to those of the head's own graph."""
        results = {}
        for name, joint in self.names:
            array = outputs[joint]
            if name in self.unsigned:
                array = array.view(np.uint8) ^ _SIGN_BIT
            array.flags.writeable = False
            results[name] = array
        return results


def _takes_image(inputs: Sequence[TensorSpec]) -> bool:
    if len(inputs) != 1:
        return False
    shape = inputs[0].shape
    return inputs[0].dtype == np.uint8 and len(shape) == 4 and shape[0] == 1 and shape[3] in (1, 3)


def _signed(output: TensorSpec, wanted: TensorSpec, prefix: str) -> bool:
    """Whether an output is the wanted one before its last step, the conversion to uint8."""
    signed = replace(wanted, name=output.name, dtype=np.dtype(np.int8), zero_point=wanted.zero_point - 128)
    return output.name.startswith(prefix) and wanted.dtype == np.uint8 and output == signed

"""Writes the weights in the parameters of a compiled file into its graph."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgetpu_driver.compiled_model import CompiledModel, Parameters
from edgetpu_driver.errors import EdgeTpuError, InputError
from edgetpu_driver.tflite.constant_patch import replace_scales, replace_tensors
from edgetpu_driver.tflite.model_reader import ABSENT
from edgetpu_driver.weights.network_layers import encode_layer
from edgetpu_driver.weights.section_search import PlacedSection, locate_sections


class NetworkWeights:
    """Reads the weights and biases of every layer whose section is found."""

    def __init__(self, compiled: CompiledModel, graph: bytes) -> None:
        """graph: a file with the part of the source graph that the chip runs."""
        self._graph = graph
        self._own = compiled.parameters.arrays
        self._sections = locate_sections(compiled, graph)

    def graph_with(self, parameters: Parameters) -> bytes | None:
        """The graph with the weights and biases from other parameters of the same model.

        None if anything but weights and biases differs from the file's own parameters, or if a constant
        differs that tensors share.
        """
        blobs = parameters.arrays
        if [blob.size for blob in blobs] != [blob.size for blob in self._own]:
            return None
        values: dict[str, NDArray[Any]] = {}
        scales: dict[str, NDArray[Any]] = {}
        rest = [blob.copy() for blob in blobs]
        for placed in self._sections.placed:
            own, new = (placed.of(each[placed.streamed]) for each in (self._own, blobs))
            if np.array_equal(own, new):
                continue
            if placed.section.tensor == ABSENT or placed.ambiguous:
                return None
            try:
                values |= self._values(placed, new)
                scales |= self._scales(placed, own, new)
            except EdgeTpuError:
                return None  # meaningless bytes
            placed.of(rest[placed.streamed])[:] = own
        if not all(np.array_equal(*pair) for pair in zip(rest, self._own, strict=True)):
            return None
        try:
            graph = replace_tensors(self._graph, values)
            for name, of_channels in scales.items():
                graph = replace_scales(graph, name, of_channels)
        except InputError:
            return None  # tensors share the bytes or the name
        return graph

    def _values(self, placed: PlacedSection, data: NDArray[np.uint8]) -> dict[str, NDArray[Any]]:
        """The weights and the bias in one section, by tensor; EdgeTpuError if it holds anything else."""
        section = placed.section
        layout, tensors = section.weight_layout, self._sections.graph.tensors
        weights = layout.decode(data)
        bias = layout.decode_bias(data) if layout.has_bias else None
        of_channels = layout.decode_multipliers(data) if layout.header.multipliers else None
        if not np.array_equal(encode_layer(section, weights, bias, of_channels), data):
            raise EdgeTpuError(f"the section of '{section.name}' has other values than weights and a bias")
        values = {tensors[section.tensor].name: weights}
        # Layers with equal biases may share their bytes; these cannot be replaced, but here they need not be.
        if bias is not None and bias.tobytes() != tensors[section.bias].data:
            values[tensors[section.bias].name] = bias
        return values

    def _scales(
        self, placed: PlacedSection, own: NDArray[np.uint8], new: NDArray[np.uint8]
    ) -> dict[str, NDArray[Any]]:
        """The scales of the weights and the bias, by tensor, if the multipliers in a section have changed."""
        layout, tensors = placed.section.weight_layout, self._sections.graph.tensors
        if not layout.header.multipliers:
            return {}
        before, after = (layout.decode_multipliers(each).astype(np.float64) for each in (own, new))
        if np.array_equal(before, after):
            return {}
        if not np.all(after > 0) or not np.all(np.isfinite(after)):
            raise EdgeTpuError(f"'{placed.section.name}' has multipliers that are not positive")
        changed = [tensors[placed.section.tensor]]
        if layout.has_bias:
            changed.append(tensors[placed.section.bias])
        return {
            each.name: each.quantization.scales * (after / before)
            for each in changed
            if each.quantization.scales.size == after.size
        }

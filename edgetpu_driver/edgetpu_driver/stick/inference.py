"""The execution program of a compiled model prepared for the link: arrays in, arrays out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgetpu_driver.compiled_model import CompiledModel
from edgetpu_driver.darwinn.output_tiles import TileGather
from edgetpu_driver.darwinn.wire_format import input_to_wire
from edgetpu_driver.stick.dma_transfers import PreparedExecutable
from edgetpu_driver.usb.link import UsbLink


class PreparedInference:
    """The transfers of one inference of a compiled model, with their buffers. Not thread-safe.

    streamed: used instead of the model's own streamed parameters. Raises ModelUnsupportedError if the DMA
    hints are incomplete.
    """

    def __init__(self, model: CompiledModel, streamed: bytes | None = None) -> None:
        execution = model.execution if streamed is None else replace(model.execution, parameters=streamed)
        self._executable = PreparedExecutable(execution)
        self._inputs = [
            (spec.name, layer, self._executable.inputs[layer.name])
            for spec, layer in zip(model.inputs, model.input_layers, strict=True)
        ]
        for _, layer, wire in self._inputs if model.input_padding else ():
            start = layer.element_count * layer.data_type.size
            padding = np.frombuffer(model.input_padding, np.uint8)
            wire[start : start + padding.size] = padding
        self._outputs = [
            (spec, TileGather(layer), self._executable.outputs[layer.name])
            for spec, layer in zip(model.outputs, model.output_layers, strict=True)
        ]

    def run(self, link: UsbLink, inputs: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        """Run once with inputs that have been checked; the cached parameters must be resident."""
        for name, layer, wire in self._inputs:
            input_to_wire(layer, inputs[name], wire)
        self._executable.run(link)
        return {
            spec.name: gather.gather(wire).view(spec.dtype).reshape(spec.shape)
            for spec, gather, wire in self._outputs
        }

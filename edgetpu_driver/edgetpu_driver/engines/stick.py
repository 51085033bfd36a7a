"""The engine that runs a compiled model on an Edge TPU."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgetpu_driver.compiled_model import CompiledModel
from edgetpu_driver.errors import ModelUnsupportedError
from edgetpu_driver.stick.edge_tpu import EdgeTpu
from edgetpu_driver.tensor import TensorSpec
from edgetpu_driver.weights.quantisation import WeightQuantiser, rescaled_rows
from edgetpu_driver.weights.replacement import WeightRequest, WeightResult
from edgetpu_driver.weights.sidecar_files import SidecarFiles
from edgetpu_driver.weights.weight_locations import WeightLocation, weight_locations
from edgetpu_driver.weights.weight_tensors import WeightTensor, select_tensor


class StickEngine:
    """One compiled model on one stick; several engines may share a stick, each with weights of its own."""

    def __init__(self, tpu: EdgeTpu, model: CompiledModel, sidecars: SidecarFiles | None = None) -> None:
        """sidecars: what is known besides the model; by default the files beside the one it was read from.

        ModelUnsupportedError when the model cannot run over USB.
        """
        self.model = replace(model)  # an identity of its own: others may set other weights
        tpu.prepare(self.model)
        self._tpu = tpu
        self._sidecars = sidecars
        self._lock = threading.Lock()
        self._version = 0
        self._locations: tuple[WeightLocation, ...] | None = None
        self._quantisers: dict[str, WeightQuantiser] = {}
        self._cached = np.frombuffer(model.parameters.cached, np.uint8)
        self._streamed = np.frombuffer(model.parameters.streamed, np.uint8)

    @property
    def inputs(self) -> tuple[TensorSpec, ...]:
        """The model's inputs, in the model's order."""
        return self.model.inputs

    @property
    def outputs(self) -> tuple[TensorSpec, ...]:
        """The model's outputs, in the model's order."""
        return self.model.outputs

    @property
    def resident(self) -> bool:
        """Whether the parameters are in the stick's memory now."""
        return self._tpu.is_resident(self.model)

    def run(self, inputs: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        """Run the model once; see EdgeTpu.run."""
        return self._tpu.run(self.model, inputs)

    def weight_tensor(self, tensor: str = "") -> WeightTensor:
        """The tensor whose values `set_weights` replaces; see SwappableEngine."""
        return self._location(tensor).tensor

    def set_weights(self, request: WeightRequest) -> WeightResult:
        """Replace weights in the parameters and upload them to the stick; see SwappableEngine."""
        with self._lock:
            location = self._location(request.tensor)
            tensor = location.tensor
            if request.rescale_rows and location.requantisation is None:
                raise ModelUnsupportedError(
                    f"expected a matrix with a multiplier for every row to rescale; '{tensor.name}' of "
                    f"'{self.model.name}' has none"
                )
            quantiser = self._quantiser(tensor)
            result = quantiser.quantise(request)
            scales = rescaled_rows(tensor, result, request.row_gains) if request.rescale_rows else None
            self._put(location, quantiser.values, scales)
            self._version += 1
            return replace(result, version=self._version)

    def forget(self) -> None:
        """Give back what the stick keeps for this engine; it must not be used any more."""
        self._tpu.forget(self.model)

    def _quantiser(self, tensor: WeightTensor) -> WeightQuantiser:
        if tensor.name not in self._quantisers:
            self._quantisers[tensor.name] = WeightQuantiser(tensor)
        return self._quantisers[tensor.name]

    def _put(
        self, location: WeightLocation, values: NDArray[np.int8], scales: NDArray[np.float32] | None
    ) -> None:
        """Upload the parameters with these values at the location; scales: None for the model's own."""
        parameters = (self._streamed if location.streamed else self._cached).copy()
        section = location.section_of(parameters)
        if scales is None:  # an earlier request may have rescaled
            own = self.model.parameters.streamed if location.streamed else self.model.parameters.cached
            section[:] = location.section_of(np.frombuffer(own, np.uint8))
        location.section.encode(values, section)
        if scales is not None:
            location.encode_scales(scales, section)
        if location.streamed:
            self._tpu.upload(self.model, streamed=parameters.data)
            self._streamed = parameters
        else:
            self._tpu.upload(self.model, parameters.data)
            self._cached = parameters

    def _location(self, tensor: str) -> WeightLocation:
        if self._locations is None:
            sidecars = self._sidecars or SidecarFiles.beside(self.model.path)
            self._locations = weight_locations(self.model, sidecars)
        chosen = select_tensor([location.tensor for location in self._locations], tensor)
        return next(location for location in self._locations if location.tensor is chosen)

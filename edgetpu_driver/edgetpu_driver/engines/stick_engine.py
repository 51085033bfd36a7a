"""The engine that runs a compiled model on an Edge TPU."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgetpu_driver.compiled_model import CompiledModel
from edgetpu_driver.errors import ModelUnsupportedError
from edgetpu_driver.stick.edge_tpu import EdgeTpu
from edgetpu_driver.tflite.tensor import TensorSpec
from edgetpu_driver.weights.quantisation import WeightQuantiser, rescaled_rows
from edgetpu_driver.weights.replaceable_weights import WeightTensor
from edgetpu_driver.weights.sidecar_files import SidecarFiles
from edgetpu_driver.weights.weight_locations import WeightLocation, WeightLocations
from edgetpu_driver.weights.weight_request import WeightRequest, WeightResult


class StickEngine:
    """A compiled model on a stick; `set_weights` replaces its weights by real values.

    Several engines may share a stick, or a model; each has its own weights.
    """

    def __init__(
        self,
        tpu: EdgeTpu,
        model: CompiledModel,
        sidecars: SidecarFiles | None = None,
        on_close: Callable[[], None] | None = None,
        locations: WeightLocations | None = None,
    ) -> None:
        """sidecars: give the location of the weights; by default, the files next to the model.

        on_close: called once when the engine is closed. locations: of the weights, in place of the sidecars,
        to share with other engines. ModelUnsupportedError if the model cannot run over USB.
        """
        self.model = model
        self._loaded = tpu.load(model)
        self._locations = locations or WeightLocations(model, sidecars)
        self._on_close = on_close
        self._lock = threading.RLock()
        self._version = 0
        self._quantisers: dict[str, WeightQuantiser] = {}
        self._cached, self._streamed = model.parameters.arrays

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
        return self._loaded.resident

    @property
    def uploads(self) -> int:
        """Uploads of the parameters so far, including uploads of new weights."""
        return self._loaded.uploads

    @property
    def device_duration(self) -> float:
        """See LoadedModel.device_duration."""
        return self._loaded.device_duration

    def run(self, inputs: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        """Run the model once; see LoadedModel.run."""
        return self._loaded.run(inputs)

    def reset(self) -> None:
        """Does nothing: programs keep no state between runs."""

    def weight_tensor(self, tensor: str = "") -> WeightTensor:
        """The tensor whose values `set_weights` replaces; see SwappableEngine."""
        return self._location(tensor).tensor

    def set_weights(self, request: WeightRequest) -> WeightResult:
        """Replace weights in the parameters and upload them to the stick; see SwappableEngine."""
        with self._lock:
            return self.prepare_weights(request)()

    def prepare_weights(self, request: WeightRequest) -> Callable[[], WeightResult]:
        """Quantise and encode weights; the returned function uploads them. See AttachedEngine."""
        with self._lock:
            location = self._location(request.tensor)
            tensor = location.tensor
            if request.rescale_rows and location.requantisation is None:
                raise ModelUnsupportedError(
                    f"expected a layer with a multiplier for every row to rescale; '{tensor.name}' of "
                    f"'{self.model.name}' has none"
                )
            quantiser = self._quantiser(location)
            result = quantiser.quantise(request)
            scales = rescaled_rows(tensor, result, request.row_gains) if request.rescale_rows else None
            parameters = self._parameters_with(location, quantiser, scales)
            keep_bias = partial(quantiser.keep_bias, quantiser.real_bias)
            return partial(self._upload, parameters, result, keep_bias, streamed=location.streamed)

    def close(self) -> None:
        """Release what the stick holds for this engine; harmless when called again."""
        self._loaded.close()
        on_close, self._on_close = self._on_close, None
        if on_close is not None:
            on_close()

    def _quantiser(self, location: WeightLocation) -> WeightQuantiser:
        tensor = location.tensor
        if tensor.name not in self._quantisers:
            bias = None
            if location.requantisation is not None and tensor.bias_scales is not None:
                bias = location.layout.decode_bias(self._own_section(location))
            self._quantisers[tensor.name] = WeightQuantiser(tensor, bias)
        return self._quantisers[tensor.name]

    def _own_section(self, location: WeightLocation) -> NDArray[np.uint8]:
        """The bytes at a location in the model's file."""
        return location.section_of(self.model.parameters.arrays[location.streamed])

    def _parameters_with(
        self, location: WeightLocation, quantised: WeightQuantiser, scales: NDArray[np.float32] | None
    ) -> NDArray[np.uint8]:
        """The parameters with these values at the location; only this section changes.

        scales: None for the model's own.
        """
        parameters = (self._streamed if location.streamed else self._cached).copy()
        section = location.section_of(parameters)
        if scales is None and location.requantisation is not None:  # an earlier request may have rescaled
            section[:] = self._own_section(location)
        location.layout.encode(quantised.values, section)
        if quantised.bias is not None:
            location.layout.encode_bias(quantised.bias, section)
        if scales is not None:
            location.encode_scales(scales, section)
        return parameters

    def _upload(
        self,
        parameters: NDArray[np.uint8],
        result: WeightResult,
        keep_bias: Callable[[], None],
        *,
        streamed: bool,
    ) -> WeightResult:
        with self._lock:
            if streamed:
                self._loaded.upload(streamed=parameters.data)
                self._streamed = parameters
            else:
                self._loaded.upload(parameters.data)
                self._cached = parameters
            keep_bias()
            self._version += 1
            return replace(result, version=self._version)

    def _location(self, tensor: str) -> WeightLocation:
        return self._locations.select(tensor, self.model.name)

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
from edgetpu_driver.weights.locations import SidecarFiles, WeightPlace, weight_places
from edgetpu_driver.weights.quantisation import (
    QuantisedWeights,
    WeightQuantiser,
    WeightSwap,
    WeightTensor,
    choose,
    effective_scales,
)


class StickEngine:
    """One compiled model on one stick; several engines may share a stick, each with weights of its own."""

    def __init__(self, tpu: EdgeTpu, model: CompiledModel, sidecars: SidecarFiles | None = None) -> None:
        """sidecars: what is known besides the model; by default the files beside the one it was read from.

        ModelUnsupportedError when the model cannot run over USB.
        """
        self.model = replace(model)  # an identity of its own: others may set other weights
        tpu.prepare(self.model)
        self._tpu = tpu
        self._companions = sidecars
        self._lock = threading.Lock()
        self._version = 0
        self._places: tuple[WeightPlace, ...] | None = None
        self._quantisers: dict[str, WeightQuantiser] = {}
        self._cached = np.frombuffer(model.caching.parameters if model.caching else b"", np.uint8)
        self._streamed = np.frombuffer(model.execution.parameters, np.uint8)

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
        """What `set_weights` replaces; see MatrixEngine."""
        return self._place(tensor).tensor

    def set_weights(
        self,
        weights: NDArray[np.floating[Any]],
        *,
        tensor: str = "",
        accept_clipping: bool = False,
        rescale_rows: bool = False,
        row_gains: NDArray[np.floating[Any]] | None = None,
    ) -> WeightSwap:
        """Replace weights in the parameters and put them on the stick; see MatrixEngine."""
        with self._lock:
            place = self._place(tensor)
            quantiser = self._quantiser(place.tensor)
            if rescale_rows and place.requantisation is None:
                raise ModelUnsupportedError(
                    f"expected a matrix with a multiplier for every row to rescale; '{place.tensor.name}' of "
                    f"'{self.model.name}' has none"
                )
            quantised = quantiser.quantise(
                weights,
                accept_clipping=accept_clipping,
                rescale_rows=rescale_rows,
                row_gains=row_gains,
            )
            scales = effective_scales(quantised, row_gains) if rescale_rows else None
            self._put(place, quantised, scales)
            self._version += 1
            return replace(quantised.swap, version=self._version)

    def forget(self) -> None:
        """Give back what the stick keeps for this engine; it must not be used any more."""
        self._tpu.forget(self.model)

    def _quantiser(self, tensor: WeightTensor) -> WeightQuantiser:
        if tensor.name not in self._quantisers:
            self._quantisers[tensor.name] = WeightQuantiser(tensor)
        return self._quantisers[tensor.name]

    def _put(
        self, place: WeightPlace, quantised: QuantisedWeights, scales: NDArray[np.float32] | None
    ) -> None:
        blob = (self._streamed if place.streamed else self._cached).copy()
        section = place.section_of(blob)
        if scales is None:  # an earlier swap may have rescaled
            own = self.model.execution if place.streamed else self.model.caching
            assert own is not None
            section[:] = place.section_of(np.frombuffer(own.parameters, np.uint8))
        place.section.encode(quantised.values, section)
        if scales is not None:
            place.encode_scales(scales, section)
        if place.streamed:
            self._tpu.upload(self.model, streamed=blob.data)
            self._streamed = blob
        else:
            self._tpu.upload(self.model, blob.data)
            self._cached = blob

    def _place(self, tensor: str) -> WeightPlace:
        if self._places is None:
            sidecars = self._companions or SidecarFiles.beside(self.model.path)
            self._places = weight_places(self.model, sidecars)
        chosen = choose([place.tensor for place in self._places], tensor)
        return next(place for place in self._places if place.tensor is chosen)

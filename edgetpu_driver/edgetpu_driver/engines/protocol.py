"""The protocols of engines: one model, ready to run, with named arrays in and out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from numpy.typing import NDArray

from edgetpu_driver.tflite.tensor import TensorSpec
from edgetpu_driver.weights.weight_request import WeightRequest, WeightResult

if TYPE_CHECKING:  # spares nodes that only call a driver these imports
    from edgetpu_driver.weights.replaceable_weights import WeightTensor


class Engine(Protocol):
    """One model, ready to run.

    `run` takes every input by name, in the shape and dtype of its specification, and returns every output by
    name. It raises InputError for other inputs and DeviceError if the hardware fails. It may be called from
    any thread; calls are serialised.
    """

    @property
    def inputs(self) -> tuple[TensorSpec, ...]:
        """The model's inputs, in the model's order."""
        ...

    @property
    def outputs(self) -> tuple[TensorSpec, ...]:
        """The model's outputs, in the model's order."""
        ...

    def run(self, inputs: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        """Run the model once; the arrays returned belong to the caller."""
        ...


class SwappableEngine(Engine, Protocol):
    """An engine whose model can be given other weights while it is in use."""

    def weight_tensor(self, tensor: str = "") -> WeightTensor:
        """The tensor whose values `set_weights` replaces.

        tensor: its name; for "" see WeightRequest. Raises InputError and ModelUnsupportedError.
        """
        ...

    def set_weights(self, request: WeightRequest) -> WeightResult:
        """Replace the values of one weight tensor, between two inferences.

        Raises InputError for other shapes, NaN and infinity; ClippingError for values out of range unless
        clipping is accepted; ModelUnsupportedError if the location of these weights in the model is not
        certain, or if rows to be rescaled have no separate scales; DeviceError. After an error the previous
        weights stay in effect.
        """
        ...


class AttachedEngine(SwappableEngine, Protocol):
    """An engine attached to the device of a backend."""

    def prepare_weights(self, request: WeightRequest) -> Callable[[], WeightResult]:
        """Do the part of `set_weights` that needs no device; the function returned does the rest, once.

        One swap at a time may be prepared. Raises what `set_weights` raises except for DeviceError.
        """
        ...

    def reset(self) -> None:
        """Set the state that operators keep between runs to zero; programs on a device keep none."""
        ...

    @property
    def resident(self) -> bool:
        """Whether its parameters are in the device's memory now; never waits for the device."""
        ...

    @property
    def uploads(self) -> int:
        """Uploads of its parameters to the device so far."""
        ...

    @property
    def device_duration(self) -> float:
        """Seconds that the last inference took on the device itself; NaN if that is unknown."""
        ...

    def close(self) -> None:
        """Release what the device holds for this engine; harmless when called again."""
        ...

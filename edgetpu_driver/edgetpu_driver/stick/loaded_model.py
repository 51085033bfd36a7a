"""A compiled model loaded on one stick."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgetpu_driver.compiled_model import CompiledModel
from edgetpu_driver.errors import DeviceLostError, InputError
from edgetpu_driver.stick.inference import PreparedInference
from edgetpu_driver.stick.parameter_memory import CachedParameters
from edgetpu_driver.stick.session import StickSession
from edgetpu_driver.tflite.tensor import TensorSpec, check_inputs
from edgetpu_driver.usb.link import UsbLink
from edgetpu_driver.weights.dense_model_weights import dense_parameters


class LoadedModel:
    """A compiled model on one stick, with its own parameters; made by `EdgeTpu.load`.

    Several loaded models may come from one CompiledModel. All methods may be called from any thread; calls on
    one stick are serialised. A loaded model stays usable while its stick recovers from faults, until it or
    the EdgeTpu is closed.
    """

    def __init__(self, model: CompiledModel, session: StickSession, owner: object = None) -> None:
        """owner: kept alive by this object. ModelUnsupportedError if the model cannot run over USB."""
        model.check_runnable()
        self.model = model
        self._session = session
        self._owner = owner
        self._cached = CachedParameters.of(model)
        self._inference = PreparedInference(model)
        self._closed = False
        self.uploads = 0
        """Number of uploads of its cached parameters."""
        self.device_duration = float("nan")
        """Seconds that the last run took on a simulated device, transfers included; NaN on a real one."""

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
        """Whether the cached parameters are in the chip's memory now; never waits for the device."""
        return self._session.memory.holds(self._cached)

    def run(self, inputs: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        """Run the model once, after uploading its cached parameters if they are not resident.

        inputs: every input by name, in the model's shape and dtype. Returns every output by name, in the
        model's shape and dtype; the arrays belong to the caller. Raises InputError, DeviceLostError if the
        stick is gone or this model was closed, or the DeviceError it did not recover from.
        """
        check_inputs(self.model.inputs, inputs)
        session = self._session
        clock = session.simulated_clock
        with session.lock:
            if self._closed:
                raise self._closed_error()
            if clock is None:
                outputs = session.link.attempt(self._infer, inputs)
            else:
                start = clock.monotonic()
                outputs = session.link.attempt(self._infer, inputs)
                self.device_duration = clock.monotonic() - start
            session.inferences += 1
            return outputs

    def upload(
        self,
        weights: bytes | memoryview | NDArray[np.int8] | None = None,
        *,
        streamed: bytes | memoryview | None = None,
    ) -> None:
        """Upload the cached parameters now; nothing is sent for a model without any.

        weights: replaces the cached parameters from now on; bytes of the same size and layout, or the weight
        matrix of a Dense model, int8[outputs, inputs], at the scales of the model. streamed: replaces the
        parameter bytes that are sent with every inference. After an error the previous parameters stay in
        effect. Raises InputError for another size or dtype, ModelUnsupportedError for a matrix if the model
        is not Dense, DeviceError.
        """
        with self._session.lock:
            if self._closed:
                raise self._closed_error()
            before = self._cached, self._inference
            if weights is not None:
                if isinstance(weights, np.ndarray):
                    weights = dense_parameters(self.model, weights)
                self._cached = self._cached.replaced(self.model, bytes(weights))
            try:
                if streamed is not None:
                    self._inference = PreparedInference(self.model, self._checked_streamed(streamed))
                self._session.link.attempt(self._upload)
            except BaseException:
                self._cached, self._inference = before
                raise

    def close(self) -> None:
        """Release what the stick holds for this model; harmless when called again."""
        with self._session.lock:
            self._session.memory.release(self._cached)
            self._closed = True
            self._owner = None

    def _infer(self, link: UsbLink, inputs: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        self.uploads += self._session.memory.ensure(link, self._cached)
        return self._inference.run(link, inputs)

    def _upload(self, link: UsbLink) -> None:
        self._session.memory.evict(self._cached)
        self.uploads += self._session.memory.ensure(link, self._cached)

    def _closed_error(self) -> DeviceLostError:
        return DeviceLostError(f"model '{self.model.name}' was closed; load it again")

    def _checked_streamed(self, parameters: bytes | memoryview) -> bytes:
        expected = len(self.model.execution.parameters)
        if len(parameters) != expected:
            raise InputError(f"expected {expected} streamed parameter bytes, got {len(parameters)}")
        return bytes(parameters)

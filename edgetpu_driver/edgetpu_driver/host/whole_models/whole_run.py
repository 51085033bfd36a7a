"""One request for a whole model, on its way through the model's steps."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from functools import partial
from math import inf, isnan, nan
from typing import Any

from numpy.typing import NDArray

from edgetpu_driver.engines.whole_model.model_plan import StepValues
from edgetpu_driver.errors import EdgeTpuError, unexpected
from edgetpu_driver.host.models.hosted_model import HostedModel
from edgetpu_driver.host.models.inference_result import InferenceResult
from edgetpu_driver.host.requests.request import Kind, Request

_log = logging.getLogger(__name__)


class WholeRun:
    """Runs the steps of a plan one after the other, each as a separate request.

    A step waits in the queue of the device that runs it, so steps of different requests overlap: one
    request is on a stick while another is on the next stick, and a third on the CPU. A request that has begun
    does not expire, but its deadline still determines its position in the queues.
    """

    def __init__(
        self,
        model: HostedModel,
        inputs: Mapping[str, NDArray[Any]],
        request: Request,
        submit: Callable[[Request], None],
        done: Callable[[InferenceResult | EdgeTpuError], None],
    ) -> None:
        """inputs: already checked. request: has the terms. submit: queues the request for a step, or raises.

        done: called once with the result or the error, by a thread of the host.
        """
        assert model.plan is not None
        self._model = model
        self._request = request
        self._submit = submit
        self._done = done
        self._values = StepValues(model.plan, inputs)
        self._engine_duration, self._device_duration = 0.0, nan
        self._weights_version = 0

    def start(self) -> None:
        """Begin with the first step. Raises refusals at once."""
        self._step(0)

    @property
    def age(self) -> float:
        """Seconds since the request arrived."""
        return time.monotonic() - self._request.arrived

    def _step(self, index: int) -> None:
        part, terms = self._model.parts[index], self._request
        inputs = self._values.inputs_of(index)
        self._submit(
            Request(
                part,
                Kind.INVOKE,
                lambda replica: replica.invoking(inputs, terms.reset),
                partial(self._stepped, index),
                terms.client,
                terms.priority,
                terms.arrived,
                inf if index else terms.deadline,
                due=terms.due,
                of_whole=True,
                follows=index > 0,
            )
        )

    def _stepped(self, index: int, answer: InferenceResult | EdgeTpuError) -> None:
        """Go on after a step has ended."""
        outcome: InferenceResult | EdgeTpuError | None
        try:
            outcome = self._next(index, answer)
        except EdgeTpuError as error:
            outcome = error
        except Exception as error:
            _log.exception("unexpected error in a request for model '%s'", self._model.name)
            outcome = unexpected(error)
        if outcome is not None:
            self._done(outcome)

    def _next(
        self, index: int, answer: InferenceResult | EdgeTpuError
    ) -> InferenceResult | EdgeTpuError | None:
        """The outcome after a step; None if there is another one to come."""
        if isinstance(answer, EdgeTpuError):
            return answer
        self._values.store(index, answer.outputs)
        self._engine_duration += answer.engine_duration
        self._weights_version += answer.weights_version
        if not isnan(answer.device_duration):
            before = 0.0 if isnan(self._device_duration) else self._device_duration
            self._device_duration = before + answer.device_duration
        if index + 1 < len(self._model.parts):
            self._step(index + 1)
            return None
        return InferenceResult(
            self._values.outputs(),
            engine_duration=self._engine_duration,
            device_duration=self._device_duration,
            weights_version=self._weights_version,
            model_sha256=self._model.sha256,
        )

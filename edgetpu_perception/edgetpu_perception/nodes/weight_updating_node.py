"""The base of perception nodes that replace the weights of their model between two images."""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgetpu_driver.errors import BusyError, EdgeTpuError, ExpiredError, UnavailableError
from edgetpu_driver.host.models.inference_result import InferenceResult
from edgetpu_driver.images.conversion_cache import CameraImage
from edgetpu_driver.node_kit.executor.steady_timers import create_steady_timer
from edgetpu_driver.node_kit.image_node import PreparedFrame
from edgetpu_driver.node_kit.images.image_subscriptions import SharedImage
from edgetpu_driver.node_kit.messages.error_codes import is_lasting
from edgetpu_driver.node_kit.printable_text import describe
from edgetpu_driver.weights.weight_request import WeightRequest, WeightResult
from edgetpu_perception.nodes.perception_node import PerceptionNode

PATIENCE = 10.0
"""Longest time for which a change of the weights waits for another graph to be loaded, s: ten attempts."""
_CHECK_PERIOD = 0.5
"""Seconds between two checks whether a change has waited too long: the period of the heartbeat, so that one
round of the executor serves both timers."""


class WeightState(Enum):
    """How the weights of the model on the driver relate to this node."""

    CURRENT = "the model has this node's weights; images are processed"
    LOADING = "another graph is being loaded"
    MISSING = "the model lacks this node's weights, which are being set or were refused"
    LATE = "the driver could not set this node's weights: they are sent again with the next image"
    CHANGING = "the driver is replacing the weights"


@dataclass(frozen=True, eq=False)
class _Change:
    """New weights requested by a caller."""

    request: WeightRequest
    done: Callable[[WeightResult | EdgeTpuError], None]
    until: float
    """Steady time until which it waits for another graph, s."""


class WeightUpdatingNode(PerceptionNode):
    """A perception node that replaces the weights of its model, which has a name of its own on the driver.

    Weights are replaced when no other request is under way, so every result is computed with one set of
    weights. They are set again whenever the driver has loaded the model, before any image.

    `WeightState` lists the states; `_step` sends a requested change as soon as the state and the client allow
    it.
    """

    changes_model = True

    def __init__(self, name: str, **options: Any) -> None:
        super().__init__(name, **options)
        self._weights = WeightState.CURRENT
        self._change: _Change | None = None
        """The change that was requested and is not answered yet."""
        self._refused = ""
        create_steady_timer(self, _CHECK_PERIOD, self._check_change)

    @abstractmethod
    def node_weights(self) -> NDArray[np.floating[Any]] | None:
        """Return the weights for the model that is loaded and bound now; None: those in its file."""

    def name_for(self, model: str) -> str:
        """Return a name that only this node uses."""
        return f"{self.full_name}/{model}"

    def measuring_problems(self) -> list[str]:
        """Return a problem if the model refused the weights."""
        return super().measuring_problems() + ([self._refused] if self._refused else [])

    def run_model(self, name: str) -> bool:
        """See PerceptionNode; changes wait until the graph is loaded."""
        changed = super().run_model(name)
        if changed:
            self._weights = WeightState.LOADING
        return changed

    def change_weights(
        self, weights: NDArray[np.floating[Any]], done: Callable[[WeightResult | EdgeTpuError], None]
    ) -> None:
        """Replace the model's weights as soon as no image is under way.

        `done` is called once, with the result after the driver has replaced them and before any further
        image, or with the error: UnavailableError if another graph is not loaded within PATIENCE. Raises
        BusyError while other weights are being set, and UnavailableError if they cannot be changed now.
        """
        if self._change is not None:
            raise BusyError("other weights are being set")
        problem = self._unavailable_reason()
        if problem:
            raise UnavailableError(problem)
        self._change = _Change(WeightRequest(weights), done, time.monotonic() + PATIENCE)
        self._step()

    def _unavailable_reason(self) -> str:
        """Return why weights cannot be changed now, or an empty string."""
        if self._client is None:
            return "the node is ending"
        if self._weights is WeightState.LOADING:
            return ""
        if not self._client.ready:
            return self._client.problem
        return "" if self._bound else self._problem

    def _start(self, shared: SharedImage) -> bool:
        """Begin to process an image; False while the model's weights are not those of this node."""
        if self._weights is WeightState.LATE and self._client is not None and self._client.ready:
            self._set_own_weights()
        self._step()
        current = self._change is None and self._weights in (WeightState.CURRENT, WeightState.LOADING)
        return current and super()._start(shared)

    def _on_answer(
        self, shared: SharedImage, image: CameraImage, frame: PreparedFrame, answer: InferenceResult
    ) -> None:
        super()._on_answer(shared, image, frame, answer)
        self._step()

    def _on_model(self) -> None:
        """Give a model that has just been loaded this node's weights before any image."""
        # Set before the base class resumes with the waiting image.
        self._weights = WeightState.CURRENT if self.node_weights() is None else WeightState.MISSING
        super()._on_model()
        if self.node_weights() is None or self._bound is None:
            self._step()
        else:
            self._set_own_weights()

    def _set_own_weights(self) -> None:
        weights = self.node_weights()
        if weights is not None and self._client is not None:
            sent = self._client.set_weights(WeightRequest(weights), self._on_own_weights)
            self._weights = WeightState.MISSING if sent else self._weights

    def _on_own_weights(self, result: WeightResult | EdgeTpuError) -> None:
        if not isinstance(result, EdgeTpuError):
            self._weights, self._refused = WeightState.CURRENT, ""
        elif not is_lasting(result):
            self._weights = WeightState.LATE
        if isinstance(result, EdgeTpuError) and not isinstance(result, (BusyError, ExpiredError)):
            self._report_refusal(f"model '{self.model_name}' does not take this node's weights: {result}")
        self._step()
        if self._weights is WeightState.CURRENT:
            self._gate.resume()

    def _report_refusal(self, text: str) -> None:
        """Report why the driver has not set the weights; the log gets a reason that differs from the last."""
        if text != self._refused:
            self.get_logger().error(text)
        self._refused = text

    def _step(self) -> None:
        """Send the requested change to the driver if no other request of this node is under way."""
        change, client, before = self._change, self._client, self._weights
        waits = before in (WeightState.LOADING, WeightState.CHANGING)
        if change is None or waits or client is None or client.busy:
            return

        def done(result: WeightResult | EdgeTpuError) -> None:
            if isinstance(result, EdgeTpuError):
                self._weights = before
            else:
                self._weights, self._refused = WeightState.CURRENT, ""
            self._answer_change(result)
            self._gate.resume()

        self._weights = WeightState.CHANGING
        if not client.set_weights(change.request, done):
            self._weights = before
            self._answer_change(UnavailableError(client.problem))

    def _check_change(self) -> None:
        """Answer a change that has waited too long for another graph, which may never be loaded."""
        change, client = self._change, self._client
        if change is None or client is None or self._weights is not WeightState.LOADING:
            return
        if time.monotonic() > change.until:
            self._answer_change(UnavailableError(client.problem))

    def _answer_change(self, outcome: WeightResult | EdgeTpuError) -> None:
        if self._change is not None:
            change, self._change = self._change, None
            try:
                change.done(outcome)
            except Exception as error:  # the caller waits for an answer
                change.done(error if isinstance(error, EdgeTpuError) else EdgeTpuError(describe(error)))

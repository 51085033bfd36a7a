"""What nodes share whose model has weights of their own, replaced between two images."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rclpy.task import Future

from edgetpu_driver.errors import EdgeTpuError, UnavailableError
from edgetpu_driver.host.inference_result import InferenceResult
from edgetpu_driver.weights.replacement import WeightResult
from edgetpu_perception.algorithm import Frame
from edgetpu_perception.images.conversion_cache import CameraImage
from edgetpu_perception.nodes.perception_node import PerceptionNode
from edgetpu_perception.nodes.shared_images import SharedImage


@dataclass(frozen=True, eq=False)
class _Change:
    """Other weights that somebody waits for."""

    weights: NDArray[np.float64]
    apply: Callable[[], None]
    """Called when the model has them."""
    answer: Future
    """Of a WeightResult, or the error."""


class WeightUpdatingNode(PerceptionNode):
    """An eye whose model the driver has under a name of this node's own, for weights of its own.

    Weights are set when nothing else is under way, so that every result is of one set of weights, and set
    again whenever the driver has loaded the model, before any image.
    """

    def __init__(self, name: str, **options: Any) -> None:
        super().__init__(name, **options)
        self._change: _Change | None = None
        self._sent = False
        """Whether the driver has been asked for the change."""
        self._without_weights = False
        """The model is loaded and does not have this node's weights yet."""
        self._loading = False
        """Another graph, by `run_model`, is being loaded."""
        self._refused = ""

    @abstractmethod
    def node_weights(self) -> NDArray[np.float64] | None:
        """Weights for the model that is loaded and bound now; None: those in its file."""

    def name_for(self, model: str) -> str:
        """One of this node's own."""
        return f"{self.get_fully_qualified_name().lstrip('/')}/{model}"

    def measuring_problems(self) -> list[str]:
        """Return that the model refused the weights, if so."""
        return [self._refused] if self._refused else []

    def run_model(self, name: str, graph: bytes) -> None:
        """See PerceptionNode; changes wait until it is loaded."""
        self._loading = True
        super().run_model(name, graph)

    async def change_weights(self, weights: NDArray[np.float64], apply: Callable[[], None]) -> WeightResult:
        """Replace the model's weights once no image is under way.

        `apply` is called when the driver has replaced them, before any further image. Raises the EdgeTpuError
        that kept it from doing so.
        """
        problem = self._why_not()
        if problem:
            raise UnavailableError(problem)
        answer = Future()
        self._change = _Change(weights, apply, answer)
        self._send_change()
        swap: WeightResult | EdgeTpuError = await answer
        if isinstance(swap, EdgeTpuError):
            raise swap
        return swap

    def _why_not(self) -> str:
        if self._client is None:
            return "the node is ending"
        if self._change is not None:
            return "other weights are being set"
        if self._loading:
            return ""
        if not self._client.ready:
            return self._client.problem
        return "" if self._bound else self._problem

    def _start(self, shared: SharedImage) -> bool:
        """Begin the work on an image; False while the model's weights are being replaced."""
        self._send_change()
        return self._change is None and not self._without_weights and super()._start(shared)

    def _on_answer(
        self, shared: SharedImage, image: CameraImage, frame: Frame, answer: InferenceResult
    ) -> None:
        super()._on_answer(shared, image, frame, answer)
        self._send_change()

    def _on_model(self) -> None:
        """Give a model that has just been loaded this node's weights before any image."""
        self._loading = False
        self._without_weights = self.node_weights() is not None
        super()._on_model()
        weights = self.node_weights()
        if weights is None or self._bound is None or self._client is None:
            self._send_change()
            return

        def done(swap: WeightResult | EdgeTpuError) -> None:
            if isinstance(swap, EdgeTpuError):
                self._refused = f"model '{self._model_name()}' does not take this node's weights: {swap}"
                self.get_logger().error(self._refused)
            else:
                self._without_weights, self._refused = False, ""
            self._send_change()
            self._gate.resume()

        self._client.set_weights(weights, done)

    def _send_change(self) -> None:
        """Ask the driver for the weights that are waited for, if it has nothing else to do for us."""
        change, client = self._change, self._client
        if change is None or self._sent or self._loading or client is None or client.busy:
            return

        def done(swap: WeightResult | EdgeTpuError) -> None:
            self._sent = False
            if isinstance(swap, WeightResult):
                self._without_weights, self._refused = False, ""
                change.apply()
            self._finish_change(swap)
            self._gate.resume()

        self._sent = True
        if not client.set_weights(change.weights, done):
            self._sent = False
            self._finish_change(UnavailableError(client.problem))

    def _finish_change(self, outcome: WeightResult | EdgeTpuError) -> None:
        if self._change is not None:
            change, self._change = self._change, None
            change.answer.set_result(outcome)

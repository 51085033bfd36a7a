"""The asynchronous client through which a node runs a model on the driver, across restarts of the latter."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rclpy.clock import Clock
from rclpy.clock_type import ClockType
from rclpy.node import Node

from edgetpu_driver.errors import EdgeTpuError, ModelNotFoundError, UnavailableError
from edgetpu_driver.host.inference_result import InferenceResult
from edgetpu_driver.node_kit import local_drivers
from edgetpu_driver.node_kit.driver_connection import (
    DirectTransport,
    LoadResult,
    ServiceTransport,
    Transport,
)
from edgetpu_driver.tensor import TensorSpec, check_inputs
from edgetpu_driver.weights.replacement import WeightRequest, WeightResult

CHECK_PERIOD = 0.1
"""Seconds between two looks at whether the driver is there and whether the request under way is overdue."""

RETRY_PERIOD = 1.0
"""Seconds between two attempts to load a model that the driver refused."""


class ModelClient:
    """One model on one driver, for one node.

    The client looks for the driver, has it load the model, and does so again whenever the driver lost it: a
    node above it never needs a restart. A driver node in the same process is called directly, any other one
    through its services; nothing here ever blocks on one. All calls and callbacks belong to the thread of
    the node's executor.

    model: what ~/load_model takes (a file's stem, its name or an absolute path).
    name: what the driver is to call it; one of the node's own for a node that sets weights of its own.
    driver: the driver node's name, absolute or relative to the node's namespace.
    on_ready: called each time the model has been loaded; `inputs` and `outputs` are known then.
    request_timeout: seconds after which an unanswered request counts as lost.
    """

    def __init__(
        self,
        node: Node,
        model: str,
        *,
        name: str = "",
        driver: str = "edgetpu",
        on_ready: Callable[[], None] | None = None,
        request_timeout: float = 2.0,
    ) -> None:
        self._node = node
        self._model = model
        self._name = name
        # The fully qualified name after remapping; "~" and relative names are resolved like a service's.
        self._driver = node.resolve_service_name(f"{driver}/invoke").removesuffix("/invoke")
        self._on_ready = on_ready
        self._request_timeout = request_timeout
        self._transport: Transport | None = None
        self._loaded: LoadResult | None = None
        self._fail: Callable[[EdgeTpuError], None] | None = None
        """Answers the request under way with an error."""
        self._loading = False
        # Nodes of one launch start together: a driver that comes a little later is no news.
        self._deadline = time.monotonic() + request_timeout
        self._next_load = 0.0
        self._in_doubt = False
        self.problem = "looking for the driver"
        """Why the client is not ready, or was not until the next result comes; one line, else empty."""
        # Simulated time may stand still; a lost driver is a matter of real time.
        clock = Clock(clock_type=ClockType.STEADY_TIME)
        self._timer = node.create_timer(CHECK_PERIOD, self._check, clock=clock)

    @property
    def ready(self) -> bool:
        """Whether the driver has the model loaded, as far as known."""
        return self._loaded is not None

    @property
    def target(self) -> tuple[str, str]:
        """The driver's fully qualified name, and the name it has loaded the model under, if it has."""
        return self._driver, self._loaded.name if self._loaded else ""

    @property
    def busy(self) -> bool:
        """Whether a request is under way."""
        return self._fail is not None

    @property
    def inputs(self) -> tuple[TensorSpec, ...]:
        """What the model takes; empty until it is loaded."""
        return self._loaded.inputs if self._loaded else ()

    @property
    def outputs(self) -> tuple[TensorSpec, ...]:
        """What the model gives; empty until it is loaded."""
        return self._loaded.outputs if self._loaded else ()

    def invoke(self, inputs: Mapping[str, NDArray[Any]], done: Callable[[InferenceResult], None]) -> bool:
        """Run the model once; `done` gets the outputs or the error, exactly once.

        After ModelNotFoundError and UnavailableError the client is not ready until it has loaded the model
        again: the same inputs may be sent anew from `on_ready`.

        Returns False, and never calls `done`, when a request is under way or the client is not ready. With a
        driver in the same process `done` is called before this method returns. Raises InputError when the
        arrays are not what the model takes.
        """
        if self.busy or self._loaded is None or self._transport is None:
            return False
        check_inputs(self._loaded.inputs, inputs)

        def finish(result: InferenceResult) -> None:
            self._finish(result.error)
            done(result)

        self._begin(lambda error: done(InferenceResult(error=error)))
        self._transport.invoke(self._loaded.name, self._loaded.inputs, inputs, finish)
        return True

    def set_weights(
        self,
        weights: NDArray[np.floating[Any]],
        done: Callable[[WeightResult | EdgeTpuError], None],
        *,
        tensor: str = "",
        accept_clipping: bool = False,
        rescale_rows: bool = False,
    ) -> bool:
        """Replace the values of one weight tensor; `done` gets what that did or the error, exactly once.

        See SwappableEngine.set_weights. The model should have been loaded under a name of this node's own.
        A driver that was started anew has the weights of the file: set them in every `on_ready`. Returns
        False as `invoke` does.
        """
        if self.busy or self._loaded is None or self._transport is None:
            return False

        def finish(result: WeightResult | EdgeTpuError) -> None:
            self._finish(result if isinstance(result, EdgeTpuError) else None)
            done(result)

        self._begin(done)
        request = WeightRequest(np.asarray(weights), tensor, accept_clipping, rescale_rows)
        self._transport.set_weights(self._loaded.name, request, finish)
        return True

    def close(self) -> None:
        """Stop looking for the driver; a request under way ends with an error."""
        self._node.destroy_timer(self._timer)
        self.problem = "the client is closed"
        self._give_up(self.problem)
        if self._transport is not None:
            self._transport.close()

    def _begin(self, fail: Callable[[EdgeTpuError], None]) -> None:
        """Start the clock of a request; `fail` answers it if it is given up."""
        self._fail = fail
        self._deadline = time.monotonic() + self._request_timeout

    def _finish(self, error: EdgeTpuError | None) -> None:
        """End the request under way, which the driver answered."""
        self._fail = None
        if isinstance(error, ModelNotFoundError):
            self._loaded = None
            self._say(str(error))
        elif isinstance(error, UnavailableError):
            # Loading is answered without a device too; so after a pause the next request is the test.
            self._loaded = None
            self._in_doubt = True
            self._next_load = time.monotonic() + RETRY_PERIOD
            self._say(str(error))
        elif self._in_doubt and error is None:
            self._in_doubt = False
            self._say("")

    def _check(self) -> None:
        """Find the driver, load the model, give up a request that is overdue."""
        transport = self._connect()
        now = time.monotonic()
        if not transport.available:
            if self.ready or self._loading or self.busy or now > self._deadline:
                self._give_up(f"waiting for the driver {self._driver}")
        elif self._loading or self.busy:
            if now > self._deadline:
                self._give_up(f"no answer from {self._driver} for {self._request_timeout:g} s")
        elif self._loaded is None and now >= self._next_load:
            self._loading = True
            self._deadline = now + self._request_timeout
            transport.load(self._model, self._name, self._on_loaded)

    def _connect(self) -> Transport:
        """Give the transport to use now: direct exactly while the driver lives in this process."""
        local = local_drivers.find(self._driver) is not None
        if self._transport is None or local != isinstance(self._transport, DirectTransport):
            if self._transport is not None:
                self._give_up(f"the driver {self._driver} has moved")
                self._transport.close()
            self._transport = (
                DirectTransport(self._driver) if local else ServiceTransport(self._node, self._driver)
            )
        return self._transport

    def _on_loaded(self, result: LoadResult) -> None:
        self._loading = False
        if result.error is not None:
            self._next_load = time.monotonic() + RETRY_PERIOD
            self._say(str(result.error))
            return
        self._loaded = result
        if not self._in_doubt:
            self._say("")
        if self._on_ready is not None:
            self._on_ready()

    def _give_up(self, problem: str) -> None:
        """Start over: forget what the driver had loaded, end the request under way with an error."""
        if self._transport is not None:
            self._transport.cancel()
        self._loading = False
        self._loaded = None
        self._in_doubt = False
        self._say(problem)
        fail, self._fail = self._fail, None
        if fail is not None:
            fail(UnavailableError(problem))

    def _say(self, problem: str) -> None:
        """Log a change of the problem, once."""
        if problem == self.problem:
            return
        self.problem = problem
        if problem:
            self._node.get_logger().warning(f"model '{self._model}': {problem}")
        else:
            own = f" as '{self._name}'" if self._name else ""
            self._node.get_logger().info(f"model '{self._model}' is loaded on {self._driver}{own}")

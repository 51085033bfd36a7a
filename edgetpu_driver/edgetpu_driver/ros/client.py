"""The asynchronous client through which a node runs a model on the driver, across restarts of the latter."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from numpy.typing import NDArray
from rclpy.clock import Clock
from rclpy.clock_type import ClockType
from rclpy.node import Node

from edgetpu_driver.errors import ModelNotFoundError, UnavailableError
from edgetpu_driver.ros import local_drivers
from edgetpu_driver.ros.transport import (
    DirectTransport,
    InferenceResult,
    LoadResult,
    ServiceTransport,
    Transport,
)
from edgetpu_driver.tensor import TensorSpec, check_inputs

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
    driver: the driver node's name, absolute or relative to the node's namespace.
    on_ready: called each time the model has been loaded; `inputs` and `outputs` are known then.
    request_timeout: seconds after which an unanswered request counts as lost.
    """

    def __init__(
        self,
        node: Node,
        model: str,
        *,
        driver: str = "edgetpu",
        on_ready: Callable[[], None] | None = None,
        request_timeout: float = 2.0,
    ) -> None:
        self._node = node
        self._model = model
        # The fully qualified name after remapping; "~" and relative names are resolved like a service's.
        self._driver = node.resolve_service_name(f"{driver}/invoke").removesuffix("/invoke")
        self._on_ready = on_ready
        self._request_timeout = request_timeout
        self._transport: Transport | None = None
        self._loaded: LoadResult | None = None
        self._done: Callable[[InferenceResult], None] | None = None
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
    def busy(self) -> bool:
        """Whether a request is under way."""
        return self._done is not None

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
        if self._done is not None or self._loaded is None or self._transport is None:
            return False
        check_inputs(self._loaded.inputs, inputs)
        self._done = done
        self._deadline = time.monotonic() + self._request_timeout
        self._transport.invoke(self._loaded.name, self._loaded.inputs, inputs, self._finish)
        return True

    def close(self) -> None:
        """Stop looking for the driver; a request under way ends with an error."""
        self._node.destroy_timer(self._timer)
        self.problem = "the client is closed"
        self._give_up(self.problem)
        if self._transport is not None:
            self._transport.close()

    def _finish(self, result: InferenceResult) -> None:
        if isinstance(result.error, ModelNotFoundError):
            self._loaded = None
            self._say(str(result.error))
        elif isinstance(result.error, UnavailableError):
            # Loading is answered without a device too; so after a pause the next request is the test.
            self._loaded = None
            self._in_doubt = True
            self._next_load = time.monotonic() + RETRY_PERIOD
            self._say(str(result.error))
        elif self._in_doubt and result.error is None:
            self._in_doubt = False
            self._say("")
        done, self._done = self._done, None
        if done is not None:
            done(result)

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
            transport.load(self._model, self._on_loaded)

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
        done, self._done = self._done, None
        if done is not None:
            done(InferenceResult(error=UnavailableError(problem)))

    def _say(self, problem: str) -> None:
        """Log a change of the problem, once."""
        if problem == self.problem:
            return
        self.problem = problem
        if problem:
            self._node.get_logger().warning(f"model '{self._model}': {problem}")
        else:
            self._node.get_logger().info(f"model '{self._model}' is loaded on {self._driver}")

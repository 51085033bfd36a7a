"""An asynchronous client for one model on the driver; it survives restarts of the driver."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any

from numpy.typing import NDArray
from rclpy.clock import Clock
from rclpy.clock_type import ClockType
from rclpy.node import Node

from edgetpu_driver.errors import EdgeTpuError, ModelNotFoundError, UnavailableError
from edgetpu_driver.host.inference_result import InferenceResult
from edgetpu_driver.node_kit import local_drivers
from edgetpu_driver.node_kit.driver_transports import (
    DirectTransport,
    LoadResult,
    ServiceTransport,
    Transport,
)
from edgetpu_driver.tensor import TensorSpec, check_inputs
from edgetpu_driver.weights.weight_request import WeightRequest, WeightResult

STEP_PERIOD = 0.1
"""Seconds between two checks whether the driver is available and whether a request is overdue."""

RETRY_PERIOD = 1.0
"""Seconds between two attempts to load a model that the driver refused."""

START_UP = 5.0
"""Seconds in which a driver without its device is usual: nodes of one launch start together."""


class ClientState(Enum):
    """What a ModelClient is doing."""

    UNLOADED = "looking for the driver, or waiting to load the model"
    LOADING = "the driver is loading the model"
    READY = "the model is loaded, no request is under way"
    BUSY = "a request is under way"


class ModelClient:
    """One model on one driver, for one node.

    The client waits for the driver and has it load the model, again whenever the driver has lost it, so a
    node never needs a restart. A driver node in the same process is called directly, any other one through
    its services; no call blocks. All calls and callbacks belong to the thread of the node's executor.

    `ClientState` lists the states; `_step`, called by a timer, makes the transitions that no answer makes.

    model: what ~/load_model takes (a file's stem, its name or an absolute path).
    name: the model's name on the driver; unique to this node if it sets weights. Empty: chosen by the driver.
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
        self._state = ClientState.UNLOADED
        self._loaded = LoadResult()
        """The model as the driver has loaded it; empty while UNLOADED or LOADING."""
        self._fail: Callable[[EdgeTpuError], None] = _ignore
        """Answers the request under way with an error, while BUSY."""
        self._unconfirmed = False
        """Whether `problem` stays until a request succeeds: that the model is loaded does not disprove it."""
        # Nodes of one launch start together: a driver that starts a little later is not worth a warning.
        self._deadline = time.monotonic() + request_timeout
        self._next_load = 0.0
        self._start_up_end = time.monotonic() + START_UP
        self._warning_due = False
        """Whether `problem` was logged without a warning, because it is usual during start-up."""
        self.problem = "looking for the driver"
        """Why no results are to be expected, one line; empty if they are."""
        # Simulated time may stand still; whether the driver answers is a matter of real time.
        clock = Clock(clock_type=ClockType.STEADY_TIME)
        self._timer = node.create_timer(STEP_PERIOD, self._step, clock=clock)

    @property
    def ready(self) -> bool:
        """Whether the driver has the model loaded, as far as known."""
        return self._state in (ClientState.READY, ClientState.BUSY)

    @property
    def target(self) -> tuple[str, str]:
        """The driver's fully qualified name, and the model's name there; empty until it is loaded."""
        return self._driver, self._loaded.name

    @property
    def busy(self) -> bool:
        """Whether a request is under way."""
        return self._state is ClientState.BUSY

    @property
    def inputs(self) -> tuple[TensorSpec, ...]:
        """What the model takes; empty until it is loaded."""
        return self._loaded.inputs

    @property
    def outputs(self) -> tuple[TensorSpec, ...]:
        """What the model gives; empty until it is loaded."""
        return self._loaded.outputs

    def invoke(self, inputs: Mapping[str, NDArray[Any]], done: Callable[[InferenceResult], None]) -> bool:
        """Run the model once; `done` gets the outputs or the error, exactly once.

        After ModelNotFoundError and UnavailableError the client is not ready until it has loaded the model
        again: the same inputs may be sent anew from `on_ready`.

        Returns False, and never calls `done`, when a request is under way or the client is not ready; `done`
        is called after it has returned True. The arrays must not change until then. Raises InputError when
        they are not what the model takes.
        """
        if self._state is not ClientState.READY or self._transport is None:
            return False
        check_inputs(self._loaded.inputs, inputs)

        def finish(result: InferenceResult) -> None:
            self._finish(result.error)
            done(result)

        self._begin(lambda error: done(InferenceResult(error=error)))
        self._transport.invoke(self._loaded.name, self._loaded.inputs, inputs, finish)
        return True

    def set_weights(
        self, request: WeightRequest, done: Callable[[WeightResult | EdgeTpuError], None]
    ) -> bool:
        """Replace the values of one weight tensor; `done` gets what that did or the error, exactly once.

        See SwappableEngine.set_weights. The model should have been loaded under a name of this node's own.
        A driver that was started anew has the weights of the file: set them in every `on_ready`. Returns
        False as `invoke` does.
        """
        if self._state is not ClientState.READY or self._transport is None:
            return False

        def finish(result: WeightResult | EdgeTpuError) -> None:
            self._finish(result if isinstance(result, EdgeTpuError) else None)
            done(result)

        self._begin(done)
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
        """Start a request; `fail` answers it if it is given up."""
        self._state, self._fail = ClientState.BUSY, fail
        self._deadline = time.monotonic() + self._request_timeout

    def _finish(self, error: EdgeTpuError | None) -> None:
        """End the request under way, which the driver has answered."""
        if isinstance(error, UnavailableError):
            # A driver without a device answers load requests too, so only a result shows that it has
            # recovered.
            self._unconfirmed = True
            self._next_load = time.monotonic() + RETRY_PERIOD
        if isinstance(error, (ModelNotFoundError, UnavailableError)):
            self._unload(str(error), usual_at_start=isinstance(error, UnavailableError))
            return
        self._state = ClientState.READY
        if error is None and self._unconfirmed:
            self._unconfirmed = False
            self._report("")

    def _step(self) -> None:
        """Find the driver, load the model, give up a request that is overdue."""
        transport = self._connect()
        now = time.monotonic()
        overdue = now > self._deadline
        idle = self._state is ClientState.UNLOADED
        if not transport.available:
            if not idle or overdue:
                self._give_up(f"waiting for the driver {self._driver}")
        elif self._state in (ClientState.LOADING, ClientState.BUSY):
            if overdue:
                self._give_up(f"no answer from {self._driver} for {self._request_timeout:g} s")
        elif idle and now >= self._next_load:
            self._state = ClientState.LOADING
            self._deadline = now + self._request_timeout
            transport.load(self._model, self._name, self._on_loaded)

    def _connect(self) -> Transport:
        """Return the transport to use now: direct exactly while the driver lives in this process."""
        local = local_drivers.find(self._driver) is not None
        if self._transport is None or local != isinstance(self._transport, DirectTransport):
            if self._transport is not None:
                self._give_up(f"the driver {self._driver} has moved")
                self._transport.close()
            self._transport = (
                DirectTransport(self._node, self._driver)
                if local
                else ServiceTransport(self._node, self._driver)
            )
        return self._transport

    def _on_loaded(self, result: LoadResult) -> None:
        if result.error is not None:
            self._next_load = time.monotonic() + RETRY_PERIOD
            self._unload(str(result.error))
            return
        self._state, self._loaded = ClientState.READY, result
        if result.problem:
            self._unconfirmed = True
            self._report(result.problem)
        elif not self._unconfirmed:
            self._report("")
        if self._on_ready is not None:
            self._on_ready()

    def _give_up(self, problem: str) -> None:
        """Start over: forget the loaded model and answer the request under way with an error."""
        if self._transport is not None:
            self._transport.cancel()
        fail = self._fail if self._state is ClientState.BUSY else _ignore
        self._unconfirmed = False
        self._unload(problem)
        fail(UnavailableError(problem))

    def _unload(self, problem: str, *, usual_at_start: bool = False) -> None:
        self._state, self._loaded = ClientState.UNLOADED, LoadResult()
        self._report(problem, usual_at_start=usual_at_start)

    def _report(self, problem: str, *, usual_at_start: bool = False) -> None:
        """Log a problem, or that it is gone, when it changes; a warning unless it is usual at this time."""
        usual = usual_at_start and time.monotonic() < self._start_up_end
        if problem == self.problem and (usual or not self._warning_due):
            return
        self.problem, self._warning_due = problem, usual
        if usual:
            self._node.get_logger().info(f"model '{self._model}': {problem}")
        elif problem:
            self._node.get_logger().warning(f"model '{self._model}': {problem}")
        else:
            own = f" as '{self._name}'" if self._name else ""
            self._node.get_logger().info(f"model '{self._model}' is loaded on {self._driver}{own}")


def _ignore(_error: EdgeTpuError) -> None:
    """Answer nothing: no request is under way."""

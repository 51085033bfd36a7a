"""An asynchronous client for one model on the driver; it survives restarts of the driver."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

from numpy.typing import NDArray
from rclpy.node import Node

from edgetpu_driver.errors import BusyError, EdgeTpuError, ExpiredError, ModelNotFoundError, UnavailableError
from edgetpu_driver.host.models.inference_result import InferenceResult
from edgetpu_driver.host.requests.request_terms import Priority, RequestTerms
from edgetpu_driver.node_kit.clients import local_drivers
from edgetpu_driver.node_kit.clients.answer_patience import AnswerPatience
from edgetpu_driver.node_kit.clients.client_problem import ClientProblem
from edgetpu_driver.node_kit.clients.client_state import ClientClosedError, ClientState
from edgetpu_driver.node_kit.clients.driver_choice import driver_choice
from edgetpu_driver.node_kit.clients.driver_transports import DirectTransport, ServiceTransport, Transport
from edgetpu_driver.node_kit.clients.foreign_results import ForeignResults
from edgetpu_driver.node_kit.clients.load_result import InvokeOptions, LoadResult, ModelFile, name_on_driver
from edgetpu_driver.node_kit.executor.steady_timers import create_steady_timer
from edgetpu_driver.node_kit.messages.error_codes import is_lasting
from edgetpu_driver.tflite.tensor import TensorSpec, check_inputs
from edgetpu_driver.weights.weight_request import WeightRequest, WeightResult

STEP_PERIOD = 0.1
"""Seconds between two checks whether the driver is available and whether a request is overdue."""

RETRY_PERIOD = 1.0
"""Seconds between two attempts to load a model that the driver refused. Uncritical."""

LONGEST_LOAD = 8.0
"""Longest time, s, between two checks that the driver is loading. Derived: it answers BUSY after 10 s."""

DEADLINE_SHARE = 0.8
"""Share of a request's time limit after which the driver answers EXPIRED if it has not begun."""

_Arrays: TypeAlias = Mapping[str, NDArray[Any]]
_Invoked: TypeAlias = Callable[[InferenceResult], None]
_Replaced: TypeAlias = Callable[["WeightResult | EdgeTpuError"], None]


@dataclass
class _Request:
    """The request under way."""

    fail: Callable[[EdgeTpuError], None]
    """Answers it with an error."""
    end: float
    """Monotonic time, s, up to which it is sent again."""
    again: tuple[float, Callable[[], None]] | None = None
    """Monotonic time, s, and function to send it again, if the driver was too busy for it."""


class ModelClient:
    """One model on one driver, for one node.

    The client waits for the driver and has it load the model, again whenever the driver has lost it, so a
    node never needs a restart. A driver node in the same process is called directly, any other one through
    its services; no call blocks. All calls and callbacks belong to the thread of the node's executor.

    `ClientState` lists the states; `_step`, called by a timer, makes the transitions that no answer causes.

    A request that is answered BUSY or EXPIRED is sent again as long as it is wanted. Answers of a model that
    was not loaded here, or with weights that were not set here, are discarded: the model is loaded again.

    model: what ~/load_model takes (a file's stem, its name or an absolute path), or the segments of a
    pipeline, which are one model. Its inputs and outputs are those of the whole model.
    name: the model's name on the driver; unique to this node if it sets weights. Other clients may not change
    it. Empty: chosen by the driver, and shared.
    driver: the driver node's name, absolute or relative to the node's namespace. Several, in a list or
    separated by commas: the first that is ready is used; see DriverChoice.
    priority, deadline: of its inferences; the deadline in seconds, 0: as late as the timeout permits.
    on_ready: called each time the model has been loaded; `inputs` and `outputs` are known then.
    request_timeout: seconds after which an unanswered request counts as lost, unless the driver is just slow.
    sets_weights: False for a node that never sets any; it then needs no permission for ~/set_weights.
    """

    def __init__(
        self,
        node: Node,
        model: ModelFile,
        *,
        name: str = "",
        driver: str | Sequence[str] = "edgetpu",
        priority: Priority = Priority.NORMAL,
        deadline: float = 0.0,
        on_ready: Callable[[], None] | None = None,
        request_timeout: float = 2.0,
        sets_weights: bool = True,
    ) -> None:
        self._node = node
        self._model = model
        self._name = name_on_driver(name)
        self._choice = driver_choice(node, driver)
        self._driver = self._choice.name
        client, latest = node.get_fully_qualified_name(), DEADLINE_SHARE * request_timeout
        self._terms = RequestTerms(client, priority, deadline or latest)
        self._swap_terms = RequestTerms(client, Priority.BULK, latest)
        self._on_ready = on_ready
        self._request_timeout = request_timeout
        self._patience = AnswerPatience(request_timeout)
        self._load_patience = AnswerPatience(request_timeout / 2, LONGEST_LOAD)
        self._sets_weights = sets_weights
        self._transport: Transport | None = None
        self._state = ClientState.UNLOADED
        self._loaded = LoadResult()
        self._foreign = ForeignResults()
        self._request: _Request | None = None
        """The request under way, while BUSY."""
        self._deadline = time.monotonic() + request_timeout
        """Monotonic time, s, after which the awaited answer counts as lost."""
        self._next_load = 0.0
        self._problem = ClientProblem(node, model if isinstance(model, str) else ", ".join(model), self._name)
        self._timer = create_steady_timer(node, STEP_PERIOD, self._step)

    @property
    def problem(self) -> str:
        """Why no results are to be expected, one line; empty if they are."""
        return self._problem.text

    @property
    def needs_user(self) -> bool:
        """Whether `problem` remains until a user changes something: a file, a parameter."""
        return self._problem.needs_user

    @property
    def ready(self) -> bool:
        """Whether the driver has the model loaded, as far as known."""
        return self._state in (ClientState.READY, ClientState.BUSY)

    @property
    def model(self) -> ModelFile:
        """What the driver is asked to load: one file, or segments."""
        return self._model

    @property
    def target(self) -> tuple[str, str]:
        """The driver's fully qualified name, and the model's name there; empty until it is loaded."""
        return self._driver, self._loaded.name

    @property
    def busy(self) -> bool:
        """Whether a request is under way."""
        return self._state is ClientState.BUSY

    @property
    def free(self) -> bool:
        """Whether a request may be sent now: none is under way, and no change of the driver is due."""
        return self._state is ClientState.READY and self._driver == self._choice.name

    @property
    def loaded(self) -> LoadResult:
        """The model as the driver has loaded it; empty until then."""
        return self._loaded

    @property
    def inputs(self) -> tuple[TensorSpec, ...]:
        """The model's inputs; empty until it is loaded."""
        return self._loaded.inputs

    @property
    def outputs(self) -> tuple[TensorSpec, ...]:
        """The model's outputs; empty until it is loaded."""
        return self._loaded.outputs

    def invoke(
        self,
        inputs: _Arrays,
        done: _Invoked,
        still_wanted: Callable[[], bool] = lambda: True,
        *,
        part: int = 0,
        reset: bool = False,
    ) -> bool:
        """Run the model once; `done` gets the outputs or the error, exactly once.

        part: 0 for the whole model, n for the n-th of `loaded.parts` alone. reset: whether to zero
        the state that operators of the model keep from run to run first.

        After ModelNotFoundError and UnavailableError the client is not ready until it has loaded the model
        again: the same inputs may be sent again from `on_ready`. still_wanted: whether to try again if the
        driver was too busy or too late; else `done` gets the BusyError or ExpiredError.

        Returns False, and never calls `done`, when a request is under way or the client is not ready; `done`
        is called after it has returned True. The arrays must not change until then. Raises InputError when
        they are not what the model takes.
        """
        if not self.free:
            return False
        check_inputs(self._loaded.inputs_of(part), inputs)
        self._begin(lambda error: done(InferenceResult(error=error)))
        self._send_invoke(inputs, done, still_wanted, InvokeOptions(part, reset))
        return True

    def _send_invoke(
        self, inputs: _Arrays, done: _Invoked, still_wanted: Callable[[], bool], options: InvokeOptions
    ) -> None:
        # Neither this nor `finish` refers to itself: images would stay until the garbage is collected.
        def finish(result: InferenceResult) -> None:
            again = partial(self._send_invoke, inputs, done, still_wanted, options)
            if self._tries_again(result.error, self._terms, still_wanted, again):
                return
            if foreign := self._foreign.reason(result, self._loaded):
                self._next_load = time.monotonic() + RETRY_PERIOD
                result = InferenceResult(error=ModelNotFoundError(foreign))
            if result.error is None:
                self._patience.answered(time.monotonic() - self._deadline + self._patience.seconds)
            self._finish(result.error)
            done(result)

        assert self._transport is not None  # while a request is under way
        specs = self._loaded.inputs_of(options.part)
        self._transport.invoke(self._loaded.name, specs, inputs, finish, options)

    def set_weights(self, request: WeightRequest, done: _Replaced, *, part: int = 0) -> bool:
        """Replace the values of one weight tensor; `done` gets the result or the error, exactly once.

        part: n for a tensor of the n-th of `loaded.parts`; 0 for the only one.
        See SwappableEngine.set_weights. The model should have been loaded under a name that only this node
        uses. Set them in every `on_ready`: a restarted driver has the file's. Returns False as `invoke` does.
        """
        if not self.free:
            return False
        self._begin(done)
        self._send_weights(request, done, part)
        return True

    def _send_weights(self, request: WeightRequest, done: _Replaced, part: int) -> None:
        def finish(result: WeightResult | EdgeTpuError) -> None:
            error = result if isinstance(result, EdgeTpuError) else None
            again = partial(self._send_weights, request, done, part)
            if self._tries_again(error, self._swap_terms, lambda: True, again):
                return
            if not isinstance(result, EdgeTpuError):
                self._foreign.weights_version = result.version
            self._finish(error)
            done(result)

        assert self._transport is not None
        self._transport.set_weights(self._loaded.name, request, finish, part)

    def failed_for_another(self, error: ModelNotFoundError | UnavailableError) -> None:
        """Load the model again: the request of another node, shared with this one, had this error."""
        if self._state is ClientState.READY:
            self._finish(error)

    def close(self) -> None:
        """Stop looking for the driver; a request under way ends with an error."""
        self._node.destroy_timer(self._timer)
        self._problem.client_closed()
        request, self._request = self._request, None
        self._leave(self.problem)
        if request is not None:
            request.fail(ClientClosedError(self.problem))
        if self._transport is not None:
            self._transport.close()

    def _tries_again(
        self,
        error: EdgeTpuError | None,
        terms: RequestTerms,
        still_wanted: Callable[[], bool],
        send: Callable[[], None],
    ) -> bool:
        """Whether a request that the driver has not run is sent again, at once or later."""
        request, now = self._request, time.monotonic()
        assert request is not None
        if isinstance(error, ExpiredError) and now + terms.deadline <= request.end and still_wanted():
            send()
            return True
        if isinstance(error, BusyError) and now + error.retry_after <= request.end and still_wanted():
            request.again = now + error.retry_after, send
            self._deadline = request.again[0] + self._patience.seconds
            return True
        return False

    def _begin(self, fail: Callable[[EdgeTpuError], None]) -> None:
        """Start a request; `fail` answers it if it is abandoned."""
        self._deadline = time.monotonic() + self._patience.seconds
        self._state, self._request = ClientState.BUSY, _Request(fail, self._deadline)

    def _finish(self, error: EdgeTpuError | None) -> None:
        """End the request under way, which the driver has answered."""
        self._request = None
        if isinstance(error, UnavailableError):
            # Load requests are answered without a device, too: only a result shows that it has recovered.
            self._problem.persists = True
            self._next_load = time.monotonic() + RETRY_PERIOD
            self._choice.failed(self._driver)
        if isinstance(error, (ModelNotFoundError, UnavailableError)):
            self._unload(str(error), usual_at_start=isinstance(error, UnavailableError))
            return
        self._state = ClientState.READY
        if error is None:
            self._problem.request_succeeded()
        self._problem.log_loaded(self._driver)

    def _step(self) -> None:
        """Find the driver, load the model, drop an overdue request, and repeat one that is due."""
        self._problem.spinning()
        transport = self._connect()
        now = time.monotonic()
        overdue = now > self._deadline
        idle = self._state is ClientState.UNLOADED
        if not transport.available:
            if not idle or overdue:
                self._give_up(f"waiting for the driver {self._driver}")
        elif self._state is ClientState.LOADING and overdue:
            self._load(ClientState.CHECKING, self._request_timeout / 2)
        elif self._state in (ClientState.CHECKING, ClientState.BUSY) and overdue:
            waited = self._patience.seconds if self.busy else self._request_timeout
            if self.busy:
                self._patience.missed()
            self._give_up(f"no answer from {self._driver} for {waited:g} s")
        elif self._request is not None:
            self._send_again_if_due(self._request, now)
        elif idle and now >= self._next_load:
            self._load_patience.forget()
            self._load(ClientState.LOADING, self._load_patience.seconds)

    def _load(self, state: ClientState, seconds: float) -> None:
        assert self._transport is not None
        self._transport.cancel()
        self._state, self._deadline = state, time.monotonic() + seconds
        self._transport.load(self._model, self._name, self._on_loaded, wait=state is ClientState.LOADING)

    def _send_again_if_due(self, request: _Request, now: float) -> None:
        if request.again is not None and now >= request.again[0]:
            (_, send), request.again = request.again, None
            send()

    def _connect(self) -> Transport:
        """Return the transport to use now: to the chosen driver, and direct while that is in this process.

        A request under way is awaited before another driver is used.
        """
        idle = self._state in (ClientState.UNLOADED, ClientState.READY)
        driver = self._choice.name if idle else self._driver
        local = local_drivers.find(driver) is not None
        moved = driver != self._driver or local != isinstance(self._transport, DirectTransport)
        if self._transport is None or moved:
            if self._transport is not None:
                self._leave(f"the driver {self._driver} has moved" if local else f"changing to {driver}")
                self._transport.close()
            if driver != self._driver:
                self._driver, self._next_load = driver, 0.0
                self._patience.forget()
            self._transport = (
                DirectTransport(self._node, driver, self._terms, self._swap_terms)
                if local
                else ServiceTransport(
                    self._node, driver, self._terms, self._swap_terms, sets_weights=self._sets_weights
                )
            )
        return self._transport

    def _on_loaded(self, result: LoadResult) -> None:
        if result.loading:
            self._problem.loading_takes_long(f"being loaded on {self._driver}")
            self._load_patience.missed()
            self._load(ClientState.LOADING, self._load_patience.seconds)
            return
        if result.error is not None:
            self._next_load = time.monotonic() + max(RETRY_PERIOD, getattr(result.error, "retry_after", 0.0))
            if isinstance(result.error, UnavailableError):
                self._choice.failed(self._driver)
            busy = isinstance(result.error, BusyError)
            self._unload(str(result.error), usual_at_start=busy, needs_user=is_lasting(result.error))
            return
        self._state, self._loaded = ClientState.READY, result
        self._problem.model_loaded(result.problem)
        if self._on_ready is not None:
            self._on_ready()
        if not self.busy:
            self._problem.log_loaded(self._driver)

    def _give_up(self, problem: str) -> None:
        """Start over because the driver does not answer."""
        self._choice.failed(self._driver)
        self._leave(problem, usual_at_start=not self.busy)

    def _leave(self, problem: str, *, usual_at_start: bool = False) -> None:
        """Forget the loaded model and answer the request under way with an error."""
        if self._transport is not None:
            self._transport.cancel()
        request, self._request = self._request, None
        self._problem.persists = False
        self._unload(problem, usual_at_start=usual_at_start)
        if request is not None:
            request.fail(UnavailableError(problem))

    def _unload(self, problem: str, *, usual_at_start: bool = False, needs_user: bool = False) -> None:
        self._state, self._loaded = ClientState.UNLOADED, LoadResult()
        self._foreign.weights_version = None
        self._problem.model_lost(problem, usual_at_start=usual_at_start, needs_user=needs_user)

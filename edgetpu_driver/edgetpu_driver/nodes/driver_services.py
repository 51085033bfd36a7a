"""The services of the driver node."""

from __future__ import annotations

import functools
import math
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any, Protocol

from rclpy.node import Node
from rclpy.qos import QoSProfile
from std_srvs.srv import Trigger

from edgetpu_driver.backends.backend import RegisterValue
from edgetpu_driver.errors import BusyError, EdgeTpuError, InputError
from edgetpu_driver.host.background_thread import BackgroundThread
from edgetpu_driver.host.models.hosted_model import HostedModel, ModelState
from edgetpu_driver.host.models.inference_result import InferenceResult
from edgetpu_driver.host.requests.admission import LOADING
from edgetpu_driver.host.requests.request_terms import Priority, RequestTerms
from edgetpu_driver.host.whole_models.whole_models import device_part
from edgetpu_driver.node_kit.clients.local_drivers import LocalDriver
from edgetpu_driver.node_kit.deferred_service import Respond, create_deferred_service
from edgetpu_driver.node_kit.executor.large_requests import LargeRequests
from edgetpu_driver.node_kit.executor.request_intake import RequestIntake
from edgetpu_driver.node_kit.messages.error_codes import write_error
from edgetpu_driver.node_kit.messages.matmul_messages import fill_product, product_request
from edgetpu_driver.node_kit.messages.tensor_messages import inputs_from_messages, to_message
from edgetpu_driver.node_kit.messages.weight_messages import fill_weight_result, weight_request
from edgetpu_driver.node_kit.middleware.qos_profiles import QOS_SERVICE
from edgetpu_driver.node_kit.process.touched_memory import touch_memory
from edgetpu_driver.nodes.device_status_messages import register_messages
from edgetpu_driver.nodes.model_messages import loaded_model_info, model_info
from edgetpu_driver.weights.weight_request import WeightResult
from edgetpu_msgs.msg import DeviceStatus
from edgetpu_msgs.srv import GetDeviceInfo, Invoke, ListModels, LoadModel, MatMul, SetWeights, UnloadModel

QUICK = 0.02
"""Seconds after which a request is answered with what is known: a model that is still QUEUED, the last
readings."""

SEARCH = 0.01
"""Seconds for which the executor waits until a model's file is found, which usually takes less than 1 ms. The
client's next request then finds the model, even if the client did not wait for this answer."""

MOST_WAITING_FOR_FILES = 1000
"""Requests that may wait while the model directories do not answer, as on an unreachable network file system.
Uncritical: each takes a few kilobytes."""

MOST_CLIENT_CHARACTERS = 255
"""Longest name of a client, characters: the same as for a node."""

_DEFAULT_PRIORITIES = {
    Invoke.Request: Priority.NORMAL,
    SetWeights.Request: Priority.BULK,
    MatMul.Request: Priority.BULK,
}
"""Default classes of the requests that may name another class. Given by edgetpu_msgs/Priority."""

_LARGE = SetWeights, MatMul
"""Services whose requests may take megabytes."""

LARGE_PRODUCT = 1 << 20
"""Size of a product, bytes, from which another thread than the stick's makes and sends the answer. Measured:
a megabyte takes 1 ms of processor time, 4 ms in memory that was never used before."""

_PRODUCT_BLOCKS = 3
"""Blocks of the size of a product that its answer takes: the messages in Python, in C, in the middleware."""


class ServingDriver(LocalDriver, Protocol):
    """The part of the driver that its services need."""

    def status(self) -> DeviceStatus:
        """Make the message of ~/status."""
        ...

    def publish_status(self) -> None:
        """Publish ~/status now."""
        ...

    def on_callback_failure(self, source: str, error: Exception) -> None:
        """Log and count an unexpected exception."""
        ...


class DriverServices:
    """Hands requests to the host, and answers each when it is done.

    No callback waits for the device, nor longer than SEARCH for files.
    """

    def __init__(self, node: Node, driver: ServingDriver, qos: QoSProfile = QOS_SERVICE) -> None:
        """qos: of the services; a request that finds a full queue is lost in the middleware."""
        self._driver = driver
        self._registers: tuple[RegisterValue, ...] = ()
        self._waiting: list[tuple[float, _Reply, str]] = []
        """Requests that wait for files: time of arrival, reply, and the text of the error if it waits too
        long."""
        self._delayed = BackgroundThread("edgetpu delayed answers")
        self._products = BackgroundThread("edgetpu products")
        self._searches = BackgroundThread("edgetpu model search")
        self._found = threading.Event()
        """Set unless a search for a model's file is still in progress."""
        self._found.set()
        self._listings = BackgroundThread("edgetpu listings")
        self._to_list: deque[_Reply] = deque()
        """Requests that wait for a listing; a listing answers all that arrived before it began."""
        self._intake = RequestIntake(node)
        self._large = LargeRequests(node)
        for kind, name, handle in (
            (LoadModel, "load_model", self._load_model),
            (UnloadModel, "unload_model", self._unload_model),
            (ListModels, "list_models", self._list_models),
            (Invoke, "invoke", self._invoke),
            (SetWeights, "set_weights", self._set_weights),
            (MatMul, "matmul", self._matmul),
            (GetDeviceInfo, "get_device_info", self._get_device_info),
            (Trigger, "reset", self._reset),
        ):
            serve = functools.partial(self._serve, kind, name, handle)
            take = functools.partial(
                self._take, _DEFAULT_PRIORITIES.get(kind.Request, Priority.NORMAL), serve
            )
            service = create_deferred_service(node, kind, f"~/{name}", take, qos)
            if kind in _LARGE:
                self._large.apply_to(service)

    def answer_overdue(self, seconds: float) -> None:
        """Answer BUSY to requests that have waited `seconds` for files; a model continues to load."""
        now = time.monotonic()
        self._waiting = [each for each in self._waiting if not each[1].sent]
        for came, reply, what in self._waiting:
            if now - came >= seconds:
                reply.fail(BusyError(f"{what} after {seconds:g} s; try again", LOADING))

    def _take(
        self, default: Priority, serve: Callable[[Any, Respond], None], request: Any, respond: Respond
    ) -> None:
        priority = getattr(request, "priority", 0) or default
        if priority <= Priority.REAL_TIME:
            respond = self._large.noting_urgent(respond)
        self._intake.add(priority, functools.partial(serve, request, respond))

    def _serve(self, kind: Any, name: str, handle: Any, request: Any, respond: Respond) -> None:
        _Reply(self._driver, name, kind.Response, respond).attempt(handle, request)

    def _load_model(self, request: LoadModel.Request, reply: _Reply) -> None:
        if request.segments and request.model:
            raise InputError("expected a model or its segments; got both")
        self._driver.active_host()
        self._wait_for_files(reply, self._searches.pending, "the model is still being loaded")
        at_once, found = self._found.is_set(), threading.Event()
        self._found = found

        def search() -> None:
            reply.attempt(self._begin_load, request)
            found.set()

        self._searches.submit_or_do(search)
        if at_once:
            found.wait(SEARCH)

    def _begin_load(self, request: LoadModel.Request, reply: _Reply) -> None:
        def fill(response: LoadModel.Response, model: HostedModel) -> None:
            response.info = loaded_model_info(model)
            if model.unsupported_reason:
                response.message = f"loaded, but it cannot run here: {model.unsupported_reason}"
            elif model.state is ModelState.QUEUED:
                response.message = "being loaded"

        model = self._driver.submit_load(
            list(request.segments) or request.model,
            request.name,
            functools.partial(reply.finish, fill),
            client=_client(request),
            shared=request.shared,
        )
        if not request.wait:
            reply.finish_soon(self._delayed, fill, lambda: model.failure or model)

    def _wait_for_files(self, reply: _Reply, number: int, what: str) -> None:
        """Have `answer_overdue` answer a request in time. number: of waiting ones; BusyError if too many."""
        if number >= MOST_WAITING_FOR_FILES:
            raise BusyError(
                f"{number} requests wait for model_dirs, which do not answer; try again in {LOADING:g} s",
                LOADING,
            )
        self._waiting.append((time.monotonic(), reply, what))

    def _unload_model(self, request: UnloadModel.Request, reply: _Reply) -> None:
        self._driver.active_host().unload(request.name, _client(request))
        reply.finish(_nothing, None)
        self._driver.publish_status()

    def _list_models(self, _request: ListModels.Request, reply: _Reply) -> None:
        self._driver.active_host()
        self._wait_for_files(reply, len(self._to_list), "the model files are still being listed")
        self._to_list.append(reply)
        if self._listings.pending > 1:
            return  # a listing that has not begun will answer it
        # Tens of milliseconds with many models and files.
        self._listings.submit_or_do(self._answer_listings)

    def _answer_listings(self) -> None:
        replies = [self._to_list.popleft() for _ in range(len(self._to_list))]
        outcome: Any = None
        try:
            host = self._driver.active_host()
            models = [model_info(model) for model in host.models()]
            available = [str(path) for path in host.files.available()]
        except Exception as error:
            outcome = error

        def fill(response: ListModels.Response, _: None) -> None:
            response.models, response.available = models, available

        for reply in replies:
            reply.finish(fill, outcome)

    def _get_device_info(self, _request: GetDeviceInfo.Request, reply: _Reply) -> None:
        def fill(response: GetDeviceInfo.Response, registers: tuple[RegisterValue, ...]) -> None:
            self._registers = registers
            response.status = self._driver.status()
            response.registers = register_messages(registers)

        self._driver.active_host().submit_registers(functools.partial(reply.finish, fill))
        reply.finish_soon(self._delayed, fill, lambda: self._registers)

    def _reset(self, _request: Trigger.Request, reply: _Reply) -> None:
        def fill(response: Trigger.Response, _: None) -> None:
            response.message = "the device is being brought up again; ~/status says when it is ready"

        self._driver.active_host().reset()
        reply.finish(fill, None)

    def _invoke(self, request: Invoke.Request, reply: _Reply) -> None:
        host = self._driver.active_host()
        model = host.model(request.model)  # which may still be queued: its parts are not known then

        def fill(response: Invoke.Response, result: InferenceResult) -> None:
            part = device_part(model, result.part) if result.part else model
            response.outputs = [to_message(spec, result.outputs[spec.name]) for spec in part.outputs]
            response.part = result.part
            response.weights_version = result.weights_version
            response.model_sha256 = result.model_sha256
            response.duration = result.engine_duration
            response.device_duration = result.device_duration

        inputs, terms = inputs_from_messages(request.inputs), _terms(request)
        done = functools.partial(reply.finish, fill)
        host.submit_invoke(model, inputs, done, terms, part=request.part, reset=request.reset)

    def _set_weights(self, request: SetWeights.Request, reply: _Reply) -> None:
        host = self._driver.active_host()
        model = host.model(request.model)  # an unknown model is reported before bad weights

        def fill(response: SetWeights.Response, result: WeightResult) -> None:
            fill_weight_result(response, result)
            response.model_sha256 = model.sha256

        terms = _terms(request)
        done = functools.partial(reply.finish, fill)
        host.submit_set_weights(model, weight_request(request), done, terms, part=request.part)

    def _matmul(self, request: MatMul.Request, reply: _Reply) -> None:
        host = self._driver.active_host()
        model = host.model(request.model)

        def fill(response: MatMul.Response, product: Any) -> None:
            fill_product(response, product)
            response.model_sha256 = model.sha256

        def answer(product: Any) -> None:
            touch_memory(_PRODUCT_BLOCKS * product.outputs.nbytes)
            reply.finish(fill, product)

        def done(outcome: Any) -> None:
            if isinstance(outcome, Exception) or outcome.outputs.nbytes < LARGE_PRODUCT:
                reply.finish(fill, outcome)
                return
            self._products.submit_or_do(functools.partial(answer, outcome))

        host.submit_multiply(model, product_request(request), done, _terms(request))


class _Reply:
    """The answer to one request, made from the host's result or from an error, by any thread."""

    def __init__(self, driver: ServingDriver, service: str, response: Any, respond: Respond) -> None:
        self._driver, self._service, self._response, self._respond = driver, service, response, respond
        self.sent = False
        """Whether an answer has been sent; later results are ignored."""

    def attempt(self, handle: Callable[[Any, _Reply], None], request: Any) -> None:
        """Call `handle` with the request; if it raises an exception, answer with that."""
        try:
            handle(request, self)
        except Exception as error:
            self.fail(error)

    def finish(self, fill: Callable[[Any, Any], None], outcome: Any) -> None:
        """Answer with the response that `fill` makes from a result, or with the error."""
        if self.sent:
            return
        if isinstance(outcome, Exception):
            self.fail(outcome)
            return
        response = self._response()
        try:
            fill(response, outcome)
        except Exception as error:
            self.fail(error)
        else:
            response.success = True
            self._send(response)

    def finish_soon(
        self, delayed: BackgroundThread, fill: Callable[[Any, Any], None], known: Callable[[], Any]
    ) -> None:
        """Answer after QUICK with what `known` returns then, unless an answer has been sent by then.

        delayed: the thread that waits. One serves all requests, because all have the same delay.
        """
        due = time.monotonic() + QUICK

        def finish() -> None:
            if not self.sent:
                time.sleep(max(due - time.monotonic(), 0.0))
                self.finish(fill, known())

        if not self.sent:
            try:
                delayed.submit(finish)
            except RuntimeError:  # no thread can be started
                self.finish(fill, known())

    def fail(self, error: Exception) -> None:
        """Answer with an error."""
        if not isinstance(error, EdgeTpuError):
            self._driver.on_callback_failure(f"request to ~/{self._service}", error)
        self._send(write_error(self._response(), error))

    def _send(self, response: Any) -> None:
        self.sent = True
        self._respond(response)


def _nothing(_response: Any, _outcome: None) -> None:
    """Write nothing: success is the whole answer."""


def _client(request: Any) -> str:
    """Name of the caller; InputError for one that is too long."""
    name: str = request.client
    if len(name) > MOST_CLIENT_CHARACTERS:
        raise InputError(f"expected a client of at most {MOST_CLIENT_CHARACTERS} characters; got {len(name)}")
    return name


def _terms(request: Any) -> RequestTerms:
    """Read client, priority and deadline of a request; InputError for values that have no meaning."""
    try:
        priority = Priority(request.priority or _DEFAULT_PRIORITIES[type(request)])
    except ValueError:
        raise InputError(f"expected a priority of 0 to {max(Priority)}; got {request.priority}") from None
    deadline = float(request.deadline)
    if not (math.isfinite(deadline) and deadline >= 0):
        raise InputError(f"expected a deadline of 0 s or more; got {deadline}")
    return RequestTerms(_client(request), priority, deadline)

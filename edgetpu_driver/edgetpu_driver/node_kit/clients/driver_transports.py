"""The two transports from a node to a driver: services through DDS, or direct calls within the process.

`ModelClient` uses direct calls as long as the driver it has chosen is in the same process.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from numpy.typing import NDArray
from rclpy.client import Client
from rclpy.node import Node
from rclpy.task import Future

from edgetpu_driver.errors import BusyError, EdgeTpuError, InputError, UnavailableError
from edgetpu_driver.host.background_thread import BackgroundThread
from edgetpu_driver.host.models.inference_result import InferenceResult
from edgetpu_driver.host.requests.admission import LOADING
from edgetpu_driver.host.requests.answers import answered
from edgetpu_driver.host.requests.request_terms import RequestTerms
from edgetpu_driver.node_kit.clients import local_drivers
from edgetpu_driver.node_kit.clients.load_result import (
    DEFAULT_OPTIONS,
    InvokeOptions,
    LoadResult,
    ModelFile,
    PartTensors,
)
from edgetpu_driver.node_kit.executor.executor_calls import executor_calls
from edgetpu_driver.node_kit.messages.error_codes import answer_error
from edgetpu_driver.node_kit.messages.tensor_messages import from_message, specs_from_messages, to_message
from edgetpu_driver.node_kit.messages.weight_messages import set_weights_request, weight_result
from edgetpu_driver.node_kit.middleware.qos_profiles import QOS_SERVICE
from edgetpu_driver.tflite.tensor import TensorSpec
from edgetpu_driver.weights.weight_request import WeightRequest, WeightResult
from edgetpu_msgs.msg import ModelInfo, ModelPart
from edgetpu_msgs.srv import Invoke, LoadModel, SetWeights

if TYPE_CHECKING:  # a process without a driver loads no host
    from edgetpu_driver.host.models.hosted_model import HostedModel


_Done: TypeAlias = Callable[[Any], None]
"""Called once with the answer or the error."""


class Transport(Protocol):
    """A connection to one driver, with at most one request under way.

    `done` is called once, or never after `cancel`, by the node's executor, after the method has returned.
    """

    @property
    def available(self) -> bool:
        """Whether the driver can be reached."""
        ...

    def load(
        self, model: ModelFile, name: str, done: Callable[[LoadResult], None], *, wait: bool = True
    ) -> None:
        """Ask the driver to load a model under a name; empty: the driver chooses it.

        wait: False makes it answer at once, even if it is still loading the model.
        """
        ...

    def invoke(
        self,
        model: str,
        specs: tuple[TensorSpec, ...],
        inputs: Mapping[str, NDArray[Any]],
        done: Callable[[InferenceResult], None],
        options: InvokeOptions = DEFAULT_OPTIONS,
    ) -> None:
        """Ask the driver to run a model, or a part of it; `specs` are those of its inputs."""
        ...

    def set_weights(
        self,
        model: str,
        request: WeightRequest,
        done: Callable[[WeightResult | EdgeTpuError], None],
        part: int = 0,
    ) -> None:
        """Ask the driver to replace weights of a model, or of a part of it."""
        ...

    def cancel(self) -> None:
        """Forget the request under way; its answer is ignored if it still comes."""
        ...

    def close(self) -> None:
        """Cancel the request under way and release the transport's resources."""
        ...


class DirectTransport:
    """Direct calls to a driver node in this process, given its fully qualified name.

    The driver's threads call back; the executor of the calling node runs the callbacks.
    """

    def __init__(self, node: Node, driver: str, terms: RequestTerms, swap_terms: RequestTerms) -> None:
        self._driver, self._terms, self._swap_terms = driver, terms, swap_terms
        self._calls = executor_calls(node)
        self._number = 0
        """Number of the request under way; answers to other requests are ignored."""
        self._searches = BackgroundThread("edgetpu model search of a client")

    @property
    def available(self) -> bool:
        """Whether the driver node still exists."""
        return local_drivers.find(self._driver) is not None

    def load(
        self, model: ModelFile, name: str, done: Callable[[LoadResult], None], *, wait: bool = True
    ) -> None:
        """Hand the request to the driver and return; `done` is called by the node's executor."""

        def finish(loaded: HostedModel | EdgeTpuError) -> None:
            if isinstance(loaded, EdgeTpuError):
                return done(LoadResult(error=loaded))
            if loaded.state == ModelInfo.QUEUED:
                return done(LoadResult(loading=True))
            reason = loaded.unsupported_reason
            result = LoadResult(
                loaded.name,
                loaded.inputs,
                loaded.outputs,
                problem=f"loaded, but it cannot run here: {reason}" if reason else "",
                sha256=loaded.sha256,
                weights_version=loaded.weights_version,
                files=tuple(map(str, loaded.paths)),
                files_without_weights=loaded.files_without_weights,
                parts=tuple(PartTensors(part.inputs, part.outputs) for part in loaded.device_parts),
            )
            return done(result)

        def submit(done: _Done) -> None:
            driver = self._find()
            loaded = driver.submit_load(model, name, done, client=self._terms.client, shared=not name)
            if not wait:
                done(loaded.failure or loaded)

        def search(done: _Done) -> None:
            if self._searches.pending:  # the directories of models do not answer
                raise BusyError("the model's file is still being looked for", LOADING)
            self._searches.submit_or_do(functools.partial(answered, submit, done))

        self._ask(search, finish)

    def invoke(
        self,
        model: str,
        specs: tuple[TensorSpec, ...],  # noqa: ARG002 - the arrays need no translation
        inputs: Mapping[str, NDArray[Any]],
        done: Callable[[InferenceResult], None],
        options: InvokeOptions = DEFAULT_OPTIONS,
    ) -> None:
        """Hand the request to the driver and return; `done` is called by the node's executor."""

        def finish(result: InferenceResult | EdgeTpuError) -> None:
            done(InferenceResult(error=result) if isinstance(result, EdgeTpuError) else result)

        def submit(done: _Done) -> None:
            host = self._find().active_host()
            host.submit_invoke(model, inputs, done, self._terms, part=options.part, reset=options.reset)

        self._ask(submit, finish)

    def set_weights(
        self,
        model: str,
        request: WeightRequest,
        done: Callable[[WeightResult | EdgeTpuError], None],
        part: int = 0,
    ) -> None:
        """Hand the request to the driver and return; `done` is called by the node's executor."""

        def submit(finish: _Done) -> None:
            host = self._find().active_host()
            host.submit_set_weights(model, request, finish, self._swap_terms, part=part)

        self._ask(submit, done)

    def cancel(self) -> None:
        """Forget the request under way."""
        self._number += 1

    def close(self) -> None:
        """Cancel the request under way."""
        self.cancel()

    def _ask(self, submit: Callable[[_Done], None], finish: _Done) -> None:
        """Submit a request; the executor calls `finish` with the answer, unless it is cancelled."""
        self._number += 1
        number = self._number
        self._calls.expect()

        def run(outcome: Any) -> None:
            if number == self._number:
                self._number += 1  # a second answer, that the model has been loaded, is ignored
                finish(outcome)

        answered(submit, lambda outcome: self._calls.add(functools.partial(run, outcome)))

    def _find(self) -> local_drivers.LocalDriver:
        driver = local_drivers.find(self._driver)
        if driver is None:
            raise UnavailableError(f"the driver {self._driver} has left this process")
        return driver


class ServiceTransport:
    """Service calls to a driver node; its name is relative to the calling node's namespace.

    Without `sets_weights` there is no client of ~/set_weights, and the node needs no permission for it.
    """

    def __init__(
        self,
        node: Node,
        driver: str,
        terms: RequestTerms,
        swap_terms: RequestTerms,
        *,
        sets_weights: bool = True,
    ) -> None:
        self._node, self._terms, self._swap_terms = node, terms, swap_terms

        def client_of(kind: Any, name: str) -> Client:
            return node.create_client(kind, f"{driver}/{name}", qos_profile=QOS_SERVICE)

        self._load = client_of(LoadModel, "load_model")
        self._invoke = client_of(Invoke, "invoke")
        self._set_weights = client_of(SetWeights, "set_weights") if sets_weights else None
        self._clients = [each for each in (self._load, self._invoke, self._set_weights) if each is not None]
        self._pending: tuple[Client, Future] | None = None

    @property
    def available(self) -> bool:
        """Whether the services of the driver are known in the graph."""
        return all(client.service_is_ready() for client in self._clients)

    def load(
        self, model: ModelFile, name: str, done: Callable[[LoadResult], None], *, wait: bool = True
    ) -> None:
        """Send the request and return; `done` is called by the node's executor."""
        request = LoadModel.Request(name=name, client=self._terms.client, shared=not name, wait=wait)
        if isinstance(model, str):
            request.model = model
        else:
            request.segments = list(model)
        self._send(self._load, request, lambda answer: done(_load_result(answer)))

    def invoke(
        self,
        model: str,
        specs: tuple[TensorSpec, ...],
        inputs: Mapping[str, NDArray[Any]],
        done: Callable[[InferenceResult], None],
        options: InvokeOptions = DEFAULT_OPTIONS,
    ) -> None:
        """Send the request and return; `done` is called by the node's executor."""
        tensors = [to_message(spec, inputs[spec.name]) for spec in specs]
        request = Invoke.Request(
            model=model,
            inputs=tensors,
            client=self._terms.client,
            priority=int(self._terms.priority),
            deadline=self._terms.deadline,
            part=options.part,
            reset=options.reset,
        )
        self._send(self._invoke, request, lambda answer: done(_inference_result(answer)))

    def set_weights(
        self,
        model: str,
        request: WeightRequest,
        done: Callable[[WeightResult | EdgeTpuError], None],
        part: int = 0,
    ) -> None:
        """Send the request and return; `done` is called by the node's executor."""
        assert self._set_weights is not None, "made without sets_weights"
        message = set_weights_request(model, request)
        terms = self._swap_terms
        message.client, message.priority, message.deadline = terms.client, int(terms.priority), terms.deadline
        message.part = part
        self._send(self._set_weights, message, lambda answer: done(weight_result(answer)))

    def cancel(self) -> None:
        """Forget the request under way."""
        if self._pending is not None:
            client, future = self._pending
            self._pending = None
            client.remove_pending_request(future)

    def close(self) -> None:
        """Cancel, and destroy the service clients."""
        self.cancel()
        for client in self._clients:
            self._node.destroy_client(client)

    def _send(self, client: Client, request: Any, take: Callable[[Any], None]) -> None:
        """Send a request; the executor passes the answer to `take`, unless the request is cancelled."""

        # `finish` does not refer to the future: images would stay until the garbage is collected.
        def finish(future: Future) -> None:
            # The answer may have been received already when its request is cancelled.
            if self._pending is None or self._pending[1] is not future:
                return
            self._pending = None
            try:
                take(future.result())
            except Exception as error:
                # rclpy only warns of what the callback of a future raises; a task's exception ends the node.
                self._node.executor.create_task(_throw, error)

        future = client.call_async(request)
        self._pending = client, future
        future.add_done_callback(finish)


def _throw(error: Exception) -> None:
    raise error


def _load_result(answer: LoadModel.Response) -> LoadResult:
    if not answer.success:
        return LoadResult(error=answer_error(answer))
    info = answer.info
    if info.state == ModelInfo.QUEUED:
        return LoadResult(loading=True)
    try:
        whole, *parts = (
            PartTensors(specs_from_messages(each.inputs), specs_from_messages(each.outputs))
            for each in (info, *_device_parts(info))
        )
        return LoadResult(
            info.name,
            whole.inputs,
            whole.outputs,
            problem=answer.message,
            sha256=info.sha256,
            weights_version=info.weights_version,
            files=tuple(info.paths),
            files_without_weights=bytes(info.files_without_weights),
            parts=tuple(parts),
        )
    except InputError as error:
        return LoadResult(error=error)


def _device_parts(info: ModelInfo) -> list[ModelPart]:
    """The parts that requests refer to by number: those for the Edge TPU, or the only one."""
    if len(info.parts) == 1:
        return list(info.parts)
    return [part for part in info.parts if part.device == ModelPart.EDGE_TPU]


def _inference_result(answer: Invoke.Response) -> InferenceResult:
    if not answer.success:
        return InferenceResult(error=answer_error(answer))
    try:
        outputs = {tensor.name: from_message(tensor) for tensor in answer.outputs}
    except InputError as error:
        return InferenceResult(error=error)
    return InferenceResult(
        outputs,
        engine_duration=answer.duration,
        device_duration=answer.device_duration,
        weights_version=answer.weights_version,
        model_sha256=answer.model_sha256,
        part=answer.part,
    )

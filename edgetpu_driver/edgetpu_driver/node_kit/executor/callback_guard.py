"""Guards callbacks: one malformed message, request or exception does not end a process of nodes.

Both executors of `make_executor` report exceptions here, whether they come from reading a message, from the
callback, or from sending its answer. Each kind is logged once and counted in /diagnostics, and the node
continues. FatalError and the end of rclpy's context still end the process.
"""

from __future__ import annotations

import traceback
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, Protocol, runtime_checkable

from lifecycle_msgs.srv import ChangeState
from rcl_interfaces.msg import SetParametersResult
from rcl_interfaces.srv import (
    DescribeParameters,
    GetParameters,
    GetParameterTypes,
    ListParameters,
    SetParameters,
    SetParametersAtomically,
)
from rclpy.client import Client
from rclpy.exceptions import InvalidHandle
from rclpy.executors import (
    ExternalShutdownException,
    ShutdownException,
    SingleThreadedExecutor,
    await_or_execute,
)
from rclpy.impl.implementation_singleton import rclpy_implementation as _rclpy
from rclpy.logging import LoggingSeverity
from rclpy.node import Node
from rclpy.service import Service
from rclpy.subscription import Subscription
from rclpy.utilities import get_rmw_implementation_identifier

from edgetpu_driver.errors import EdgeTpuError, InputError
from edgetpu_driver.node_kit.fatal_error import FatalError
from edgetpu_driver.node_kit.messages.error_codes import write_error
from edgetpu_driver.node_kit.printable_text import describe, one_line

ENDING = (FatalError, ExternalShutdownException, ShutdownException)
"""Exceptions that end the process."""

MOST_PARAMETERS = 1000
"""Most parameters in one request. rclpy takes half a millisecond for each, while no image is processed."""

MOST_FOREIGN_ANSWERS = 64
"""Attempts in one round to take an answer without getting one. With Fast DDS the queue of a client also holds
the answers to all other clients of its service, and an attempt drops one of these. A node that drops fewer in
a round than the others get loses its own answers, which are pushed out of the queue. With an empty queue the
attempts take 60 us in all."""

_PARAMETER_LISTS = {
    SetParameters: "parameters",
    SetParametersAtomically: "parameters",
    GetParameters: "names",
    GetParameterTypes: "names",
    DescribeParameters: "names",
    ListParameters: "prefixes",
}


class UnreadableError(Exception):
    """A message, request or answer could not be read from the middleware."""

    def __init__(self, cause: Exception | str) -> None:
        super().__init__(cause if isinstance(cause, str) else f"{type(cause).__name__}: {cause}")


@runtime_checkable
class CountsFailures(Protocol):
    """A node that counts the exceptions of its callbacks."""

    def on_callback_failure(self, source: str, error: Exception) -> None:
        """Log once and count an exception of a callback or, as UnreadableError, one before it."""
        ...


def report(nodes: Iterable[Node], source: str, error: Exception) -> None:
    """Log and count an exception for the node it belongs to; raises it again if it is to end the process.

    Removes the tracebacks of the exception and its causes. Their frames refer to the exception in turn, so
    images in these frames would remain until the garbage collector runs.
    """
    if isinstance(error, ENDING):
        raise error
    node = next(iter(culprits(list(nodes), error)), None)
    if node is None or not node.context.ok():
        raise error
    if isinstance(node, CountsFailures):
        node.on_callback_failure(source, error)
    else:
        node.get_logger().error(f"{source}: {reason(error)}")
    logger = node.get_logger()
    if logger.is_enabled_for(LoggingSeverity.DEBUG):
        logger.debug("".join(traceback.format_exception(error)))
    _forget_tracebacks(error)


def _forget_tracebacks(error: BaseException) -> None:
    rest: list[BaseException | None] = [error]
    done: list[BaseException | None] = [None]
    while rest:
        each = rest.pop()
        if all(each is not other for other in done) and each is not None:
            each.__traceback__ = None
            rest += (each.__cause__, each.__context__)
            done.append(each)


def reason(error: Exception) -> str:
    """Describe an exception on one line."""
    if isinstance(error, UnreadableError):
        return f"cannot be read, skipped ({one_line(error)})"
    return one_line(error) if isinstance(error, EdgeTpuError) else describe(error)


def source_of(entity: object) -> str:
    """Return the name of the entity that an executor was handling."""
    if isinstance(entity, Subscription):
        return f"message on {entity.topic_name}"
    if isinstance(entity, Service):
        with entity.handle:  # rclpy of Humble has no service_name
            return f"request to {entity.handle.name}"
    if isinstance(entity, Client):
        return f"answer of {entity.srv_name}"
    callback = getattr(entity, "callback", None)
    return getattr(callback, "__qualname__", None) or type(entity).__name__


@contextmanager
def answering(service: Service, header: Any, request: Any, response: Any) -> Iterator[None]:
    """Answer the request with an error if the block, which answers it, raises; then raise that again."""
    try:
        _check_parameters(service.srv_type, request)
        yield
    except ENDING:
        raise
    except Exception as error:
        if service.srv_type is ChangeState and isinstance(error, _rclpy.RCLError):
            # A lifecycle manager may request this of a node that has activated itself.
            error = InputError(f"transition {request.transition.id} is not possible in the present state")
        service.send_response(error_answer(service.srv_type, request, response, error), header)
        raise error


def _check_parameters(kind: Any, request: Any) -> None:
    """Raise InputError for a request for more parameters than any node has."""
    field = _PARAMETER_LISTS.get(kind)
    if field is not None and len(getattr(request, field)) > MOST_PARAMETERS:
        raise InputError(
            f"expected at most {MOST_PARAMETERS} {field} in a request; got {len(getattr(request, field))}"
        )


def error_answer(kind: Any, request: Any, response: Any, error: Exception) -> Any:
    """Make the answer to a request whose callback raised, given the response that it was filling in."""
    answer = kind.Response()
    if kind is SetParameters:
        return _parameter_results(request, response, reason(error))
    if kind is SetParametersAtomically:
        answer.result.reason = reason(error)
    return write_error(answer, error)


def _parameter_results(request: Any, response: Any, text: str) -> SetParameters.Response:
    """Keep the results of the parameters before the one that raised; those after it were not set."""
    results = list(response.results)
    results.append(SetParametersResult(reason=text))
    later = SetParametersResult(reason="not set: a parameter before it in the request failed")
    results += [later] * (len(request.parameters) - len(results))
    return SetParameters.Response(results=results[: len(request.parameters)])


def read_request(service: Service) -> tuple[Any, Any]:
    """Take a request and its header, which is None if there was none. Raises UnreadableError."""
    try:
        request, header = service.handle.service_take_request(service.srv_type.Request)
    except InvalidHandle:
        raise
    except Exception as error:
        raise UnreadableError(error) from error
    return request, header


def read_ready_request(service: Service) -> tuple[Any, Any]:
    """Take a request that the wait set has announced; otherwise as `read_request`.

    Also raises UnreadableError if Fast DDS returns no request: it drops a request that it cannot deserialise
    and reports that on standard error at best. Other middlewares raise an exception then, and may also
    announce a client that has left.
    """
    request, header = read_request(service)
    if header is None and get_rmw_implementation_identifier().startswith("rmw_fastrtps"):
        raise UnreadableError("the middleware could not deserialise it")
    return request, header


class GuardedExecutor(SingleThreadedExecutor):
    """rclpy's single-threaded executor, except that it continues after exceptions of callbacks.

    It overrides private methods of rclpy: `_make_handler`, which every callback goes through, and
    `_spin_once_impl`, which raises what tasks raise.
    """

    def _spin_once_impl(self, *arguments: Any) -> None:
        try:
            super()._spin_once_impl(*arguments)
        except Exception as error:
            self.report_task(error)

    def report_task(self, error: Exception) -> None:
        """Report an exception of a task that belongs to no entity."""
        report(self.get_nodes(), "task", error)

    def _make_handler(
        self, entity: Any, node: Node, take_from_wait_list: Callable[[Any], Any], *call: Callable[..., Any]
    ) -> Any:
        take = partial(_take_for, call[0], take_from_wait_list) if call else take_from_wait_list
        if isinstance(entity, Service):
            take = _take_request
        elif isinstance(entity, Client):
            take = partial(_take_answer, self)

        def take_guarded(entity: Any) -> Callable[[], Awaitable[None]] | None:
            try:
                execute = take(entity)
            except Exception as error:
                unreadable = isinstance(entity, Subscription | Client)
                report([node], source_of(entity), UnreadableError(error) if unreadable else error)
                return None
            return None if execute is None else _guarded(execute, node, entity)

        return super()._make_handler(entity, node, take_guarded, *([_execute] if call else []))


def _take_for(
    call: Callable[[Any, Any], Awaitable[None]], take: Callable[[Any], Any], entity: Any
) -> Callable[[], Awaitable[None]]:
    """Take data with what rclpy of Humble gives, as later ones do: returns a function that calls back."""
    return partial(call, entity, take(entity))


async def _execute(_entity: Any, execute: Callable[[], Awaitable[None]] | None) -> None:
    if execute is not None:
        await execute()


def _guarded(
    execute: Callable[[], Awaitable[None]], node: Node, entity: Any
) -> Callable[[], Awaitable[None]]:
    async def run() -> None:
        try:
            await execute()
        except Exception as error:
            report([node], source_of(entity), error)

    return run


def _take_request(service: Service) -> Callable[[], Awaitable[None]] | None:
    """Read a request for an executor of rclpy; returns a function that calls the callback and answers."""
    try:
        with service.handle:
            request, header = read_ready_request(service)
    except InvalidHandle:  # the service was destroyed
        return None
    if header is None:
        return None

    async def execute() -> None:
        response = service.srv_type.Response()
        with answering(service, header, request, response):
            service.send_response(await await_or_execute(service.callback, request, response), header)

    return execute


def _take_answer(executor: SingleThreadedExecutor, client: Client) -> Callable[[], Awaitable[None]] | None:
    """Read an answer for an executor of rclpy, past those to others; returns a function that delivers it."""
    try:
        with client.handle:
            for _ in range(MOST_FOREIGN_ANSWERS):
                header, response = client.handle.take_response(client.srv_type.Response)
                if header is not None:
                    break
            else:
                return None
    except InvalidHandle:  # the client was destroyed
        return None

    async def execute() -> None:
        try:
            future = client.get_pending_request(header.request_id.sequence_number)
        except KeyError:
            return  # it was cancelled
        future._set_executor(executor)
        future.set_result(response)

    return execute


def culprits(nodes: Sequence[Node], error: Exception) -> Sequence[Node]:
    """Return the nodes with a method in the traceback; all of them if there is none."""
    seen = [frame.f_locals.get("self") for frame, _ in traceback.walk_tb(error.__traceback__)]
    return [node for node in nodes if any(node is each for each in seen)] or nodes

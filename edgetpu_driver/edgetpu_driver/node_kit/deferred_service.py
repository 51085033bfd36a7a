"""Services whose callbacks do not wait: the answer is sent later, by any thread."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from rclpy.exceptions import InvalidHandle
from rclpy.node import Node
from rclpy.qos import QoSProfile
from rclpy.service import Service

from edgetpu_driver.node_kit.executor.callback_guard import error_answer
from edgetpu_driver.node_kit.middleware.qos_profiles import QOS_SERVICE
from edgetpu_driver.node_kit.printable_text import describe

Respond = Callable[[Any], None]
"""Sends the answer to one request; may be called by any thread, and ignores all calls but the first."""


def create_deferred_service(
    node: Node,
    kind: Any,
    name: str,
    callback: Callable[[Any, Respond], None],
    qos_profile: QoSProfile = QOS_SERVICE,
) -> Service:
    """Offer a service; `callback` gets each request and a function that sends its answer, at once or later.

    Every executor passes what the callback of a service returns, with the header of the request, to
    `Service.send_response`. Here the callback returns a placeholder for the answer, and the `send_response`
    of this service stores the header in it, so no coroutine is suspended and executors need no change. Two
    threads may send answers at the same time: rclpy holds the interpreter lock meanwhile. An answer that
    cannot be sent is replaced with one that says why; if the client has gone, it is dropped.
    """

    def on_request(request: Any, _response: Any) -> _Answer:
        answer = _Answer(send)
        callback(request, answer.respond)
        return answer

    service: Service = node.create_service(kind, name, on_request, qos_profile=qos_profile)
    send_response = service.send_response

    def send(response: Any, header: Any) -> None:
        try:
            send_response(response, header)
        except InvalidHandle:
            pass  # the service was destroyed while the request was under way
        except Exception as error:
            node.get_logger().warning(
                f"{name}: an answer was not sent: {describe(error)}", throttle_duration_sec=5.0
            )
            with suppress(Exception):  # the client is gone, most likely
                send_response(error_answer(kind, None, response, error), header)

    def note_header(answer: Any, header: Any) -> None:
        if isinstance(answer, _Answer):
            answer.address(header)
        else:  # an executor answers for a callback that has raised
            send(answer, header)

    service.send_response = note_header
    return service


class _Answer:
    """The answer to one request and the header it is sent with, whichever is known first."""

    __slots__ = ("_header", "_lock", "_response", "_send")

    def __init__(self, send: Callable[[Any, Any], None]) -> None:
        self._send = send
        self._lock = threading.Lock()
        self._header: Any = None
        self._response: Any = None

    def respond(self, response: Any) -> None:
        """Send the answer, as soon as the header is known."""
        with self._lock:
            if self._response is not None:
                return
            self._response = response
            header = self._header
        if header is not None:
            self._send(response, header)

    def address(self, header: Any) -> None:
        """Set the header, and send the answer if it is known."""
        with self._lock:
            self._header = header
            response = self._response
        if response is not None:
            self._send(response, header)

"""Refuses damaged requests and answers before the middleware's deserialiser reads them.

rmw_fastrtps gives the deserialiser a buffer that grows: a length beyond its end enlarges the buffer instead
of failing. If there is not enough memory, the buffer is lost. In lists of messages the generated code ignores
that error and reads on beyond the next buffer, which ends the process with SIGSEGV. This module checks the
lengths first. rclpy has no hook for that, so the deserialiser in the function table of a message type is
replaced by a function that checks the lengths and then calls the original. If the libraries are laid out in
another way than `type_callbacks` expects, the deserialiser is not replaced, and the log says so.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rclpy.node import Node
from rclpy.utilities import get_rmw_implementation_identifier

from edgetpu_driver.node_kit.middleware.serialized_lengths import SerializedLengths, UnknownTypeError
from edgetpu_driver.node_kit.middleware.type_callbacks import (
    Function,
    OtherLayoutError,
    TypeCallbacks,
    address_of,
)

_checked: dict[type[Any], _CheckedType | None] = {}
"""By type, None where the deserialiser stays; kept, because the functions must not be collected."""

_logged: set[str] = set()
"""The middlewares of which the log says that only they check lengths."""


def refuse_damaged_requests(nodes: Iterable[Node]) -> None:
    """Check the requests to the services that nodes have now, and the answers to their clients.

    A message that does not fit is treated as if the middleware could not deserialise it.
    """
    for node in nodes:
        requests = [service.srv_type.Request for service in node.services]
        answers = [client.srv_type.Response for client in node.clients]
        _check(node, [*requests, *answers])


def refuse_damaged_answers(node: Node, kind: Any) -> None:
    """Check the answers of all services of a type, of which a node is about to make a client."""
    _check(node, [kind.Response])


def _check(node: Node, message_types: Iterable[type[Any]]) -> None:
    """Check the messages of these types from now on; the log says once if that is not possible."""
    middleware = get_rmw_implementation_identifier()
    for each in message_types:
        if each not in _checked:
            _checked[each] = _checked_type(each) if middleware == "rmw_fastrtps_cpp" else None
            if _checked[each] is None and middleware not in _logged:
                _logged.add(middleware)
                node.get_logger().info(
                    f"the lengths in requests and answers, such as {each.__name__}, are checked by "
                    f"{middleware} only"
                )


def _checked_type(message_type: type[Any]) -> _CheckedType | None:
    try:
        return _CheckedType(message_type)
    except (UnknownTypeError, OtherLayoutError):
        return None


class _CheckedType:
    """A message type whose deserialiser is replaced."""

    def __init__(self, message_type: type[Any]) -> None:
        """Raises OtherLayoutError and UnknownTypeError, and changes nothing then."""
        self._lengths = SerializedLengths(message_type)
        self._callbacks = TypeCallbacks(message_type)
        if not self._lengths.fit(memoryview(self._callbacks.sample)):
            raise OtherLayoutError
        self._original = Function(self._callbacks.table.deserialise)
        self._function = Function(self._deserialise)
        self._callbacks.table.deserialise = address_of(self._function)

    def _deserialise(self, cdr: int, message: int) -> bool:
        """Deserialise a message that fits: its lengths cannot make the original raise an exception."""
        if not self._lengths.fit(self._callbacks.buffer(cdr)):
            return False
        return bool(self._original(cdr, message))

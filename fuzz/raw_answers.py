"""Makes services of this process answer with arbitrary bytes, which is not possible with rclpy."""

from __future__ import annotations

from typing import Any

from edgetpu_driver.node_kit.middleware.type_callbacks import Function, TypeCallbacks, address_of


class RawAnswers:
    """Makes the answers of all services of one type begin with given bytes.

    The serialiser of the type is replaced by a function that overwrites what it has written. Needs Fast DDS.
    """

    def __init__(self, kind: Any) -> None:
        """`kind`: the type of the services."""
        self.begin = b""
        """First bytes of the answers, including the encapsulation; answers must be at least as long."""
        self._callbacks = TypeCallbacks(kind.Response)
        self._original = self._callbacks.table.serialise
        self._serialise = Function(self._original)
        self._function = Function(self._overwritten)
        self._callbacks.table.serialise = address_of(self._function)

    def close(self) -> None:
        """Let services answer as usual."""
        self._callbacks.table.serialise = self._original

    def _overwritten(self, message: int, cdr: int) -> bool:
        done = bool(self._serialise(message, cdr))
        self._callbacks.buffer(cdr)[: len(self.begin)] = self.begin
        return done

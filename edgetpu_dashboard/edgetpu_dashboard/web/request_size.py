"""Refuses requests that are larger than any of the page's, before the excess is stored."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from edgetpu_dashboard.web.access import App, Scope

_TOO_LARGE = 413


class TooLargeError(Exception):
    """A request turned out to be too large while it was read."""


class RequestSize:
    """An ASGI application that passes on requests of a limited size to another one.

    The page learns the size of a file only when all of it is on the disk, which anyone could fill that way.
    """

    def __init__(self, app: App, largest: int) -> None:
        """largest: largest size of the body, bytes."""
        self._app, self._largest = app, largest

    async def __call__(self, scope: Scope, receive: Any, send: Any) -> None:
        """Handle a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        lengths = [value for key, value in scope["headers"] if key == b"content-length"]
        if any(value.isdigit() and int(value) > self._largest for value in lengths):
            await self._refuse(send)
            return
        exchange = _Exchange(receive, send, self._largest)
        with suppress(TooLargeError):
            await self._app(scope, exchange.receive, exchange.send)
        if exchange.too_large and not exchange.answered:
            await self._refuse(send)

    async def _refuse(self, send: Any) -> None:
        text = f"expected a request of at most {self._largest} bytes\n".encode()
        # Closed, as the rest of the request is not read.
        headers = [(b"content-type", b"text/plain; charset=utf-8"), (b"connection", b"close")]
        await send({"type": "http.response.start", "status": _TOO_LARGE, "headers": headers})
        await send({"type": "http.response.body", "body": text})


class _Exchange:
    """A request, which may not state its length, and its answer."""

    def __init__(self, receive: Any, send: Any, largest: int) -> None:
        self._receive, self._send = receive, send
        self._left = largest
        self.answered = False

    @property
    def too_large(self) -> bool:
        """Whether more was received than is allowed."""
        return self._left < 0

    async def receive(self) -> Any:
        """Return the next part of the request; TooLargeError."""
        message = await self._receive()
        self._left -= len(message.get("body", b""))
        if self.too_large:
            raise TooLargeError
        return message

    async def send(self, message: Any) -> None:
        """Send a part of the answer, unless it only reports that the request, too large, was cut off."""
        if self.answered or not self.too_large:
            self.answered = True
            await self._send(message)

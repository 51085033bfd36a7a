"""Requests of a limited size."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from edgetpu_dashboard.web.request_size import RequestSize

LARGEST = 10


class Form:
    """An application that reads a form, as NiceGUI's uploads are read, and answers."""

    def __init__(self) -> None:
        self.read = b""

    async def __call__(self, _scope: Any, receive: Any, send: Any) -> None:
        status = 200
        try:
            while True:
                message = await receive()
                self.read += message["body"]
                if not message["more_body"]:
                    break
        except Exception:  # a server answers, then lets the error through
            status = 500
            raise
        finally:
            await send({"type": "http.response.start", "status": status, "headers": []})
            await send({"type": "http.response.body", "body": b"done"})


def send_form(form: Form, parts: list[bytes], **headers: str) -> list[dict[str, Any]]:
    """What is sent in answer to a form that comes in parts."""
    waiting = [
        {"type": "http.request", "body": part, "more_body": number < len(parts)}
        for number, part in enumerate(parts, 1)
    ]
    fields = [(key.replace("_", "-").encode(), value.encode()) for key, value in headers.items()]
    sent: list[dict[str, Any]] = []

    async def receive() -> Any:
        return waiting.pop(0)

    async def send(message: Any) -> None:
        sent.append(message)

    asyncio.run(RequestSize(form, LARGEST)({"type": "http", "headers": fields}, receive, send))
    return sent


def test_a_request_of_the_largest_size_is_passed_on() -> None:
    form = Form()
    answer = send_form(form, [b"12345", b"67890"], content_length="10")
    assert (answer[0]["status"], form.read) == (200, b"1234567890")


def test_a_request_that_tells_a_larger_size_is_not_read() -> None:
    form = Form()
    answer = send_form(form, [b"12345678901"], content_length="11")
    assert (answer[0]["status"], form.read) == (413, b"")
    assert answer[1]["body"] == b"expected a request of at most 10 bytes\n"


@pytest.mark.parametrize("parts", [[b"12345", b"678901", b"2"], [b"12345678901"]])
def test_a_request_that_does_not_tell_its_size_is_read_up_to_the_limit(parts: list[bytes]) -> None:
    form = Form()
    answer = send_form(form, parts, transfer_encoding="chunked")
    assert [each.get("status") for each in answer] == [413, None]
    assert len(form.read) <= LARGEST


def test_a_stream_is_passed_on() -> None:
    passed: list[str] = []

    async def live(scope: Any, _receive: Any, _send: Any) -> None:
        passed.append(scope["type"])

    asyncio.run(RequestSize(live, LARGEST)({"type": "websocket"}, None, None))
    assert passed == ["websocket"]

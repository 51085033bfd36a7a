"""The live data of a page over a WebSocket: pictures when the browser asks for one, numbers twice a second.

The browser asks for the next picture when it has shown the last one, so it gets no more than it takes.
"""

from __future__ import annotations

import asyncio
import json
import time
from contextlib import suppress
from typing import Any

from fastapi import WebSocket

from edgetpu_dashboard.live import pictures
from edgetpu_dashboard.live.snapshot import snapshot
from edgetpu_driver.errors import EdgeTpuError, InputError, UnavailableError

_NUMBERS_PERIOD = 0.5
"""Seconds between two messages of numbers and curves."""
_POLICY_VIOLATION = 1008
"""Status of RFC 6455."""
_LONGEST_REASON = 100
"""Characters; RFC 6455 allows 123 bytes."""
_POLL = 0.01
"""Seconds between two looks for a new picture."""


async def stream(dashboard: Any, socket: WebSocket, node: str, view: str) -> None:
    """Send pictures of a view, and the numbers of a node and of the graph, until the browser leaves."""
    await socket.accept()
    try:
        await dashboard.calls.in_executor(lambda: dashboard.view.look(view))
    except InputError as error:
        await socket.close(_POLICY_VIOLATION, str(error)[:_LONGEST_REASON])
        return
    wanted = asyncio.Event()
    numbers = asyncio.ensure_future(_send_numbers(dashboard, socket, node))
    shown = asyncio.ensure_future(_send_pictures(dashboard, socket, view, wanted))
    region = asyncio.ensure_future(_learn_region(dashboard, view))
    try:
        while (await socket.receive())["type"] != "websocket.disconnect":
            wanted.set()
    finally:
        for task in (numbers, shown, region):
            task.cancel()
        await asyncio.gather(numbers, shown, region, return_exceptions=True)
        with suppress(UnavailableError):
            await dashboard.calls.in_executor(lambda: dashboard.view.look_away(view))


async def _send_pictures(dashboard: Any, socket: WebSocket, view: str, wanted: asyncio.Event) -> None:
    last: tuple[Any, int] = None, 0
    due = 0.0
    while True:
        await wanted.wait()
        await asyncio.sleep(max(due - time.monotonic(), 0.0))
        # Asked for anew each time: drawn here or by the node, which may turn out while somebody looks.
        while (tap := dashboard.view.pictures.tap(view)) is None or (tap, tap.number) in (last, (tap, 0)):
            await asyncio.sleep(_POLL)
        due = time.monotonic() + 1 / dashboard.values["picture_rate"]
        last = tap, tap.number
        try:
            data = await asyncio.to_thread(_encode, tap, dashboard.values["picture_width"])
        except InputError:
            continue
        wanted.clear()
        await socket.send_bytes(data)


async def _learn_region(dashboard: Any, view: str) -> None:
    """Ask a node once which part of the image it looks at; the panel of its parameters sees changes."""
    viewed = dashboard.view.nodes.get(view)
    if viewed is None or "roi" not in viewed.settings:
        return
    try:
        region = await dashboard.calls.value(view, "roi")
    except (EdgeTpuError, TimeoutError, asyncio.TimeoutError):
        return  # the node does not run yet, or is busy
    await dashboard.calls.in_executor(lambda: dashboard.view.set_region(view, region))


def _encode(tap: Any, widest: int) -> bytes:
    return pictures.jpeg(tap.picture(), widest)


async def _send_numbers(dashboard: Any, socket: WebSocket, node: str) -> None:
    while True:
        await socket.send_text(json.dumps(snapshot(dashboard.view, node)))
        await asyncio.sleep(_NUMBERS_PERIOD)

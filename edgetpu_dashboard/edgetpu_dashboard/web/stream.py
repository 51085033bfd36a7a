"""The live data of a page over a WebSocket: pictures when the browser asks for one, numbers twice a second.

The browser asks for the next picture when it has shown the last one, so it gets no more than it takes.
"""

from __future__ import annotations

import asyncio
import json
import math
import time
from typing import Any

from fastapi import WebSocket, WebSocketDisconnect

from edgetpu_dashboard.live import pictures
from edgetpu_driver.errors import InputError

_NUMBERS_PERIOD = 0.5
"""Seconds between two messages of numbers and curves."""
_POLL = 0.01
"""Seconds between two looks for a new picture."""


async def stream(dashboard: Any, socket: WebSocket, node: str, view: str) -> None:
    """Send pictures of a view, and the numbers of a node and of the graph, until the browser leaves."""
    await socket.accept()
    tap = await dashboard.calls.in_executor(lambda: dashboard.view.look(view))
    wanted = asyncio.Event()
    numbers = asyncio.ensure_future(_send_numbers(dashboard, socket, node))
    shown = asyncio.ensure_future(_send_pictures(dashboard, socket, tap, wanted))
    try:
        while True:
            await socket.receive_text()
            wanted.set()
    except (WebSocketDisconnect, RuntimeError):
        pass
    finally:
        for task in (numbers, shown):
            task.cancel()
        await asyncio.gather(numbers, shown, return_exceptions=True)
        await dashboard.calls.in_executor(lambda: dashboard.view.look_away(view))


async def _send_pictures(dashboard: Any, socket: WebSocket, tap: Any, wanted: asyncio.Event) -> None:
    last, due = 0, 0.0
    while True:
        await wanted.wait()
        await asyncio.sleep(max(due - time.monotonic(), 0.0))
        while tap.number == last:
            await asyncio.sleep(_POLL)
        due = time.monotonic() + 1 / dashboard.values["picture_rate"]
        last = tap.number
        try:
            data = await asyncio.to_thread(_encode, tap, dashboard.values["picture_width"])
        except InputError:
            continue
        wanted.clear()
        await socket.send_bytes(data)


def _encode(tap: Any, widest: int) -> bytes:
    return pictures.jpeg(tap.picture(), widest)


async def _send_numbers(dashboard: Any, socket: WebSocket, node: str) -> None:
    while True:
        await socket.send_text(json.dumps(snapshot(dashboard.view, node)))
        await asyncio.sleep(_NUMBERS_PERIOD)


def snapshot(view: Any, name: str) -> dict[str, Any]:
    """Return what the page shows of the graph and of one node, as JSON has it."""
    now = time.monotonic()
    with view.lock:
        nodes = {each: _summary(viewed, now) for each, viewed in view.nodes.items()}
        shown = view.nodes.get(name)
        curves = _curves(shown, now) if shown is not None and shown.log is not None else []
        return {"node": name, "nodes": nodes, "curves": curves}


def _summary(viewed: Any, now: float) -> dict[str, Any]:
    entries = viewed.diagnostics.values()
    found: dict[str, Any] = {
        "running": viewed.running,
        "level": max((each.level for each in entries), key=_SEVERITY.index, default="ok"),
        "dropped": sum(int(each.values.get("dropped", 0)) for each in entries),
        "failed": sum(int(each.values.get("failed", 0)) for each in entries),
    }
    if viewed.log is not None:
        pace = viewed.log.pace(now)
        found |= {
            "rate": round(pace.rate, 1),
            "latency": _number(1e3 * pace.latency),
            "gap": _number(1e3 * pace.gap),
            "valid": bool(viewed.log.last.get("valid", False)),
            "confidence": _number(viewed.log.last.get("confidence", math.nan)),
        }
    return found


_SEVERITY = ("ok", "stale", "warning", "error")


def _curves(viewed: Any, now: float) -> list[dict[str, Any]]:
    return [
        {
            "field": value.field,
            "meaning": value.meaning,
            "unit": value.unit,
            "value": _number(viewed.log.last.get(value.field, math.nan)),
            "sigma": _number(viewed.log.last.get(value.sigma, math.nan)) if value.sigma else None,
            "points": [[t, _number(v), _number(s)] for t, v, s in viewed.log.curves[value.field].points(now)],
        }
        for value in viewed.result.values
    ]


def _number(value: float | None) -> float | None:
    """A number as JSON can hold it, with the digits that a curve shows."""
    if value is None or not math.isfinite(value):
        return None
    return float(f"{value:.5g}")

"""The live data of a page over a WebSocket: pictures when the browser asks for one, numbers twice a second.

The browser says `next` when it wants another picture, and `shown` when it shows one, so it gets no more than
it can show. A picture is a byte with the length of a name, the name of its view or, in the overview, of its
node, and a JPEG.
"""

from __future__ import annotations

import asyncio
import json
import math
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Protocol

from fastapi import WebSocket, WebSocketDisconnect

from edgetpu_dashboard.live.picture_cache import PictureCache
from edgetpu_dashboard.live.picture_encoding import Pixels
from edgetpu_dashboard.live.snapshot import SentPoints, snapshot
from edgetpu_driver.errors import EdgeTpuError, InputError, UnavailableError

OVERVIEW = "overview"
"""In place of the name of a view: small pictures of all running nodes."""
_SMALL_RATE, _SMALL_WIDTH = 2.0, 320
"""Most pictures of each node per second, and their width, px, in the overview."""
_NUMBERS_PERIOD = 0.5
"""Seconds between two messages of numbers and curves."""
_VIEWS_PERIOD = 1.0
"""Seconds between two checks of which nodes have pictures."""
_POLICY_VIOLATION, _TRY_AGAIN_LATER = 1008, 1013
"""Given by RFC 6455 and the registry that it sets up."""
_LONGEST_REASON = 123
"""Longest reason, bytes. Given by RFC 6455, 5.5: a control frame has at most 125, two of them the status."""
_POLL = 0.01
"""Seconds between two checks for a new picture."""


class Viewer(Protocol):
    """The page that a stream belongs to."""

    image: Pixels | None
    """The image under the picture that the browser shows."""


@dataclass
class _Sent:
    """The last picture of a view that was sent."""

    tap: Any = None
    number: int = 0
    due: float = 0.0
    """Time from which the next one may be sent, s."""

    def allows(self, tap: Any, now: float) -> bool:
        """Whether the picture of a tap, which may be None, is new and may be sent now."""
        is_new = tap is not None and tap.number and (tap, tap.number) != (self.tap, self.number)
        return bool(is_new) and now >= self.due


async def stream(
    dashboard: Any,
    socket: WebSocket,
    viewer: Viewer | None,
    pictures: PictureCache,
    *,
    node: str,
    view: str,
) -> None:
    """Send pictures of a view, and the numbers of a node and of the graph, until the browser leaves.

    viewer: gets the image under each picture of a view once the browser shows it; None: not needed.
    """
    await socket.accept()
    overview = view == OVERVIEW
    feed = _PictureFeed(dashboard, pictures, small=overview)
    try:
        await feed.look_at(dashboard.view.pictured() if overview else {view: view})
    except (InputError, UnavailableError) as error:
        await _refuse(socket, error)
        return
    wanted = asyncio.Event()
    tasks = [
        asyncio.ensure_future(_send_numbers(dashboard, socket, node)),
        asyncio.ensure_future(feed.send(socket, wanted)),
        asyncio.ensure_future(_follow_nodes(dashboard, feed) if overview else _learn_region(dashboard, view)),
    ]
    try:
        while (message := await socket.receive())["type"] != "websocket.disconnect":
            if message.get("text") != "shown":
                wanted.set()
            elif viewer is not None and not overview:
                viewer.image = feed.image
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        with suppress(UnavailableError):
            await feed.look_at({})


async def _refuse(socket: WebSocket, error: InputError | UnavailableError) -> None:
    """Close the connection with the reason."""
    status = _POLICY_VIOLATION if isinstance(error, InputError) else _TRY_AGAIN_LATER
    reason = str(error).encode(errors="replace")[:_LONGEST_REASON]
    with suppress(WebSocketDisconnect):  # the browser has left
        await socket.close(status, reason.decode(errors="ignore"))


class _PictureFeed:
    """Sends the pictures of one view or several in turn."""

    def __init__(self, dashboard: Any, pictures: PictureCache, *, small: bool) -> None:
        self._dashboard = dashboard
        self._pictures = pictures
        self._small = small
        self._views: dict[str, str] = {}
        self._sent: dict[str, _Sent] = {}
        self._changing = asyncio.Lock()
        self.image: Pixels | None = None
        """The image under the last picture."""

    async def look_at(self, views: Mapping[str, str]) -> None:
        """Receive the pictures of these views, by the names they are sent with, and of no others.

        Raises InputError for a view that does not exist.
        """
        # Completed even if the browser leaves meanwhile, so that every start is followed by its stop.
        await asyncio.shield(self._change(views))

    async def _change(self, views: Mapping[str, str]) -> None:
        view = self._dashboard.view
        async with self._changing:
            for name in self._views.keys() - views.keys():
                gone = self._views.pop(name)
                self._sent.pop(name, None)
                await self._dashboard.calls.in_executor(lambda gone=gone: view.look_away(gone))
            for name in views.keys() - self._views.keys():
                await self._dashboard.calls.in_executor(lambda new=views[name]: view.look(new))
                self._views[name] = views[name]

    async def send(self, socket: WebSocket, wanted: asyncio.Event) -> None:
        """Send a picture each time one is wanted."""
        while True:
            await wanted.wait()
            name, tap = await self._next()
            try:
                picture, data = await self._pictures.newest(tap, self._width())
            except InputError:
                continue
            wanted.clear()
            self.image = picture.image
            label = name.encode()
            await socket.send_bytes(bytes([len(label)]) + label + data)

    async def _next(self) -> tuple[str, Any]:
        """Wait for a picture that may be sent: its name and its tap."""
        while True:
            now = time.monotonic()
            for name in sorted(self._views, key=lambda each: self._of(each).due):
                # Looked up each time, because it may change between drawn here and drawn by the node.
                tap = self._dashboard.view.pictures.tap(self._views[name])
                if self._of(name).allows(tap, now):
                    self._sent[name] = _Sent(tap, tap.number, self._next_due(now))
                    return name, tap
            due = min((self._of(name).due for name in self._views), default=now)
            await asyncio.sleep(max(due - now, _POLL))

    def _of(self, name: str) -> _Sent:
        return self._sent.get(name, _Sent())

    def _next_due(self, now: float) -> float:
        """When the next picture is due, s: the same for all browsers, so that they show the same pictures."""
        return (math.floor(now * self._rate()) + 1) / self._rate()

    def _rate(self) -> float:
        most = float(self._dashboard.values["picture_rate"])
        return min(most, _SMALL_RATE) if self._small else most

    def _width(self) -> int:
        widest = int(self._dashboard.values["picture_width"])
        return min(widest, _SMALL_WIDTH) if self._small else widest


async def _follow_nodes(dashboard: Any, feed: _PictureFeed) -> None:
    """Keep the overview up to date with the running nodes."""
    while True:
        await asyncio.sleep(_VIEWS_PERIOD)
        with suppress(InputError, UnavailableError):  # a node that has just ended, or a busy executor
            await feed.look_at(dashboard.view.pictured())


async def _learn_region(dashboard: Any, view: str) -> None:
    """Ask a node once which part of the image it processes; the parameters panel notices later changes."""
    viewed = dashboard.view.nodes.get(view)
    if viewed is None or "roi" not in viewed.settings:
        return
    try:
        region = await dashboard.calls.value(view, "roi")
    except EdgeTpuError:
        return  # the node does not run yet, or is busy
    await dashboard.calls.in_executor(lambda: dashboard.view.set_region(view, region))


async def _send_numbers(dashboard: Any, socket: WebSocket, node: str) -> None:
    sent = SentPoints()
    while True:
        await socket.send_text(json.dumps(snapshot(dashboard.view, node, sent)))
        await asyncio.sleep(_NUMBERS_PERIOD)

"""The stream of a page while the dashboard is busy."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("fastapi", reason="NiceGUI is not installed: tools/run.sh tools/install_extra.sh live")

from fastapi import WebSocketDisconnect

from edgetpu_dashboard.live.picture_cache import PictureCache
from edgetpu_dashboard.web.stream import stream
from edgetpu_driver.errors import UnavailableError

BUSY = "the dashboard did not answer within 10 s"


class BusyCalls:
    """An executor that runs nothing."""

    async def in_executor(self, _work: Callable[[], Any]) -> Any:
        raise UnavailableError(BUSY)


class Socket:
    """The connection of a browser, which may have left."""

    def __init__(self, *, left: bool) -> None:
        self._left = left
        self.closed: list[tuple[int, str]] = []

    async def accept(self) -> None:
        pass

    async def close(self, code: int, reason: str) -> None:
        if self._left:
            raise WebSocketDisconnect(1006)
        self.closed.append((code, reason))


@pytest.mark.parametrize(("left", "closed"), [(False, [(1013, BUSY)]), (True, [])])
def test_a_busy_dashboard_asks_the_browser_to_come_again(left: bool, closed: list[Any]) -> None:
    dashboard: Any = SimpleNamespace(view=SimpleNamespace(), calls=BusyCalls())
    socket: Any = Socket(left=left)
    asyncio.run(stream(dashboard, socket, None, PictureCache(), node="looming", view="looming"))
    assert socket.closed == closed

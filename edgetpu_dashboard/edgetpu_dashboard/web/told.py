"""Tells a user why something did not work."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from nicegui import ui

from edgetpu_driver.errors import EdgeTpuError, reason_of


@asynccontextmanager
async def told() -> AsyncIterator[None]:
    """Show what went wrong in the block as a message at the edge of the page."""
    try:
        yield
    except EdgeTpuError as error:
        ui.notify(reason_of(error), type="negative", multi_line=True, close_button=True)
    except (TimeoutError, asyncio.TimeoutError):
        ui.notify("no answer in time", type="negative")

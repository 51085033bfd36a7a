"""Shows errors of a user's requests as notices on the page."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from nicegui import ui

from edgetpu_driver.errors import EdgeTpuError, reason_of


@asynccontextmanager
async def errors_shown() -> AsyncIterator[None]:
    """Show an error of the block as a notice and continue; exceptions from outside the suite pass.

    Notices belong to the page, because the button that was pressed may be gone by then.
    """
    with ui.context.client:
        try:
            yield
        except EdgeTpuError as error:
            ui.notify(reason_of(error), type="negative", multi_line=True, close_button=True)

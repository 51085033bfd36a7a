"""Shows errors of a user's requests as notices on the page."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from nicegui import ui

from edgetpu_driver.errors import EdgeTpuError, reason_of


@asynccontextmanager
async def errors_shown(button: Any = None) -> AsyncIterator[None]:
    """Show an EdgeTpuError of the block as a notice and continue; other exceptions are passed on.

    button: the one that was pressed; it shows a spinner and takes no clicks until the block ends. Notices
    belong to the page, because the button may be gone by then.
    """
    with ui.context.client:
        if button is not None:
            button.props("loading")
        try:
            yield
        except EdgeTpuError as error:
            ui.notify(reason_of(error), type="negative", multi_line=True, close_button=True)
        finally:
            if button is not None and not button.is_deleted:
                button.props(remove="loading")

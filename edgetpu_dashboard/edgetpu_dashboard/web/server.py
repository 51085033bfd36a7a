"""Serves the page in a separate thread."""

from __future__ import annotations

import socket
import threading
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

import uvicorn
from fastapi import FastAPI, WebSocket
from nicegui import app as nicegui_app
from nicegui import ui

from edgetpu_dashboard.live.matrix_file import LARGEST_MATRIX
from edgetpu_dashboard.live.model_file import LARGEST
from edgetpu_dashboard.live.picture_cache import PictureCache
from edgetpu_dashboard.web.access import Access, is_local
from edgetpu_dashboard.web.address import bound_socket
from edgetpu_dashboard.web.page import Page, build_page
from edgetpu_dashboard.web.request_size import RequestSize
from edgetpu_dashboard.web.stream import stream

_STATIC = Path(__file__).parent / "static"
_LARGEST_REQUEST = max(LARGEST, LARGEST_MATRIX) + 2**16
"""Largest request, bytes: the largest file that the page takes, with the boundary and file name of a form."""
_RECONNECT = 30.0
"""Seconds for which a page without a connection is kept, with its panels and the typed text. Chosen: longer
than a gap in a wireless network or a look at another app on a phone. NiceGUI also derives from it how long a
browser may be silent: 12 s, as the default of 2 s is too short for a browser on a busy computer."""
_CLOSING = 1.0
"""Seconds within which connections may end."""


class Server:
    """A running server of the page."""

    def __init__(self, application: Any, listener: socket.socket) -> None:
        config = uvicorn.Config(
            application,
            log_level="warning",
            ws="websockets-sansio",
            timeout_graceful_shutdown=1,
        )
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(
            target=self._server.run, kwargs={"sockets": [listener]}, name="dashboard", daemon=True
        )
        self._thread.start()

    def close(self) -> None:
        """Stop serving."""
        self._server.should_exit = True
        self._thread.join(_CLOSING)


def serve(dashboard: Any, host: str, port: int, token: str) -> Server:
    """Serve the page of a dashboard node; OSError if the port is in use."""
    listener = bound_socket(host, port)
    pages: WeakValueDictionary[str, Page] = WeakValueDictionary()
    pictures = PictureCache()
    application = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)

    @application.websocket("/live")
    async def live(client: WebSocket, page: str = "", node: str = "", view: str = "") -> None:
        await stream(dashboard, client, pages.get(page), pictures, node=node, view=view)

    @ui.page("/")
    async def page() -> None:
        built = build_page(dashboard)
        pages[built.key] = built

    # Built with --symlink-install, the files are links out of this folder.
    nicegui_app.add_static_files("/dashboard", str(_STATIC), follow_symlink=True)
    ui.run_with(
        application,
        title="Edge TPU",
        dark=True,
        favicon="🪸",
        reconnect_timeout=_RECONNECT,
        show_welcome_message=False,
    )
    limited = RequestSize(application, _LARGEST_REQUEST)
    return Server(Access(limited, token, local=is_local(host)), listener)

"""Pictures in the browser, from a stream that the test sends."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

from testdata.running_nodes.dashboard_page import errors_in_console, needs_browser, pictures, wait

from edgetpu_dashboard.web import __file__ as web_package  # isort: skip

pytestmark = needs_browser

STREAM = """
window.said = [];
window.WebSocket = class {
  static OPEN = 1;
  readyState = 1;
  constructor() { window.stream = this; }
  send(text) { window.said.push(text); }
  close() {}
};
document.body.innerHTML = '<img id="live">';
edgetpuLive.show({ page: "page", node: "", view: "camera" });
window.stream.onopen();
"""
"""Opens the stream of a view; what the page says there is in `said`."""


@pytest.fixture
def page(chromium: Any) -> Iterator[Any]:
    """An empty page with the scripts of the dashboard and a picture."""
    folder = Path(web_package).parent / "static"
    scripts = ";".join((folder / name).read_text(encoding="utf-8") for name in ("curves.js", "live.js"))
    chromium.get("about:blank")
    errors_in_console(chromium)
    chromium.execute_script(f"{scripts}; window.edgetpuLive = edgetpuLive; {STREAM}")
    yield chromium
    assert errors_in_console(chromium) == []
    chromium.get("about:blank")


def send(page: Any, picture: bytes) -> None:
    """Send a picture of the camera."""
    data = [len("camera"), *b"camera", *picture]
    page.execute_script("window.stream.onmessage({ data: new Uint8Array(arguments[0]).buffer })", data)


def said(page: Any) -> list[str]:
    """What the page has said on the stream."""
    found: list[str] = page.execute_script("return window.said")
    return found


def test_a_picture_that_is_shown_is_confirmed_and_the_next_one_asked_for(page: Any) -> None:
    send(page, cv2.imencode(".jpg", np.zeros((8, 8), np.uint8))[1].tobytes())
    wait(page, lambda: said(page) == ["next", "shown", "next"])
    assert pictures(page) == 1


def test_a_picture_that_the_browser_cannot_decode_is_followed_by_the_next_one(page: Any) -> None:
    send(page, b"no JPEG")
    wait(page, lambda: said(page) == ["next", "next"])
    assert pictures(page) == 0
    send(page, cv2.imencode(".jpg", np.zeros((8, 8), np.uint8))[1].tobytes())
    wait(page, lambda: said(page) == ["next", "next", "shown", "next"])
    assert pictures(page) == 1

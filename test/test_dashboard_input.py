"""The picture, the mouse, the keyboard and the stream of the page, in a real browser without a dashboard."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

from testdata.running_nodes.dashboard_page import errors_in_console, key, needs_browser, text, wait

from edgetpu_dashboard.web import __file__ as web_package  # isort: skip
from selenium.webdriver.common.action_chains import ActionChains  # isort: skip
from selenium.webdriver.common.by import By  # isort: skip

pytestmark = needs_browser

_PAGE = """
document.body.className = "";
document.body.innerHTML = `
  <button data-id="pause"><i></i></button><span id="connection"></span>
  <div id="picture" class="takes">
    <img id="live" draggable="false" style="width: 200px; height: 100px"><div id="box"></div>
  </div>`;
window.events = [];
window.emitEvent = (...event) => window.events.push(event);
window.saved = [];
HTMLAnchorElement.prototype.click = function () { window.saved.push(this.download); };
"""


_STUBS = """
window.WebSocket = class { constructor() { window.stream = this; } close() {} send() {} };
history.replaceState = () => {};
"""
"""In place of the live data and of the address, which this page does not have."""


@pytest.fixture
def page(chromium: Any) -> Iterator[Any]:
    """A picture of 200 x 100 px with the scripts of the page."""
    scripts = Path(web_package).parent / "static"
    code = "".join((scripts / name).read_text(encoding="utf-8") for name in ("curves.js", "live.js"))
    chromium.get("about:blank")
    errors_in_console(chromium)
    chromium.execute_script(f"{_STUBS}{_PAGE}{code}; window.edgetpuLive = edgetpuLive")
    yield chromium
    assert errors_in_console(chromium) == []


def pointer(page: Any, kind: str, x: int, y: int, number: int = 1) -> None:
    """Send an event of the mouse or of a finger, at px of the picture."""
    page.execute_script(
        "const [kind, x, y, pointerId] = arguments, live = document.getElementById('live');"
        "const area = live.getBoundingClientRect(), bubbles = true;"
        "const place = { clientX: area.left + x, clientY: area.top + y };"
        "live.setPointerCapture = () => {};"
        "live.dispatchEvent(new PointerEvent(kind, { ...place, pointerId, bubbles, button: 0 }))",
        kind,
        x,
        y,
        number,
    )


def events(page: Any) -> list[Any]:
    """What the page has told the dashboard."""
    return list(page.execute_script("return window.events"))


def box_is_shown(page: Any) -> bool:
    return bool(page.execute_script("return document.getElementById('box').style.display === 'block'"))


def test_a_drag_out_of_the_picture_ends_at_its_edge(page: Any) -> None:
    picture = page.find_element(By.ID, "live")
    drag = ActionChains(page).move_to_element_with_offset(picture, 0, 0).click_and_hold()
    drag.move_by_offset(150, 120).release().perform()
    assert events(page) == [["drag_picture", 0.5, 0.5, 1, 1]]
    assert not box_is_shown(page)


def test_a_drag_ends_where_the_page_shows_another_node(page: Any) -> None:
    pointer(page, "pointerdown", 50, 50)
    pointer(page, "pointermove", 100, 75)
    assert box_is_shown(page)
    page.execute_script("edgetpuLive.show({ page: 'p', node: 'looming', view: 'looming' })")
    pointer(page, "pointerup", 100, 75)
    assert events(page) == []
    assert not box_is_shown(page)


def test_a_picture_in_which_nothing_is_chosen_scrolls_with_the_page(page: Any) -> None:
    style = (Path(web_package).parent / "static" / "live.css").read_text(encoding="utf-8")
    page.execute_script(
        "document.head.append(Object.assign(document.createElement('style'), arguments[0]))",
        {"textContent": style},
    )
    touch = "return getComputedStyle(document.getElementById('live')).touchAction"
    assert page.execute_script(touch) == "none"
    page.execute_script("document.getElementById('picture').className = ''")
    assert page.execute_script(touch) == "auto"
    pointer(page, "pointerdown", 50, 50)
    pointer(page, "pointermove", 100, 75)
    assert not box_is_shown(page)
    pointer(page, "pointerup", 100, 75)
    assert events(page) == []


def test_two_fingers_are_no_drag(page: Any) -> None:
    pointer(page, "pointerdown", 50, 50, 1)
    pointer(page, "pointermove", 60, 60, 1)
    pointer(page, "pointerdown", 150, 50, 2)
    pointer(page, "pointermove", 140, 60, 2)
    pointer(page, "pointerup", 140, 60, 2)
    pointer(page, "pointerup", 60, 60, 1)
    assert events(page) == []
    assert not box_is_shown(page)


def test_escape_ends_a_drag(page: Any) -> None:
    pointer(page, "pointerdown", 50, 50)
    pointer(page, "pointermove", 100, 75)
    key(page, "\ue00c")
    pointer(page, "pointerup", 100, 75)
    assert events(page) == []
    assert not box_is_shown(page)


def test_the_pause_button_says_whether_it_is_pressed(page: Any) -> None:
    pressed = "return document.querySelector('[data-id=pause]').getAttribute('aria-pressed')"
    page.execute_script("edgetpuLive.pause()")
    assert page.execute_script(pressed) == "true"
    page.execute_script("edgetpuLive.pause()")
    assert page.execute_script(pressed) == "false"


def test_space_pauses_after_a_click_on_a_button_that_handles_keys_itself(page: Any) -> None:
    page.execute_script(
        "window.pressed = 0;"
        "const button = document.querySelector('[data-id=pause]');"
        "for (const kind of ['keydown', 'keyup'])"  # as the buttons of the page do
        "  button.addEventListener(kind, (event) => {"
        "    event.stopPropagation(); event.preventDefault(); window.pressed += 1;"
        "  })"
    )
    page.find_element(By.CSS_SELECTOR, "[data-id=pause]").click()
    key(page, " ")
    assert page.execute_script("return document.body.classList.contains('paused')")
    assert page.execute_script("return window.pressed") == 0


def test_s_saves_the_picture_with_caps_lock_too(page: Any) -> None:
    encoded = cv2.imencode(".jpg", np.zeros((8, 8, 3), np.uint8))[1].tobytes()
    page.execute_script("edgetpuLive.show({ page: 'p', node: 'looming', view: 'looming' })")
    page.execute_async_script(
        "const done = arguments[1], image = document.getElementById('live');"
        "window.stream.send = (text) => text === 'shown' && done();"
        "window.stream.readyState = WebSocket.OPEN;"
        "window.stream.onmessage({ data: new Uint8Array(arguments[0]).buffer })",
        [len(b"looming"), *b"looming", *encoded],
    )
    key(page, "S")
    (name,) = page.execute_script("return window.saved")
    assert name.startswith("looming_")


def test_what_was_found_is_shown_with_its_confidence(page: Any) -> None:
    place = {"running": True, "pictured": False, "level": "ok", "problem": "", "rate": 2.0, "latency": 5.0}
    place |= {"dropped": 0, "failed": 0, "valid": True, "confidence": 0.97, "word": "kitchen"}
    page.execute_script(
        "document.body.append(Object.assign(document.createElement('span'), { id: 'numbers' }));"
        "document.body.append(Object.assign(document.createElement('div'), { id: 'curves' }));"
        "edgetpuLive.show({ page: 'p', node: 'place', view: 'camera image' });"
        "window.stream.onmessage({ data: arguments[0] })",
        json.dumps({"time": 0, "node": "place", "nodes": {"place": place}, "curves": [], "facts": {}}),
    )
    assert text(page, "#numbers") == (
        "2.0 Hz · latency 5.0 ms · dropped 0 · failed 0 · valid: kitchen, confidence 0.97"
    )


def test_a_stream_that_falls_silent_is_not_called_connected(page: Any) -> None:
    numbers = json.dumps({"time": 0, "node": "looming", "nodes": {}, "curves": [], "facts": {}})
    page.execute_script(
        "edgetpuLive.show({ page: 'p', node: 'looming', view: 'looming' });"
        "window.stream.onopen(); window.stream.onmessage({ data: arguments[0] })",
        numbers,
    )
    assert text(page, "#connection") == "connected"
    page.execute_script("const now = performance.now() + 6000; performance.now = () => now")
    wait(page, lambda: text(page, "#connection") == "no answer")
    page.execute_script("window.stream.onmessage({ data: arguments[0] })", numbers)
    assert text(page, "#connection") == "connected"


def test_a_stream_that_stays_silent_is_opened_again(page: Any) -> None:
    page.execute_script(
        "edgetpuLive.show({ page: 'p', node: 'looming', view: 'looming' });"
        "window.stream.onopen(); window.before = window.stream;"
        "const now = performance.now() + 16000; performance.now = () => now"
    )
    wait(page, lambda: page.execute_script("return window.stream !== window.before"))

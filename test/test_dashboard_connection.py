"""The page of a dashboard without other nodes, in a real browser."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("rclpy", reason="needs ROS 2")
pytest.importorskip("edgetpu_msgs", reason="needs a built workspace (make test)")

from testdata.running_nodes.dashboard_page import (
    SIZES,
    Dashboard,
    errors_in_console,
    fill,
    needs_browser,
    page_of,
    press,
    running_dashboard,
    wait,
)
from testdata.running_nodes.node_forker import NodeForker

from selenium.webdriver.common.by import By  # isort: skip

pytestmark = needs_browser

GAP = 6000
"""ms without a connection, as in a gap of a radio network or while a phone sleeps."""
CONTROLS = ("button", "checkbox", "combobox", "link", "radio", "spinbutton", "switch", "tab", "textbox")
"""Roles of what can be operated."""
CONTRAST = 4.5
"""Of text and its ground. Given by WCAG 2.2, 1.4.3, level AA."""


@pytest.fixture(scope="module")
def dashboard(graph: Any, dashboard_forker: NodeForker) -> Iterator[Dashboard]:
    with running_dashboard(graph, dashboard_forker) as made:
        yield made


@pytest.fixture
def browser(dashboard: Dashboard, chromium: Any) -> Iterator[Any]:
    with page_of(dashboard, SIZES["wide"], chromium) as made:
        yield made


def test_a_page_that_was_cut_off_for_seconds_is_as_it_was_left(browser: Any) -> None:
    press(browser, "[data-id=tab_models]")
    fill(browser, "weights_model", "typed before")
    connected = "return window.wasCut && window.socket.connected"
    # Socket.IO connects again by itself, as after a gap of the network.
    browser.execute_script(
        "window.socket.once('disconnect', () => { window.wasCut = true; });"
        f"const io = window.socket.io; io.randomizationFactor(0); io.reconnectionDelay({GAP});"
        f"io.reconnectionDelayMax({GAP}); io.engine.close()"
    )
    wait(browser, lambda: browser.execute_script(connected))
    field = "return document.querySelector('input[data-id=weights_model]')?.value"
    assert browser.execute_script(field) == "typed before"
    assert errors_in_console(browser) == []


def test_the_panels_stay_below_the_header_while_the_page_scrolls(browser: Any) -> None:
    press(browser, "#node_overview")
    bottom, top = browser.execute_script(
        "document.querySelector('.stage').style.minHeight = '3000px';"
        "window.scrollTo(0, 1000);"
        "const place = (name) => document.querySelector(name).getBoundingClientRect();"
        "return [place('header').bottom, place('.side').top]"
    )
    assert bottom <= top


@pytest.mark.parametrize("kind", ["positive", "negative"])
def test_notices_can_be_read(browser: Any, kind: str) -> None:
    press(browser, "#node_overview")
    browser.execute_script(f"Quasar.Notify.create({{ type: '{kind}', message: 'text', timeout: 0 }})")
    (notice,) = wait(browser, lambda: browser.find_elements(By.CSS_SELECTOR, ".q-notification"))
    ground, text = (luminance(notice.value_of_css_property(each)) for each in ("background-color", "color"))
    assert (text + 0.05) / (ground + 0.05) >= CONTRAST


def test_every_control_has_a_name_for_screen_readers(browser: Any) -> None:
    press(browser, "[data-id=tab_models]")
    wait(browser, lambda: browser.find_element(By.CSS_SELECTOR, "[data-id=run_model]").is_displayed())
    tree = browser.execute_cdp_cmd("Accessibility.getFullAXTree", {})["nodes"]
    controls = [each for each in tree if not each["ignored"] and each["role"]["value"] in CONTROLS]
    assert len(controls) > 20
    assert [each["role"] for each in controls if not each.get("name", {}).get("value")] == []


def luminance(color: str) -> float:
    """The relative luminance of a colour as WCAG 2.2 defines it, 0 to 1."""
    shares = [int(each) / 255 for each in re.findall(r"\d+", color)[:3]]
    linear = [each / 12.92 if each <= 0.04045 else ((each + 0.055) / 1.055) ** 2.4 for each in shares]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

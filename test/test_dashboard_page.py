"""The dashboard in a real browser: Chromium, driven by Selenium."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("rclpy", reason="needs ROS 2")
pytest.importorskip("edgetpu_msgs", reason="needs a built workspace (make test)")

from testdata.running_nodes.dashboard_page import (
    SIZES,
    Dashboard,
    at_every_size,
    choose,
    errors_in_console,
    fill,
    key,
    needs_browser,
    page_of,
    pictures,
    press,
    running_dashboard,
    show,
    text,
    upload,
    wait,
)
from testdata.running_nodes.node_forker import NodeForker

import websockets  # isort: skip
from selenium.webdriver.common.by import By  # isort: skip
from selenium.webdriver.common.keys import Keys  # isort: skip

pytestmark = needs_browser


@pytest.fixture(scope="module")
def nodes(start_node: Any, graph: Any) -> dict[str, Any]:
    driver = start_node("edgetpu_driver", "edgetpu_node", backend="cpu")
    camera = start_node("edgetpu_dashboard", "camera", width=160, height=120, frame_rate=10.0)
    tracker = start_node("edgetpu_perception", "spot_tracker", keep_state="false")
    servo = start_node("edgetpu_control", "visual_servo")
    graph.await_device()
    return {"edgetpu": driver, "camera": camera, "spot_tracker": tracker, "visual_servo": servo}


@pytest.fixture(scope="module")
def dashboard(
    nodes: dict[str, Any],  # noqa: ARG001
    graph: Any,
    dashboard_forker: NodeForker,
) -> Iterator[Dashboard]:
    with running_dashboard(graph, dashboard_forker) as made:
        yield made


@pytest.fixture(scope="module", params=[SIZES["wide"]], ids=["wide"])
def browser(dashboard: Dashboard, request: pytest.FixtureRequest, chromium: Any) -> Iterator[Any]:
    with page_of(dashboard, request.param, chromium) as made:
        yield made


def type_value(browser: Any, name: str, value: str) -> None:
    fill(browser, f"input_{name}", value)
    browser.switch_to.active_element.send_keys(Keys.ENTER)


@at_every_size
def test_the_overview_shows_the_pictures_of_running_nodes_and_opens_one(browser: Any) -> None:
    press(browser, "#node_overview")
    shown = (
        "return Object.fromEntries([...document.querySelectorAll('#tiles img')]"
        ".map((image) => [image.dataset.view, Number(image.dataset.count || 0)]))"
    )
    wait(
        browser,
        lambda: min(browser.execute_script(shown).get(name, 0) for name in ("camera", "spot_tracker")) > 2,
    )
    assert browser.execute_script(shown).keys() == {"camera", "spot_tracker"}
    press(browser, "#tile_spot_tracker")
    wait(browser, lambda: text(browser, ".stage .title") == "spot_tracker")
    assert browser.current_url.endswith("#spot_tracker")


def test_the_node_stays_when_the_page_is_loaded_again(browser: Any) -> None:
    show(browser, "spot_tracker")
    browser.refresh()
    wait(browser, lambda: text(browser, ".stage .title") == "spot_tracker")


def test_a_running_node_shows_its_picture_numbers_and_curves(browser: Any) -> None:
    show(browser, "spot_tracker")
    before = pictures(browser)
    wait(browser, lambda: pictures(browser) > before + 3)
    wait(browser, lambda: "Hz · latency" in text(browser, "#numbers"))
    wait(browser, lambda: "±" in text(browser, "#curve_x .value"))
    assert text(browser, "#state") == "running"


@pytest.mark.parametrize(
    ("value", "span", "label"),
    [
        (-0.000135, 1.4, "0"),
        (0.7013, 1.4, "0.7"),
        (-0.592, 1.23, "-0.59"),
        (1572.31, 0.5, "1572.31"),
        (58.24, 58.5, "58.2"),
        (101325.2, 0.6, "101325.2"),
        (101325.8, 0.6, "101325.8"),
    ],
)
def test_the_axis_of_a_curve_is_as_fine_as_its_range(
    browser: Any, value: float, span: float, label: str
) -> None:
    assert browser.execute_script(f"return edgetpuCurves.label({value}, {span})") == label


def test_a_node_without_results_shows_what_it_takes_and_gives(browser: Any) -> None:
    show(browser, "visual_servo")
    wait(browser, lambda: "rad/s" in text(browser, "#curve_visual_servo_cmd_vel_angular_z .value"))
    wait(browser, lambda: "±" in text(browser, "#curve_spot_tracker_servo_error_bearing_x .value"))
    wait(browser, lambda: "Hz · dropped" in text(browser, "#numbers"))
    wait(browser, lambda: "malformed" in text(browser, "#facts"))


@at_every_size
def test_on_a_phone_the_panels_come_before_the_curves(browser: Any) -> None:
    show(browser, "spot_tracker")
    wait(browser, lambda: text(browser, "#curve_x .value"))
    top = "return document.querySelector(`{}`).getBoundingClientRect().top"
    panels, curves = (browser.execute_script(top.format(each)) for each in (".side", "#curves"))
    picture = browser.execute_script(top.format("#picture"))
    assert picture < curves
    assert (picture < panels < curves) == (browser.execute_script("return window.innerWidth") <= 700)


def test_the_diagnostics_of_the_driver_are_curves(browser: Any) -> None:
    show(browser, "edgetpu")
    wait(browser, lambda: "READY" in text(browser, "#curves"))


def test_every_node_of_the_table_is_listed(browser: Any) -> None:
    from edgetpu_driver.node_kit.node_table import all_nodes

    listed = browser.execute_script("return [...document.querySelectorAll('nav button')].map((b) => b.id)")
    assert {name.removeprefix("node_") for name in listed} == {"overview", *all_nodes()}


@at_every_size
@pytest.mark.parametrize("node", ["overview", "spot_tracker"])
def test_nothing_is_wider_than_the_screen(browser: Any, node: str) -> None:
    press(browser, f"#node_{node}")
    for tab in ("parameters", "actions", "driver", "models", "diagnostics"):
        press(browser, f"[data-id=tab_{tab}]")
        widths = "return [document.documentElement.scrollWidth, window.innerWidth]"
        wanted, there = browser.execute_script(widths)
        assert wanted <= there, tab
    press(browser, "[data-id=tab_parameters]")


def test_space_pauses_and_a_single_picture_can_be_taken(browser: Any) -> None:
    show(browser, "spot_tracker")
    wait(browser, lambda: pictures(browser) > 0)
    paused = "return document.body.classList.contains('paused')"
    key(browser, " ")
    assert browser.execute_script(paused)
    # A picture that was under way may still come; from then on only those asked for.
    browser.execute_async_script("setTimeout(arguments[0], 1000)")
    before = pictures(browser)
    press(browser, "[data-id=single]")
    wait(browser, lambda: pictures(browser) == before + 1)
    key(browser, " ")
    assert not browser.execute_script(paused)
    wait(browser, lambda: pictures(browser) > before + 2)


def test_s_saves_the_picture(browser: Any) -> None:
    show(browser, "spot_tracker")
    shown = "return document.getElementById('live').dataset.view"
    wait(browser, lambda: browser.execute_script(shown) == "spot_tracker")
    browser.execute_script(
        "window.saved = [];"
        "HTMLAnchorElement.prototype.click = function () { window.saved.push(this.download); }"
    )
    key(browser, "s")
    (name,) = browser.execute_script("return window.saved")
    assert name.startswith("spot_tracker_")
    assert name.endswith(".jpg")


def test_no_picture_of_another_view_is_saved(browser: Any) -> None:
    show(browser, "spot_tracker")
    wait(browser, lambda: pictures(browser) > 0)
    saved = browser.execute_script(
        "window.saved = [];"
        "HTMLAnchorElement.prototype.click = function () { window.saved.push(this.download); };"
        "edgetpuLive.show({ page: 'none', node: 'spot_tracker', view: 'camera image' });"
        "edgetpuLive.save();"
        "return window.saved"
    )
    assert saved == []


def test_pictures_continue_after_the_page_was_redrawn(browser: Any) -> None:
    show(browser, "spot_tracker")
    wait(browser, lambda: pictures(browser) > 0)
    rename = "document.getElementById('{}').id = '{}'"
    browser.execute_script(rename.format("live", "away"))
    browser.execute_async_script("setTimeout(arguments[0], 1000)")
    browser.execute_script(rename.format("away", "live"))
    before = pictures(browser)
    wait(browser, lambda: pictures(browser) > before + 1)


def test_curves_of_names_in_any_script_are_told_apart(browser: Any) -> None:
    show(browser, "spot_tracker")
    names = ["\u6e29\u5ea6", "\u96fb\u5727"]
    nothing = {"meaning": "", "unit": "", "value": 1, "sigma": None, "words": [], "gap": 1, "points": []}
    curves = [{"id": name, "field": name, **nothing} for name in names]
    drawn = browser.execute_script(
        "edgetpuCurves.draw(arguments[0]); edgetpuCurves.draw(arguments[0]);"
        "return [...document.querySelectorAll('#curves b')].map((each) => each.textContent)",
        curves,
    )
    assert drawn == names


def test_an_address_that_is_no_node_shows_the_overview(browser: Any) -> None:
    show(browser, "spot_tracker")
    browser.execute_script("location.hash = '%'")
    wait(browser, lambda: text(browser, ".stage .title") == "Overview")
    assert errors_in_console(browser) == []


@at_every_size
def test_a_parameter_is_changed_and_a_refusal_is_shown_next_to_it(browser: Any) -> None:
    show(browser, "camera")
    press(browser, "[data-id=tab_parameters]")
    type_value(browser, "frame_rate", "500")
    refusal = "[data-id=parameter_frame_rate] .refusal"
    wait(browser, lambda: "frame_rate" in text(browser, refusal))
    type_value(browser, "frame_rate", "15")
    shown = f"return getComputedStyle(document.querySelector('{refusal}')).display"
    wait(browser, lambda: browser.execute_script(shown) == "none" or not text(browser, refusal))
    type_value(browser, "path", "/nowhere")
    wait(browser, lambda: text(browser, "[data-id=parameter_path] .refusal") == "path: there is no /nowhere")


@at_every_size
def test_a_file_that_is_no_matrix_is_refused(browser: Any, tmp_path: Path) -> None:
    press(browser, "[data-id=tab_models]")
    (tmp_path / "text.npy").write_text("no matrix")
    upload(browser, "weights_file", tmp_path / "text.npy")
    wait(browser, lambda: "the file" in text(browser, ".q-notifications"))


@at_every_size
def test_the_node_that_runs_a_model_is_chosen_from_a_menu(browser: Any) -> None:
    press(browser, "[data-id=tab_models]")
    chosen = ".q-field:has([data-id=run_kind])"
    assert "pose_estimator" not in text(browser, chosen)
    choose(browser, "run_kind", "pose_estimator")
    wait(browser, lambda: "pose_estimator" in text(browser, chosen))


def test_the_driver_and_the_diagnostics_are_shown(browser: Any) -> None:
    press(browser, "[data-id=tab_driver]")
    wait(browser, lambda: "cpu: ready" in text(browser, "[data-id=driver_state]"))
    press(browser, "[data-id=tab_models]")
    wait(browser, lambda: "spot_" in text(browser, "[data-id=loaded_models]"))
    press(browser, "[data-id=tab_diagnostics]")
    wait(browser, lambda: "camera: pictures" in text(browser, ".side"))
    press(browser, "[data-id=tab_parameters]")


def offered(browser: Any) -> list[str]:
    """Which of start and stop the page offers."""
    buttons = {name: browser.find_element(By.CSS_SELECTOR, f"[data-id={name}]") for name in ("start", "stop")}
    return [name for name, button in buttons.items() if button.is_displayed()]


def test_a_node_without_results_has_the_rate_of_its_diagnostics(browser: Any) -> None:
    show(browser, "camera")
    wait(browser, lambda: re.search(r"[1-9]\d*\.\d Hz · dropped 0", text(browser, "#numbers")))


def test_fields_and_states_have_names_for_screen_readers(browser: Any) -> None:
    show(browser, "spot_tracker")
    press(browser, "[data-id=tab_parameters]")
    wait(browser, lambda: browser.find_elements(By.CSS_SELECTOR, "input[data-id=input_roi][aria-label=roi]"))
    unnamed = (
        "return [...document.querySelectorAll('.side .parameter [role=switch], .side .parameter input')]"
        ".filter((each) => !each.getAttribute('aria-label') && !each.matches('[role=switch] *'))"
        ".map((each) => each.outerHTML)"
    )
    assert browser.execute_script(unnamed) == []
    levels = "return [...document.querySelectorAll('#node_spot_tracker .dot')].map((dot) => dot.ariaLabel)"
    assert browser.execute_script(levels)[0] in ("ok", "warning", "error", "stale")
    current = "return [...document.querySelectorAll('nav [aria-current=page]')].map((button) => button.id)"
    wait(browser, lambda: browser.execute_script(current) == ["node_spot_tracker"])


def test_space_presses_a_button_that_was_reached_by_the_keyboard(browser: Any) -> None:
    show(browser, "spot_tracker")
    paused = "return document.body.classList.contains('paused')"
    key(browser, Keys.TAB)
    browser.execute_script("document.getElementById('node_camera').focus()")
    key(browser, " ")
    wait(browser, lambda: text(browser, ".stage .title") == "camera")
    assert not browser.execute_script(paused)
    browser.find_element(By.CSS_SELECTOR, ".stage .title").click()
    key(browser, " ")
    assert browser.execute_script(paused)
    key(browser, " ")


def test_a_node_is_started_and_stopped(browser: Any) -> None:
    show(browser, "visual_compass")
    press(browser, "[data-id=tab_actions]")
    wait(browser, lambda: "visual_compass is not running" in text(browser, ".side"))
    press(browser, "[data-id=start]")
    wait(browser, lambda: text(browser, "#state") == "running")
    wait(browser, lambda: "reset heading" in text(browser, ".side"))
    wait(browser, lambda: offered(browser) == ["stop"])
    press(browser, "[data-id=stop]")
    wait(browser, lambda: text(browser, "#state") == "stopped")
    wait(browser, lambda: "visual_compass is not running" in text(browser, ".side"))
    wait(browser, lambda: offered(browser) == ["start"])
    show(browser, "camera")
    press(browser, "[data-id=stop]")
    wait(browser, lambda: "camera was not started from here" in text(browser, "body"))


def test_pictures_continue_when_a_node_restarts(browser: Any, nodes: dict[str, Any], start_node: Any) -> None:
    show(browser, "spot_tracker")
    nodes["spot_tracker"].stop()
    wait(browser, lambda: text(browser, "#state") == "stopped")
    nodes["spot_tracker"] = start_node("edgetpu_perception", "spot_tracker", keep_state="false")
    wait(browser, lambda: text(browser, "#state") == "running")
    before = pictures(browser)
    wait(browser, lambda: pictures(browser) > before + 3)


@at_every_size
def test_the_console_of_the_browser_has_no_error(browser: Any) -> None:
    assert errors_in_console(browser) == []


def test_the_dashboard_logs_no_error(dashboard: Dashboard, browser: Any) -> None:
    here = browser.current_window_handle
    browser.switch_to.new_window("tab")
    with page_of(dashboard, SIZES["wide"], browser):  # it leaves while its parameters are asked for
        show(browser, "spot_tracker")
        press(browser, "[data-id=tab_parameters]")
    browser.close()
    browser.switch_to.window(here)
    show(browser, "spot_tracker")
    wait(browser, lambda: "Hz" in text(browser, "#numbers"))
    assert dashboard.complaints() == []


def test_the_page_comes_back_when_the_dashboard_restarts(browser: Any, dashboard: Dashboard) -> None:
    dashboard.stop()
    wait(browser, lambda: text(browser, "#connection") == "disconnected")
    dashboard.start()
    wait(browser, lambda: text(browser, "#connection") == "connected" and pictures(browser) > 3)
    assert text(browser, ".stage .title") == "spot_tracker"


def test_a_foreign_page_is_refused(dashboard: Dashboard) -> None:
    assert dashboard.answers(Host="evil.example") == 403
    assert dashboard.answers(Origin="http://evil.example") == 403


def test_a_stream_takes_any_message_and_refuses_an_unknown_view(dashboard: Dashboard) -> None:
    async def messages(view: str) -> list[Any]:
        """Two messages of numbers, the second after one of bytes was sent; or why there are none."""
        found: list[Any] = []
        try:
            async with websockets.connect(f"ws://127.0.0.1:{dashboard.port}/live?view={view}") as socket:
                while len(found) < 2:
                    await socket.send(b"\xff")
                    if isinstance(message := await socket.recv(), str):
                        found.append(json.loads(message)["node"])
        except websockets.ConnectionClosedError as error:
            return [error.rcvd.reason]
        return found

    assert asyncio.run(messages("edgetpu")) == ["", ""]
    assert asyncio.run(messages("%00")) == ["expected a node or camera image; got '\\\\x00'"]
    (cut,) = asyncio.run(messages("%F0%9F%92%A9" * 60))
    assert cut.startswith("expected a node or camera image; got '\U0001f4a9")
    assert 120 <= len(cut.encode()) <= 123

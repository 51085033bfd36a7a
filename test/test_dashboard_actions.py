"""The actions of nodes in the dashboard's page, in a real browser."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("rclpy", reason="needs ROS 2")
pytest.importorskip("edgetpu_msgs", reason="needs a built workspace (make test)")

from std_msgs.msg import Float32MultiArray

from demo.bag.image_bag import ImageBag
from edgetpu_msgs.msg import Embedding, Prediction
from testdata.running_nodes.dashboard_page import (
    SIZES,
    Dashboard,
    at_every_size,
    drag,
    errors_in_console,
    fill,
    key,
    needs_browser,
    page_of,
    pictures,
    press,
    press_until,
    repeat_until,
    running_dashboard,
    show,
    show_actions,
    text,
    wait,
)
from testdata.running_nodes.matrix_node_messages import Exchange, numbers, options
from testdata.running_nodes.node_forker import NodeForker

from selenium.webdriver.common.action_chains import ActionChains  # isort: skip
from selenium.webdriver.common.by import By  # isort: skip

pytestmark = needs_browser

WIDTH, HEIGHT = 320, 240
"""Of the camera's images, px."""


@pytest.fixture(scope="module")
def bags(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("bags")


@pytest.fixture(scope="module")
def dashboard(
    start_node: Any, graph: Any, dashboard_forker: NodeForker, bags: Path, matrix_home: Path
) -> Iterator[Dashboard]:
    start_node("edgetpu_driver", "edgetpu_node", backend="cpu", model_dirs=f"['{matrix_home}']")
    start_node("edgetpu_dashboard", "camera", width=WIDTH, height=HEIGHT, frame_rate=5.0)
    for name in ("spot_tracker", "pattern_tracker", "visual_compass"):
        start_node("edgetpu_perception", name, keep_state="false", model_dir=str(matrix_home))
    start_node("edgetpu_matrix", "place_recognition", model_dir=str(matrix_home))
    start_node("edgetpu_matrix", "reservoir", size=32, washout=5, horizon=1, **options(matrix_home))
    graph.await_device()
    with running_dashboard(graph, dashboard_forker, f"bag_dir:={bags}") as made:
        yield made


@pytest.fixture(scope="module", params=[SIZES["wide"]], ids=["wide"])
def browser(dashboard: Dashboard, request: pytest.FixtureRequest, chromium: Any) -> Iterator[Any]:
    with page_of(dashboard, request.param, chromium) as made:
        yield made


def await_picture(browser: Any) -> dict[str, int]:
    """Wait for a picture that is new; return its size."""
    before = pictures(browser)
    wait(browser, lambda: pictures(browser) > before)
    size: dict[str, int] = wait(browser, lambda: browser.find_element(By.ID, "live").size)
    return size


@at_every_size
def test_a_click_tracks_the_colour_of_the_camera_under_the_overlay(browser: Any) -> None:
    show(browser, "spot_tracker")
    size = await_picture(browser)

    def click() -> None:
        # The caption is drawn there, on black. The dot never comes near, and the ground has one grey.
        picture = browser.find_element(By.ID, "live")
        corner = 4 - size["width"] // 2, size["height"] // 2 - 4
        ActionChains(browser).move_to_element_with_offset(picture, *corner).click().perform()

    # A click is lost where the picture moves under the mouse, as when the node's parameters come in.
    repeat_until(browser, click, "tracks brightness, as (20, 20, 20) is grey")


@at_every_size
def test_a_box_becomes_the_region(browser: Any) -> None:
    show_actions(browser, "spot_tracker")
    size = await_picture(browser)
    scale = WIDTH / size["width"]
    columns, rows = round(120 * scale), round(80 * scale)
    found = [
        f"spot_tracker processes {width} x {height} px only"
        for width in range(columns - 1, columns + 2)
        for height in range(rows - 1, rows + 2)
    ]
    repeat_until(browser, lambda: drag(browser, (-60, -40), (60, 40)), *found)
    press(browser, "[data-id=tab_parameters]")
    value = "return JSON.parse(document.querySelector('input[data-id=input_roi]')?.value || '[]')"
    wait(browser, lambda: abs((browser.execute_script(value) or [0, 0, 0])[2] - columns) <= 1)
    press(browser, "[data-id=tab_actions]")
    press_until(browser, "[data-id=whole_picture]", "processes the whole picture")


def test_a_box_becomes_the_template(browser: Any) -> None:
    show_actions(browser, "pattern_tracker")
    await_picture(browser)
    repeat_until(browser, lambda: drag(browser, (-60, -60), (100, 100)), "looks for a patch of")


def test_a_node_that_is_opened_while_the_page_is_paused_shows_its_numbers(browser: Any) -> None:
    show(browser, "spot_tracker")
    wait(browser, lambda: text(browser, "#curve_x .value"))
    key(browser, " ")
    show(browser, "pattern_tracker")
    wait(browser, lambda: "Hz · latency" in text(browser, "#numbers"))
    wait(browser, lambda: text(browser, "#curve_scale .value"))
    key(browser, " ")


def test_the_heading_is_reset(browser: Any) -> None:
    show_actions(browser, "visual_compass")
    press_until(browser, "[data-id=trigger_reset_heading]", "reset_heading: yaw is 0 at the next image")


def test_the_reservoir_is_trained_and_reset(browser: Any, graph: Any) -> None:
    listeners = 2  # the reservoir, and the dashboard for its curves
    reservoir = Exchange(
        graph, Float32MultiArray, "/signal", Prediction, "/reservoir/prediction", listeners=listeners
    )
    for step in range(60):
        reservoir.ask(numbers(math.sin(0.2 * step)))
    show_actions(browser, "reservoir")
    press_until(browser, "[data-id=train]", "trained on ")
    wait(browser, lambda: "samples to train on" in text(browser, "#curve_samples"))
    press_until(browser, "[data-id=trigger_reset]", "reset: ")


def test_a_place_is_named(browser: Any, graph: Any) -> None:
    embeddings = graph.node.create_publisher(Embedding, "/embedding", 10)
    show_actions(browser, "place_recognition")
    assert "no actions" not in text(browser, ".side")
    graph.spin_until(lambda: embeddings.get_subscription_count() > 0)

    def see() -> None:
        embeddings.publish(Embedding(valid=True, vector=[0.6, 0.8, 0.0, 0.0]))

    def add() -> None:
        fill(browser, "place_name", "kitchen")  # again each time: the panel may have been drawn anew
        see()
        press(browser, "[data-id=add_place]")

    repeat_until(browser, add, "kitchen: 1 place is known, by")

    def recognised() -> bool:
        see()  # again: the middleware may lose an embedding, and the driver may be late for one
        return "valid: kitchen, confidence" in text(browser, "#numbers")

    wait(browser, recognised)
    graph.node.destroy_publisher(embeddings)


def test_a_bag_is_saved_until_stopped(browser: Any, bags: Path) -> None:
    before = set(bags.iterdir())
    press(browser, "[data-id=bag]")
    wait(browser, lambda: text(browser, "[data-id=bag_state]").startswith("recording: "))
    # The first messages may be results alone; several images come with so many.
    wait(browser, lambda: re.match(r"recording: (\d\d\d|[2-9]\d)", text(browser, "[data-id=bag_state]")))
    press(browser, "[data-id=bag]")
    wait(browser, lambda: text(browser, "[data-id=bag_state]").startswith("saved: "))
    (path,) = set(bags.iterdir()) - before
    assert text(browser, "[data-id=bag_state]").endswith(str(path))
    with ImageBag(path) as bag:
        assert bag.topic.name == "/image"


def test_a_bag_is_saved_for_so_many_seconds(browser: Any, bags: Path) -> None:
    before = set(bags.iterdir())
    fill(browser, "bag_seconds", "0.5")
    press(browser, "[data-id=bag]")
    wait(browser, lambda: set(bags.iterdir()) != before)
    (path,) = set(bags.iterdir()) - before
    state = "[data-id=bag_state]"
    wait(browser, lambda: text(browser, state).startswith("saved: ") and str(path) in text(browser, state))


@at_every_size
def test_the_console_of_the_browser_has_no_error(browser: Any) -> None:
    assert errors_in_console(browser) == []

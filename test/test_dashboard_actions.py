"""What is done by hand in the dashboard's page, in a real browser."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("rclpy", reason="needs ROS 2")
pytest.importorskip("edgetpu_msgs", reason="needs a built workspace (make test)")

from demo.bag.image_bag import ImageBag
from edgetpu_driver.cli.main import main as edgetpu
from edgetpu_msgs.msg import Embedding
from testdata.dashboard_page import (
    Dashboard,
    needs_browser,
    page_of,
    pictures,
    press,
    running_dashboard,
    show,
    text,
    wait,
)

from selenium.webdriver.common.action_chains import ActionChains  # isort: skip
from selenium.webdriver.common.by import By  # isort: skip

pytestmark = needs_browser


@pytest.fixture(scope="module")
def bags(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("bags")


@pytest.fixture(scope="module")
def dashboard(
    start_node: Any, graph: Any, bags: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Dashboard]:
    models = tmp_path_factory.mktemp("models")
    assert edgetpu(["models", "build", "dense_256", "--output", str(models)]) == 0
    start_node("edgetpu_driver", "edgetpu_node", backend="cpu", model_dirs=f"['{models}']")
    start_node("edgetpu_dashboard", "camera", width=320, height=240, frame_rate=10.0, source="checkerboard")
    for name in ("pattern_tracker", "visual_compass"):
        start_node("edgetpu_perception", name, keep_state="false", model_dir=str(models))
    start_node("edgetpu_matrix", "place_recognition", model_dir=str(models))
    graph.await_device()
    with running_dashboard(graph, f"bag_dir:={bags}") as made:
        yield made


@pytest.fixture(scope="module")
def browser(dashboard: Dashboard) -> Iterator[Any]:
    with page_of(dashboard) as made:
        yield made


def fill(browser: Any, name: str, value: str) -> None:
    """Type into an empty field."""
    field = wait(browser, lambda: browser.find_elements(By.CSS_SELECTOR, f"input[data-id={name}]"))[0]
    field.send_keys(value)


def show_by_hand(browser: Any, node: str) -> None:
    show(browser, node)
    wait(browser, lambda: text(browser, "#state") == "running")
    press(browser, "[data-id=tab_by_hand]")


def press_until(browser: Any, selector: str, words: str) -> None:
    """Click until the page says something: the node may not be ready for the first click."""

    def said() -> bool:
        if words in text(browser, "body"):
            return True
        press(browser, selector)
        browser.execute_async_script("setTimeout(arguments[0], 300)")
        return words in text(browser, "body")

    wait(browser, said)


def test_a_box_becomes_the_template(browser: Any) -> None:
    show_by_hand(browser, "pattern_tracker")
    before = pictures(browser)
    wait(browser, lambda: pictures(browser) > before)

    def drag() -> bool:
        picture = browser.find_element(By.ID, "live")
        actions = ActionChains(browser).move_to_element_with_offset(picture, -60, -60).click_and_hold()
        actions.move_by_offset(160, 160).release().perform()
        browser.execute_async_script("setTimeout(arguments[0], 300)")
        return "looks for a patch of" in text(browser, "body")

    wait(browser, drag)


def test_the_heading_is_reset(browser: Any) -> None:
    show_by_hand(browser, "visual_compass")
    press_until(browser, "[data-id=trigger_reset_heading]", "reset_heading: yaw is 0 at the next image")


def test_a_place_is_named(browser: Any, graph: Any) -> None:
    embeddings = graph.node.create_publisher(Embedding, "/embedding", 10)
    show_by_hand(browser, "place_recognition")
    fill(browser, "place_name", "kitchen")
    graph.spin_until(lambda: embeddings.get_subscription_count() > 0)

    def named() -> bool:
        embeddings.publish(Embedding(valid=True, vector=[0.6, 0.8, 0.0, 0.0]))
        press(browser, "[data-id=add_place]")
        browser.execute_async_script("setTimeout(arguments[0], 300)")
        return "kitchen: 1 place is known, by" in text(browser, "body")

    wait(browser, named)
    graph.node.destroy_publisher(embeddings)


def test_a_model_is_loaded_and_unloaded(browser: Any) -> None:
    press(browser, "[data-id=tab_models]")
    fill(browser, "model_to_load", "dense_256")
    fill(browser, "model_name", "mine")
    press(browser, "[data-id=load_model]")
    wait(browser, lambda: "mine is loaded" in text(browser, "body"))
    press(browser, "[data-id=unload_mine]")
    wait(browser, lambda: "mine is unloaded" in text(browser, "body"))
    wait(browser, lambda: not browser.find_elements(By.CSS_SELECTOR, "[data-id=unload_mine]"))


def test_a_model_that_is_not_there_is_refused_in_the_drivers_words(browser: Any) -> None:
    press(browser, "[data-id=tab_models]")
    field = browser.find_element(By.CSS_SELECTOR, "input[data-id=model_to_load]")
    field.send_keys("_of_nobody")
    press(browser, "[data-id=load_model]")
    wait(browser, lambda: "_of_nobody" in text(browser, ".q-notifications"))


def test_a_bag_is_saved_until_stopped(browser: Any, bags: Path) -> None:
    press(browser, "[data-id=bag]")
    wait(browser, lambda: text(browser, "[data-id=bag_state]").startswith("records "))
    wait(browser, lambda: "records 0" not in text(browser, "[data-id=bag_state]"))
    press(browser, "[data-id=bag]")
    wait(browser, lambda: text(browser, "[data-id=bag_state]").startswith("saved "))
    (path,) = bags.iterdir()
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
    wait(browser, lambda: text(browser, state).startswith("saved ") and str(path) in text(browser, state))


def test_the_console_of_the_browser_has_no_error(browser: Any) -> None:
    assert [entry for entry in browser.get_log("browser") if entry["level"] == "SEVERE"] == []

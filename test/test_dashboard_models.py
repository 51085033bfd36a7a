"""Models and their weights in the dashboard's page, in a real browser."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("rclpy", reason="needs ROS 2")
pytest.importorskip("edgetpu_msgs", reason="needs a built workspace (make test)")
pytest.importorskip("vision_msgs", reason="needs vision_msgs")

from edgetpu_driver.cli.main import main as edgetpu
from testdata.graphs.body_pix_graph import body_pix_file
from testdata.running_nodes.dashboard_page import (
    SIZES,
    Dashboard,
    choose,
    errors_in_console,
    fill,
    needs_browser,
    page_of,
    pictures,
    press,
    running_dashboard,
    text,
    upload,
    wait,
)
from testdata.running_nodes.node_forker import NodeForker

from selenium.webdriver.common.by import By  # isort: skip

pytestmark = needs_browser


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    assert edgetpu(["models", "build", "dense_256", "--output", str(folder)]) == 0
    (folder / "people.tflite").write_bytes(body_pix_file())
    return folder


@pytest.fixture(scope="module")
def dashboard(start_node: Any, graph: Any, dashboard_forker: NodeForker, models: Path) -> Iterator[Dashboard]:
    start_node("edgetpu_driver", "edgetpu_node", backend="cpu", model_dirs=f"['{models}']")
    start_node("edgetpu_dashboard", "camera", width=160, height=120, frame_rate=5.0)
    graph.await_device()
    with running_dashboard(graph, dashboard_forker) as made:
        yield made


@pytest.fixture(scope="module")
def browser(dashboard: Dashboard, chromium: Any) -> Iterator[Any]:
    with page_of(dashboard, SIZES["wide"], chromium) as made:
        press(made, "[data-id=tab_models]")
        yield made


def load(browser: Any, name: str) -> None:
    fill(browser, "model_to_load", "dense_256")
    fill(browser, "model_name", name)
    press(browser, "[data-id=load_model]")
    wait(browser, lambda: f"{name} is loaded" in text(browser, "body"))


def test_a_model_is_loaded_and_unloaded(browser: Any) -> None:
    load(browser, "mine")
    press(browser, "[data-id=unload_mine]")
    wait(browser, lambda: "mine is unloaded" in text(browser, "body"))
    wait(browser, lambda: not browser.find_elements(By.CSS_SELECTOR, "[data-id=unload_mine]"))


def test_a_model_that_is_not_there_is_refused_in_the_drivers_words(browser: Any) -> None:
    fill(browser, "model_to_load", "no_such_model")
    press(browser, "[data-id=load_model]")
    wait(browser, lambda: "no_such_model" in text(browser, ".q-notifications"))


def test_weights_are_swapped_and_their_errors_shown_as_a_picture(browser: Any, tmp_path: Path) -> None:
    load(browser, "matrix")
    weights = np.random.default_rng(0).normal(size=(6, 4)).astype(np.float32)
    np.save(tmp_path / "weights.npy", weights)
    fill(browser, "weights_model", "matrix")
    upload(browser, "weights_file", tmp_path / "weights.npy")
    wait(browser, lambda: "of matrix: largest error " in text(browser, "[data-id=weights_answer]"))
    size = (
        "const picture = document.querySelector('[data-id=weights_errors] img');"
        "return picture && [picture.naturalWidth, picture.naturalHeight]"
    )
    wait(browser, lambda: browser.execute_script(size) == [4, 6])
    press(browser, "[data-id=unload_matrix]")
    wait(browser, lambda: "matrix is unloaded" in text(browser, "body"))


def test_a_file_that_was_refused_for_one_model_is_sent_again_for_another(
    browser: Any, tmp_path: Path
) -> None:
    load(browser, "second")
    np.save(tmp_path / "same.npy", np.ones((3, 5), np.float32))
    fill(browser, "weights_model", "no_such_model")
    upload(browser, "weights_file", tmp_path / "same.npy")
    wait(browser, lambda: "no_such_model" in text(browser, ".q-notifications"))
    sent = "[data-id=weights_file] .q-uploader__subtitle"
    wait(browser, lambda: text(browser, sent).startswith("0.0B"))
    fill(browser, "weights_model", "second")
    upload(browser, "weights_file", tmp_path / "same.npy")
    wait(browser, lambda: "of second: largest error " in text(browser, "[data-id=weights_answer]"))
    press(browser, "[data-id=unload_second]")
    wait(browser, lambda: "second is unloaded" in text(browser, "body"))


def test_a_model_is_sent_from_the_browsers_computer(browser: Any, models: Path, tmp_path: Path) -> None:
    (tmp_path / "sent.tflite").write_bytes(body_pix_file())
    upload(browser, "run_file", tmp_path / "sent.tflite")
    path = "return document.querySelector('input[data-id=run_path]').value"
    wait(browser, lambda: browser.execute_script(path) == str(models / "sent.tflite"))
    assert (models / "sent.tflite").read_bytes() == body_pix_file()


def test_a_coral_model_runs_on_the_live_picture(browser: Any, models: Path) -> None:
    choose(browser, "run_kind", "pose_estimator")
    fill(browser, "run_path", str(models / "people.tflite"))
    press(browser, "[data-id=run_model]")
    wait(browser, lambda: text(browser, ".stage .title") == "pose_estimator")
    shown = "return document.getElementById('live')?.dataset.view"
    wait(browser, lambda: browser.execute_script(shown) == "pose_estimator" and pictures(browser) > 2)
    press(browser, "[data-id=stop]")
    wait(browser, lambda: text(browser, "#state") == "stopped")


def test_the_console_of_the_browser_has_no_error(browser: Any) -> None:
    assert errors_in_console(browser) == []

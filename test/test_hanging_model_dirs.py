"""Directories of models that do not answer, as on a network file system that is gone: nothing else waits."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("rclpy", reason="needs ROS 2")
pytest.importorskip("edgetpu_msgs", reason="needs a built workspace (make test)")

from rclpy.lifecycle import TransitionCallbackReturn
from rclpy.parameter import Parameter

from edgetpu_driver.host.models.hosted_model import ModelState
from edgetpu_driver.node_kit.clients.model_client import ModelClient
from edgetpu_driver.nodes import driver_node, driver_services
from edgetpu_driver.nodes.driver_node import DriverNode
from edgetpu_driver.toolchain.model_directories import ModelDirectories
from edgetpu_msgs.msg import ErrorCode, Tensor
from edgetpu_msgs.srv import Invoke, ListModels, LoadModel
from testdata.timeouts import PATIENCE


@pytest.fixture
def driver(graph: Any, model_dir: Path) -> Iterator[DriverNode]:
    """A driver with the model "sums" whose clients wait for 0.1 s at most."""
    values: dict[str, Any] = {"backend": "cpu", "model_dirs": [str(model_dir)], "models": ["sums"]}
    values |= {"max_wait": 0.1, "status_period": 0.1}
    node = DriverNode(parameter_overrides=[Parameter(name, value=value) for name, value in values.items()])
    graph.add_node(node)
    graph.await_device()
    yield node
    graph.remove_node(node)
    node.destroy_node()


@pytest.fixture
def answers_again(driver: DriverNode, monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:  # noqa: ARG001
    """Until this is set, the directories do not answer."""
    event = threading.Event()

    def hanging(find: Any) -> Any:
        def wait(files: ModelDirectories, *arguments: str) -> Any:
            event.wait(PATIENCE)
            return find(files, *arguments)

        return wait

    monkeypatch.setattr(ModelDirectories, "find", hanging(ModelDirectories.find))
    monkeypatch.setattr(ModelDirectories, "available", hanging(ModelDirectories.available))
    yield event
    event.set()


def sums(graph: Any) -> list[int]:
    """The outputs of the model that is loaded, from a request that may wait for longer than `max_wait`."""
    tensor = Tensor(name="numbers", dtype=Tensor.INT8, shape=[1, 4], data=bytes([1, 0, 0, 0]))
    late = PATIENCE / 2  # before the directories answer by themselves
    response = graph.call(Invoke, "/edgetpu/invoke", model="sums", inputs=[tensor], deadline=late)
    return list(response.outputs[0].data)


@pytest.mark.parametrize("wait", [False, True])
def test_a_request_to_load_a_model_is_answered_busy_and_loading_continues(
    graph: Any, driver: DriverNode, answers_again: threading.Event, wait: bool
) -> None:
    def is_loaded() -> bool:
        return [each.state for each in driver.active_host().models() if each.name == "more"] == [
            ModelState.LOADED
        ]

    refused = graph.call(LoadModel, "/edgetpu/load_model", model="sums", name="more", wait=wait)
    assert refused.error.value == ErrorCode.BUSY
    assert refused.message == "the model is still being loaded after 0.1 s; try again"
    answers_again.set()
    graph.spin_until(is_loaded)


def test_a_request_for_a_list_is_answered(graph: Any, answers_again: threading.Event) -> None:
    refused = graph.call(ListModels, "/edgetpu/list_models")
    assert (refused.success, refused.message) == (
        False,
        "the model files are still being listed after 0.1 s; try again",
    )
    assert (refused.error.value, refused.retry_after) == (ErrorCode.BUSY, 1.0)
    answers_again.set()
    graph.spin_until(lambda: graph.call(ListModels, "/edgetpu/list_models").success)


@pytest.mark.usefixtures("answers_again")
def test_loaded_models_run(graph: Any) -> None:
    client = graph.node.create_client(LoadModel, "/edgetpu/load_model")
    graph.spin_until(client.service_is_ready)
    load = client.call_async(LoadModel.Request(model="sums", name="more"))
    outputs = sums(graph)
    graph.spin_until(load.done)
    assert outputs == [4, 4]


def test_a_node_in_the_drivers_process_does_not_hold_it(
    graph: Any, driver: DriverNode, answers_again: threading.Event
) -> None:
    client = ModelClient(driver, "sums", name="more", request_timeout=0.2)
    graph.spin_until(lambda: client.problem == "the model's file is still being looked for")
    assert sums(graph) == [4, 4]
    answers_again.set()
    graph.spin_until(lambda: client.ready)
    client.close()


@pytest.mark.usefixtures("answers_again")
def test_a_driver_whose_models_are_not_found_in_time_does_not_start(
    driver: DriverNode, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(driver_node, "LONGEST_LOAD", 0.1)
    driver.trigger_deactivate()
    driver.trigger_cleanup()
    capfd.readouterr()
    assert driver.trigger_configure() == TransitionCallbackReturn.FAILURE
    assert "model 'sums' is not loaded after 0.1 s; do model_dirs answer?" in capfd.readouterr().err


@pytest.mark.usefixtures("answers_again")
def test_no_more_than_a_number_of_requests_wait_for_them(graph: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver_services, "MOST_WAITING_FOR_FILES", 2)
    messages = [
        graph.call(LoadModel, "/edgetpu/load_model", model="sums", name=f"n{number}").message
        for number in range(3)
    ]
    assert messages == [
        *["the model is still being loaded after 0.1 s; try again"] * 2,
        "2 requests wait for model_dirs, which do not answer; try again in 1 s",
    ]

"""Requests to the driver node for a model that is not loaded yet and whose parts are unknown."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

pytest.importorskip("rclpy", reason="needs ROS 2")
pytest.importorskip("edgetpu_msgs", reason="needs a built workspace (make test)")

from rclpy.parameter import Parameter

from edgetpu_driver.errors import ModelFormatError
from edgetpu_driver.host.models.hosted_model import HostedModel
from edgetpu_driver.nodes.driver_node import DriverNode
from edgetpu_msgs.msg import ErrorCode, ModelInfo, Tensor
from edgetpu_msgs.srv import Invoke, LoadModel
from testdata.graphs.compiled_graphs import compiled_graph, source_graph
from testdata.timeouts import PATIENCE

IMAGE = np.array([[0, 50, 100, 128, 130, 180, 220, 255]], np.uint8)
X = IMAGE.view(np.int8)


class Queued(NamedTuple):
    """A driver, and what lets it load the model."""

    driver: DriverNode
    may_load: threading.Event


@pytest.fixture
def queued(graph: Any, tmp_path: Path) -> Iterator[Queued]:
    """A driver that has queued the model "parts", which has two parts for the Edge TPU."""
    (tmp_path / "parts.tflite").write_bytes(source_graph(2))
    (tmp_path / "parts_edgetpu.tflite").write_bytes(compiled_graph(2))
    parameters = {"backend": "virtual", "model_dirs": [str(tmp_path)]}
    driver = DriverNode(parameter_overrides=[Parameter(n, value=v) for n, v in parameters.items()])
    graph.add_node(driver)
    graph.await_device()
    may_load = threading.Event()
    driver.active_host()._table._loader.submit(lambda: may_load.wait(PATIENCE))
    assert graph.call(LoadModel, "/edgetpu/load_model", model="parts").info.state == ModelInfo.QUEUED
    yield Queued(driver, may_load)
    may_load.set()
    graph.remove_node(driver)
    driver.destroy_node()


def answer(graph: Any, queued: Queued, values: Any, part: int) -> Invoke.Response:
    """The answer to a request that came before the model was loaded, and whose only input has no name."""
    dtype = {"uint8": Tensor.UINT8, "int8": Tensor.INT8}[values.dtype.name]
    tensor = Tensor(dtype=dtype, shape=values.shape, data=values.tobytes())
    client = graph.node.create_client(Invoke, "/edgetpu/invoke")
    graph.spin_until(client.service_is_ready)
    future = client.call_async(Invoke.Request(model="parts", inputs=[tensor], part=part))
    graph.spin_until(lambda: future.done() or queued.driver.status().waiting == 1)
    queued.may_load.set()
    graph.spin_until(future.done)
    return future.result()


@pytest.mark.parametrize(
    ("values", "part", "outputs"), [(IMAGE, 0, ["b0", "last"]), (X, 1, ["b0"]), (X, 2, ["b1"])]
)
def test_requests_wait_whichever_part_they_ask_for(
    graph: Any, queued: Queued, values: Any, part: int, outputs: list[str]
) -> None:
    response = answer(graph, queued, values, part)
    assert response.success, response.message
    assert ([each.name for each in response.outputs], response.part) == (outputs, part)


def test_a_part_that_it_turns_out_not_to_have_is_refused(graph: Any, queued: Queued) -> None:
    assert answer(graph, queued, X, part=3).error.value == ErrorCode.BAD_INPUT


def test_a_model_that_has_failed_when_its_state_is_told_is_answered_with_the_error(
    graph: Any, queued: Queued, monkeypatch: pytest.MonkeyPatch
) -> None:
    failed = HostedModel("parts", [Path("parts.tflite")])
    failed.set_failed(ModelFormatError("broken"))
    monkeypatch.setattr(queued.driver, "submit_load", lambda *_arguments, **_options: failed)
    response = graph.call(LoadModel, "/edgetpu/load_model", model="parts")
    assert (response.success, response.message) == (False, "broken")
    assert response.error.value == ErrorCode.BAD_MODEL

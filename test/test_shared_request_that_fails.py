"""Two nodes of a process share a request for an image that the driver then refuses."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("edgetpu_msgs", reason="needs a built workspace (make test)")
pytest.importorskip("ai_edge_litert", reason="needs LiteRT")

from sensor_msgs.msg import Image

from edgetpu_driver.node_kit.images.image_subscriptions import Cameras
from edgetpu_driver.nodes.driver_node import DriverNode
from edgetpu_msgs.msg import Flow, Heading
from edgetpu_perception.nodes.optical_flow_node import OpticalFlowNode
from edgetpu_perception.nodes.visual_compass_node import VisualCompassNode
from testdata.running_nodes.running_tracker import header, image_message

PICTURE = np.random.default_rng(3).integers(0, 256, (64, 64), np.uint8)


@pytest.fixture
def nodes(graph: Any, tmp_path: Path) -> Iterator[tuple[DriverNode, OpticalFlowNode, VisualCompassNode]]:
    """A driver, and two nodes that run the same model on the same images."""
    paths = ["-p", f"model_dir:={tmp_path}", "-p", f"model_dirs:=['{tmp_path}']"]
    arguments = ["--ros-args", "-r", "__ns:=/shared", "-p", "backend:=cpu", *paths]
    arguments += ["-p", "horizontal_fov:=1.0", "-p", "qos_reliability:=reliable"]
    cameras = Cameras()
    made = (
        DriverNode(cli_args=arguments),
        OpticalFlowNode(cameras=cameras, cli_args=arguments),
        VisualCompassNode(cameras=cameras, cli_args=arguments),
    )
    for node in made:
        graph.add_node(node)
    yield made
    for node in reversed(made):
        graph.remove_node(node)
        node.destroy_node()


def test_both_nodes_load_the_model_again_and_send_the_image_again(
    graph: Any, nodes: tuple[DriverNode, OpticalFlowNode, VisualCompassNode]
) -> None:
    driver, *measuring = nodes
    images = graph.node.create_publisher(Image, "/shared/image", 10)
    flows = graph.collect(Flow, "/shared/optical_flow/flow", 100)
    headings = graph.collect(Heading, "/shared/visual_compass/heading", 100)
    second = 0

    def both_answer() -> bool:
        nonlocal second
        second += 1
        images.publish(image_message(second, PICTURE))
        graph.spin_for(0.1, lambda: bool(flows and headings))
        return bool(flows and headings)

    graph.spin_until(both_answer)
    graph.spin_until(lambda: flows[-1].header == headings[-1].header == header(second))
    clients: list[Any] = [node._client for node in measuring]
    driver.trigger_deactivate()
    images.publish(image_message(second + 1, PICTURE))
    graph.spin_until(lambda: not all(client.ready for client in clients))
    assert not any(client.ready for client in clients)
    assert [node.counters.failed for node in measuring] == [0, 0]
    driver.trigger_activate()
    last = header(second + 1)
    graph.spin_until(lambda: flows[-1].header == headings[-1].header == last)


def test_the_end_of_a_node_does_not_take_the_model_from_its_neighbour(
    graph: Any, nodes: tuple[DriverNode, OpticalFlowNode, VisualCompassNode]
) -> None:
    _driver, first, neighbour = nodes
    clients: list[Any] = [first._client, neighbour._client]
    graph.spin_until(lambda: all(client.ready for client in clients))
    answers: list[Any] = []
    clients[0].invoke({"image": PICTURE[np.newaxis, ..., np.newaxis]}, answers.append)
    clients[0].close()
    view: Any = None
    neighbour._on_answer(view, view, view, answers[0])
    assert (str(answers[0].error), clients[1].ready) == ("the client is closed", True)
    assert neighbour.counters.failed == 1

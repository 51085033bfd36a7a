"""Two cameras on one topic are named in /diagnostics."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("edgetpu_msgs", reason="needs a built workspace (make test)")

import rclpy
from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus
from sensor_msgs.msg import CameraInfo, Image

from edgetpu_driver.node_kit.several_publishers import several_publishers


class FakeNode:
    """A node in a graph with these publishers on every topic, as (namespace, name)."""

    def __init__(self, *publishers: tuple[str, str]) -> None:
        self._publishers = publishers

    def count_publishers(self, topic: str) -> int:  # noqa: ARG002
        return len(self._publishers)

    def get_publishers_info_by_topic(self, topic: str) -> list[SimpleNamespace]:  # noqa: ARG002
        return [
            SimpleNamespace(node_namespace=namespace, node_name=name) for namespace, name in self._publishers
        ]


@pytest.mark.parametrize(
    "publishers",
    [
        [],
        [("/", "camera")],
        [("/", "camera"), ("/", "camera")],  # a killed process and its successor
        [("/", "camera"), ("_NODE_NAMESPACE_UNKNOWN_", "_NODE_NAME_UNKNOWN_")],
    ],
)
def test_one_node_is_no_problem(publishers: list[tuple[str, str]]) -> None:
    node: Any = FakeNode(*publishers)
    assert several_publishers(node, "/image") == ""


def test_all_nodes_are_named() -> None:
    node: Any = FakeNode(("/", "webcam"), ("/front", "camera"), ("/", "player"))
    expected = "3 nodes publish on /image: /front/camera, /player, /webcam"
    assert several_publishers(node, "/image") == expected


def test_two_cameras_on_one_topic_are_a_warning(
    graph: Any, start_node: Callable[..., Any], tmp_path: Path
) -> None:
    told = graph.collect(DiagnosticArray, "/diagnostics")
    cameras = [rclpy.create_node(name, namespace="/twins", use_global_arguments=False) for name in "ab"]
    for camera in cameras:
        camera.create_publisher(Image, "image", 1)
        camera.create_publisher(CameraInfo, "camera_info", 1)
    start_node("edgetpu_perception", "looming", "-r", "__ns:=/twins", model_dir=tmp_path)
    lines = [f"2 nodes publish on /twins/{topic}: /twins/a, /twins/b" for topic in ("image", "camera_info")]

    def named() -> list[DiagnosticStatus]:
        entries = [entry for each in told for entry in each.status if entry.name == "twins/looming: images"]
        return [entry for entry in entries if all(line in entry.message for line in lines)]

    graph.spin_until(lambda: bool(named()))
    assert named()[-1].level == DiagnosticStatus.WARN
    cameras.pop().destroy_node()
    told.clear()

    def alone() -> bool:
        entries = [entry for each in told for entry in each.status if entry.name == "twins/looming: images"]
        return any("publish on" not in entry.message for entry in entries)

    graph.spin_until(alone)
    cameras.pop().destroy_node()

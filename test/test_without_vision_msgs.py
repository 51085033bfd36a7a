"""Nodes on a machine without vision_msgs: those with other results run, the others say what is missing."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("rclpy", reason="needs ROS 2")
pytest.importorskip("edgetpu_msgs", reason="needs a built workspace (make test)")
pytest.importorskip("ai_edge_litert", reason="needs LiteRT")

from edgetpu_driver.errors import DependencyMissingError
from edgetpu_driver.node_kit.fatal_error import FatalError
from edgetpu_driver.node_kit.node_table import node_table

CURE = "which is not installed: apt install ros-kilted-vision-msgs, or rosdep install"


@pytest.fixture(autouse=True)
def without_vision_msgs(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if the package, and the modules that have imported it, were not there."""
    monkeypatch.setenv("ROS_DISTRO", "kilted")
    for name in list(sys.modules):
        if name.startswith("edgetpu_vision.nodes"):
            monkeypatch.delitem(sys.modules, name)
    for name in ("vision_msgs", "vision_msgs.msg"):
        monkeypatch.setitem(sys.modules, name, None)


@pytest.fixture
def make(graph: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Make a node in this process, with some parameters."""
    monkeypatch.setenv("ROS_HOME", str(tmp_path))

    def node(name: str, *parameters: str) -> Any:
        options = [part for each in parameters for part in ("-p", each)]
        made = node_table()[name].load()(cli_args=["--ros-args", *options])
        graph.add_node(made)
        return made

    return node


@pytest.mark.parametrize("name", ["classifier", "learner", "object_detector", "segmenter"])
def test_a_node_that_needs_it_says_how_to_install_it(name: str) -> None:
    with pytest.raises(DependencyMissingError) as raised:
        node_table()[name].load()
    assert str(raised.value) == f"{name} needs vision_msgs, {CURE}"


def test_the_spot_tracker_publishes_its_other_results(make: Callable[..., Any], tmp_path: Path) -> None:
    tracker = make("spot_tracker", f"model_dir:={tmp_path}")
    topics = {topic for topic, _ in tracker.get_publisher_names_and_types_by_node("spot_tracker", "/")}
    assert "/spot_tracker/servo_error" in topics
    assert "/spot_tracker/detections" not in topics


def test_the_visual_servo_follows_what_needs_no_detections(make: Callable[..., Any]) -> None:
    assert make("visual_servo", "source:=servo_error").count_subscribers("/spot_tracker/servo_error") == 1


@pytest.mark.parametrize(
    ("name", "parameter"), [("visual_servo", "source:=detections"), ("contact_guard", "use_detections:=true")]
)
def test_detections_are_refused(make: Callable[..., Any], name: str, parameter: str) -> None:
    with pytest.raises(FatalError) as raised:
        make(name, parameter)
    assert str(raised.value) == (
        f"parameters of {name}: vision_msgs/Detection2DArray needs vision_msgs, {CURE}"
    )

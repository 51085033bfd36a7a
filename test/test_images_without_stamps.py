"""Nodes whose results need the stamps of the images say that these do not advance."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("edgetpu_msgs", reason="needs a built workspace (make test)")

from edgetpu_perception.nodes.looming_node import LoomingNode
from edgetpu_perception.nodes.optical_flow_node import OpticalFlowNode
from edgetpu_perception.nodes.perception_node import STILL_STAMPS
from edgetpu_perception.nodes.visual_compass_node import VisualCompassNode


@pytest.fixture
def diagnosed(graph: Any, tmp_path: Path) -> Iterator[Callable[..., str]]:  # noqa: ARG001 - rclpy runs
    """Gives a node results of images with these stamps, s; returns its message in /diagnostics."""
    nodes: dict[type[Any], Any] = {}

    def diagnose(kind: type[Any], *stamps: float) -> str:
        if kind not in nodes:
            arguments = ["--ros-args", "-p", f"model_dir:={tmp_path}", "-p", "horizontal_fov:=1.0"]
            nodes[kind] = kind(namespace="stamps", cli_args=arguments)
        for stamp in stamps:
            nodes[kind].counters.received += 1
            nodes[kind].on_result(SimpleNamespace(stamp=stamp, image_width=64, image_height=64))
        return str(nodes[kind].diagnostic().message)

    yield diagnose
    for node in nodes.values():
        node.destroy_node()


@pytest.mark.parametrize("kind", [LoomingNode, VisualCompassNode])
def test_stamps_that_stand_still_are_a_problem_until_they_advance(
    kind: type[Any], diagnosed: Callable[..., str], capfd: pytest.CaptureFixture[str]
) -> None:
    missing = "the stamps of the images are missing; without them no result is valid"
    assert missing not in diagnosed(kind, *[0.0] * (STILL_STAMPS - 1))
    assert missing in diagnosed(kind, *[0.0] * 5)
    assert "stamps" not in diagnosed(kind, 7.0)
    assert "the stamps of the images are all 7 s" in diagnosed(kind, *[7.0] * STILL_STAMPS)
    assert "stamps" not in diagnosed(kind, 7.1)
    assert capfd.readouterr().err.count("the stamps of the images") == 1


def test_the_motion_in_px_needs_no_stamps(diagnosed: Callable[..., str]) -> None:
    assert "stamps" not in diagnosed(OpticalFlowNode, *[0.0] * STILL_STAMPS)

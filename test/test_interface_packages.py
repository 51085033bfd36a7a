"""vision_msgs, real or built from tools/interfaces: the published names and types."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

vision_msgs = pytest.importorskip("vision_msgs.msg", reason="needs vision_msgs")

ROOT = Path(__file__).parents[1]

# Of vision_msgs 4, as published at docs.ros.org/en/jazzy/p/vision_msgs.
FIELDS = {
    "Point2D": {"x": "double", "y": "double"},
    "Pose2D": {"position": "vision_msgs/Point2D", "theta": "double"},
    "BoundingBox2D": {"center": "vision_msgs/Pose2D", "size_x": "double", "size_y": "double"},
    "ObjectHypothesis": {"class_id": "string", "score": "double"},
    "ObjectHypothesisWithPose": {
        "hypothesis": "vision_msgs/ObjectHypothesis",
        "pose": "geometry_msgs/PoseWithCovariance",
    },
    "Detection2D": {
        "header": "std_msgs/Header",
        "results": "sequence<vision_msgs/ObjectHypothesisWithPose>",
        "bbox": "vision_msgs/BoundingBox2D",
        "id": "string",
    },
    "Detection2DArray": {"header": "std_msgs/Header", "detections": "sequence<vision_msgs/Detection2D>"},
    "Classification": {"header": "std_msgs/Header", "results": "sequence<vision_msgs/ObjectHypothesis>"},
    "VisionClass": {"class_id": "uint16", "class_name": "string"},
    "LabelInfo": {
        "header": "std_msgs/Header",
        "class_map": "sequence<vision_msgs/VisionClass>",
        "threshold": "float",
    },
}


@pytest.mark.parametrize("name", FIELDS)
def test_messages_have_the_published_fields(name: str) -> None:
    assert getattr(vision_msgs, name).get_fields_and_field_types() == FIELDS[name]


def test_a_plain_colcon_build_does_not_see_the_interface_packages() -> None:
    if shutil.which("colcon") is None:
        pytest.skip("needs colcon")
    listed = subprocess.run(
        [
            "colcon",
            "--log-base",
            "/dev/null",
            "list",
            "--names-only",
            "--base-paths",
            str(ROOT),
            str(ROOT / "tools"),
        ],
        capture_output=True,
        text=True,
        check=True,
    )
    assert listed.stdout.split() == ["edgetpu_ros"]

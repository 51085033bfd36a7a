"""From pictures to places: the embedder's vectors, compared by place_recognition."""

from __future__ import annotations

import array
from collections.abc import Callable
from typing import Any

import cv2
import numpy as np
import pytest

pytest.importorskip("edgetpu_msgs", reason="needs a built workspace (make test)")
pytest.importorskip("vision_msgs", reason="needs vision_msgs")
pytest.importorskip("ai_edge_litert", reason="needs LiteRT")

from builtin_interfaces.msg import Time
from sensor_msgs.msg import Image
from std_msgs.msg import Header

from edgetpu_msgs.msg import PlaceMatch
from edgetpu_msgs.srv import AddPlace
from testdata import GOLDEN

MODEL = "mobilenet_v1_1.0_224_quant_embedding_extractor"
PICTURES = ("bird", "cat", "grace_hopper", "squat", "test_image")


def picture(name: str) -> np.ndarray:
    bgr = cv2.imread(str(GOLDEN.path(f"vision/pictures/{name}.bmp")))
    return cv2.cvtColor(bgr, cv2.COLOR_BGR2RGB)


def darker(image: np.ndarray) -> np.ndarray:
    return cv2.convertScaleAbs(image, alpha=0.8)


def nearer(image: np.ndarray) -> np.ndarray:
    height, width = image.shape[:2]
    return image[height // 20 : -height // 20, width // 20 : -width // 20]


def turned(image: np.ndarray) -> np.ndarray:
    height, width = image.shape[:2]
    turn = cv2.getRotationMatrix2D((width / 2, height / 2), 4.0, 1.0)
    return cv2.warpAffine(image, turn, (width, height), borderMode=cv2.BORDER_REPLICATE)


class Robot:
    """An embedder that feeds place_recognition, shown one picture after the other."""

    def __init__(self, graph: Any, start_node: Callable[..., Any]) -> None:
        self.graph = graph
        folder = GOLDEN.path(f"vision/{MODEL}.tflite").parent
        self.process = start_node(
            "edgetpu_perception",
            "single_process",
            *("-r", "image:=/places_camera", "-r", "embedding:=embedder/embedding"),
            *("--", "--nodes", "embedder,place_recognition"),
            **{"edgetpu:backend": "cpu", "qos_reliability": "reliable"},
            **{"edgetpu:model_dirs": [str(folder), "$ROS_HOME/edgetpu/models"]},
        )
        self.matches = graph.collect(PlaceMatch, "/place_recognition/match")
        self._images = graph.node.create_publisher(Image, "/places_camera", 10)
        self._second = 0
        graph.spin_until(lambda: self._images.get_subscription_count() == 1)
        graph.meet("/place_recognition")

    def look(self, image: np.ndarray) -> PlaceMatch:
        """Show one picture, again while its models are being loaded, and wait for its match."""
        first = self._second + 1
        height, width = image.shape[:2]
        data = array.array("B", image.tobytes())

        def found() -> list[PlaceMatch]:
            return [match for match in self.matches if match.header.stamp.sec >= first]

        def answered() -> bool:
            self._second += 1
            header = Header(stamp=Time(sec=self._second), frame_id="camera_optical_frame")
            self._images.publish(
                Image(header=header, height=height, width=width, encoding="rgb8", step=3 * width, data=data)
            )
            self.graph.spin_for(0.1, lambda: bool(found()))
            return bool(found())

        self.graph.spin_until(answered)
        return found()[0]

    def name(self, label: str) -> None:
        """Call the place of the last picture by this name."""
        assert self.graph.call(AddPlace, "/place_recognition/add_place", label=label).success


@pytest.fixture(scope="module")
def robot(graph: Any, start_node: Callable[..., Any]) -> Robot:
    robot = Robot(graph, start_node)
    for name in PICTURES:
        robot.look(picture(name))
        robot.name(name)
    return robot


@pytest.mark.parametrize("name", PICTURES)
def test_a_picture_is_its_own_place(robot: Robot, name: str) -> None:
    match = robot.look(picture(name))
    assert (match.valid, match.label) == (True, name)
    assert match.scores[0] == pytest.approx(1.0, abs=1e-5)


@pytest.mark.parametrize("view", [darker, nearer, turned])
@pytest.mark.parametrize("name", PICTURES)
def test_another_view_of_a_place_is_recognised(robot: Robot, name: str, view: Callable[..., Any]) -> None:
    match = robot.look(np.ascontiguousarray(view(picture(name))))
    assert match.labels[0] == name
    assert match.scores[0] > match.scores[1]

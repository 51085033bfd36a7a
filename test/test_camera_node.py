"""The camera node in the graph: pictures, calibration, parameters, single pictures."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

pytest.importorskip("rclpy", reason="needs ROS 2")
pytest.importorskip("edgetpu_msgs", reason="needs a built workspace (make test)")

from diagnostic_msgs.msg import DiagnosticArray
from rcl_interfaces.msg import Log
from rcl_interfaces.srv import SetParameters
from rclpy.parameter import Parameter
from rclpy.qos import DurabilityPolicy, QoSProfile
from sensor_msgs.msg import CameraInfo, Image
from std_srvs.srv import Trigger

from edgetpu_driver.node_kit.images.image_messages import image_from_message


@pytest.fixture
def start_camera(start_node: Any, graph: Any) -> Iterator[Any]:
    started: list[Any] = []

    def start(*parameters: str) -> None:
        arguments = [part for parameter in parameters for part in ("-p", parameter)]
        started.append(start_node("edgetpu_dashboard", "camera", *arguments))

    yield start
    for camera in started:
        camera.stop()
    graph.spin_until(lambda: not graph.node.count_publishers("/image"))


def set_parameter(graph: Any, name: str, value: Any) -> tuple[bool, str]:
    message = Parameter(name, value=value).to_parameter_msg()
    (result,) = graph.call(SetParameters, "/camera/set_parameters", parameters=[message]).results
    return result.successful, result.reason


def test_pictures_and_their_calibration_have_one_stamp(start_camera: Any, graph: Any) -> None:
    images, infos = graph.collect(Image, "/image"), graph.collect(CameraInfo, "/camera_info")
    start_camera("width:=320", "height:=240", "frame_rate:=50.0")

    def pairs() -> list[tuple[Image, CameraInfo]]:
        return [(image, info) for image in images for info in infos if image.header == info.header]

    graph.spin_until(lambda: bool(pairs()))
    image, info = pairs()[0]
    assert (image.width, image.height, image.encoding) == (320, 240, "rgb8")
    assert (info.width, info.height, info.header.frame_id) == (320, 240, "camera_optical_frame")
    assert info.k[0] == pytest.approx(160 / math.tan(1.047 / 2))


def test_the_source_can_be_changed_while_it_runs(start_camera: Any, graph: Any) -> None:
    images = graph.collect(Image, "/image")
    start_camera("width:=64", "height:=48")
    graph.spin_until(lambda: bool(images))
    assert image_from_message(images[-1]).std() < 60  # a dot on a dark ground
    assert set_parameter(graph, "source", "noise") == (True, "")
    graph.spin_until(lambda: image_from_message(images[-1]).std() > 65)


def test_a_bad_value_is_refused_with_the_reason(start_camera: Any, graph: Any) -> None:
    start_camera()
    assert set_parameter(graph, "path", "/nowhere") == (False, "path: there is no /nowhere")
    assert set_parameter(graph, "source", "radio")[1].startswith(
        "source: expected one of webcam, file, scene"
    )


def test_a_webcam_that_is_not_there_is_told_and_asked_for_again(start_camera: Any, graph: Any) -> None:
    told = graph.collect(DiagnosticArray, "/diagnostics")
    logs = graph.collect(Log, "/rosout", QoSProfile(depth=100, durability=DurabilityPolicy.TRANSIENT_LOCAL))
    images = graph.collect(Image, "/image")
    start_camera("source:=webcam", "device:='987'")
    graph.spin_until(
        lambda: any("no webcam: there is no /dev/video987" in each.status[0].message for each in told)
    )
    lines = [
        "no webcam: there is no /dev/video987; `ls /dev/video*` lists the devices; trying again every 1 s",
        "there are pictures now",
    ]
    graph.spin_until(lambda: [each.msg for each in logs if each.name == "camera"] == lines[:1])
    assert set_parameter(graph, "source", "noise") == (True, "")
    graph.spin_until(lambda: bool(images))
    graph.spin_until(lambda: [each.msg for each in logs if each.name == "camera"] == lines)


def test_files_of_a_folder_that_cannot_be_read_are_logged_once_and_counted(
    start_camera: Any, graph: Any, tmp_path: Path
) -> None:
    told = graph.collect(DiagnosticArray, "/diagnostics")
    logs = graph.collect(Log, "/rosout", QoSProfile(depth=100, durability=DurabilityPolicy.TRANSIENT_LOCAL))
    images = graph.collect(Image, "/image")
    cv2.imwrite(str(tmp_path / "b.png"), np.zeros((6, 8, 3), np.uint8))
    for name in ("a.png", "c.png"):
        (tmp_path / name).write_bytes(b"no picture")
    start_camera("source:=file", f"path:={tmp_path}", "frame_rate:=50.0")
    graph.spin_until(lambda: len(images) > 3)

    def counts() -> list[str]:
        entries = [each.status[0] for each in told if each.status[0].name == "camera: pictures"]
        return [pair.value for entry in entries for pair in entry.values if pair.key == "unreadable files"]

    graph.spin_until(lambda: "2" in counts())
    kinds = "JPEG, PNG, WebP, TIFF or BMP, or PBM, PGM or PPM"
    lines = [f"{tmp_path / name} is not an image: expected {kinds}; left out" for name in ("a.png", "c.png")]
    graph.spin_until(lambda: [each.msg for each in logs if each.name == "camera"] == lines)


def test_while_paused_pictures_come_one_by_one(start_camera: Any, graph: Any) -> None:
    images = graph.collect(Image, "/image")
    start_camera("paused:=true", "width:=64", "height:=48")
    for count in (1, 2):
        assert graph.call(Trigger, "/camera/step").success
        graph.spin_until(lambda count=count: len(images) == count)
    assert set_parameter(graph, "paused", False) == (True, "")
    graph.spin_until(lambda: len(images) > 4)
    answer = graph.call(Trigger, "/camera/step")
    assert (answer.success, answer.message) == (
        False,
        "pictures are published already: set paused first",
    )

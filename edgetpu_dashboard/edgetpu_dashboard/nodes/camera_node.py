"""The camera as a node: publishes image and camera_info from a webcam, a file, a pattern or the scene."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

from diagnostic_msgs.msg import DiagnosticStatus, KeyValue
from rclpy.exceptions import InvalidHandle
from rclpy.qos import QoSProfile
from sensor_msgs.msg import CameraInfo, Image
from std_msgs.msg import Header
from std_srvs.srv import Trigger

from edgetpu_dashboard.camera.calibration import CameraCalibration, ideal_calibration, read_calibration
from edgetpu_dashboard.camera.capture_thread import RETRY, SOURCES, CaptureThread, open_source
from edgetpu_dashboard.camera.source import CameraSettings, Pixels, Source
from edgetpu_dashboard.nodes.camera_info_messages import camera_info
from edgetpu_driver.errors import InputError
from edgetpu_driver.files.file_access import user_path
from edgetpu_driver.node_kit.base_node import BaseNode
from edgetpu_driver.node_kit.fatal_error import FatalError
from edgetpu_driver.node_kit.images.image_messages import message_from_rgb
from edgetpu_driver.node_kit.parameters import Setting
from edgetpu_driver.node_kit.printable_text import one_line

_DEFAULTS = CameraSettings()
_QOS = QoSProfile(depth=5)
"""Reliable, which is compatible with every subscription."""
_LARGEST_SIDE = 8192
"""Largest width and height of pictures, px."""


def _four_characters(text: str) -> str | None:
    return None if len(text) in (0, 4) and text.isascii() else f"expected four characters; got '{text}'"


def _is_there(path: str) -> str | None:
    return None if not path or os.path.exists(user_path(path)) else f"there is no {path}"


class CameraNode(BaseNode):
    """Publishes pictures and their calibration at a fixed rate."""

    settings = (
        Setting(
            "source",
            _DEFAULTS.source,
            "Source of the pictures.",
            choices=SOURCES,
            read_only=False,
        ),
        Setting("device", _DEFAULTS.device, "Webcam: path or number of the V4L2 device.", read_only=False),
        Setting(
            "path",
            _DEFAULTS.path,
            "File: a picture, a folder of pictures, or a video.",
            read_only=False,
            check=_is_there,
        ),
        Setting(
            "loop",
            _DEFAULTS.loop,
            "Repeat files from the start; otherwise the last picture stays.",
            read_only=False,
        ),
        Setting(
            "width",
            _DEFAULTS.width,
            "Width of the pictures, px. 0: the source's own; 640 for patterns and the scene.",
            0,
            _LARGEST_SIDE,
            read_only=False,
        ),
        Setting(
            "height",
            _DEFAULTS.height,
            "Height of the pictures, px. 0: the source's own; 480 for patterns and the scene.",
            0,
            _LARGEST_SIDE,
            read_only=False,
        ),
        Setting("frame_rate", _DEFAULTS.frame_rate, "Pictures per second, Hz.", 0.1, 240.0, read_only=False),
        Setting(
            "exposure",
            _DEFAULTS.exposure,
            "Exposure time of the webcam, s. 0: automatic.",
            0.0,
            10.0,
            read_only=False,
        ),
        Setting(
            "gain",
            _DEFAULTS.gain,
            "Gain of the webcam, in its units. -1: unchanged.",
            -1,
            65535,
            read_only=False,
        ),
        Setting(
            "pixel_format",
            _DEFAULTS.pixel_format,
            "Pixel format of the webcam, for example MJPG, which most webcams need for large pictures at "
            "full rate. Empty: unchanged.",
            read_only=False,
            check=_four_characters,
        ),
        Setting(
            "paused",
            False,
            "Publish a picture only when ~/step is called.",
            read_only=False,
        ),
        Setting(
            "field_of_view",
            1.047,
            "Field of view that camera_info states without a calibration, and that of the scene, rad.",
            0.01,
            3.1,
        ),
        Setting(
            "calibration",
            "",
            "Calibration as camera_calibration writes it, a YAML file. Empty: field_of_view, no distortion.",
        ),
        Setting(
            "camera_frame_id", "camera_optical_frame", "Frame of the pictures, an optical one (REP-103)."
        ),
    )

    subject = "pictures"

    def __init__(self, **options: Any) -> None:
        super().__init__("camera", **options)
        self._capture: CaptureThread | None = None
        self._logged_problem = ""
        self._left_out: set[Path] = set()
        """Files of the folder that could not be read."""
        with self.destroyed_on_error():
            self._set_up()

    def _set_up(self) -> None:
        self._calibration: CameraCalibration | None = None
        if self.values["calibration"]:
            try:
                self._calibration = read_calibration(self.values["calibration"])
            except InputError as error:
                raise FatalError(f"calibration: {error}") from None
        self._size = 0, 0
        self._images = self.create_publisher(Image, "image", _QOS)
        self._infos = self.create_publisher(CameraInfo, "camera_info", _QOS)
        self.create_service(Trigger, "~/step", self._step)
        self._capture = CaptureThread(self._wanted(), self._publish, self._open, paused=self.values["paused"])
        self.start_diagnostics()

    def destroy_node(self) -> None:
        """Stop taking pictures, then destroy the node."""
        if self._capture is not None:
            self._capture.close()
        super().destroy_node()

    def on_parameter(self, name: str, value: Any) -> None:
        """Apply a new value at once."""
        super().on_parameter(name, value)
        if self._capture is None:
            return
        if name == "paused":
            self._capture.paused = value
        elif hasattr(_DEFAULTS, name):
            self._capture.settings = replace(self._capture.settings, **{name: value})

    def problems(self) -> list[str]:
        """Return why there are no pictures."""
        if self._capture is None:
            return []
        problem = self._capture.problem
        self._log_change(problem)
        return [text for text in (problem, "paused" if self.values["paused"] else "") if text]

    def _log_change(self, problem: str) -> None:
        """Log why there are no pictures from now on, or that there are some again."""
        if problem == self._logged_problem:
            return
        self._logged_problem = problem
        if problem:
            self.get_logger().warning(f"{one_line(problem)}; trying again every {RETRY:g} s")
        else:
            self.get_logger().info("there are pictures now")

    def diagnostic(self) -> DiagnosticStatus:
        """Add the source and the size of the pictures to the node's entry of /diagnostics."""
        status = super().diagnostic()
        width, height = self._size
        status.values = [
            *status.values,
            KeyValue(key="source", value=self.values["source"]),
            KeyValue(key="size, px", value=f"{width}x{height}"),
            KeyValue(key="unreadable files", value=str(len(self._left_out))),
        ]
        return status

    def _wanted(self) -> CameraSettings:
        return CameraSettings(**{name: self.values[name] for name in vars(_DEFAULTS)})

    def _open(self, settings: CameraSettings) -> Source:
        folder = user_path(settings.path)
        self._left_out = {file for file in self._left_out if file.parent == folder}
        return open_source(settings, self.values["field_of_view"], self._leave_out)

    def _leave_out(self, file: Path, reason: str) -> None:
        """Log once that a file of the folder cannot be read; called in the capture thread."""
        if file not in self._left_out:
            self._left_out.add(file)
            self.get_logger().warning(f"{one_line(reason)}; left out")

    def _publish(self, picture: Pixels) -> None:
        """Publish a picture; called in the capture thread."""
        header = Header(stamp=self.get_clock().now().to_msg(), frame_id=self.values["camera_frame_id"])
        height, width = picture.shape[:2]
        self._size = width, height
        calibration = self._calibration or ideal_calibration(width, height, self.values["field_of_view"])
        try:
            self._infos.publish(camera_info(header, calibration))
            self._images.publish(message_from_rgb(header, picture))
        except InvalidHandle:
            return  # the node is being destroyed
        self.counters.received += 1
        self.counters.results += 1

    def _step(self, request: Trigger.Request, response: Trigger.Response) -> Trigger.Response:  # noqa: ARG002
        if not self.values["paused"] or self._capture is None:
            response.success, response.message = False, "pictures are published already: set paused first"
            return response
        self._capture.step()
        response.success, response.message = True, "one picture"
        return response

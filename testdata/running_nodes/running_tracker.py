"""A running spot tracker node, and images to show it."""

from __future__ import annotations

import array
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from builtin_interfaces.msg import Time
from rcl_interfaces.msg import Parameter, ParameterType, ParameterValue
from rcl_interfaces.srv import SetParameters
from rclpy.time import Time as RosTime
from sensor_msgs.msg import CameraInfo, CompressedImage, Image
from std_msgs.msg import Header

from edgetpu_msgs.msg import ServoError

PERCEPTION, DRIVER = "edgetpu_perception", "edgetpu_driver"


def spot(y: int = 20, x: int = 40) -> np.ndarray:
    """A 64x64 image with a bright block of 4x4 px; its centre is 1.5 px to the right of and below (x, y)."""
    image = np.zeros((64, 64), np.uint8)
    image[y : y + 4, x : x + 4] = 255
    return image


def header(second: int, nanosecond: int = 123456789) -> Header:
    """The header of an image."""
    return Header(stamp=Time(sec=second, nanosec=nanosecond), frame_id="camera_optical_frame")


def image_message(second: int, image: np.ndarray, encoding: str = "mono8") -> Image:
    """An image as a camera publishes it."""
    height, width = image.shape[:2]
    data = array.array("B", image.tobytes())
    return Image(
        header=header(second),
        height=height,
        width=width,
        encoding=encoding,
        step=image.nbytes // height,
        data=data,
    )


def values(message: Any) -> str:
    """All fields as text, so that two messages with NaN in the same places compare equal."""
    return repr(message)


class Tracker:
    """A running tracker from a user's view: publishes images and collects the results."""

    def __init__(self, graph: Any, name: str, process: Any, image_type: Any = Image) -> None:
        self._graph, self.name, self.process = graph, name, process
        transport = "/compressed" if image_type is CompressedImage else ""
        self.results = graph.collect(ServoError, f"/{name}/servo_error")
        self._reports = graph.diagnostics()
        self.images = graph.node.create_publisher(image_type, f"/{name}_camera/image{transport}", 10)
        self.camera_infos = graph.node.create_publisher(CameraInfo, f"/{name}_camera/camera_info", 10)
        graph.spin_until(lambda: self.images.get_subscription_count() == 1)

    def warm_up(self) -> None:
        """Show images until results arrive: publishers and subscribers take a while to discover each other.

        After that, the next result belongs to the next image that is shown.
        """
        second = 0

        def answers() -> bool:
            nonlocal second
            second += 1  # a rate limit must not drop it
            self.images.publish(image_message(second, spot()))
            self._graph.spin_for(0.1, lambda: bool(self.results))
            return bool(self.results)

        self._graph.spin_until(answers)
        self._graph.spin_until(lambda: self.results[-1].header == header(second))
        self.results.clear()

    def show(self, message: Image) -> ServoError:
        """Publish one image and wait for its result."""
        count = len(self.results)
        self.images.publish(message)

        def answers() -> list[ServoError]:
            return [result for result in self.results[count:] if result.header.stamp == message.header.stamp]

        self._graph.spin_until(lambda: bool(answers()))
        return answers()[0]

    def diagnostic(self) -> Any:
        """The first diagnostics that the node publishes after this call."""
        count, now = len(self._reports), self._graph.node.get_clock().now()

        def ours() -> list[Any]:
            reports = [each for each in self._reports[count:] if RosTime.from_msg(each.header.stamp) > now]
            entries = [status for report in reports for status in report.status]
            return [status for status in entries if status.name == f"{self.name}: images"]

        self._graph.spin_until(lambda: bool(ours()))
        return ours()[0]

    def counters(self) -> dict[str, int]:
        """The counters in the next diagnostics."""
        return {pair.key: int(pair.value) for pair in self.diagnostic().values}


def start_tracker(
    graph: Any,
    start_node: Callable[..., Any],
    model_dir: Path,
    name: str,
    image_type: Any = Image,
    warm_up: bool = True,
    **parameters: Any,
) -> Tracker:
    """Start a tracker node with a name and a camera of its own; parameters are given by keyword."""
    camera = f"/{name}_camera"
    process = start_node(
        PERCEPTION,
        "spot_tracker",
        *("-r", f"__node:={name}", "-r", f"image:={camera}/image"),
        *("-r", f"camera_info:={camera}/camera_info"),
        **{"qos_reliability": "reliable", "model_dir": model_dir} | parameters,
    )
    tracker = Tracker(graph, name, process, image_type)
    if warm_up:
        tracker.warm_up()
    return tracker


def set_parameter(graph: Any, node: str, name: str, value: float | list[int]) -> Any:
    """Set a parameter of a node; rcl_interfaces/SetParametersResult."""
    if isinstance(value, list):
        message = ParameterValue(type=ParameterType.PARAMETER_INTEGER_ARRAY, integer_array_value=value)
    else:
        message = ParameterValue(type=ParameterType.PARAMETER_DOUBLE, double_value=value)
    parameters = [Parameter(name=name, value=message)]
    (result,) = graph.call(SetParameters, f"/{node}/set_parameters", parameters=parameters).results
    return result

"""The graph that a user would write without the suite: `python -m bench.plain_graph NAME ..`.

Five plain rclpy nodes in one process. Each subscribes to the images, resizes them with cv2.resize, runs its
model with LiteRT inside the callback and publishes an empty result. It computes nothing from the outputs, so
it is a lower bound of the work that such a graph has to do.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import cv2
import numpy as np
import rclpy
from ai_edge_litert.interpreter import Interpreter
from rclpy.executors import ExternalShutdownException, SingleThreadedExecutor
from rclpy.node import Node
from rclpy.qos import qos_profile_sensor_data
from sensor_msgs.msg import Image

from bench.results import RESULTS, message_type
from edgetpu_perception.graphs import families

MODELS = {
    "looming": "looming_64x64",
    "optical_flow": "features1_64x64",
    "pattern_tracker": "pattern_64x64_16x16",
    "spot_tracker": "spot_bright_64x64",
    "visual_compass": "features1_64x64",
}
"""The graph of each node; the same as that of the suite's node of this name."""


class PlainNode(Node):
    """Resizes an image, runs a model and publishes an empty result, all in the callback of the image."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self._interpreter = Interpreter(model_content=families.build(MODELS[name]))
        self._interpreter.allocate_tensors()
        (self._input,) = self._interpreter.get_input_details()
        (self._output,) = self._interpreter.get_output_details()
        self._result = message_type(name)
        self._publisher = self.create_publisher(self._result, f"~/{RESULTS[name].topic}", 10)
        self.create_subscription(Image, "image", self._on_image, qos_profile_sensor_data)

    def _on_image(self, message: Any) -> None:
        _, height, width, _ = self._input["shape"]
        pixels = np.frombuffer(message.data, np.uint8).reshape(message.height, message.width)
        resized = cv2.resize(pixels, (width, height), interpolation=cv2.INTER_AREA)
        self._interpreter.set_tensor(self._input["index"], resized.reshape(self._input["shape"]))
        self._interpreter.invoke()
        self._interpreter.get_tensor(self._output["index"])
        self._publisher.publish(self._result(header=message.header))


def main(names: Sequence[str]) -> int:
    """Spin the nodes of these names, all of MODELS by default, until SIGINT."""
    rclpy.init(args=sys.argv)
    executor = SingleThreadedExecutor()
    nodes = [PlainNode(name) for name in names or MODELS]
    for node in nodes:
        executor.add_node(node)
    try:
        executor.spin()
    except (KeyboardInterrupt, ExternalShutdownException):
        pass
    finally:
        executor.shutdown()
        for node in nodes:
            node.destroy_node()
        rclpy.try_shutdown()
    return 0


if __name__ == "__main__":
    from rclpy.utilities import remove_ros_args

    sys.exit(main(remove_ros_args(sys.argv)[1:]))

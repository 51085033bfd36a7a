"""A user's own graph, as a baseline: `python -m bench.baseline_rclpy_nodes NAME:TYPE:TOPIC ..`.

Plain rclpy nodes in one process, each with its name, the type of its result in edgetpu_msgs and its topic.
Each subscribes to the images, resizes them with cv2.resize, runs its model with LiteRT in the callback and
publishes an empty result, without evaluating the outputs. Its work is a lower bound for such a graph.
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
from rclpy.utilities import remove_ros_args
from sensor_msgs.msg import Image

import edgetpu_msgs.msg
from bench.compared_nodes import MODELS
from edgetpu_perception.graphs import families


class PlainNode(Node):
    """Resizes an image, runs a model and publishes an empty result, all in the callback of the image."""

    def __init__(self, name: str, result: type[Any], topic: str) -> None:
        super().__init__(name)
        self._interpreter = Interpreter(model_content=families.build(MODELS[name]))
        self._interpreter.allocate_tensors()
        (self._input,) = self._interpreter.get_input_details()
        (self._output,) = self._interpreter.get_output_details()
        self._result = result
        self._publisher = self.create_publisher(result, f"~/{topic}", 10)
        self.create_subscription(Image, "image", self._on_image, qos_profile_sensor_data)

    def _on_image(self, message: Any) -> None:
        _, height, width, _ = self._input["shape"]
        pixels = np.frombuffer(message.data, np.uint8).reshape(message.height, message.width)
        resized = cv2.resize(pixels, (width, height), interpolation=cv2.INTER_AREA)
        self._interpreter.set_tensor(self._input["index"], resized.reshape(self._input["shape"]))
        self._interpreter.invoke()
        self._interpreter.get_tensor(self._output["index"])
        self._publisher.publish(self._result(header=message.header))


def main(nodes: Sequence[str]) -> int:
    """Spin nodes, each given as "name:type:topic", until SIGINT."""
    rclpy.init(args=sys.argv)
    executor = SingleThreadedExecutor()
    for each in nodes:
        name, result, topic = each.split(":")
        executor.add_node(PlainNode(name, getattr(edgetpu_msgs.msg, result), topic))
    try:
        executor.spin()
    except (KeyboardInterrupt, ExternalShutdownException):
        pass
    finally:
        executor.shutdown()
        rclpy.try_shutdown()
    return 0


if __name__ == "__main__":
    sys.exit(main(remove_ros_args(sys.argv)[1:]))

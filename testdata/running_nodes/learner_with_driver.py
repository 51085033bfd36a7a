"""A learner, its driver and a caller in one executor of the test's process."""

from __future__ import annotations

import array
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import rclpy
from builtin_interfaces.msg import Time
from numpy.typing import NDArray
from rclpy.node import Node
from rclpy.parameter import Parameter
from sensor_msgs.msg import Image
from std_msgs.msg import Header
from vision_msgs.msg import Classification

from edgetpu_driver.node_kit.executor.executor import StaticSingleThreadedExecutor
from edgetpu_driver.nodes.driver_node import DriverNode
from edgetpu_msgs.srv import Learn
from edgetpu_vision.nodes.learner_node import LearnerNode
from testdata.graphs.color_embedding_graph import color_embedding_graph
from testdata.running_nodes.spinning_node import spin_until


class LearnerWithDriver:
    """A learner, the driver and a caller with one executor."""

    def __init__(self, home: Path, backend: str = "cpu", **values: Any) -> None:
        self.home = home
        models = home / "models"
        models.mkdir()
        (models / "color_embedding.tflite").write_bytes(color_embedding_graph())
        self.executor = StaticSingleThreadedExecutor()
        self._caller = rclpy.create_node("caller")
        self._nodes: list[Node] = [self._caller]
        self.executor.add_node(self._caller)
        self._add(DriverNode, backend=backend, model_dirs=[str(models)])
        self._values = {
            "model": "color_embedding",
            "model_dir": str(models),
            "directory": str(home / "classes"),
            "pictures_directory": str(home / "pictures"),
            "qos_reliability": "reliable",
            **values,
        }
        self.learner = self._add(LearnerNode, **self._values)
        self._images = self._caller.create_publisher(Image, "/school/image", 10)
        self._results: list[Classification] = []
        self._caller.create_subscription(
            Classification, "/school/learner/classification", self._results.append, 10
        )
        self._second = 0
        self.spin_until(lambda: self._images.get_subscription_count() > 0 and self.learner._bound is not None)

    def restart_learner(self, **values: Any) -> None:
        """Make the learner again, as after a kill, without stopping the old one properly."""
        self._nodes.remove(self.learner)
        self.executor.remove_node(self.learner)
        self.learner.destroy_node()
        self.learner = self._add(LearnerNode, **self._values | values)
        self.spin_until(lambda: self.learner._bound is not None)

    def _add(self, kind: Callable[..., Node], **values: Any) -> Any:
        overrides = [Parameter(name, value=value) for name, value in values.items()]
        node = kind(parameter_overrides=overrides, namespace="/school")
        self._nodes.append(node)
        self.executor.add_node(node)
        return node

    def show(self, image: NDArray[np.uint8]) -> Classification:
        """Publish an image and wait for what the learner says of it."""
        header = self.send(image)
        self.spin_until(lambda: any(each.header == header for each in self._results))
        return self._results[-1]

    def send(self, image: NDArray[np.uint8]) -> Header:
        """Publish an image."""
        self._second += 1
        height, width = image.shape[:2]
        header = Header(stamp=Time(sec=self._second), frame_id="camera")
        data = array.array("B", image.tobytes())
        self._images.publish(
            Image(header=header, height=height, width=width, encoding="rgb8", step=3 * width, data=data)
        )
        return header

    def begin(self, kind: Any, service: str, **fields: Any) -> Any:
        """Call a service ~/x of the learner; return the future of its answer."""
        client = self._caller.create_client(kind, f"/school/learner/{service}")
        self.spin_until(client.service_is_ready)
        return client.call_async(kind.Request(**fields))

    def call(self, kind: Any, service: str, **fields: Any) -> Any:
        """Call a service ~/x of the learner; return its answer."""
        answer = self.begin(kind, service, **fields)
        self.spin_until(answer.done)
        return answer.result()

    def teach(self, label: str, image: NDArray[np.uint8], count: int = 1, **fields: Any) -> Learn.Response:
        """Have the learner take some images of a class, which are published once it waits for them."""
        answer = self.begin(Learn, "learn", label=label, images=count, **fields)
        self.spin_until(lambda: bool(self.learner._lessons))
        for _ in range(count):
            self.show(image)
        self.spin_until(answer.done)
        return answer.result()

    def spin_until(self, condition: Callable[[], bool]) -> None:
        """Spin all nodes until the condition holds."""
        spin_until(condition, lambda: self.executor.spin_once(0.02))

    def close(self) -> None:
        """Destroy all nodes."""
        self.executor.shutdown()
        for node in reversed(self._nodes):
            node.destroy_node()

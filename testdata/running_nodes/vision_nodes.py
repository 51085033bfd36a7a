"""The vision nodes on public models and pictures."""

from __future__ import annotations

import array
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from builtin_interfaces.msg import Time
from diagnostic_msgs.msg import DiagnosticArray
from rcl_interfaces.msg import Parameter, ParameterType, ParameterValue
from rcl_interfaces.srv import SetParameters
from rclpy.qos import DurabilityPolicy, QoSProfile
from sensor_msgs.msg import Image
from std_msgs.msg import Header
from vision_msgs.msg import Classification, Detection2DArray, LabelInfo

from edgetpu_msgs.msg import Embedding, PersonPoses
from testdata import GOLDEN
from testdata.graphs.exported_graphs import Values, exported_graph

REPUBLISH_SECONDS = 10.0

LATCHED = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
MODELS = {
    "object_detector": "traffic_model",
    "classifier": "mobilenet_v1_0.25_128_quant",
    "segmenter": "deeplabv3_mnv2_pascal_quant",
    "pose_estimator": "movenet_single_pose_lightning_ptq",
    "embedder": "mobilenet_v1_1.0_224_quant_embedding_extractor",
}
RESULTS: dict[str, tuple[Any, str]] = {
    "object_detector": (Detection2DArray, "detections"),
    "classifier": (Classification, "classification"),
    "segmenter": (Image, "segmentation"),
    "pose_estimator": (PersonPoses, "poses"),
    "embedder": (Embedding, "embedding"),
}


def picture(name: str) -> np.ndarray:
    """A public picture, RGB."""
    bgr = cv2.imread(str(GOLDEN.path(f"vision/pictures/{name}.bmp")))
    rgb: np.ndarray = cv2.cvtColor(bgr, cv2.COLOR_BGR2RGB)
    return rgb


def model(node: str) -> Path:
    """The file of the model that a node runs."""
    name = f"{MODELS[node]}.tflite"
    return GOLDEN.path(f"models/{name}" if node == "segmenter" else f"vision/{name}")


def labels_file() -> Path:
    """The file with the names of ImageNet's classes."""
    return GOLDEN.path("vision/imagenet_labels.txt")


def message(second: int, image: np.ndarray) -> Image:
    """An image as a camera publishes it."""
    height, width = image.shape[:2]
    data = array.array("B", image.tobytes())
    header = Header(stamp=Time(sec=second), frame_id="camera_optical_frame")
    return Image(header=header, height=height, width=width, encoding="rgb8", step=3 * width, data=data)


def instances_file() -> bytes:
    """A YOLO model for instance segmentation that finds class 3 left of the middle of every image."""
    rows, prototypes = np.zeros((525, 116)), np.ones((40, 40, 32))
    rows[5, :4], rows[5, 4 + 3], rows[5, 84] = (0.5, 0.5, 0.5, 0.5), 0.9, 0.5
    prototypes[:, 20:] = -1
    outputs = {"a": Values(rows.T[None], 1 / 100, -28), "b": Values(prototypes[None], 1 / 100, 0)}
    return exported_graph(160, 160, outputs)


class Nodes:
    """The vision nodes and their driver in one process, shown one image after the other.

    share_camera: all subscribe to one topic, as on a robot. Otherwise each has its own, and an image costs
    only the inferences of the nodes to which it is shown.
    """

    def __init__(
        self,
        graph: Any,
        start_node: Callable[..., Any],
        backend: str = "cpu",
        models: dict[str, str] = MODELS,
        folder: Path | None = None,
        *,
        share_camera: bool = False,
    ) -> None:
        self.graph, self.models, self.folder = graph, models, folder
        topics = {
            node: f"/{backend}_camera" if share_camera else f"/{backend}_camera/{node}" for node in models
        }
        # Reversed, since a compiled model without its graph may be in the folder of the others.
        folders = sorted({str(model(node).parent) for node in models}, reverse=True)
        folders += [str(folder)] if folder else []
        self.process = start_node(
            "edgetpu_perception",
            "single_process",
            *(part for node, topic in topics.items() for part in ("-r", f"{node}:image:={topic}")),
            *("--", "--nodes", ",".join(models)),
            **{"edgetpu:backend": backend, "edgetpu:model_dirs": folders, "qos_reliability": "reliable"},
            **{f"{node}:model": name for node, name in models.items()},
            **{"classifier:labels": labels_file(), "segmenter:labels": "pascal_voc"},
            **{"object_detector:min_confidence": 0.35},
        )
        self.results = {
            node: graph.collect(RESULTS[node][0], f"/{node}/{RESULTS[node][1]}") for node in models
        }
        self.labels = {
            node: graph.collect(LabelInfo, f"/{node}/labels", LATCHED)
            for node in ("classifier", "segmenter", "object_detector", "pose_estimator")
        }
        self.diagnostics = graph.collect(DiagnosticArray, "/diagnostics")
        cameras = {topic: graph.node.create_publisher(Image, topic, 10) for topic in set(topics.values())}
        self._cameras = {node: cameras[topic] for node, topic in topics.items()}
        self._second = 0
        graph.spin_until(lambda: all(each.get_subscription_count() == 1 for each in cameras.values()))
        for node in models:
            graph.meet(f"/{node}")

    def jump(self) -> None:
        """Let the stamp of the next image be much later than that of the last one."""
        self._second += 100

    def show(self, image: np.ndarray, *nodes: str) -> dict[str, Any]:
        """Publish one image to these nodes, to all by default, and wait for their results.

        The image is published repeatedly: on a busy machine the first inference may take longer than its
        deadline.
        """
        self._second += 1
        return self.replay(message(self._second, image), *nodes)

    def replay(self, shown: Image, *nodes: str) -> dict[str, Any]:
        """Publish a message with an image to these nodes and wait for their results; see `show`."""
        asked = nodes or tuple(self.models)
        publish_at = 0.0

        def answers() -> dict[str, Any]:
            return {
                node: result
                for node in asked
                for result in self.results[node]
                if result.header == shown.header
            }

        def answered() -> bool:
            nonlocal publish_at
            if time.monotonic() >= publish_at:
                self._publish(shown, asked)
                publish_at = time.monotonic() + REPUBLISH_SECONDS
            return len(answers()) == len(asked)

        self.graph.spin_until(answered)
        return answers()

    def publish(self, image: np.ndarray) -> Image:
        """Publish one image to all nodes without waiting for results; return the message."""
        self._second += 1
        shown = message(self._second, image)
        self._publish(shown, tuple(self.models))
        return shown

    def _publish(self, shown: Image, nodes: tuple[str, ...]) -> None:
        for camera in {self._cameras[node] for node in nodes}:
            camera.publish(shown)

    def set(self, node: str, name: str, value: ParameterValue) -> Any:
        """Set a parameter; rcl_interfaces/SetParametersResult."""
        parameters = [Parameter(name=name, value=value)]
        (result,) = self.graph.call(SetParameters, f"/{node}/set_parameters", parameters=parameters).results
        return result

    def set_text(self, node: str, name: str, text: str) -> Any:
        """Set a string parameter."""
        return self.set(node, name, ParameterValue(type=ParameterType.PARAMETER_STRING, string_value=text))

    def problem(self, node: str) -> str:
        """The message of the node's next diagnostics."""
        self.diagnostics.clear()

        def entries() -> list[str]:
            return [
                entry.message
                for array in self.diagnostics
                for entry in array.status
                if entry.name == f"{node}: images"
            ]

        self.graph.spin_until(lambda: bool(entries()))
        return entries()[0]

"""The vision node that a model belongs to, by its outputs: for the error of a node that cannot run it."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from edgetpu_driver.errors import EdgeTpuError
from edgetpu_driver.tflite.tensor import TensorSpec
from edgetpu_vision.algorithm import VisionAlgorithm
from edgetpu_vision.classification.classifier import Classifier
from edgetpu_vision.detection.detector import Detector
from edgetpu_vision.detection.head_recognition import recognise_head
from edgetpu_vision.detection.yolo_decoded import EndToEndHead
from edgetpu_vision.embedding.embedder import Embedder
from edgetpu_vision.model_description.description import ModelDescription
from edgetpu_vision.output_values import NAME_ONE, like_logistic
from edgetpu_vision.pose_estimation.pose_estimator import PoseEstimator
from edgetpu_vision.preprocessing.preprocessor import by_rows, image_input
from edgetpu_vision.segmentation.segmenter import Segmenter

_ALGORITHMS: dict[str, type[VisionAlgorithm[Any]]] = {
    "object_detector": Detector,
    "pose_estimator": PoseEstimator,
    "classifier": Classifier,
    "embedder": Embedder,
    "segmenter": Segmenter,
}
"""What each node runs; the learner runs an embedder."""
_OF_TASK = {
    "detect": ("object_detector",),
    "segment": ("object_detector",),
    "obb": ("object_detector",),
    "pose": ("pose_estimator", "object_detector"),
    "classify": ("classifier",),
}
"""The nodes for each task in the description by exporters of YOLO models; the first that can run the model is
meant. The pose estimator runs models of 17 keypoints alone; of others the detector gives the boxes."""
_OF_VECTORS = "classifier", "embedder", "learner"
"""The nodes for one vector, whose values may be those of classes or features."""


def with_suitable_node(
    reason: str,
    node: str,
    inputs: Sequence[TensorSpec],
    outputs: Sequence[TensorSpec],
    description: ModelDescription,
) -> str:
    """The reason why a model does not suit a node, and the node that it suits, if that is certain."""
    names = suitable_nodes(inputs, outputs, description)
    if not names or node in names:
        return reason
    wanted = f"the node {names[0]}"
    if names == _OF_VECTORS:
        wanted = "the node classifier if its values are those of classes, otherwise for embedder or learner"
    return f"{reason.removesuffix(NAME_ONE)}; this is a model for {wanted}"


def suitable_nodes(
    inputs: Sequence[TensorSpec], outputs: Sequence[TensorSpec], description: ModelDescription
) -> tuple[str, ...]:
    """The node that can run a model with these tensors, several for a vector; empty unless it is certain.

    It is not for maps of values, which may be those of classes, features or a picture.
    """

    def suits(*nodes: str) -> bool:
        return all(_can_run(node, inputs, outputs, description) for node in nodes)

    of_task = _OF_TASK.get(str(description.exporter.get("task")))
    if description.by_yolo_exporter and of_task:
        return next(((node,) for node in of_task if suits(node)), ())
    of_people = suits("pose_estimator")
    detects = suits("object_detector") and not _is_end_to_end(inputs, outputs, description)
    if of_people and detects:  # rows of 56 channels are people with keypoints, or objects of 52 classes
        return ()
    if of_people or detects:
        return ("pose_estimator" if of_people else "object_detector",)
    nodes = _of_output(outputs[0], description) if len(outputs) == 1 else ()
    return nodes if suits(*(node for node in nodes if node in _ALGORITHMS)) else ()


def _is_end_to_end(
    inputs: Sequence[TensorSpec], outputs: Sequence[TensorSpec], description: ModelDescription
) -> bool:
    """Whether a detector's outputs are rows of box, score and class alone, which may be anything."""
    _, height, width, _ = by_rows(image_input(inputs)).shape
    return isinstance(recognise_head(outputs, (height, width), description), EndToEndHead)


def _of_output(output: TensorSpec, description: ModelDescription) -> tuple[str, ...]:
    """The nodes that an only output is for."""
    if output.shape and prod(output.shape) == max(output.shape) > 1:
        if output.name in description.probabilities or like_logistic(description.quantised(output)):
            return ("classifier",)
        return _OF_VECTORS
    are_labels = output.dtype.kind in "iu" and output.dtype.itemsize > 1 and not output.scale > 0
    return ("segmenter",) if are_labels or output.name in description.class_counts else ()


def _can_run(
    node: str, inputs: Sequence[TensorSpec], outputs: Sequence[TensorSpec], description: ModelDescription
) -> bool:
    """Whether a node takes a model with default values of its parameters."""
    try:
        _ALGORITHMS[node](description=description).bind(inputs, outputs)
    except EdgeTpuError:
        return False
    return True

"""The vision node that a model belongs to, by its outputs: for the error of a node that cannot run it."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from edgetpu_driver.errors import EdgeTpuError
from edgetpu_driver.tflite.tensor import TensorSpec
from edgetpu_vision.classification.classifier import Classifier
from edgetpu_vision.detection.head_recognition import recognise_head
from edgetpu_vision.detection.yolo_decoded import EndToEndHead
from edgetpu_vision.embedding.embedder import Embedder
from edgetpu_vision.model_description.description import ModelDescription
from edgetpu_vision.output_values import NAME_ONE, like_logistic, scaled
from edgetpu_vision.pose_estimation.pose_output_recognition import recognise
from edgetpu_vision.preprocessing.preprocessor import by_rows, image_input
from edgetpu_vision.segmentation.segmenter import Segmenter

_OF_TASK = {
    "detect": "object_detector",
    "segment": "object_detector",
    "obb": "object_detector",
    "pose": "pose_estimator",
    "classify": "classifier",
}
"""The node for each task in the description by exporters of YOLO models."""
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
        wanted = "classifier, if its values are those of classes, otherwise for embedder or learner"
    return f"{reason.removesuffix(NAME_ONE)}; this is a model for {wanted}"


def suitable_nodes(
    inputs: Sequence[TensorSpec], outputs: Sequence[TensorSpec], description: ModelDescription
) -> tuple[str, ...]:
    """The node for a model with these tensors, several for a vector; empty unless it is certain.

    It is not for maps of values, which may be those of classes, features or a picture.
    """
    task = _OF_TASK.get(str(description.exporter.get("task")))
    if description.by_yolo_exporter and task:
        return (task,)
    try:
        image = by_rows(image_input(inputs))
        of_people = recognise(image, scaled(outputs), description) is not None
    except EdgeTpuError:  # the input is no image, or no node runs such a model
        return ()
    detects = _detects(image, outputs, description)
    if of_people and detects:  # rows of 56 channels are people with keypoints, or objects of 52 classes
        return ()
    if of_people or detects:
        return ("pose_estimator" if of_people else "object_detector",)
    return _of_one_output(inputs, outputs[0], description) if len(outputs) == 1 else ()


def _detects(image: TensorSpec, outputs: Sequence[TensorSpec], description: ModelDescription) -> bool:
    """Whether the outputs are those of a detector. Rows of box, score and class alone may be anything."""
    try:
        head = recognise_head(outputs, (image.shape[1], image.shape[2]), description)
    except EdgeTpuError:
        return False
    return not isinstance(head, EndToEndHead)


def _of_one_output(
    inputs: Sequence[TensorSpec], output: TensorSpec, description: ModelDescription
) -> tuple[str, ...]:
    def suits(*kinds: type[Classifier | Embedder | Segmenter]) -> bool:
        return all(_suits(kind, inputs, output, description) for kind in kinds)

    if output.shape and prod(output.shape) == max(output.shape) > 1:
        if output.name in description.probabilities or like_logistic(description.quantised(output)):
            return ("classifier",) if suits(Classifier) else ()
        return _OF_VECTORS if suits(Classifier, Embedder) else ()
    are_labels = output.dtype.kind in "iu" and output.dtype.itemsize > 1 and not output.scale > 0
    if are_labels or output.name in description.class_counts:
        return ("segmenter",) if suits(Segmenter) else ()
    return ()


def _suits(
    kind: type[Classifier | Embedder | Segmenter],
    inputs: Sequence[TensorSpec],
    output: TensorSpec,
    description: ModelDescription,
) -> bool:
    try:
        kind(description=description).bind(inputs, [output])
    except EdgeTpuError:
        return False
    return True

"""Results with numbers of NumPy's types become messages that can be published.

rclpy ends the process in an assertion in C where a field has another type than Python's own.
"""

from __future__ import annotations

from dataclasses import fields, replace
from functools import partial
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import numpy as np
import pytest

pytest.importorskip("rclpy", reason="needs ROS 2")
pytest.importorskip("edgetpu_msgs", reason="needs a built workspace (make test)")

from builtin_interfaces.msg import Time
from rclpy.serialization import serialize_message
from std_msgs.msg import Header

from edgetpu_matrix.nodes.place_recognition_node import PlaceRecognitionNode
from edgetpu_matrix.nodes.reservoir_node import ReservoirNode
from edgetpu_matrix.nodes.spectrum_node import SpectrumNode
from edgetpu_matrix.place_recognition.place_search import Place
from edgetpu_matrix.spectrum.sample_blocks import SampleBlock
from edgetpu_perception.nodes.looming_node import LoomingNode
from edgetpu_perception.nodes.optical_flow_node import OpticalFlowNode
from edgetpu_perception.nodes.pattern_tracker_node import PatternTrackerNode
from edgetpu_perception.nodes.spot_tracker_node import SpotTrackerNode
from edgetpu_perception.nodes.visual_compass_node import VisualCompassNode
from edgetpu_perception.optical_flow.optical_flow import FlowResult
from edgetpu_perception.pattern_tracker.pattern_tracker import MatchResult
from edgetpu_perception.spot_tracker.spot_tracker import SpotResult
from edgetpu_perception.time_to_contact.looming import LoomingResult
from edgetpu_perception.visual_compass.visual_compass import HeadingResult
from edgetpu_vision.classification.classifications import Classification, Classifications
from edgetpu_vision.detection.detections import Detection, Detections
from edgetpu_vision.embedding.embedding import Embedding
from edgetpu_vision.nodes.classifier_node import ClassifierNode
from edgetpu_vision.nodes.embedder_node import EmbedderNode
from edgetpu_vision.nodes.learner_node import LearnerNode
from edgetpu_vision.nodes.object_detector_node import ObjectDetectorNode
from edgetpu_vision.nodes.pose_estimator_node import PoseEstimatorNode
from edgetpu_vision.pose_estimation.poses import Keypoint, Pose, Poses

TRUE, NUMBER, COUNT = np.bool_(True), np.float32(0.5), np.int64(3)
INTEGERS = [f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)]
PYTHON_TYPES = {
    "boolean": bool,
    "float": float,
    "double": float,
    "string": str,
    **dict.fromkeys(INTEGERS, int),
}
NOSE = Pose(NUMBER, (Keypoint("nose", NUMBER, NUMBER, NUMBER),))
CLASSES = Classifications(NUMBER, (Classification(COUNT, "cup", NUMBER),))
PLACE = Place("kitchen", NUMBER)


def of_numpy(kind: Any) -> Any:
    """A result of which every bool and float is of a type of NumPy."""
    types = {each.name: each.type for each in fields(kind)}
    values = {"bool": TRUE, "float": NUMBER}
    result = kind(**{name: values[text] for name, text in types.items() if text in values})
    if kind is LoomingResult:
        result = replace(result, region=(COUNT,) * 4)
    if kind is HeadingResult:
        vectors = {"angular_velocity": (NUMBER,) * 3, "angular_velocity_covariance": (NUMBER,) * 9}
        result = replace(result, **vectors)
    return result


def wrong_fields(message: Any) -> list[str]:
    """The fields, those of messages in it included, that are not of Python's own types."""
    wrong = []
    for name, kind in message.get_fields_and_field_types().items():
        value = getattr(message, name)
        if hasattr(value, "get_fields_and_field_types"):
            wrong += [f"{name}.{each}" for each in wrong_fields(value)]
        elif isinstance(value, list):
            each = [item for item in value if hasattr(item, "get_fields_and_field_types")]
            wrong += [f"{name}.{field}" for item in each for field in wrong_fields(item)]
        elif not isinstance(value, PYTHON_TYPES.get(kind, object)):
            wrong.append(f"{name}: {type(value).__name__}")
    return wrong


def published(node: MagicMock) -> list[Any]:
    """The messages that were given to the publishers of a node."""
    return [call.args[0] for call in node.mock_calls if call[0].endswith(".publish")]


def check(node: MagicMock, messages: int) -> None:
    """That many messages were published, all of which rclpy can serialise."""
    found = published(node)
    assert len(found) == messages
    assert [wrong_fields(message) for message in found] == [[]] * messages
    for message in found:
        serialize_message(message)


@pytest.mark.parametrize(
    ("node_class", "result", "messages"),
    [
        (VisualCompassNode, of_numpy(HeadingResult), 2),
        (PatternTrackerNode, of_numpy(MatchResult), 2),
        (LoomingNode, of_numpy(LoomingResult), 1),
        (OpticalFlowNode, of_numpy(FlowResult), 1),
        (EmbedderNode, Embedding(NUMBER, np.ones(3, np.float32), TRUE), 1),
        (ClassifierNode, CLASSES, 1),
        (LearnerNode, CLASSES, 1),
        (ObjectDetectorNode, Detections(NUMBER, COUNT, COUNT, (Detection(COUNT, "cup", *[NUMBER] * 5),)), 1),
        (
            PoseEstimatorNode,
            Poses(NUMBER, COUNT, COUNT, (NOSE,)),
            1,
        ),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_results_with_numbers_of_numpy_are_published(node_class: Any, result: Any, messages: int) -> None:
    node = MagicMock(_ids=("",), _reference_stamp=Time(), _previous_stamp=Time())
    node._tracker = None
    node_class.publish(node, Header(), result)
    check(node, messages)


def test_a_spot_with_numbers_of_numpy_is_published_with_its_size() -> None:
    node = MagicMock(_tracker=SimpleNamespace(color="red", measure_size=True))
    node._detections.get_subscription_count.return_value = 1
    node._boxes = partial(SpotTrackerNode._boxes, node)
    SpotTrackerNode.publish(node, Header(), of_numpy(SpotResult))
    check(node, 2)


def test_places_with_scores_of_numpy_are_published() -> None:
    node = MagicMock(values={"min_score": 0.1, "min_margin": 0.0, "window": 0.0, "count": 5})
    PlaceRecognitionNode._publish(node, Header(), (PLACE,))
    check(node, 1)


def test_a_spectrum_of_numbers_of_numpy_is_published() -> None:
    node = MagicMock()
    node._transform.postprocess.return_value = SimpleNamespace(
        frequency_step=NUMBER,
        amplitudes=np.ones(4),
        sigma=np.float32(0.01),
        peak_frequency=NUMBER,
        peak_amplitude=NUMBER,
    )
    work = SimpleNamespace(header=Header(), block=SampleBlock(np.zeros(8), NUMBER, 0))
    SpectrumNode._publish(node, work, MagicMock())
    check(node, 1)


def test_a_prediction_of_numbers_of_numpy_is_published() -> None:
    node = MagicMock(_confidence=NUMBER, _readout=None)
    ReservoirNode._publish(node, SimpleNamespace(header=Header(), features=None, number=1))
    check(node, 1)

"""The parameters that vision nodes have in common: changed while the nodes run, and refused with a reason."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

pytest.importorskip("edgetpu_msgs", reason="needs a built workspace (make test)")
pytest.importorskip("vision_msgs", reason="needs vision_msgs")
pytest.importorskip("ai_edge_litert", reason="needs LiteRT")

from rcl_interfaces.srv import SetParametersAtomically
from rclpy.parameter import Parameter

from edgetpu_driver.images.region import Region
from edgetpu_vision import Classifier, Detector, Embedder, PoseEstimator, Segmenter
from testdata.graphs.yolo_graph import yolo_graph
from testdata.running_nodes.vision_nodes import (
    MODELS,
    REPUBLISH_SECONDS,
    RESULTS,
    Nodes,
    labels_file,
    model,
    picture,
)

OBJECTS = (
    (0, 0.9, (0.5, 0.5, 0.4, 0.4)),
    (0, 0.8, (0.6, 0.5, 0.4, 0.4)),  # 0.6 of the first
    (2, 0.6, (0.2, 0.2, 0.2, 0.2)),
)
"""Class, score and box, parts of the image."""
LABELS = "cup\nknife\nspoon\n"
REGION = [30, 20, 160, 140]
DEFAULTS = {
    "object_detector": 0.35,
    "classifier": 0.1,
    "segmenter": 0.0,
    "pose_estimator": 0.2,
    "embedder": 0.0,
}
"""min_confidence of each node."""


@pytest.fixture(scope="module")
def nodes(graph: Any, start_node: Callable[..., Any], tmp_path_factory: pytest.TempPathFactory) -> Nodes:
    folder = tmp_path_factory.mktemp("own_models")
    (folder / "cutlery.tflite").write_bytes(yolo_graph(OBJECTS, 3))
    (folder / "cutlery.txt").write_text(LABELS)
    (folder / "too_short.txt").write_text("cup\n")
    (folder / "glasses.tflite").write_bytes(yolo_graph([(1, 0.9, (0.5, 0.5, 0.4, 0.4))], 2))
    (folder / "glasses.txt").write_text("tumbler\ngoblet\n")
    return Nodes(graph, start_node, models={**MODELS, "object_detector": "cutlery"}, folder=folder)


def change(nodes: Nodes, node: str, name: str, value: Any) -> Any:
    """Set a parameter; rcl_interfaces/SetParametersResult."""
    return nodes.set(node, name, Parameter(name, value=value).to_parameter_msg().value)


def detected(nodes: Nodes) -> list[tuple[str, float]]:
    """Class and score of each object in any image."""
    result = nodes.show(picture("cat"), "object_detector")["object_detector"]
    hypotheses = [each.results[0].hypothesis for each in result.detections]
    return [(each.class_id, round(each.score, 2)) for each in hypotheses]


def test_the_least_confidence_of_detections_changes(nodes: Nodes) -> None:
    assert detected(nodes) == [("0", 0.9), ("2", 0.6)]
    assert change(nodes, "object_detector", "min_confidence", 0.7).successful
    assert detected(nodes) == [("0", 0.9)]
    assert change(nodes, "object_detector", "min_confidence", DEFAULTS["object_detector"]).successful


def test_the_overlap_of_detections_changes(nodes: Nodes) -> None:
    assert change(nodes, "object_detector", "nms_threshold", 0.7).successful
    assert detected(nodes) == [("0", 0.9), ("0", 0.8), ("2", 0.6)]
    assert change(nodes, "object_detector", "nms_threshold", 0.0).successful
    assert detected(nodes) == [("0", 0.9), ("2", 0.6)]


def test_the_number_of_detections_changes(nodes: Nodes) -> None:
    assert change(nodes, "object_detector", "max_results", 1).successful
    assert detected(nodes) == [("0", 0.9)]
    assert change(nodes, "object_detector", "max_results", 100).successful


def test_labels_and_the_classes_to_keep_change(nodes: Nodes) -> None:
    assert not change(nodes, "object_detector", "classes", ["spoon"]).successful
    assert change(nodes, "object_detector", "labels", str(nodes.folder / "cutlery.txt")).successful
    labels = nodes.labels["object_detector"]
    nodes.graph.spin_until(lambda: bool(labels) and bool(labels[-1].class_map))
    names = {each.class_id: each.class_name for each in labels[-1].class_map}
    assert names == {0: "cup", 1: "knife", 2: "spoon"}
    assert change(nodes, "object_detector", "classes", ["spoon"]).successful
    assert detected(nodes) == [("2", 0.6)]
    assert change(nodes, "object_detector", "classes", "").successful
    assert change(nodes, "object_detector", "labels", "").successful


@pytest.mark.parametrize("order", [("model", "labels", "classes"), ("classes", "labels", "model")], ids=str)
def test_a_model_its_labels_and_classes_change_together(nodes: Nodes, order: tuple[str, ...]) -> None:
    """From classes that the other model does not have, and back."""
    cutlery = {"model": "cutlery", "labels": str(nodes.folder / "cutlery.txt"), "classes": ["spoon"]}
    glasses = {"model": "glasses", "labels": str(nodes.folder / "glasses.txt"), "classes": ["goblet"]}
    logged = len(nodes.process.output)
    for values, expected in ((cutlery, [("2", 0.6)]), (glasses, [("1", 0.9)]), (cutlery, [("2", 0.6)])):
        parameters = [Parameter(name, value=values[name]).to_parameter_msg() for name in order]
        service = "/object_detector/set_parameters_atomically"
        answer = nodes.graph.call(SetParametersAtomically, service, parameters=parameters)
        assert (answer.result.successful, answer.result.reason) == (True, "")
        assert detected(nodes) == expected
    assert not [line for line in nodes.process.output[logged:].splitlines() if "expected" in line]
    for name in ("classes", "labels"):
        assert change(nodes, "object_detector", name, "").successful


def test_the_least_confidence_of_classes_changes(nodes: Nodes) -> None:
    assert nodes.show(picture("cat"), "classifier")["classifier"].results
    assert change(nodes, "classifier", "min_confidence", 0.99).successful
    assert not nodes.show(picture("cat"), "classifier")["classifier"].results
    assert change(nodes, "classifier", "min_confidence", DEFAULTS["classifier"]).successful


def test_the_least_confidence_of_people_changes(nodes: Nodes) -> None:
    assert nodes.show(picture("squat"), "pose_estimator")["pose_estimator"].people
    assert change(nodes, "pose_estimator", "min_confidence", 0.99).successful
    result = nodes.show(picture("squat"), "pose_estimator")["pose_estimator"]
    assert (result.valid, result.people) == (False, [])
    assert change(nodes, "pose_estimator", "min_confidence", DEFAULTS["pose_estimator"]).successful


def test_every_node_looks_at_its_region(nodes: Nodes) -> None:
    image = picture("cat")
    for node in MODELS:
        assert change(nodes, node, "roi", REGION).successful
    found = nodes.show(image)
    algorithms: dict[str, Any] = {
        "object_detector": Detector(nodes.folder / "cutlery.tflite", min_confidence=0.35),
        "classifier": Classifier(model("classifier"), labels=labels_file(), min_confidence=0.1),
        "segmenter": Segmenter(model("segmenter"), labels="pascal_voc"),
        "pose_estimator": PoseEstimator(model("pose_estimator")),
        "embedder": Embedder(model("embedder")),
    }
    for algorithm in algorithms.values():
        algorithm.region = Region(*REGION)
    expected = {node: algorithm.update(image) for node, algorithm in algorithms.items()}
    boxes = [each.bbox for each in found["object_detector"].detections]
    assert [(each.center.position.x, each.size_x) for each in boxes] == [
        (each.center[0], each.width) for each in expected["object_detector"].detections
    ]
    assert [each.class_id for each in found["classifier"].results] == [
        str(each.class_id) for each in expected["classifier"].classes
    ]
    labels = np.frombuffer(found["segmenter"].data, np.uint8).reshape(image.shape[:2])
    np.testing.assert_array_equal(labels, expected["segmenter"].labels)
    assert [each.x for person in found["pose_estimator"].people for each in person.keypoints] == [
        pytest.approx(each.x, rel=1e-6)
        for pose in expected["pose_estimator"].poses
        for each in pose.keypoints
    ]
    np.testing.assert_array_equal(found["embedder"].vector, expected["embedder"].vector)
    for node in MODELS:
        assert change(nodes, node, "roi", [0, 0, 0, 0]).successful


def show_after_a_jump(nodes: Nodes) -> None:
    """Show an image that is due by its stamp; if the driver was late for a node, another one that is due."""

    def answered() -> bool:
        nodes.jump()
        header = nodes.publish(picture("cat")).header

        def has_come() -> bool:
            return all(header in [each.header for each in nodes.results[node]] for node in MODELS)

        nodes.graph.spin_for(REPUBLISH_SECONDS, has_come)
        return has_come()

    nodes.graph.spin_until(answered)


def test_every_node_leaves_images_out_by_their_stamps(nodes: Nodes) -> None:
    for node in MODELS:
        assert change(nodes, node, "rate_limit", 0.1).successful
    show_after_a_jump(nodes)
    left_out = nodes.publish(picture("cat"))
    show_after_a_jump(nodes)
    for node in MODELS:
        assert left_out.header not in [each.header for each in nodes.results[node]]
        assert change(nodes, node, "rate_limit", 0.0).successful


def test_a_model_may_be_given_as_a_list(nodes: Nodes) -> None:
    for node, name in MODELS.items():
        assert change(nodes, node, "model", [name if node != "object_detector" else "cutlery"]).successful
    assert detected(nodes) == [("0", 0.9), ("2", 0.6)]
    assert nodes.show(picture("cat")).keys() == RESULTS.keys()


OUT_OF_RANGE = [
    *((node, "min_confidence", 1.5) for node in MODELS),
    *((node, "rate_limit", -1.0) for node in MODELS),
    *((node, "max_results", 0) for node in ("object_detector", "classifier", "pose_estimator")),
    ("object_detector", "nms_threshold", 1.5),
]


@pytest.mark.parametrize(("node", "name", "value"), OUT_OF_RANGE)
def test_a_value_out_of_range_is_refused(nodes: Nodes, node: str, name: str, value: Any) -> None:
    result = change(nodes, node, name, value)
    assert not result.successful
    assert result.reason.startswith(f"Parameter {name} out of range")
    assert result.reason.endswith(f"value: {value}")


BAD_VALUES = [
    *((node, "roi", [1, 2, 3], "expected x offset, y offset, width and height") for node in MODELS),
    *(
        (node, "model", ["a", ""], "expected the name of a model, or those of the segments")
        for node in MODELS
    ),
    *(
        (node, "labels", "/nowhere.txt", "expected a file of labels")
        for node in ("object_detector", "classifier", "segmenter")
    ),
    (
        "object_detector",
        "labels",
        "too_short.txt",
        "expected 3 labels, one for each class of the model; got 1",
    ),
    ("object_detector", "classes", ["fork"], "expected classes by number or label (there are no labels"),
    ("object_detector", "classes", [3], "expected classes below 3"),
    ("classifier", "classes", ["no such class"], "expected classes by number or label (background, tench"),
]


@pytest.mark.parametrize(("node", "name", "value", "reason"), BAD_VALUES)
def test_a_bad_value_is_refused_and_nothing_is_lost(
    nodes: Nodes, node: str, name: str, value: Any, reason: str
) -> None:
    value = str(nodes.folder / value) if value == "too_short.txt" else value
    result = change(nodes, node, name, value)
    assert (result.successful, result.reason[: len(f"{name}: {reason}")]) == (False, f"{name}: {reason}")
    assert node in nodes.show(picture("cat"), node)

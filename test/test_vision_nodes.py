"""The vision nodes on public models and pictures: what they publish is what the algorithms give here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

pytest.importorskip("edgetpu_msgs", reason="needs a built workspace (make test)")
pytest.importorskip("vision_msgs", reason="needs vision_msgs")
pytest.importorskip("ai_edge_litert", reason="needs LiteRT")

from rcl_interfaces.msg import ParameterType, ParameterValue
from sensor_msgs.msg import Image
from vision_msgs.msg import Detection2DArray

from edgetpu_driver import Model
from edgetpu_vision import Classifier, Detector, Embedder, Normalisation, PoseEstimator, Segmenter
from edgetpu_vision.pose_estimation.poses import PART_NAMES
from testdata.graphs.body_pix_graph import body_pix_file
from testdata.running_nodes.vision_nodes import MODELS, Nodes, instances_file, labels_file, model, picture


@pytest.fixture(scope="module")
def nodes(graph: Any, start_node: Callable[..., Any], tmp_path_factory: pytest.TempPathFactory) -> Nodes:
    folder = tmp_path_factory.mktemp("own_models")
    (folder / "body_pix.tflite").write_bytes(body_pix_file())
    (folder / "instances.tflite").write_bytes(instances_file())
    return Nodes(graph, start_node, folder=folder)


def test_the_classifier_publishes_the_classes_of_the_picture(nodes: Nodes) -> None:
    image = picture("cat")
    result = nodes.show(image, "classifier")["classifier"]
    expected = Classifier(model("classifier"), labels=labels_file(), min_confidence=0.1).update(image)
    assert [(each.class_id, each.score) for each in result.results] == [
        (str(each.class_id), each.score) for each in expected.classes
    ]
    assert result.results


def test_the_names_of_the_classes_are_latched(nodes: Nodes) -> None:
    nodes.graph.spin_until(lambda: all(nodes.labels.values()))
    names = {each.class_id: each.class_name for each in nodes.labels["segmenter"][-1].class_map}
    assert (names[0], names[3], names[20]) == ("background", "bird", "tvmonitor")
    assert len(nodes.labels["classifier"][-1].class_map) == 1001


def test_the_detector_publishes_the_boxes_of_a_recurrent_model(nodes: Nodes) -> None:
    images = [picture(name) for name in ("0001", "0002", "0003")]
    states = {f"raw_outputs/lstm_{each}": f"raw_inputs/init_lstm_{each}" for each in "ch"}
    detector = Detector(Model.load(model("object_detector"), feedback=states), min_confidence=0.35)
    nodes.jump()
    for second, image in enumerate(images):
        result = nodes.show(image, "object_detector")["object_detector"]
        expected = detector.update(image, float(second)).detections
        assert rows(result) == [
            (str(each.class_id), each.score, *each.center, each.width, each.height) for each in expected
        ]
        assert expected


def rows(message: Detection2DArray) -> list[tuple[Any, ...]]:
    return [
        (
            each.results[0].hypothesis.class_id,
            each.results[0].hypothesis.score,
            each.bbox.center.position.x,
            each.bbox.center.position.y,
            each.bbox.size_x,
            each.bbox.size_y,
        )
        for each in message.detections
    ]


def test_a_tracked_object_keeps_its_id(nodes: Nodes) -> None:
    pytest.importorskip("edgefirst.tracker", reason="needs edgefirst-tracker")
    image = picture("0001")
    ids = [[each.id for each in nodes.show(image, "object_detector")["object_detector"].detections]]
    nodes.set("object_detector", "track", ParameterValue(type=ParameterType.PARAMETER_BOOL, bool_value=True))
    nodes.jump()
    for _ in range(3):
        found = nodes.show(image, "object_detector")["object_detector"].detections
        ids.append([each.id for each in found])
    assert set(ids[0]) == {""}
    assert ids[1]
    assert ids[1] == ids[2][: len(ids[1])] == ids[3][: len(ids[1])]
    nodes.set("object_detector", "track", ParameterValue(type=ParameterType.PARAMETER_BOOL, bool_value=False))


def test_the_segmenter_publishes_a_label_for_every_pixel(nodes: Nodes) -> None:
    image = picture("bird_segmentation")
    result = nodes.show(image, "segmenter")["segmenter"]
    expected = Segmenter(model("segmenter"), labels="pascal_voc").update(image)
    assert (result.encoding, result.width, result.height) == ("mono8", image.shape[1], image.shape[0])
    labels = np.frombuffer(result.data, np.uint8).reshape(image.shape[:2])
    np.testing.assert_array_equal(labels, expected.labels)
    assert set(np.unique(labels)) == {0, 3}


def test_the_pose_estimator_publishes_keypoints_by_name(nodes: Nodes) -> None:
    image = picture("squat")
    result = nodes.show(image, "pose_estimator")["pose_estimator"]
    expected = PoseEstimator(model("pose_estimator")).update(image)
    (person,) = result.people
    assert result.valid
    assert [(each.name, each.x, each.y) for each in person.keypoints] == [
        (each.name, pytest.approx(each.x, rel=1e-6), pytest.approx(each.y, rel=1e-6))
        for each in expected.poses[0].keypoints
    ]


def test_the_embedder_publishes_a_vector_of_unit_length(nodes: Nodes) -> None:
    image = picture("bird")
    result = nodes.show(image, "embedder")["embedder"]
    expected = Embedder(model("embedder")).update(image)
    assert result.valid
    np.testing.assert_array_equal(result.vector, expected.vector)
    assert np.linalg.norm(result.vector) == pytest.approx(1.0, abs=1e-5)


@pytest.mark.parametrize(("height", "width"), [(100, 41), (1, 1), (1, 2000), (1500, 3)])
def test_an_image_of_any_size_gives_results(nodes: Nodes, height: int, width: int) -> None:
    results = nodes.show(np.full((height, width, 3), 90, np.uint8))
    assert (results["segmenter"].width, results["segmenter"].height) == (width, height)


@pytest.mark.parametrize("node", MODELS)
def test_the_debug_image_has_the_size_of_the_image(nodes: Nodes, node: str) -> None:
    image = picture("cat")
    images = nodes.graph.collect(Image, f"/{node}/debug_image")
    nodes.graph.meet(f"/{node}")
    header = nodes.show(image, node)[node].header
    nodes.graph.spin_until(lambda: any(each.header == header for each in images))
    drawn = next(each for each in images if each.header == header)
    assert (drawn.encoding, drawn.width, drawn.height) == ("rgb8", image.shape[1], image.shape[0])


def test_the_number_of_classes_changes_while_the_node_runs(nodes: Nodes) -> None:
    one = ParameterValue(type=ParameterType.PARAMETER_INTEGER, integer_value=1)
    five = ParameterValue(type=ParameterType.PARAMETER_INTEGER, integer_value=5)
    assert nodes.set("classifier", "max_results", one).successful
    assert len(nodes.show(picture("cat"), "classifier")["classifier"].results) == 1
    assert nodes.set("classifier", "max_results", five).successful


def test_classes_are_kept_by_their_labels(nodes: Nodes) -> None:
    def kept(*names: str) -> ParameterValue:
        return ParameterValue(type=ParameterType.PARAMETER_STRING_ARRAY, string_array_value=list(names))

    assert nodes.set("classifier", "classes", kept("tabby, tabby cat")).successful
    results = nodes.show(picture("cat"), "classifier")["classifier"].results
    assert {each.class_id for each in results} <= {"282"}
    assert nodes.set("classifier", "classes", kept("")).successful


def test_classes_are_kept_by_their_numbers(nodes: Nodes) -> None:
    numbers = ParameterValue(type=ParameterType.PARAMETER_INTEGER_ARRAY, integer_array_value=[282, 283])
    assert nodes.set("classifier", "classes", numbers).successful
    results = nodes.show(picture("cat"), "classifier")["classifier"].results
    assert {each.class_id for each in results} <= {"282", "283"}
    assert nodes.set_text("classifier", "classes", "tabby, tabby cat").successful
    results = nodes.show(picture("cat"), "classifier")["classifier"].results
    assert {each.class_id for each in results} <= {"282"}
    real = ParameterValue(type=ParameterType.PARAMETER_DOUBLE, double_value=1.5)
    refusal = nodes.set("classifier", "classes", real)
    assert refusal.reason == "classes: expected classes by label or number; got [1.5]"
    assert nodes.set_text("classifier", "classes", "").successful


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("labels", "/nowhere/labels.txt", "labels: expected a file of labels"),
        ("labels", "pascal_voc", "labels: expected 1001 labels"),
        ("model", "", "model: expected the name of a model"),
        ("fit", "crop", "fit: expected one of"),
    ],
)
def test_a_bad_value_is_refused_with_the_reason(nodes: Nodes, name: str, value: str, reason: str) -> None:
    result = nodes.set_text("classifier", name, value)
    assert not result.successful
    assert result.reason.startswith(reason)
    assert nodes.show(picture("cat"), "classifier")["classifier"].results


def test_the_range_of_the_input_changes_while_the_node_runs(nodes: Nodes) -> None:
    def set_range(*values: float) -> Any:
        kind = ParameterType.PARAMETER_DOUBLE_ARRAY
        return nodes.set("embedder", "input_range", ParameterValue(type=kind, double_array_value=values))

    refusal = set_range(1.0, 0.0)
    expected = (
        "input_range: expected the values for black and for white, the first one smaller; got [1.0, 0.0]"
    )
    assert (refusal.successful, refusal.reason) == (False, expected)
    assert set_range(0.0, 1.0).successful
    image = picture("bird")
    vector = nodes.show(image, "embedder")["embedder"].vector
    dark = Embedder(model("embedder"), normalisation=Normalisation.of_range(0, 1)).update(image).vector
    np.testing.assert_allclose(vector, dark, atol=1e-5)
    assert set_range().successful


def test_another_model_is_loaded_while_the_node_runs(nodes: Nodes) -> None:
    nodes.set_text("classifier", "labels", "")
    assert nodes.set_text("classifier", "model", MODELS["embedder"]).successful
    # An embedding has the form of class values; they cannot be distinguished.
    nodes.show(picture("cat"), "classifier")
    assert nodes.set_text("classifier", "model", MODELS["segmenter"]).successful
    nodes.graph.spin_until(lambda: "this is a model for the node segmenter" in nodes.problem("classifier"))
    assert nodes.set_text("classifier", "model", "no_such_model").successful
    nodes.graph.spin_until(lambda: "no_such_model" in nodes.problem("classifier"))
    assert nodes.set_text("classifier", "model", MODELS["classifier"]).successful
    assert nodes.show(picture("cat"), "classifier")["classifier"].results


@pytest.mark.parametrize(
    ("node", "other", "named"),
    [
        ("classifier", "pose_estimator", "the node pose_estimator"),
        ("segmenter", "object_detector", "the node object_detector"),
        ("pose_estimator", "classifier", "the node classifier"),
        ("embedder", "segmenter", "the node segmenter"),
        ("object_detector", "embedder", "the node classifier if its values are those of classes"),
    ],
)
def test_a_node_says_to_which_node_a_model_of_another_kind_belongs(
    nodes: Nodes, node: str, other: str, named: str
) -> None:
    assert nodes.set_text(node, "model", MODELS[other]).successful
    nodes.graph.spin_until(lambda: f"this is a model for {named}" in nodes.problem(node))
    assert nodes.set_text(node, "model", MODELS[node]).successful
    assert nodes.show(picture("cat"), node)


def test_body_pix_gives_masks_of_people_and_of_the_parts_of_their_bodies(nodes: Nodes) -> None:
    masks = {each: nodes.graph.collect(Image, f"/pose_estimator/{each}") for each in ("people", "parts")}
    nodes.graph.meet("/pose_estimator")
    assert nodes.set_text("pose_estimator", "model", "body_pix").successful
    image = np.zeros((305, 481, 3), np.uint8)
    image[:, :240] = 255
    nodes.show(image, "pose_estimator")
    nodes.graph.spin_until(lambda: all(masks.values()))
    people, parts = (
        np.frombuffer(masks[each][-1].data, np.uint8).reshape(image.shape[:2]) for each in ("people", "parts")
    )
    assert (people[150, 50], people[150, 400]) == (255, 0)
    assert (parts[150, 50], parts[150, 400]) == (7, 0)
    nodes.graph.spin_until(lambda: bool(nodes.labels["pose_estimator"][-1].class_map))
    names = {each.class_id: each.class_name for each in nodes.labels["pose_estimator"][-1].class_map}
    assert names[7] == PART_NAMES[7]
    assert nodes.set_text("pose_estimator", "model", MODELS["pose_estimator"]).successful


def test_the_detector_publishes_masks_of_instances(nodes: Nodes) -> None:
    masks = nodes.graph.collect(Image, "/object_detector/instances")
    nodes.graph.meet("/object_detector")
    assert nodes.set_text("object_detector", "model", "instances").successful
    (found,) = nodes.show(np.zeros((320, 320, 3), np.uint8), "object_detector")["object_detector"].detections
    assert found.results[0].hypothesis.class_id == "3"
    nodes.graph.spin_until(lambda: bool(masks))
    assert (masks[-1].header, masks[-1].encoding) == (found.header, "mono8")
    expected = np.zeros((320, 320), np.uint8)
    expected[80:240, 80:160] = 1
    np.testing.assert_array_equal(np.frombuffer(masks[-1].data, np.uint8).reshape(320, 320), expected)
    assert nodes.set_text("object_detector", "model", MODELS["object_detector"]).successful


@pytest.mark.parametrize(
    ("node", "parameters", "reason"),
    [
        ("classifier", {"labels": "/nowhere/labels.txt"}, "expected a file of labels"),
        ("object_detector", {"feedback": "[state]"}, "parameter 'feedback': expected pairs output=input"),
        ("segmenter", {"model": "[a, '']"}, "parameter 'model': expected the name of a model"),
    ],
)
def test_a_node_that_cannot_start_says_why_in_one_line(
    start_node: Callable[..., Any], node: str, parameters: dict[str, Any], reason: str
) -> None:
    process = start_node("edgetpu_vision", node, **parameters)
    assert process.wait() == 1
    lines = process.output.strip().splitlines()
    assert len(lines) == 1
    assert reason in lines[0]


def test_nodes_end_without_a_complaint(nodes: Nodes) -> None:
    nodes.process.stop()

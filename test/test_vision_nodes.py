"""The vision nodes on public models and pictures: what they publish is what the algorithms give here."""

from __future__ import annotations

import array
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

pytest.importorskip("edgetpu_msgs", reason="needs a built workspace (make test)")
pytest.importorskip("vision_msgs", reason="needs vision_msgs")
pytest.importorskip("ai_edge_litert", reason="needs LiteRT")

from builtin_interfaces.msg import Time
from diagnostic_msgs.msg import DiagnosticArray
from rcl_interfaces.msg import Parameter, ParameterType, ParameterValue
from rcl_interfaces.srv import SetParameters
from rclpy.qos import DurabilityPolicy, QoSProfile
from sensor_msgs.msg import Image
from std_msgs.msg import Header
from vision_msgs.msg import Classification, Detection2DArray, LabelInfo

from edgetpu_driver import Model
from edgetpu_msgs.msg import Embedding, PersonPoses
from edgetpu_vision import Classifier, Detector, Embedder, Normalisation, PoseEstimator, Segmenter
from edgetpu_vision.pose_estimation.poses import PART_NAMES
from testdata import GOLDEN
from testdata.body_pix_graph import body_pix_file
from testdata.exported_graphs import Values, exported_graph
from testdata.pipelines import compile_pipeline

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
    bgr = cv2.imread(str(GOLDEN.path(f"vision/pictures/{name}.bmp")))
    return cv2.cvtColor(bgr, cv2.COLOR_BGR2RGB)


def model(node: str) -> Path:
    name = f"{MODELS[node]}.tflite"
    return GOLDEN.path(f"models/{name}" if node == "segmenter" else f"vision/{name}")


def labels_file() -> Path:
    return GOLDEN.path("vision/imagenet_labels.txt")


def message(second: int, image: np.ndarray) -> Image:
    height, width = image.shape[:2]
    data = array.array("B", image.tobytes())
    header = Header(stamp=Time(sec=second), frame_id="camera_optical_frame")
    return Image(header=header, height=height, width=width, encoding="rgb8", step=3 * width, data=data)


def instances_file() -> bytes:
    """A YOLO model of instance segmentation that finds class 3 left of the middle of any image."""
    rows, prototypes = np.zeros((525, 116)), np.ones((40, 40, 32))
    rows[5, :4], rows[5, 4 + 3], rows[5, 84] = (0.5, 0.5, 0.5, 0.5), 0.9, 0.5
    prototypes[:, 20:] = -1
    outputs = {"a": Values(rows.T[None], 1 / 100, -28), "b": Values(prototypes[None], 1 / 100, 0)}
    return exported_graph(160, 160, outputs)


class Nodes:
    """The vision nodes and their driver in one process, shown one image after the other."""

    def __init__(
        self,
        graph: Any,
        start_node: Callable[..., Any],
        backend: str = "cpu",
        models: dict[str, str] = MODELS,
        folder: Path | None = None,
    ) -> None:
        self.graph, self.models = graph, models
        # In this order: a compiled model without its graph may lie among the others.
        folders = sorted({str(model(node).parent) for node in models}, reverse=True)
        folders += [str(folder)] if folder else []
        self.process = start_node(
            "edgetpu_perception",
            "single_process",
            *("-r", f"image:=/{backend}_camera", "--", "--nodes", ",".join(models)),
            **{"edgetpu:backend": backend, "edgetpu:model_dirs": folders, "qos_reliability": "reliable"},
            **{f"{node}:model": name for node, name in models.items()},
            **{"classifier:labels": labels_file(), "segmenter:labels": "pascal_voc"},
            **{"object_detector:min_confidence": 0.35},
        )
        self.results = {
            node: graph.collect(RESULTS[node][0], f"/{node}/{RESULTS[node][1]}") for node in models
        }
        self.debug = {node: graph.collect(Image, f"/{node}/debug_image") for node in models}
        self.labels = {
            node: graph.collect(LabelInfo, f"/{node}/labels", LATCHED)
            for node in ("classifier", "segmenter", "object_detector", "pose_estimator")
        }
        self.diagnostics = graph.collect(DiagnosticArray, "/diagnostics")
        self._images = graph.node.create_publisher(Image, f"/{backend}_camera", 10)
        self._second = 0
        graph.spin_until(lambda: self._images.get_subscription_count() == 1)
        for node in models:
            graph.meet(f"/{node}")

    def jump(self) -> None:
        """Let the next image come long after the last one."""
        self._second += 100

    def show(self, image: np.ndarray, *nodes: str) -> dict[str, Any]:
        """Publish one image and wait for the results of these nodes; of all by default."""
        self._second += 1
        shown = message(self._second, image)
        self._images.publish(shown)

        def answers() -> dict[str, Any]:
            return {
                node: result
                for node in nodes or self.models
                for result in self.results[node]
                if result.header == shown.header
            }

        self.graph.spin_until(lambda: len(answers()) == len(nodes or self.models))
        return answers()

    def set(self, node: str, name: str, value: ParameterValue) -> Any:
        """Set a parameter; rcl_interfaces/SetParametersResult."""
        parameters = [Parameter(name=name, value=value)]
        (result,) = self.graph.call(SetParameters, f"/{node}/set_parameters", parameters=parameters).results
        return result

    def set_text(self, node: str, name: str, text: str) -> Any:
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


@pytest.fixture(scope="module")
def nodes(graph: Any, start_node: Callable[..., Any], tmp_path_factory: pytest.TempPathFactory) -> Nodes:
    folder = tmp_path_factory.mktemp("own_models")
    (folder / "body_pix.tflite").write_bytes(body_pix_file())
    (folder / "instances.tflite").write_bytes(instances_file())
    return Nodes(graph, start_node, folder=folder)


def test_the_classifier_publishes_the_classes_of_the_picture(nodes: Nodes) -> None:
    image = picture("cat")
    result = nodes.show(image)["classifier"]
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
    result = nodes.show(image)["segmenter"]
    expected = Segmenter(model("segmenter"), labels="pascal_voc").update(image)
    assert (result.encoding, result.width, result.height) == ("mono8", image.shape[1], image.shape[0])
    labels = np.frombuffer(result.data, np.uint8).reshape(image.shape[:2])
    np.testing.assert_array_equal(labels, expected.labels)
    assert set(np.unique(labels)) == {0, 3}


def test_the_pose_estimator_publishes_keypoints_by_name(nodes: Nodes) -> None:
    image = picture("squat")
    result = nodes.show(image)["pose_estimator"]
    expected = PoseEstimator(model("pose_estimator")).update(image)
    (person,) = result.people
    assert result.valid
    assert [(each.name, each.x, each.y) for each in person.keypoints] == [
        (each.name, pytest.approx(each.x, rel=1e-6), pytest.approx(each.y, rel=1e-6))
        for each in expected.poses[0].keypoints
    ]


def test_the_embedder_publishes_a_vector_of_unit_length(nodes: Nodes) -> None:
    image = picture("bird")
    result = nodes.show(image)["embedder"]
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
    header = nodes.show(image)[node].header
    nodes.graph.spin_until(lambda: any(each.header == header for each in nodes.debug[node]))
    drawn = next(each for each in nodes.debug[node] if each.header == header)
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
    # An embedding has the form of class values; nothing tells them apart.
    nodes.show(picture("cat"), "classifier")
    assert nodes.set_text("classifier", "model", MODELS["segmenter"]).successful
    nodes.graph.spin_until(lambda: "expected" in nodes.problem("classifier"))
    assert nodes.set_text("classifier", "model", "no_such_model").successful
    nodes.graph.spin_until(lambda: "no_such_model" in nodes.problem("classifier"))
    assert nodes.set_text("classifier", "model", MODELS["classifier"]).successful
    assert nodes.show(picture("cat"), "classifier")["classifier"].results


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


@pytest.fixture(scope="module")
def on_virtual_stick(
    graph: Any, start_node: Callable[..., Any], tmp_path_factory: pytest.TempPathFactory
) -> Nodes:
    models = MODELS | {"pose_estimator": "posenet_mobilenet_v1_075_353_481_16_quant_decoder"}
    del models["object_detector"]  # there is no compiled file of it
    folder = tmp_path_factory.mktemp("pipeline")
    whole = model("classifier").read_bytes()
    (folder / "chain.tflite").write_bytes(whole)
    for name, data in compile_pipeline(whole, 3, "chain").items():
        (folder / name).write_bytes(data)
    return Nodes(graph, start_node, "virtual", models, folder)


@pytest.mark.parametrize(
    ("node", "name"),
    [("classifier", "cat"), ("segmenter", "bird_segmentation"), ("embedder", "bird")],
)
def test_compiled_models_give_what_their_graphs_give(on_virtual_stick: Nodes, node: str, name: str) -> None:
    image = picture(name)
    result = on_virtual_stick.show(image, node)[node]
    if node == "classifier":
        classes = Classifier(model(node), labels=labels_file(), min_confidence=0.1).update(image).classes
        assert [each.class_id for each in result.results] == [str(each.class_id) for each in classes]
    elif node == "segmenter":
        labels = np.frombuffer(result.data, np.uint8).reshape(image.shape[:2])
        expected = Segmenter(model(node)).update(image).labels
        assert np.mean(labels == expected) > 0.99
    else:
        np.testing.assert_allclose(result.vector, Embedder(model(node)).update(image).vector, atol=1e-3)


def test_poses_are_decoded_beside_the_stick(on_virtual_stick: Nodes) -> None:
    image = picture("test_image")
    result = on_virtual_stick.show(image, "pose_estimator")["pose_estimator"]
    graph = GOLDEN.path(f"models/{on_virtual_stick.models['pose_estimator']}.tflite")
    expected = PoseEstimator(graph).update(image).poses
    assert [person.score for person in result.people] == [
        pytest.approx(each.score, abs=0.02) for each in expected
    ]
    assert expected


def test_the_segments_of_a_pipeline_are_one_model(on_virtual_stick: Nodes) -> None:
    image = picture("cat")
    whole = on_virtual_stick.show(image, "classifier")["classifier"]
    segments = ",".join(f"chain_segment_{number}_of_3" for number in range(3))
    assert on_virtual_stick.set_text("classifier", "model", segments).successful
    result = on_virtual_stick.show(image, "classifier")["classifier"]
    assert [each.class_id for each in result.results] == [each.class_id for each in whole.results]
    on_virtual_stick.graph.spin_until(lambda: "chain" not in on_virtual_stick.problem("classifier"))

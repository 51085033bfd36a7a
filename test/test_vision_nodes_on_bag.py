"""Every vision node on a recorded bag of public pictures, against published references and LiteRT."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

pytest.importorskip("edgetpu_msgs", reason="needs a built workspace (make test)")
pytest.importorskip("vision_msgs", reason="needs vision_msgs")
pytest.importorskip("ai_edge_litert", reason="needs LiteRT")
pytest.importorskip("rosbags", reason="needs rosbags")

from rclpy.serialization import deserialize_message
from rosbags.rosbag2 import StoragePlugin, Writer
from rosbags.typesys import Stores, get_typestore
from sensor_msgs.msg import Image

from demo.bag.image_bag import IMAGE, ImageBag
from edgetpu_driver import CpuEngine, Model
from testdata import GOLDEN
from testdata.pictures.pose_references import read_reference_poses
from testdata.running_nodes.vision_nodes import MODELS, Nodes, labels_file, model

STORE = get_typestore(Stores.ROS2_JAZZY)
POSENET = "posenet_mobilenet_v1_075_353_481_16_quant_decoder"
PICTURES = ("cat", "bird_segmentation", "squat", "test_image", "0001", "0002", "0003")
RECORDED_AT = 1000
"""Second of the first picture; one comes every second."""


def bgr(name: str) -> np.ndarray:
    """A public picture, as OpenCV reads it."""
    pixels: np.ndarray = cv2.imread(str(GOLDEN.path(f"vision/pictures/{name}.bmp")))
    return pixels


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Image]:
    """The messages of a bag, recorded by a camera that publishes bgr8, by picture."""
    path = tmp_path_factory.mktemp("bag") / "pictures"
    with Writer(path, version=9, storage_plugin=StoragePlugin.MCAP) as writer:
        connection = writer.add_connection("/camera/image_raw", IMAGE, typestore=STORE)
        for number, name in enumerate(PICTURES):
            pixels = bgr(name)
            height, width = pixels.shape[:2]
            time = STORE.types["builtin_interfaces/msg/Time"](sec=RECORDED_AT + number, nanosec=0)
            header = STORE.types["std_msgs/msg/Header"](stamp=time, frame_id="camera_optical_frame")
            message = STORE.types[IMAGE](header, height, width, "bgr8", 0, 3 * width, pixels.reshape(-1))
            writer.write(connection, number + 1, STORE.serialize_cdr(message, IMAGE))
    with ImageBag(path) as bag:
        messages = [deserialize_message(bytes(record.cdr), Image) for record in bag.records()]
    return dict(zip(PICTURES, messages, strict=True))


@pytest.fixture(scope="module")
def nodes(graph: Any, start_node: Callable[..., Any]) -> Nodes:
    return Nodes(graph, start_node, share_camera=True)


@pytest.fixture(scope="module")
def results(nodes: Nodes, images: dict[str, Image]) -> dict[str, dict[str, Any]]:
    """What each node published for each picture of the bag."""
    # Their models are loaded then: all would get a picture of the bag again if one node took long for it.
    nodes.show(bgr("cat"))
    return {name: nodes.replay(message) for name, message in images.items()}


@pytest.fixture(scope="module")
def posenet(nodes: Nodes, results: dict[str, dict[str, Any]], images: dict[str, Image]) -> Any:
    """The poses that PoseNet finds in a picture of two people, once MoveNet has seen all pictures."""
    nodes.results["pose_estimator"].remove(results["test_image"]["pose_estimator"])
    assert nodes.set_text("pose_estimator", "model", POSENET).successful
    return nodes.replay(images["test_image"], "pose_estimator")["pose_estimator"]


def test_every_image_is_answered_with_its_own_header(
    results: dict[str, dict[str, Any]], images: dict[str, Image]
) -> None:
    for name, of_nodes in results.items():
        assert of_nodes.keys() == MODELS.keys()
        assert all(result.header == images[name].header for result in of_nodes.values())


def test_the_cat_is_a_cat(results: dict[str, dict[str, Any]]) -> None:
    names = labels_file().read_text().splitlines()
    best = results["cat"]["classifier"].results[0]
    assert names[int(best.class_id)].strip() in ("tabby, tabby cat", "tiger cat", "Egyptian cat")
    input_spec = CpuEngine(model("classifier")).inputs[0]
    resized = cv2.resize(bgr("cat")[:, :, ::-1].copy(), input_spec.shape[2:0:-1])
    (values,) = CpuEngine(model("classifier")).run({input_spec.name: resized[None]}).values()
    assert (int(best.class_id), best.score) == (values.argmax(), values.max() / 256)


def test_the_bird_is_where_its_mask_is(results: dict[str, dict[str, Any]]) -> None:
    labels = results["bird_segmentation"]["segmenter"]
    found = np.frombuffer(labels.data, np.uint8).reshape(labels.height, labels.width) == 3
    truth = bgr("bird_segmentation_mask")
    mask = truth.any(axis=2)
    assert found.shape == mask.shape
    assert (found & mask).sum() / (found | mask).sum() > 0.9


def test_movenets_keypoints_are_those_of_the_reference(results: dict[str, dict[str, Any]]) -> None:
    (person,) = results["squat"]["pose_estimator"].people
    path = GOLDEN.path(f"vision/references/{MODELS['pose_estimator']}_reference.csv")
    check_person(person, read_reference_poses(Path(path))[0], bgr("squat").shape, 0.05)


def test_posenets_people_are_those_of_the_reference(posenet: Any) -> None:
    expected = read_reference_poses(Path(GOLDEN.path(f"vision/references/{POSENET}_reference.csv")))
    assert len(posenet.people) == len(expected) == 2
    for person, theirs in zip(posenet.people, expected, strict=True):
        check_person(person, theirs, bgr("test_image").shape, 0.01)
        assert person.score == pytest.approx(theirs.score, abs=0.02)


def check_person(person: Any, expected: Any, shape: tuple[int, ...], tolerance: float) -> None:
    """Every keypoint is as near to the reference, in parts of the image."""
    height, width = shape[:2]
    assert [each.x / width for each in person.keypoints] == pytest.approx(expected.x.tolist(), abs=tolerance)
    assert [each.y / height for each in person.keypoints] == pytest.approx(expected.y.tolist(), abs=tolerance)


def test_embeddings_are_the_normalised_outputs_of_litert(results: dict[str, dict[str, Any]]) -> None:
    engine = CpuEngine(model("embedder"))
    for name in PICTURES:
        resized = cv2.resize(bgr(name)[:, :, ::-1].copy(), engine.inputs[0].shape[2:0:-1])
        (values,) = engine.run({engine.inputs[0].name: resized[None]}).values()
        real = engine.outputs[0].dequantise(values).reshape(-1).astype(np.float64)
        vector = np.array(results[name]["embedder"].vector)
        np.testing.assert_allclose(vector, real / np.linalg.norm(real), atol=1e-6)


def test_the_cars_are_those_of_the_recurrent_graph(results: dict[str, dict[str, Any]]) -> None:
    states = {f"raw_outputs/lstm_{each}": f"raw_inputs/init_lstm_{each}" for each in "ch"}
    whole = Model.load(model("object_detector"), feedback=states)
    names = [f"TFLite_Detection_PostProcess{suffix}" for suffix in ("", ":1", ":2", ":3")]
    for second, name in enumerate(PICTURES):
        pixels = bgr(name)[:, :, ::-1]
        outputs = whole.run({whole.inputs[0].name: letterboxed(pixels, whole.inputs[0].shape[1])}, second)
        _, classes, scores, _ = (outputs[each][0] for each in names)
        expected = [
            (str(int(class_id)), pytest.approx(score))
            for class_id, score in zip(classes, scores, strict=True)
            if score >= 0.35
        ]
        detections = results[name]["object_detector"].detections
        hypotheses = [each.results[0].hypothesis for each in detections]
        assert [(each.class_id, each.score) for each in hypotheses] == expected


def letterboxed(pixels: np.ndarray, size: int) -> np.ndarray:
    """In the middle of a grey square, as OpenCV resizes."""
    height, width = pixels.shape[:2]
    scale = size / max(height, width)
    resized = cv2.resize(np.ascontiguousarray(pixels), (round(width * scale), round(height * scale)))
    square = np.full((1, size, size, 3), 114, np.uint8)
    top, left = (size - resized.shape[0]) // 2, (size - resized.shape[1]) // 2
    square[0, top : top + resized.shape[0], left : left + resized.shape[1]] = resized
    return square

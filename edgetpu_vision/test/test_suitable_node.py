"""The node that a model belongs to, which the error of another node names, as far as outputs tell."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from edgetpu_driver import Model
from edgetpu_driver.tflite.tensor import TensorSpec
from edgetpu_vision import ModelDescription, describe
from edgetpu_vision.model_description.description import NO_DESCRIPTION
from edgetpu_vision.nodes.suitable_node import suitable_nodes, with_suitable_node
from edgetpu_vision.output_values import NAME_ONE
from testdata import GOLDEN
from testdata.pictures.fixed_outputs import spec

VECTOR = "classifier", "embedder", "learner"
CELLS = 525
"""Cells of the grids of a YOLO for 160x160 px."""
POST_PROCESSED = spec("a", (1, 20, 4)), spec("b", (1, 20)), spec("c", (1, 20)), spec("d", (1,))
MAPS = [spec(name, (1, 10, 10, channels)) for name, channels in (("a", 17), ("b", 34), ("c", 64))]
LABELS = spec("labels", (1, 160, 160), np.int64)
PROBABILITIES = spec("p", (1, 5), np.int8, 1 / 256, -128)

Outputs = Sequence[TensorSpec]


def suitable(outputs: Outputs, description: ModelDescription = NO_DESCRIPTION) -> tuple[str, ...]:
    """The nodes for a model with an image of 160x160 px and these outputs."""
    return suitable_nodes([spec("image", (1, 160, 160, 3), np.uint8, 1 / 128, 128)], outputs, description)


@pytest.mark.parametrize(
    ("file", "expected"),
    [
        ("vision/traffic_model", ("object_detector",)),
        ("vision/mobilenet_v1_0.25_128_quant", ("classifier",)),
        ("models/deeplabv3_mnv2_pascal_quant", ("segmenter",)),
        ("vision/movenet_single_pose_lightning_ptq", ("pose_estimator",)),
        ("models/posenet_mobilenet_v1_075_353_481_16_quant_decoder", ("pose_estimator",)),
        ("vision/mobilenet_v1_1.0_224_quant_embedding_extractor", VECTOR),
    ],
)
def test_published_models_belong_to_their_nodes(file: str, expected: tuple[str, ...]) -> None:
    pytest.importorskip("ai_edge_litert", reason="needs LiteRT")
    path = GOLDEN.path(f"{file}.tflite")
    model = Model.load(path)
    images = [each for each in model.inputs if each.shape[-1] == 3]  # without those of a recurrent model
    assert suitable_nodes(images, model.outputs, describe([path.read_bytes()])) == expected


@pytest.mark.parametrize(
    ("outputs", "expected"),
    [
        (POST_PROCESSED, "object_detector"),
        ([spec("rows", (1, 84, CELLS))], "object_detector"),
        ([spec("rows", (1, 3 * CELLS, 85))], "object_detector"),
        ([spec("boxes", (1, CELLS, 4)), spec("classes", (1, CELLS, 7))], "object_detector"),
        (MAPS, "pose_estimator"),
        ([spec("keypoints", (1, 1, 17, 3))], "pose_estimator"),
        ([LABELS], "segmenter"),
        ([PROBABILITIES], "classifier"),
    ],
    ids=str,
)
def test_some_outputs_are_those_of_one_node(outputs: Outputs, expected: str) -> None:
    assert suitable(outputs) == (expected,)


def test_the_graph_tells_probabilities_and_labels_in_float() -> None:
    vector, labels = spec("p", (1, 5)), spec("labels", (1, 160, 160, 1))
    assert suitable([vector], ModelDescription(probabilities=frozenset({"p"}))) == ("classifier",)
    assert suitable([labels], ModelDescription(class_counts={"labels": 21})) == ("segmenter",)


def exported(task: str, **exporter: Any) -> ModelDescription:
    """The description of a YOLO for cats by its exporter."""
    return ModelDescription(exporter={"stride": 32, "names": ["cat"], "task": task, **exporter})


@pytest.mark.parametrize(
    ("task", "output", "expected"),
    [
        ("detect", spec("rows", (1, 56, CELLS)), "object_detector"),
        ("detect", spec("rows", (1, 300, 6)), "object_detector"),
        ("pose", spec("rows", (1, 56, CELLS)), "pose_estimator"),
        ("classify", spec("vector", (1, 5)), "classifier"),
    ],
    ids=str,
)
def test_the_exporter_of_a_yolo_tells_its_task(task: str, output: TensorSpec, expected: str) -> None:
    assert suitable([output], exported(task)) == (expected,)


@pytest.mark.parametrize("keypoints", [5, 21])
def test_poses_of_other_keypoints_are_for_the_detector(keypoints: int) -> None:
    rows = spec("rows", (1, 5 + 3 * keypoints, CELLS))
    assert suitable([rows], exported("pose", kpt_shape=[keypoints, 3])) == ("object_detector",)


@pytest.mark.parametrize(
    ("task", "output"),
    [
        ("pose", spec("rows", (1, 56, CELLS), np.uint8, 2.5)),  # too coarse, as the pose estimator says, too
        ("detect", spec("rows", (1, 5, CELLS), np.uint8, 2.5)),
        ("detect", spec("vector", (1, 5))),
        ("classify", spec("rows", (1, 56, CELLS))),
        ("segment", spec("vector", (1, 5), np.uint8)),
    ],
    ids=str,
)
def test_a_node_that_would_refuse_the_model_is_not_named(task: str, output: TensorSpec) -> None:
    assert suitable([output], exported(task)) == ()
    image = spec("image", (1, 160, 160, 3), np.uint8, 1 / 128, 128)
    given = "expected a map; got something"
    assert with_suitable_node(given, "segmenter", [image], [output], exported(task)) == given


@pytest.mark.parametrize(
    "outputs",
    [
        [spec("rows", (1, 56, CELLS))],  # people with keypoints, or objects of 52 classes
        [spec("rows", (1, 300, 6))],
        [spec("map", (1, 160, 160, 3))],  # classes, or a picture
        [spec("map", (1, 20, 20, 64))],  # classes, or features
        [spec("depth", (1, 160, 160, 1), np.uint8)],
        [spec("value", (1, 1))],
        [spec("vector", (1, 5), np.uint8)],  # without a scale
        [PROBABILITIES, spec("q", (1, 5))],
        [spec("map", (1, 20, 20, 6)), LABELS],
        [],
    ],
    ids=str,
)
def test_others_may_be_anything(outputs: Outputs) -> None:
    assert suitable(outputs) == ()


def test_a_vector_holds_classes_or_features() -> None:
    assert suitable([spec("vector", (1, 1024))]) == VECTOR


def test_body_pix_with_poses_belongs_to_the_pose_estimator() -> None:
    assert suitable([spec("segments", (1, 10, 10, 1)), *MAPS]) == ("pose_estimator",)


@pytest.mark.parametrize("shape", [(1, 4), (1, 64, 64, 4)])
def test_a_model_without_an_image_belongs_to_no_node(shape: tuple[int, ...]) -> None:
    assert suitable_nodes([spec("signal", shape)], [PROBABILITIES], NO_DESCRIPTION) == ()


def reason(node: str, outputs: Outputs, given: str = "expected a map; got something") -> Any:
    image = spec("image", (1, 160, 160, 3), np.uint8, 1 / 128, 128)
    return with_suitable_node(given, node, [image], outputs, NO_DESCRIPTION)


def test_an_error_names_the_node() -> None:
    expected = "expected a map; got something; this is a model for the node segmenter"
    assert reason("classifier", [LABELS]) == expected


def test_an_error_names_the_nodes_for_vectors_and_their_condition() -> None:
    assert reason("segmenter", [spec("vector", (1, 9))]) == (
        "expected a map; got something; this is a model for the node classifier if its values are those of "
        "classes, otherwise for embedder or learner"
    )


@pytest.mark.parametrize("node", ["object_detector", "classifier", "embedder", "learner", "segmenter"])
def test_an_error_about_a_model_of_the_nodes_own_kind_stays_as_it_is(node: str) -> None:
    own = {"object_detector": POST_PROCESSED, "segmenter": [LABELS]}
    assert reason(node, own.get(node, [spec("vector", (1, 9))])) == "expected a map; got something"


def test_an_output_of_another_nodes_model_is_not_to_be_named() -> None:
    expected = "expected a vector; got several; this is a model for the node object_detector"
    assert reason("classifier", POST_PROCESSED, f"expected a vector; got several{NAME_ONE}") == expected

"""SSD detectors: post-processed outputs in any order, raw outputs as LiteRT's own operator decodes them."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import permutations
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from edgetpu_driver.errors import InputError, ModelUnsupportedError
from edgetpu_driver.images.region import Region
from edgetpu_driver.tflite import flexbuffer
from edgetpu_driver.tflite.graph_builder import GraphBuilder
from edgetpu_driver.tflite.subgraph_extraction import extract
from edgetpu_vision import Detection, Detector, LabelsError, ModelDescription, OutputsError, describe
from edgetpu_vision.detection.ssd_anchors import ssd_anchor_count, ssd_anchors
from testdata import GOLDEN
from testdata.pictures.fixed_outputs import FixedOutputs, fixed, spec

IMAGE = np.zeros((100, 200, 3), np.uint8)
TAIL = "models/ssd_mobilenet_v1_coco_quant_postprocess_segment_1_of_2_edgetpu.tflite"

BOXES = np.array([[[0.1, 0.2, 0.5, 0.4], [0.0, 0.0, 1.0, 0.5], [0.2, 0.2, 0.3, 0.3]]], np.float32)
CLASSES = np.array([[2, 0, 5]], np.float32)
SCORES = np.array([[0.75, 0.5, 0.25]], np.float32)
COUNT = np.array([2], np.float32)


def detected(model: FixedOutputs, image: NDArray[np.uint8] = IMAGE, **options: Any) -> tuple[Detection, ...]:
    options = {"fit": "stretch", "min_confidence": 0.3} | options
    return Detector(model, **options).update(image, 1.0).detections


def as_rows(found: tuple[Detection, ...]) -> list[list[float]]:
    return [[each.class_id, each.score, each.x_min, each.y_min, each.x_max, each.y_max] for each in found]


EXPECTED = [[2, 0.75, 40, 10, 80, 50], [0, 0.5, 0, 0, 100, 100]]


@pytest.mark.parametrize("order", list(permutations(range(4))), ids=str)
def test_post_processed_outputs_are_distinguished_in_any_order(order: tuple[int, ...]) -> None:
    arrays = BOXES, CLASSES, SCORES, COUNT
    outputs = {f"output{position}": arrays[which] for position, which in enumerate(order)}
    np.testing.assert_allclose(as_rows(detected(FixedOutputs(300, 300, outputs))), EXPECTED, rtol=1e-6)


@pytest.mark.parametrize("order", list(permutations(range(3))), ids=str)
def test_the_count_may_be_missing(order: tuple[int, ...]) -> None:
    arrays = BOXES, CLASSES, SCORES
    outputs = {f"output{position}": arrays[which] for position, which in enumerate(order)}
    np.testing.assert_allclose(as_rows(detected(FixedOutputs(300, 300, outputs))), EXPECTED, rtol=1e-6)


def test_the_operators_names_tell_outputs_whose_values_do_not() -> None:
    name = "TFLite_Detection_PostProcess"
    classes, scores = np.array([[0, 0]], np.float32), np.array([[1, 1]], np.float32)
    outputs = {f"{name}:2": scores, f"{name}:3": COUNT, name: BOXES[:, :2], f"{name}:1": classes}
    assert [(each.class_id, each.score) for each in detected(FixedOutputs(300, 300, outputs))] == [
        (0, 1),
        (0, 1),
    ]


def test_metadata_tell_outputs_whose_values_do_not() -> None:
    classes, scores = np.array([[0, 0]], np.float32), np.array([[1, 1]], np.float32)
    names = {"d": "location", "c": "category", "b": "score", "a": "number of detections"}
    outputs = {"a": COUNT, "b": scores, "c": classes, "d": BOXES[:, :2]}
    found = detected(FixedOutputs(300, 300, outputs), description=ModelDescription(output_names=names))
    assert [(each.class_id, each.score) for each in found] == [(0, 1), (0, 1)]


def test_further_outputs_are_left_alone() -> None:
    outputs = {"state": np.zeros((1, 8, 8, 16), np.uint8), "b": BOXES, "c": CLASSES, "s": SCORES, "n": COUNT}
    assert len(detected(FixedOutputs(300, 300, outputs))) == 2


def test_a_frame_without_anything_is_no_error() -> None:
    zeros = np.zeros((1, 3), np.float32)
    outputs = {"a": np.zeros((1, 3, 4), np.float32), "b": zeros, "c": zeros, "d": np.zeros(1, np.float32)}
    detector = Detector(FixedOutputs(300, 300, outputs))
    assert detector.update(IMAGE).valid is False
    later = {"a": BOXES, "b": SCORES, "c": CLASSES, "d": COUNT}
    assert detector.postprocess(detector.preprocess(IMAGE), later).confidence == 0.75


@pytest.mark.parametrize("count", [-1.0, 1e9, float("nan")])
def test_a_senseless_count_is_limited(count: float) -> None:
    outputs = {"b": BOXES, "c": CLASSES, "s": SCORES, "n": np.array([count], np.float32)}
    assert len(detected(FixedOutputs(300, 300, outputs))) == (0 if count < 0 else 2)


def test_values_that_are_not_numbers_are_left_out() -> None:
    boxes, classes = BOXES.copy(), CLASSES.copy()
    boxes[0, 0, 0], classes[0, 1] = np.nan, np.nan
    outputs = dict(zip(NAMES, (boxes, classes, SCORES), strict=False))
    assert [each.class_id for each in detected(FixedOutputs(300, 300, outputs), min_confidence=0.1)] == [5]


@pytest.mark.parametrize("value", [np.inf, 1e38, 99.0])
def test_scores_that_are_no_probabilities_are_an_error(value: float) -> None:
    outputs = dict(zip(NAMES, (BOXES, CLASSES, SCORES * np.float32(value)), strict=False))
    with pytest.raises(
        OutputsError, match=r"expected scores from 0 to 1 in 'TFLite_.*:2'; got (inf|[\d.e+]+)$"
    ):
        detected(FixedOutputs(300, 300, outputs))


@pytest.mark.parametrize("scale", [0.0, float("nan"), -0.5])
def test_outputs_of_8_bits_without_a_scale_are_refused(scale: float) -> None:
    encodings, scores = np.zeros((1, 1917, 4), np.uint8), np.zeros((1, 1917, 91), np.uint8)
    outputs = {"boxes": (encodings, scale, 0), "scores": (scores, scale, 0)}
    with pytest.raises(ModelUnsupportedError, match=r"got 'boxes' uint8.*; integers of 8 bits mean nothing"):
        Detector(FixedOutputs(300, 300, outputs))


def test_boxes_are_placed_in_the_region_and_cut_at_its_edges() -> None:
    detector = Detector(FixedOutputs(300, 300, {"b": BOXES, "c": CLASSES, "s": SCORES}), fit="stretch")
    detector.region = Region(100, 50, 40, 20)
    found = detector.update(IMAGE).detections
    np.testing.assert_allclose(as_rows(found)[0], [2, 0.75, 108, 52, 116, 60], rtol=1e-6)


def test_letterboxed_boxes_come_back_in_px_of_the_image() -> None:
    boxes = np.array([[[0.25, 0, 0.75, 1], [0, 0, 0.25, 1]]], np.float32)  # the image, and a bar
    outputs = {"b": boxes, "c": CLASSES[:, :2], "s": SCORES[:, :2]}
    found = detected(FixedOutputs(300, 300, outputs), fit="letterbox")
    assert as_rows(found) == [[2, 0.75, 0, 0, 200, 100]]


def test_only_wanted_classes_up_to_the_limit_are_given() -> None:
    model = FixedOutputs(300, 300, {"b": BOXES, "c": CLASSES, "s": SCORES})
    assert [each.class_id for each in detected(model, classes=[0, 5], min_confidence=0.1)] == [0, 5]
    assert [each.class_id for each in detected(model, max_results=1)] == [2]


def test_a_background_before_the_labels_is_dropped() -> None:
    labels = ["???", "a", "b", "c", "d", "e", "f"]
    model = FixedOutputs(300, 300, {"b": BOXES, "c": CLASSES, "s": SCORES})
    assert [each.label for each in detected(model, labels=labels)] == ["c", "a"]


def test_a_class_without_label_is_an_error() -> None:
    model = FixedOutputs(300, 300, {"b": BOXES, "c": CLASSES, "s": SCORES})
    with pytest.raises(LabelsError, match="a label for class 2, which the model gives; got 1 labels"):
        detected(model, labels=["a"])


def test_outputs_of_different_lengths_are_an_error() -> None:
    detector = Detector(FixedOutputs(300, 300, {"b": BOXES, "c": CLASSES, "s": SCORES}))
    with pytest.raises(OutputsError, match="as many boxes as classes and scores; got 3, 3 and 2"):
        detector.postprocess(detector.preprocess(IMAGE), {"b": BOXES, "c": CLASSES, "s": SCORES[:, :2]})


@pytest.mark.parametrize("shape", [(1, 1001), (1, 20, 5), (1, 2034, 4), (1, 40, 40, 7), ()], ids=str)
def test_outputs_of_no_detector_are_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(ModelUnsupportedError, match=r"expected the outputs of a detector.*got 'x' float32"):
        Detector(fixed({spec("x", shape): np.zeros(shape, np.float32)}, (320, 320)))


def test_an_unknown_head_is_refused() -> None:
    with pytest.raises(
        InputError,
        match="a head of ssd, yolov3, yolov4, yolov5, yolov8, yolov8_obb, yolov8_pose, or none; got 'fcos'",
    ):
        Detector(head="fcos")


# Raw outputs

NAMES = ("TFLite_Detection_PostProcess", *(f"TFLite_Detection_PostProcess:{number}" for number in (1, 2, 3)))
SCALES = {"y_scale": 10.0, "x_scale": 10.0, "h_scale": 5.0, "w_scale": 5.0}


def raw_outputs(count: int, classes: int, seed: int = 0) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Encoded boxes and scores as a model gives them: most scores low, some high."""
    rng = np.random.default_rng(seed)
    encodings = rng.normal(0, 2, (1, count, 4)).astype(np.float32)
    scores = (rng.random((1, count, classes)) ** 30).astype(np.float32)
    return encodings, scores


def litert(
    anchors: NDArray[np.float32], encodings: NDArray[np.float32], scores: NDArray[np.float32], **options: Any
) -> dict[str, NDArray[Any]]:
    """What LiteRT's operator makes of raw outputs."""
    pytest.importorskip("ai_edge_litert", reason="needs LiteRT")
    from edgetpu_driver.engines.cpu_engine import CpuEngine

    most = options["max_detections"]
    builder = GraphBuilder("post-processing")
    inputs = {"boxes": encodings, "scores": scores, "anchors": anchors}
    tensors = [builder.input(name, array.shape, np.float32) for name, array in inputs.items()]
    shapes = (1, most, 4), (1, most), (1, most), (1,)
    results = [spec(name, shape) for name, shape in zip(NAMES, shapes, strict=True)]
    settings = SCALES | {"num_classes": scores.shape[2] - 1, "max_classes_per_detection": 1} | options
    for tensor in builder.custom(NAMES[0], tensors, results, flexbuffer.encode(settings)):
        builder.output(tensor)
    return CpuEngine(builder.build()).run(inputs)


def post_process(anchors: NDArray[np.float32], classes: int, **options: Any) -> ModelDescription:
    """The same operator as the description of a model."""
    from edgetpu_vision.model_description.graph_facts import PostProcess

    facts = PostProcess(
        anchors,
        (10.0, 10.0, 5.0, 5.0),
        classes,
        options["max_detections"],
        options["nms_score_threshold"],
        options["nms_iou_threshold"],
        options.get("use_regular_nms", False),
        ("", "", "", ""),
    )
    return ModelDescription(post_process=facts)


def expected_rows(outputs: Mapping[str, NDArray[Any]], least: float, width: int, height: int) -> NDArray[Any]:
    """LiteRT's detections as rows: class, score, box in px cut at the edges."""
    boxes, classes, scores, count = (outputs[name] for name in NAMES)
    kept = np.flatnonzero(scores[0, : int(count[0])] >= least)
    px = np.clip(boxes[0, kept][:, [1, 0, 3, 2]], 0, 1) * [width, height, width, height]
    rows = np.column_stack((classes[0, kept], scores[0, kept], px))
    return rows[(rows[:, 4] > rows[:, 2]) & (rows[:, 5] > rows[:, 3])]


def check_as_litert(
    anchors: NDArray[np.float32], encodings: NDArray[np.float32], scores: NDArray[np.float32], regular: bool
) -> None:
    """Check that the detector makes of raw outputs of 96 x 96 px what LiteRT's operator does."""
    options = {
        "max_detections": 60,
        "nms_score_threshold": 0.2,
        "nms_iou_threshold": 0.5,
        "use_regular_nms": regular,
        "detections_per_class": 60,
    }
    expected = expected_rows(litert(anchors, encodings, scores, **options), 0.35, 96, 96)
    found = detected(
        FixedOutputs(96, 96, {"scores": scores, "boxes": encodings}),
        np.zeros((96, 96, 3), np.uint8),
        min_confidence=0.35,
        description=post_process(anchors, scores.shape[2] - 1, **options),
    )
    assert len(expected) > 10
    np.testing.assert_array_equal([each.score for each in found], expected[:, 1])
    np.testing.assert_allclose(as_rows(found), expected, atol=1e-3)


@pytest.mark.parametrize("regular", [False, True], ids=["classes together", "each class by itself"])
@pytest.mark.parametrize("seed", range(4))
def test_raw_outputs_give_what_litert_gives(regular: bool, seed: int) -> None:
    anchors = ssd_anchors(96, 96, count := ssd_anchor_count(96, 96))
    encodings, scores = raw_outputs(count, 8, seed)
    check_as_litert(anchors, encodings, scores, regular)


@pytest.mark.parametrize("spread", [0.0, 2.0], ids=["few boxes that do not overlap", "many"])
@pytest.mark.parametrize("regular", [False, True], ids=["classes together", "each class by itself"])
def test_scores_that_are_all_over_the_threshold_give_what_litert_gives(regular: bool, spread: float) -> None:
    anchors = ssd_anchors(96, 96, count := ssd_anchor_count(96, 96))
    rng = np.random.default_rng(7)
    encodings = rng.normal(0, spread, (1, count, 4)).astype(np.float32)
    encodings[0, :, 2:] += 5 * np.log(0.3 / anchors[:, 2:]) if not spread else 0  # one size for all
    scores = rng.uniform(0.4, 1, (1, count, 91)).astype(np.float32)
    check_as_litert(anchors, encodings, scores, regular)


def test_a_wanted_class_is_found_among_many_higher_scores_of_others() -> None:
    scores = np.full((1, 1917, 91), 0.9, np.float32)
    scores[:, :, 5] = 0
    scores[0, 1000, 5] = 0.5
    outputs = {"boxes": np.zeros((1, 1917, 4), np.float32), "scores": scores}
    (found,) = detected(FixedOutputs(300, 300, outputs), classes=[4])
    assert (found.class_id, found.score) == (4, 0.5)


def test_scores_that_are_no_numbers_do_not_affect_others() -> None:
    scores = np.zeros((1, 1917, 91), np.float32)
    scores[0, :900], scores[0, 1000, 5] = np.nan, 0.75
    outputs = {"boxes": np.zeros((1, 1917, 4), np.float32), "scores": scores}
    (found,) = detected(FixedOutputs(300, 300, outputs))
    assert (found.class_id, found.score) == (4, 0.75)


@pytest.mark.parametrize("least", [0.3, 0.6])
def test_the_inner_tensors_of_a_published_ssd_give_what_its_operator_gives(least: float) -> None:
    """`--part` gives the chip's own outputs, quantised; anchors and options are in the file."""
    pytest.importorskip("ai_edge_litert", reason="needs LiteRT")
    from edgetpu_driver.engines.cpu_engine import CpuEngine

    file = GOLDEN.path(TAIL).read_bytes()
    tail = CpuEngine(extract(file, ["Squeeze1", "convert_scores"], list(NAMES)))
    inner = {each.name: each for each in tail.inputs}
    encodings, scores = raw_outputs(1917, 91)
    values = {
        "Squeeze1": inner["Squeeze1"].quantise(encodings),
        "convert_scores": inner["convert_scores"].quantise(scores),
    }
    expected = expected_rows(tail.run(values), least, 300, 300)
    model = fixed({inner[name]: values[name] for name in ("convert_scores", "Squeeze1")}, (300, 300))
    image = np.zeros((300, 300, 3), np.uint8)
    found = detected(model, image, min_confidence=least, labels="coco", description=describe([file]))
    assert len(expected) > 5
    np.testing.assert_array_equal([each.score for each in found], expected[:, 1])
    np.testing.assert_allclose(sorted(as_rows(found)), sorted(expected.tolist()), atol=1e-3)


def test_the_anchors_of_a_published_ssd_are_generated() -> None:
    facts = describe([GOLDEN.path(TAIL).read_bytes()]).post_process
    assert facts is not None
    np.testing.assert_allclose(ssd_anchors(300, 300, 1917), facts.anchors, atol=2e-5)


def test_logits_become_scores() -> None:
    count = ssd_anchor_count(300, 300)
    encodings, scores = np.zeros((1, count, 4), np.float32), np.full((1, count, 3), -5, np.float32)
    scores[0, 1000, 2] = np.log(3)  # 0.75
    scores[0, :, 0] = 9  # the background
    (found,) = detected(
        FixedOutputs(300, 300, {"a": encodings, "b": scores}), np.zeros((300, 300, 3), np.uint8)
    )
    y, x, height, width = ssd_anchors(300, 300, count)[1000] * 300
    assert (found.class_id, found.score) == (1, pytest.approx(0.75))
    assert found.center == pytest.approx((x, y), abs=1e-3)
    assert (found.width, found.height) == pytest.approx((width, height), abs=1e-3)


def test_other_anchors_may_be_given() -> None:
    anchors = np.array([[0.5, 0.5, 0.2, 0.4], [0.1, 0.1, 0.1, 0.1]], np.float32)
    scores = np.array([[[0, 0.9], [0, 0.1]]], np.float32)
    model = FixedOutputs(100, 100, {"boxes": np.zeros((1, 2, 4), np.float32), "scores": scores})
    assert as_rows(detected(model, np.zeros((100, 100, 3), np.uint8), anchors=anchors)) == [
        pytest.approx([0, 0.9, 30, 40, 70, 60])
    ]


def test_missing_anchors_are_asked_for() -> None:
    outputs = {"boxes": np.zeros((1, 9, 4), np.float32), "scores": np.zeros((1, 9, 3), np.float32)}
    with pytest.raises(ModelUnsupportedError, match="expected the anchors of this model; it has 9"):
        Detector(FixedOutputs(300, 300, outputs), head="ssd")


def test_a_feature_pyramid_without_its_operator_needs_anchors() -> None:
    outputs = {"boxes": np.zeros((1, 76725, 4), np.float32), "scores": np.zeros((1, 76725, 2), np.float32)}
    with pytest.raises(
        ModelUnsupportedError, match=r"; boxes and scores as those of an SSD need its anchors"
    ):
        Detector(FixedOutputs(640, 640, outputs))


def test_a_recurrent_model_with_a_feature_pyramid_finds_cars() -> None:
    pytest.importorskip("ai_edge_litert", reason="needs LiteRT")
    import cv2

    detector = Detector(GOLDEN.path("vision/traffic_model.tflite"), min_confidence=0.35)
    image = cv2.cvtColor(cv2.imread(str(GOLDEN.path("vision/pictures/0001.bmp"))), cv2.COLOR_BGR2RGB)
    found = detector.update(image, 0.0).detections
    assert [each.class_id for each in found] == [1, 0]
    assert all(0 <= each.x_min < each.x_max <= 256 for each in found)

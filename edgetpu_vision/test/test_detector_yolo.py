"""YOLO detectors: outputs made for known objects, in the layouts that exporters write, give these objects.

The layouts follow what the exporters of YOLOv5, v8, v9 and 11 document; no such model was at hand.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from edgetpu_driver.errors import ModelUnsupportedError
from edgetpu_vision import Detection, Detector, LabelsError, ModelDescription, OutputsError
from edgetpu_vision.detection.yolo_grids import Grids
from edgetpu_vision.detection.yolo_raw import YOLOV5_ANCHORS
from testdata.graphs.yolo_graph import yolo_graph
from testdata.pictures.fixed_outputs import FixedOutputs

SIZE = 160
IMAGE = np.zeros((SIZE, SIZE, 3), np.uint8)
GRIDS = Grids(SIZE, SIZE, (8, 16, 32))
CLASSES = 7
OBJECTS = ((2, 0.9, (40.0, 60.0, 32.0, 48.0)), (5, 0.6, (100.0, 40.0, 60.0, 20.0)))
"""Class, score, and centre and size of the box, px."""

Array = NDArray[np.float32]


def quantised(values: Array, dtype: Any = np.int8) -> tuple[NDArray[Any], float, int]:
    """As exporters do it: one scale for the whole output, from its least to its greatest value."""
    low, high = min(float(values.min()), 0.0), max(float(values.max()), 0.1)
    limits = np.iinfo(dtype)
    scale = (high - low) / 255
    zero_point = round(limits.min - low / scale)
    steps = np.rint(values / scale + zero_point)
    return np.clip(steps, limits.min, limits.max).astype(dtype), scale, zero_point


def detected(outputs: Mapping[str, Any], **options: Any) -> tuple[Detection, ...]:
    return Detector(FixedOutputs(SIZE, SIZE, outputs), **options).update(IMAGE).detections


def check(found: tuple[Detection, ...], px: float = 0.1, score: float = 0.01) -> None:
    """The objects, and nothing else."""
    assert [each.class_id for each in found] == [class_id for class_id, _, _ in OBJECTS]
    for each, (_, expected, box) in zip(found, OBJECTS, strict=True):
        assert each.score == pytest.approx(expected, abs=score)
        assert (*each.center, each.width, each.height) == pytest.approx(box, abs=px)


def cell_of(x: float, y: float, grid: int) -> tuple[int, int, int]:
    """Row and column in a grid, and number among the cells of all grids, of a position in px."""
    stride, sizes = GRIDS.strides[grid], GRIDS.sizes
    row, column = int(y // stride), int(x // stride)
    before = sum(rows * columns for rows, columns in sizes[:grid])
    return row, column, before + row * sizes[grid][1] + column


def decoded(objectness: bool, normalised: bool) -> Array:
    """Rows whose boxes and probabilities the graph has computed; a neighbour sees each object too."""
    count = GRIDS.cells * (3 if objectness else 1)
    first = 5 if objectness else 4
    rng = np.random.default_rng(0)
    rows = np.concatenate(
        (rng.uniform(5, SIZE - 5, (count, 4)), rng.uniform(0, 0.05, (count, first - 4 + CLASSES))), axis=1
    )
    for number, (class_id, score, box) in enumerate(OBJECTS):
        for row, part in ((number * 50 + 11, 1.0), (number * 50 + 12, 0.8)):
            rows[row, :4] = box
            rows[row, first + class_id] = score * part if not objectness else 0.95
            if objectness:
                rows[row, 4] = score * part / 0.95
    rows[:, :4] /= SIZE if normalised else 1
    return rows.astype(np.float32)


@pytest.mark.parametrize("normalised", [True, False], ids=["normalised", "px"])
@pytest.mark.parametrize("transposed", [True, False], ids=["channels first", "channels last"])
@pytest.mark.parametrize("objectness", [True, False], ids=["yolov5", "yolov8"])
def test_decoded_rows_in_float(objectness: bool, transposed: bool, normalised: bool) -> None:
    rows = decoded(objectness, normalised)
    check(detected({"output": (rows.T if transposed else rows)[None].copy()}))


@pytest.mark.parametrize("broken", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("normalised", [True, False], ids=["normalised", "px"])
def test_a_box_that_is_not_finite_changes_no_other(normalised: bool, broken: float) -> None:
    rows = decoded(objectness=False, normalised=normalised)
    rows[300, :5] = broken, 0.5, 0.1, 0.1, 0.8
    check(detected({"output": rows[None]}))


@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
@pytest.mark.parametrize("transposed", [True, False], ids=["channels first", "channels last"])
@pytest.mark.parametrize("objectness", [True, False], ids=["yolov5", "yolov8"])
def test_decoded_rows_in_8_bits(objectness: bool, transposed: bool, dtype: Any) -> None:
    rows = decoded(objectness, normalised=True)
    values = (rows.T if transposed else rows)[None]
    check(detected({"output": quantised(values, dtype)}), px=0.6, score=0.01)


def test_boxes_in_px_in_8_bits_of_their_own() -> None:
    rows = decoded(objectness=False, normalised=False)
    outputs = {"scores": quantised(rows[None, :, 4:]), "boxes": quantised(rows[None, :, :4])}
    check(detected(outputs), px=0.6)


@pytest.mark.parametrize("names", list(permutations(("a", "b"))), ids=str)
@pytest.mark.parametrize("transposed", [True, False], ids=["channels first", "channels last"])
def test_boxes_and_classes_in_outputs_of_their_own(names: tuple[str, str], transposed: bool) -> None:
    rows = decoded(objectness=False, normalised=True)
    parts = [rows[:, :4], rows[:, 4:]]
    parts = [(part.T if transposed else part)[None].copy() for part in parts]
    outputs = dict(zip(names, parts, strict=True))
    check(detected(dict(sorted(outputs.items()))))


@pytest.mark.parametrize("in_float", [False, True], ids=["int8", "float"])
def test_boxes_and_logits_of_classes_in_outputs_of_their_own(in_float: bool) -> None:
    rows = decoded(objectness=False, normalised=True)
    probabilities = np.clip(rows[None, :, 4:], 1e-3, 1 - 1e-3)
    logits = np.log(probabilities / (1 - probabilities))
    outputs = {"boxes": rows[None, :, :4], "logits": logits}
    given = outputs if in_float else {name: quantised(part) for name, part in outputs.items()}
    check(detected(given), px=0.6)


def distributions() -> tuple[Array, Array]:
    """Distances as distributions over 16 bins, and logits of classes, of all cells."""
    boxes = np.random.default_rng(1).normal(0, 1, (GRIDS.cells, 64)).astype(np.float32)
    logits = np.full((GRIDS.cells, CLASSES), -6, np.float32)
    for class_id, score, (x, y, width, height) in OBJECTS:
        for grid in (1, 2):
            stride = GRIDS.strides[grid]
            row, column, cell = cell_of(x, y, grid)
            right, down = x - (column + 0.5) * stride, y - (row + 0.5) * stride
            edges = width / 2 - right, height / 2 - down, width / 2 + right, height / 2 + down
            for number, edge in enumerate(edges):
                low, part = divmod(edge / stride, 1)
                bins = np.full(16, -30.0)  # two bins, whose mean is the distance
                bins[int(low)] = np.log(max(1 - part, 1e-9))
                bins[int(low) + 1] = np.log(max(part, 1e-9))
                boxes[cell, 16 * number : 16 * number + 16] = bins
            probability = score if grid == 2 else 0.9 * score
            logits[cell, class_id] = np.log(probability / (1 - probability))
    return boxes, logits


def split_by_grid(values: Array, channels_first: bool = False) -> list[Array]:
    """A map for each grid: [1, rows, columns, channels] or [1, channels, rows, columns]."""
    maps, start = [], 0
    for rows, columns in GRIDS.sizes:
        part = values[start : start + rows * columns].reshape(1, rows, columns, -1)
        maps.append(np.ascontiguousarray(part.transpose(0, 3, 1, 2)) if channels_first else part)
        start += rows * columns
    return maps


@pytest.mark.parametrize("transposed", [True, False], ids=["channels first", "channels last"])
def test_distributions_and_logits_in_outputs_of_their_own(transposed: bool) -> None:
    outputs = {
        name: (part.T if transposed else part)[None].copy()
        for name, part in zip(("boxes", "logits"), distributions(), strict=True)
    }
    check(detected(outputs), px=0.2)


def test_quantised_distributions_and_logits_in_one_output() -> None:
    boxes, logits = distributions()
    values, scale, zero_point = quantised(np.concatenate((np.maximum(boxes, -12), logits), axis=1)[None])
    check(detected({"output": (values, scale, zero_point)}), px=1.0, score=0.03)


@pytest.mark.parametrize("flat", [True, False], ids=["as DeGirum exports them", "maps"])
@pytest.mark.parametrize("channels_first", [True, False])
def test_a_map_of_distributions_and_one_of_logits_for_each_grid(channels_first: bool, flat: bool) -> None:
    boxes, logits = (split_by_grid(part, channels_first) for part in distributions())
    outputs = {}
    for i in (2, 0, 1):
        outputs |= {f"cls{i}": logits[i], f"reg{i}": boxes[i]}
    if flat:
        for name, part in outputs.items():
            outputs[name] = part.reshape((*part.shape[:2], -1) if channels_first else (1, -1, part.shape[3]))
    check(detected(outputs), px=0.2)


def test_the_maps_of_each_grid_may_be_in_an_order_of_their_own() -> None:
    boxes, logits = (split_by_grid(part) for part in distributions())
    maps = [logits[2], boxes[0], logits[0], boxes[2], boxes[1], logits[1]]
    check(detected({f"output{number}": each for number, each in enumerate(maps)}), px=0.2)


def test_a_map_of_both_for_each_grid_is_named() -> None:
    both = np.concatenate(distributions(), axis=1)
    outputs = {f"grid{i}": part for i, part in enumerate(split_by_grid(both))}
    check(detected(outputs, head="yolov8"), px=0.2)


def test_a_map_of_both_for_each_grid_is_recognised_by_the_number_of_names() -> None:
    both = np.concatenate(distributions(), axis=1)
    outputs = {f"grid{i}": part for i, part in enumerate(split_by_grid(both))}
    description = ModelDescription(exporter={"names": dict.fromkeys(range(CLASSES), "x")})
    check(detected(outputs, description=description), px=0.2)


def anchor_maps() -> list[Array]:
    """Logits of YOLOv5 for each grid, [rows, columns, anchors, 5 + classes]."""
    maps = [np.full((*size, 3, 5 + CLASSES), -6, np.float32) for size in GRIDS.sizes]
    for class_id, score, (x, y, width, height) in OBJECTS:
        for grid, anchor in ((1, 0), (1, 1)):
            stride, shape = GRIDS.strides[grid], YOLOV5_ANCHORS[grid][anchor]
            row, column, _ = cell_of(x, y, grid)
            objectness = score / 0.95 * (1 if anchor else 0.9)
            values = [
                (x / stride - column + 0.5) / 2,
                (y / stride - row + 0.5) / 2,
                np.sqrt(width / shape[0]) / 2,
                np.sqrt(height / shape[1]) / 2,
                objectness,
                0.95,
            ]
            logits = np.log(values) - np.log1p(-np.array(values))
            cell = maps[grid][row, column, anchor]
            cell[:5], cell[5 + class_id] = logits[:5], logits[5]
    return maps


@pytest.mark.parametrize(
    "layout",
    [
        lambda part: part.reshape(1, *part.shape[:2], -1),
        lambda part: part[None],
        lambda part: part.transpose(2, 0, 1, 3)[None],
        lambda part: part.transpose(2, 3, 0, 1).reshape(1, -1, *part.shape[:2]),
        lambda part: part.reshape(1, -1, 3, part.shape[3]),
    ],
    ids=["[1,h,w,a*c]", "[1,h,w,a,c]", "[1,a,h,w,c]", "[1,a*c,h,w]", "[1,h*w,a,c]"],
)
def test_a_map_of_logits_for_each_grid_and_anchor(layout: Any) -> None:
    maps = [np.ascontiguousarray(layout(part)) for part in anchor_maps()]
    outputs = {f"grid{i}": maps[i] for i in (2, 1, 0)}
    check(detected(outputs, head="yolov5"))


def test_quantised_maps_of_anchors_are_recognised() -> None:
    maps = [part.reshape(1, *part.shape[:2], -1) for part in anchor_maps()]
    outputs = {f"grid{i}": quantised(part) for i, part in enumerate(maps)}
    check(detected(outputs), px=1.5, score=0.02)


def test_other_anchors_may_be_given() -> None:
    outputs = {f"grid{i}": part[None] for i, part in enumerate(anchor_maps())}
    doubled = np.array(YOLOV5_ANCHORS, np.float32) * 2
    found = detected(outputs, anchors=doubled)
    assert [(each.width, each.height) for each in found[:1]] == [pytest.approx((64, 96), abs=0.2)]


@pytest.mark.parametrize("normalised", [True, False], ids=["normalised", "px"])
def test_end_to_end_rows_do_not_compete(normalised: bool) -> None:
    rows = np.zeros((1, 300, 6), np.float32)
    for number, (class_id, score, (x, y, width, height)) in enumerate(OBJECTS):
        corners = np.array([x - width / 2, y - height / 2, x + width / 2, y + height / 2])
        rows[0, number] = [*(corners / SIZE if normalised else corners), score, class_id]
    rows[0, 2] = [*rows[0, 0, :4], 0.5, OBJECTS[0][0]]
    found = detected({"output": rows})
    check(found[:2])
    assert found[2].score == 0.5


def test_masks_of_instance_segmentation_are_no_classes() -> None:
    rows = decoded(objectness=False, normalised=True)
    masks = np.random.default_rng(2).normal(0, 1, (len(rows), 32)).astype(np.float32)
    output = np.concatenate((rows, masks), axis=1).T[None].copy()
    check(detected({"output": output, "masks": np.zeros((1, 40, 40, 32), np.float32)}))


def test_as_many_channels_as_those_of_yolox_may_be_classes_and_masks() -> None:
    rows = np.zeros((1, GRIDS.cells, 4 + 49 + 32), np.float32)
    rows[0, 3, [0, 1, 2, 3, 4 + 48]] = 0.5, 0.5, 0.25, 0.25, 0.9
    (found,) = detected({"output": rows, "masks": np.zeros((1, 40, 40, 32), np.float32)})
    assert found.class_id == 48


def test_channels_beyond_the_names_are_no_classes() -> None:
    rows = decoded(objectness=False, normalised=True)
    keypoints = np.ones((len(rows), 51), np.float32)
    description = ModelDescription(exporter={"names": [f"name{number}" for number in range(CLASSES)]})
    check(detected({"output": np.concatenate((rows, keypoints), axis=1)[None]}, description=description))


def test_tiny_models_have_two_grids() -> None:
    grids = Grids(SIZE, SIZE, (16, 32))
    rows = np.zeros((1, 3 * grids.cells, 6), np.float32)
    rows[0, 7] = [0.5, 0.5, 0.25, 0.125, 0.9, 1.0]
    (found,) = detected({"output": rows})
    assert (*found.center, found.width, found.height) == pytest.approx((80, 80, 40, 20))


def test_boxes_of_different_classes_do_not_compete() -> None:
    rows = np.zeros((1, GRIDS.cells, 4 + CLASSES), np.float32)
    rows[0, 3, :4] = rows[0, 4, :4] = (0.5, 0.5, 0.2, 0.2)
    rows[0, 3, 4], rows[0, 4, 5] = 0.9, 0.8
    assert [each.class_id for each in detected({"output": rows})] == [0, 1]


def test_the_overlap_that_is_allowed_is_a_parameter() -> None:
    rows = np.zeros((1, GRIDS.cells, 4 + CLASSES), np.float32)
    rows[0, 3, :4], rows[0, 4, :4] = (0.5, 0.5, 0.2, 0.2), (0.6, 0.5, 0.2, 0.2)  # a third
    rows[0, 3:5, 4] = 0.9, 0.8
    assert len(detected({"output": rows}, iou_threshold=0.3)) == 1
    assert len(detected({"output": rows}, iou_threshold=0.4)) == 2


def test_values_that_are_no_probabilities_are_an_error() -> None:
    # In float these cannot be distinguished from boxes and 67 classes.
    output = np.concatenate(distributions(), axis=1)[None]
    with pytest.raises(
        OutputsError, match=r"expected probabilities in 'output'; got [\d.]+: give the model's labels"
    ):
        detected({"output": np.abs(output)})


def test_the_number_of_labels_tells_distributions_and_logits_in_one_output() -> None:
    output = np.concatenate(distributions(), axis=1)[None]
    check(detected({"output": output}, labels=[f"label {number}" for number in range(CLASSES)]), px=0.2)


def test_sixty_four_classes_are_no_distributions() -> None:
    scores = np.full((1, GRIDS.cells, 64), -128, np.int8)
    scores[0, 3, 40] = 127
    boxes = np.full((1, GRIDS.cells, 4), 0.25, np.float32)
    (found,) = detected({"scores": (scores, 1 / 256, -128), "boxes": boxes})
    assert (found.class_id, found.width) == (40, pytest.approx(40))


def test_the_score_of_distributions_is_at_most_1() -> None:
    scores = np.zeros((1, GRIDS.cells, CLASSES), np.uint8)
    scores[0, 3, 0] = 255
    outputs = {"boxes": np.zeros((1, GRIDS.cells, 64), np.float32), "scores": (scores, 1 / 251, 0)}
    assert [each.score for each in detected(outputs)] == [1.0]


def test_a_score_is_at_most_1() -> None:
    rows = np.zeros((1, GRIDS.cells, 4 + CLASSES), np.float32)
    rows[0, 3, :5] = (0.5, 0.5, 0.2, 0.2, 1.02)
    assert [each.score for each in detected({"output": rows})] == [1.0]


def test_a_box_that_is_no_number_does_not_affect_others() -> None:
    rows = decoded(objectness=False, normalised=True)
    rows[200] = [np.nan, np.inf, 0.1, 0.1, 0.99, *[0] * (CLASSES - 1)]
    check(detected({"output": rows[None]}))


def test_a_frame_full_of_boxes_is_limited() -> None:
    rows = np.zeros((1, GRIDS.cells, 4 + CLASSES), np.float32)
    rows[0, :, :2] = (GRIDS.corners() + 0.5) * GRIDS.cell_strides()[:, None] / SIZE
    rows[0, :, 2:4] = 0.01
    rows[0, :, 4] = np.linspace(0.5, 0.9, GRIDS.cells)
    found = detected({"output": rows}, max_results=20)
    assert len(found) == 20
    assert found[0].score == pytest.approx(0.9)


def test_rows_of_yolox_are_no_boxes_and_81_classes() -> None:
    rows = np.zeros((1, GRIDS.cells, 85), np.float32)
    rows[0, 3, :6] = 0.5, 0.5, 1.2, 0.8, 0.9, 0.95  # place in the cell, log of the size, objectness, class
    message = r"boxes and classes; got 81 channels after the box in 'output' .*\[1, 525, 85\]: .* YOLOX"
    for labels in (None, "coco"):
        with pytest.raises(ModelUnsupportedError, match=message):
            detected({"output": rows}, labels=labels)
    named = [f"name {number}" for number in range(81)]
    assert [each.class_id for each in detected({"output": rows}, labels=named)] == [1]


def test_too_few_labels_are_refused() -> None:
    with pytest.raises(LabelsError, match="expected 7 labels"):
        detected({"output": decoded(objectness=False, normalised=True)[None]}, labels=["a", "b"])


def test_a_head_that_does_not_fit_is_refused() -> None:
    with pytest.raises(ModelUnsupportedError, match="the head 'yolov5', for an input of 160x160 px; got"):
        detected({"output": decoded(objectness=False, normalised=True)[None]}, head="yolov5")


def test_a_model_file_finds_its_objects(tmp_path: Path) -> None:
    pytest.importorskip("ai_edge_litert", reason="needs LiteRT")
    boxes = [(1, 0.9, (0.5, 0.25, 0.2, 0.3)), (0, 0.5, (0.75, 0.75, 0.5, 0.4))]
    (tmp_path / "yolo.tflite").write_bytes(yolo_graph(boxes, classes=3))
    detector = Detector(tmp_path / "yolo.tflite", labels=["cat", "dog", "cow"], fit="stretch")
    first, second = detector.update(np.zeros((100, 200, 3), np.uint8)).detections
    assert (first.label, second.label) == ("dog", "cat")
    assert first.score == pytest.approx(0.9, abs=0.002)
    assert (*first.center, first.width, first.height) == pytest.approx((100, 25, 40, 30), abs=0.5)
    assert (second.x_min, second.x_max) == pytest.approx((100, 200), abs=0.5)

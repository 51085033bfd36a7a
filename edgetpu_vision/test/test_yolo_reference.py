"""YOLO decoders against plain float64 code from the published definitions, on random quantised outputs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from edgetpu_vision import Detector
from testdata.graphs import yolo_reference
from testdata.graphs.yolo_reference import PlainBox, Real
from testdata.pictures.fixed_outputs import FixedOutputs

OVERLAP = 0.4637
"""No two boxes on a grid of quantised coordinates overlap by exactly so much."""
MOST = 100
SIZES = [(160, 160), (96, 256), (320, 224)]
"""Height and width of the input, px."""
CLASSES = [1, 3, 20, 80]
SIZES_AND_CLASSES = [*zip(SIZES, CLASSES[:3], strict=True), (SIZES[0], CLASSES[3])]
"""Each size and each number of classes: neither changes what the other does."""
DTYPES = [np.int8, np.uint8]
Quantised = tuple[NDArray[Any], float, int]


def quantised(values: Real, dtype: Any) -> Quantised:
    """In 8 bits: one scale for the whole output, from its least to its greatest value, 0 among them."""
    low, high = min(float(values.min()), 0.0), max(float(values.max()), 0.0)
    limits = np.iinfo(dtype)
    scale = float(np.float32((high - low) / 255))
    zero_point = round(limits.min - low / scale)
    numbers = np.clip(np.rint(values / scale + zero_point), limits.min, limits.max)
    return numbers.astype(dtype), scale, zero_point


def real(output: Quantised) -> Real:
    numbers, scale, zero_point = output
    values: Real = (numbers.astype(np.float64) - zero_point) * scale
    return values


def between(output: Quantised, wanted: float) -> float:
    """A threshold in the middle between two values that a quantised output can have."""
    _, scale, _ = output
    return float((np.floor(wanted / scale) + 0.5) * scale)


def check(
    outputs: dict[str, Any], expected: Iterator[PlainBox], size: tuple[int, int], least: float, **options: Any
) -> None:
    """The suite finds the same classes with the same scores in the same places, and nothing else."""
    height, width = size
    objects = yolo_reference.objects(expected, least, OVERLAP, MOST, height, width)
    detector = Detector(
        FixedOutputs(height, width, outputs),
        min_confidence=least,
        iou_threshold=OVERLAP,
        max_results=MOST,
        **options,
    )
    found = detector.update(np.zeros((2 * height, 2 * width, 3), np.uint8)).detections
    assert len(objects) > 5
    assert len(found) == len(objects)
    scores = [each.score for each in found]
    assert scores == sorted(scores, reverse=True)
    rows = np.array(
        [(each.class_id, each.score, each.x_min, each.y_min, each.x_max, each.y_max) for each in found]
    )
    wanted = np.array([(each.class_id, each.score, *(2 * np.array(each.corners))) for each in objects])
    # Objects with the same score may come in either order.
    wrong = np.abs(wanted[:, None] - rows) > (0, 2e-6, 2e-3, 2e-3, 2e-3, 2e-3)
    numbers = np.argmin(wrong.sum(axis=2), axis=1)
    assert sorted(numbers) == list(range(len(objects)))
    np.testing.assert_array_equal(rows[numbers, 0], wanted[:, 0])
    np.testing.assert_allclose(rows[numbers, 1], wanted[:, 1], rtol=0, atol=2e-6)
    np.testing.assert_allclose(rows[numbers, 2:], wanted[:, 2:], rtol=0, atol=2e-3)


def random_rows(count: int, classes: int, objectness: bool, seed: int) -> Real:
    """Rows as exported models give them: boxes anywhere, most of them of low scores."""
    rng = np.random.default_rng(seed)
    centres, sizes = rng.uniform(0, 1, (count, 2)), rng.uniform(0.05, 0.5, (count, 2))
    scores = rng.uniform(0, 1, (count, classes)) ** 3
    factor = rng.uniform(0, 1, (count, 1)) ** 4
    columns = (centres, sizes, factor, scores) if objectness else (centres, sizes, factor * scores)
    rows: Real = np.concatenate(columns, axis=1)
    return rows


def cells_of(size: tuple[int, int]) -> int:
    return sum(rows * columns for rows, columns in yolo_reference.grid_sizes(*size))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("transposed", [False, True], ids=["channels last", "channels first"])
@pytest.mark.parametrize("objectness", [True, False], ids=["yolov5", "yolov8"])
@pytest.mark.parametrize(("size", "classes"), SIZES_AND_CLASSES, ids=str)
def test_rows_with_boxes_as_parts_of_the_image(
    size: tuple[int, int], classes: int, objectness: bool, transposed: bool, dtype: Any
) -> None:
    count = cells_of(size) * (3 if objectness else 1)
    output = quantised(random_rows(count, classes, objectness, seed=classes), dtype)
    decode = yolo_reference.rows_with_objectness if objectness else yolo_reference.rows_without_objectness
    expected = decode(real(output), (size[1], size[0]))
    numbers = output[0].T.copy() if transposed else output[0]
    check({"output": (numbers[None], *output[1:])}, expected, size, between(output, 0.3))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("transposed", [False, True], ids=["channels last", "channels first"])
@pytest.mark.parametrize("in_px", [False, True], ids=["normalised", "px"])
@pytest.mark.parametrize(("size", "classes"), zip(SIZES, [80, 20, 1], strict=True), ids=str)
def test_boxes_and_probabilities_in_two_outputs(
    size: tuple[int, int], classes: int, in_px: bool, transposed: bool, dtype: Any
) -> None:
    rows = random_rows(cells_of(size), classes, objectness=False, seed=classes)
    unit = (size[1], size[0]) if in_px else (1, 1)
    boxes = quantised(rows[:, :4] * (*unit, *unit), dtype)
    scores = quantised(rows[:, 4:], dtype)
    expected = yolo_reference.rows_without_objectness(
        np.concatenate((real(boxes), real(scores)), axis=1), (1, 1) if in_px else (size[1], size[0])
    )
    outputs = {
        name: (np.ascontiguousarray(each[0].T if transposed else each[0])[None], *each[1:])
        for name, each in (("scores", scores), ("boxes", boxes))
    }
    check(outputs, expected, size, between(scores, 0.3))


@pytest.mark.parametrize("in_px", [False, True], ids=["normalised", "px"])
@pytest.mark.parametrize("transposed", [False, True], ids=["channels last", "channels first"])
@pytest.mark.parametrize("objectness", [True, False], ids=["yolov5", "yolov8"])
def test_rows_in_float_are_decoded_as_by_the_definition(
    objectness: bool, transposed: bool, in_px: bool
) -> None:
    size = SIZES[1]
    count = cells_of(size) * (3 if objectness else 1)
    rows = random_rows(count, 7, objectness, seed=3)
    unit = (size[1], size[0]) if in_px else (1, 1)
    rows[:, :4] *= (*unit, *unit)
    rows = rows.astype(np.float32).astype(np.float64)
    decode = yolo_reference.rows_with_objectness if objectness else yolo_reference.rows_without_objectness
    expected = decode(rows, (1, 1) if in_px else (size[1], size[0]))
    output = (rows.T if transposed else rows)[None].astype(np.float32)
    check({"output": np.ascontiguousarray(output)}, expected, size, 0.3)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("channels_first", [False, True])
@pytest.mark.parametrize(("size", "classes"), zip(2 * SIZES[:2], CLASSES, strict=True), ids=str)
def test_maps_of_anchors_are_decoded_as_by_the_definition(
    size: tuple[int, int], classes: int, channels_first: bool, dtype: Any
) -> None:
    rng = np.random.default_rng(classes)
    outputs: dict[str, Any] = {}
    maps = []
    for number, (rows, columns) in enumerate(yolo_reference.grid_sizes(*size)):
        logits = rng.normal(0, 1.5, (rows, columns, 3, 5 + classes))
        logits[..., 4] -= 2.5
        output = quantised(logits, dtype)
        maps.append(real(output))
        channels = output[0].reshape(1, rows, columns, -1)
        if channels_first:
            channels = np.ascontiguousarray(channels.transpose(0, 3, 1, 2))
        outputs[f"grid{number}"] = (channels, *output[1:])
    check(outputs, yolo_reference.anchor_maps(maps), size, 0.3, head="yolov5")


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("channels_first", [False, True])
@pytest.mark.parametrize(("size", "classes"), SIZES_AND_CLASSES, ids=str)
def test_maps_of_distributions_are_decoded_as_by_the_definition(
    size: tuple[int, int], classes: int, channels_first: bool, dtype: Any
) -> None:
    rng = np.random.default_rng(classes)
    outputs: dict[str, Any] = {}
    boxes, logits = [], []
    for number, (rows, columns) in enumerate(yolo_reference.grid_sizes(*size)):
        of_boxes = quantised(rng.normal(0, 2, (rows, columns, 64)), dtype)
        of_classes = quantised(rng.normal(-4, 2, (rows, columns, classes)), dtype)
        boxes.append(real(of_boxes))
        logits.append(real(of_classes))
        for name, (numbers, scale, zero_point) in (("cls", of_classes), ("reg", of_boxes)):
            layout = numbers.transpose(2, 0, 1) if channels_first else numbers
            outputs[f"{name}{number}"] = (np.ascontiguousarray(layout)[None], scale, zero_point)
    check(outputs, yolo_reference.distribution_maps(boxes, logits), size, 0.3)

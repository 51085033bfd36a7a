"""The segmenter: label maps and maps of values, as labels of the pixels of the image."""

from __future__ import annotations

from typing import Any

import cv2
import numpy as np
import pytest
from numpy.typing import NDArray

from edgetpu_driver.errors import ModelUnsupportedError
from edgetpu_driver.images.region import Region
from edgetpu_vision import LabelsError, ModelDescription, OutputsError, Segmenter
from edgetpu_vision.segmentation.label_maps_from_scores import resized_labels
from testdata import GOLDEN
from testdata.pictures.fixed_outputs import FixedOutputs, fixed, spec

IMAGE = np.zeros((16, 16, 3), np.uint8)
QUARTERS = np.repeat(np.repeat(np.array([[0, 1], [2, 3]]), 4, axis=0), 4, axis=1)
"""Labels of four quarters, [8, 8]."""


def segmented(values: NDArray[Any], tensor: Any, image: NDArray[np.uint8] = IMAGE, **options: Any) -> Any:
    return Segmenter(fixed({tensor: values.astype(tensor.dtype)}), **options).update(image, 3.0)


def enlarged(labels: NDArray[Any], factor: int) -> NDArray[Any]:
    return np.repeat(np.repeat(labels, factor, axis=0), factor, axis=1)


@pytest.mark.parametrize("dtype", [np.uint8, np.int32, np.int64])
@pytest.mark.parametrize("shape", [(1, 8, 8), (1, 8, 8, 1)], ids=str)
def test_a_label_map_gets_the_size_of_the_image(dtype: Any, shape: tuple[int, ...]) -> None:
    result = segmented(QUARTERS.reshape(shape), spec("labels", shape, dtype))
    assert (result.stamp, result.labels.dtype) == (3.0, np.uint8)
    np.testing.assert_array_equal(result.labels, enlarged(QUARTERS, 2))


@pytest.mark.parametrize(
    "size", [(480, 640), (353, 481), (720, 1280), (513, 513), (600, 300), (1, 1)], ids=str
)
@pytest.mark.parametrize("dtype", [np.uint8, np.uint16])
def test_labels_are_resized_as_opencv_does(size: tuple[int, int], dtype: Any) -> None:
    labels = np.random.default_rng(0).integers(0, 256, (513, 257)).astype(dtype)
    expected = cv2.resize(labels, size[::-1], interpolation=cv2.INTER_NEAREST)
    np.testing.assert_array_equal(resized_labels(labels, *size), expected)


@pytest.mark.parametrize("tensor", [spec("l", (1, 8, 8), np.int32), spec("v", (1, 8, 8, 4))], ids=str)
def test_a_map_of_another_size_is_an_error(tensor: Any) -> None:
    segmenter = Segmenter(fixed({tensor: np.zeros(tensor.shape, tensor.dtype)}))
    with pytest.raises(OutputsError, match=rf"expected '{tensor.name}' .*; got {tensor.dtype}\[5, 5\]"):
        segmenter.postprocess(segmenter.preprocess(IMAGE), {tensor.name: np.zeros((5, 5), tensor.dtype)})


def test_labels_may_have_the_scale_of_integers() -> None:
    result = segmented(QUARTERS[None], spec("labels", (1, 8, 8), np.uint8, 1.0, 0))
    np.testing.assert_array_equal(result.labels, enlarged(QUARTERS, 2))


def test_the_greatest_value_is_the_label() -> None:
    values = np.eye(4)[QUARTERS][None] - 0.5
    np.testing.assert_array_equal(segmented(values, spec("v", (1, 8, 8, 4))).labels, enlarged(QUARTERS, 2))


@pytest.mark.parametrize("side", [8, 2], ids=["fine", "coarse"])
def test_the_values_of_each_class_may_lie_one_after_the_other(side: int) -> None:
    values = np.random.default_rng(0).uniform(size=(1, side, side, 5)).astype(np.float32)
    expected = segmented(values, spec("values", values.shape)).labels
    first = values.transpose(0, 3, 1, 2)
    np.testing.assert_array_equal(segmented(first, spec("values", first.shape)).labels, expected)


def test_labels_may_have_an_axis_for_channels_before_the_rows() -> None:
    result = segmented(QUARTERS.reshape(1, 1, 8, 8), spec("labels", (1, 1, 8, 8), np.int32))
    np.testing.assert_array_equal(result.labels, enlarged(QUARTERS, 2))


def test_quantised_values_are_compared_as_they_are() -> None:
    values = np.eye(4)[QUARTERS][None] * 100 - 50
    result = segmented(values, spec("v", (1, 8, 8, 4), np.int8, 0.1, 5))
    np.testing.assert_array_equal(result.labels, enlarged(QUARTERS, 2))


def test_coarse_values_are_interpolated_before_they_are_compared() -> None:
    values = np.zeros((1, 2, 2, 2))
    values[0, :, :, 1] = [[-1, 3], [-1, 3]]
    result = segmented(values, spec("v", (1, 2, 2, 2)))
    line = cv2.resize(np.array([[-1, 3]], np.float32), (8, 1))[0]
    expected = np.tile(line > 0, (8, 1)).astype(np.uint8)
    assert expected.sum() not in (0, 32, 64)  # the boundary is not that of the coarse map
    np.testing.assert_array_equal(result.labels, enlarged(expected, 2))


def test_a_single_probability_separates_two_classes() -> None:
    values = np.where(QUARTERS == 3, 0.5, 0.25)[None, :, :, None]
    result = segmented(values, spec("v", (1, 8, 8, 1)))
    np.testing.assert_array_equal(result.labels, enlarged(QUARTERS == 3, 2))


@pytest.mark.parametrize("dtype", [np.float32, np.int8])
def test_a_single_value_needs_no_axis_for_channels(dtype: Any) -> None:
    values = np.where(QUARTERS == 3, 7, -7)[None]
    tensor = spec("v", (1, 8, 8), dtype, 0.0 if dtype == np.float32 else 0.1, 0)
    np.testing.assert_array_equal(segmented(values, tensor).labels, enlarged(QUARTERS == 3, 2))


@pytest.mark.parametrize("shape", [(1, 8, 8, 4), (1, 2, 2, 4), (1, 8, 8, 1)], ids=str)
def test_values_that_are_no_numbers_are_an_error(shape: tuple[int, ...]) -> None:
    values = np.zeros(shape, np.float32)
    values[0, 1, 1, 0] = np.nan
    with pytest.raises(OutputsError, match=r"expected numbers in the output 'v' float32.*; got NaN"):
        segmented(values, spec("v", shape))


def test_infinity_may_be_the_greatest_value() -> None:
    values = np.where(np.eye(4)[QUARTERS] > 0, np.inf, -np.inf)[None]
    np.testing.assert_array_equal(segmented(values, spec("v", (1, 8, 8, 4))).labels, enlarged(QUARTERS, 2))


def test_a_single_quantised_logit_separates_two_classes() -> None:
    values = np.where(QUARTERS == 3, 7, 6)[None, :, :, None]
    result = segmented(values, spec("v", (1, 8, 8, 1), np.int8, 0.1, 7))
    np.testing.assert_array_equal(result.labels, enlarged(QUARTERS == 3, 2))


@pytest.mark.parametrize("size", [(301, 499), (97, 479), (479, 97), (1, 31), (211, 211)], ids=str)
@pytest.mark.parametrize("cells", [33, 65, 255])
def test_coarse_labels_of_a_letterboxed_image_are_where_the_model_sees_it(
    cells: int, size: tuple[int, int]
) -> None:
    """Each pixel has the label of the cell in which its edge lies, which need not begin at a pixel."""
    height, width = size
    numbers = np.arange(cells * cells).reshape(1, cells, cells)
    outputs = {"labels": numbers.astype(np.int32)}
    segmenter = Segmenter(FixedOutputs(513, 513, outputs), fit="letterbox")
    image = np.zeros((height + 20, width + 30), np.uint8)
    segmenter.region = Region(30, 20, width, height)
    filled = [min(max(round(each * 513 / max(size)), 1), 513) for each in size]
    places = [
        ((513 - part) // 2 + np.arange(each) * part / each) * (cells / 513)
        for part, each in zip(filled, size, strict=True)
    ]
    rows, columns = (np.floor(each).astype(int) for each in places)
    expected = rows[:, None] * cells + columns
    np.testing.assert_array_equal(segmenter.update(image).labels[20:, 30:], expected)


def test_bars_next_to_a_letterboxed_image_have_no_labels_in_it() -> None:
    labels = np.tile(np.arange(8)[:, None], (1, 8))[None]
    wide = np.zeros((8, 16, 3), np.uint8)  # rows 2..5 of the input
    result = segmented(labels, spec("labels", (1, 8, 8), np.uint8), wide, fit="letterbox")
    np.testing.assert_array_equal(result.labels, np.repeat([2, 3, 4, 5], 2)[:, None].repeat(16, axis=1))


def test_pixels_outside_the_region_are_0() -> None:
    segmenter = Segmenter(fixed({spec("labels", (1, 8, 8), np.uint8): np.full((1, 8, 8), 5, np.uint8)}))
    segmenter.region = Region(4, 2, 8, 6)
    labels = segmenter.update(IMAGE).labels
    assert labels.shape == (16, 16)
    assert (labels[2:8, 4:12] == 5).all()
    assert labels.sum() == 5 * 6 * 8


@pytest.mark.parametrize("shape", [(1, 8, 8), (1, 8, 8, 1)], ids=str)
def test_labels_in_float_are_known_by_the_graph(shape: tuple[int, ...]) -> None:
    description = ModelDescription(class_counts={"labels": 4})
    result = segmented(QUARTERS.reshape(shape), spec("labels", shape), description=description)
    assert result.labels.dtype == np.uint8
    np.testing.assert_array_equal(result.labels, enlarged(QUARTERS, 2))


def test_labels_may_be_quantised_like_other_numbers() -> None:
    """An argmax that is cast to float before a model is converted to 8 bits."""
    tensor = spec("labels", (1, 8, 8), np.int8, 20 / 255, -128)
    result = segmented(
        np.rint(QUARTERS[None] / tensor.scale) - 128,
        tensor,
        description=ModelDescription(class_counts={"labels": 21}),
    )
    np.testing.assert_array_equal(result.labels, enlarged(QUARTERS, 2))


def test_more_than_256_classes_take_16_bits() -> None:
    labels = np.full((1, 8, 8), 300)
    assert segmented(labels, spec("labels", (1, 8, 8), np.int32)).labels[0, 0] == 300


def test_labels_that_are_no_classes_are_an_error() -> None:
    with pytest.raises(OutputsError, match=r"expected labels from 0 to 65535 in 'labels'; got -1..-1"):
        segmented(np.full((1, 8, 8), -1), spec("labels", (1, 8, 8), np.int32))


def test_names_are_those_of_the_labels() -> None:
    names = ["sky", "ground", "tree", "house"]
    assert segmented(QUARTERS[None], spec("l", (1, 8, 8), np.uint8), labels=names).names == tuple(names)


def test_labels_must_be_as_many_as_the_graph_compares() -> None:
    description = ModelDescription(class_counts={"l": 21})
    with pytest.raises(LabelsError, match=r"expected 21 labels.*; got 2"):
        segmented(QUARTERS[None], spec("l", (1, 8, 8), np.int64), labels=["a", "b"], description=description)


@pytest.mark.parametrize("shape", [(16, 24), (8, 12)], ids=str)
def test_pixels_may_be_one_axis(shape: tuple[int, int]) -> None:
    """As image-segmentation-keras has them."""
    labels = np.arange(shape[0] * shape[1]).reshape(shape) // shape[1] % 3
    tensor = spec("pixels", (1, labels.size, 3))
    model = fixed({tensor: np.eye(3, dtype=np.float32)[labels].reshape(tensor.shape)}, (16, 24))
    found = Segmenter(model).update(np.zeros((16, 24, 3), np.uint8)).labels
    np.testing.assert_array_equal(found, enlarged(labels, 16 // shape[0]))


def test_a_tall_label_map_is_no_list_of_pixels() -> None:
    labels = np.arange(64 * 16).reshape(1, 64, 16) % 7
    model = fixed({spec("labels", labels.shape, np.int32): labels.astype(np.int32)}, (64, 16))
    found = Segmenter(model).update(np.zeros((64, 16, 3), np.uint8)).labels
    np.testing.assert_array_equal(found, labels[0])


def test_a_model_without_a_map_is_refused() -> None:
    with pytest.raises(ModelUnsupportedError, match=r"a map of labels.*; got 'p' float32\[1, 5\]"):
        segmented(np.zeros((1, 5)), spec("p", (1, 5)))


@pytest.mark.parametrize("output", ["", "poses"])
def test_keypoints_are_no_map(output: str) -> None:
    outputs = {"poses": np.zeros((1, 20, 17, 2), np.float32), "scores": np.zeros((1, 20, 17), np.int32)}
    with pytest.raises(
        ModelUnsupportedError, match=r"a map .* for an input of 481x353 px; got .*scores[^;]*$"
    ):
        Segmenter(FixedOutputs(353, 481, outputs), output=output)


def test_deeplab_finds_the_bird() -> None:
    pytest.importorskip("ai_edge_litert", reason="needs LiteRT")
    model = GOLDEN.path("models/deeplabv3_mnv2_pascal_quant.tflite")
    picture, mask = (
        cv2.imread(str(GOLDEN.path(f"vision/pictures/bird_segmentation{end}.bmp")), cv2.IMREAD_UNCHANGED)
        for end in ("", "_mask")
    )
    result = Segmenter(model, labels="pascal_voc").update(cv2.cvtColor(picture, cv2.COLOR_BGR2RGB))
    bird, truth = result.labels == result.names.index("bird"), mask == 3
    assert (bird & truth).sum() / (bird | truth).sum() > 0.9

"""PosenetDecoderOp: its options, its inputs and its outputs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from edgetpu_driver.engines.cpu_operators.pose_masks import pose_distances
from edgetpu_driver.engines.cpu_operators.posenet_decoder import Field
from edgetpu_driver.engines.cpu_operators.posenet_operator import (
    CUSTOM_CODE,
    PosenetOperator,
    PosenetOptions,
)
from edgetpu_driver.errors import InputError, ModelFormatError
from edgetpu_driver.tflite import flexbuffer
from edgetpu_driver.tflite.model_reader import parse_model
from edgetpu_driver.tflite.tensor import TensorSpec
from testdata import ModelFolder
from testdata.pictures.posenet_maps import STRIDE, maps, person, quantised

OPTIONS: dict[str, flexbuffer.Value] = {
    "max_detections": 3,
    "score_threshold": 0.25,
    "stride": STRIDE,
    "nms_radius": 10.0,
}
HEIGHT, WIDTH = 20, 31


def specs_and_tensors(fields: tuple[Field, ...]) -> tuple[list[TensorSpec], list[Any]]:
    tensors = [field.values[None] for field in fields]
    specs = [
        TensorSpec(f"map {index}", tensor.shape, tensor.dtype, field.scale, field.zero_point)
        for index, (field, tensor) in enumerate(zip(fields, tensors, strict=True))
    ]
    return specs, tensors


def quantised_maps(*people: Any) -> tuple[Field, Field, Field]:
    heat, short, mid = maps(HEIGHT, WIDTH, people)
    return quantised(heat, 0.09, 180), quantised(short, 0.7, 134), quantised(mid, 1.5, 118)


def long_offsets(*people: Any) -> Field:
    """Each cell points at the person whose nose is nearest along x."""
    cells = STRIDE * np.moveaxis(np.mgrid[:HEIGHT, :WIDTH], 0, -1).astype(float)
    apart = np.stack([np.abs(cells[:, :, 1] - pose[0, 1]) for pose in people])
    owner = np.array(people)[apart.argmin(axis=0)]
    offsets = (owner - cells[:, :, None]).transpose(0, 1, 3, 2).reshape(HEIGHT, WIDTH, -1)
    return Field(offsets.astype(np.float32))


def test_the_options_are_read() -> None:
    assert PosenetOptions.read(flexbuffer.encode(OPTIONS)) == PosenetOptions(3, 0.25, 16.0, 10.0)


def test_the_options_of_a_real_model_are_read(golden: ModelFolder) -> None:
    path = golden.model("posenet_mobilenet_v1_075_353_481_16_quant_decoder.tflite")
    operator = parse_model(path.read_bytes()).subgraphs[0].operators[-1]
    assert operator.custom_code == CUSTOM_CODE
    assert PosenetOptions.read(operator.custom_options) == PosenetOptions(
        20, pytest.approx(0.2, abs=1e-6), 16.0, 10.0
    )


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"stride": 0}, "expected stride of 1 to 1024; got 0"),
        ({"max_detections": None}, "expected max_detections of 1 to 1000; got None"),
        ({"max_detections": 10**9}, "expected max_detections of 1 to 1000; got 1000000000"),
        ({"score_threshold": float("nan")}, "expected score_threshold of 1e-06 to 0.999999; got nan"),
        ({"nms_radius": b"10"}, "expected nms_radius of 0 to 1e"),
    ],
)
def test_an_option_out_of_range_is_refused(changed: dict[str, flexbuffer.Value], message: str) -> None:
    with pytest.raises(ModelFormatError, match=message):
        PosenetOptions.read(flexbuffer.encode({**OPTIONS, **changed}))


def test_options_that_are_no_map_are_refused() -> None:
    with pytest.raises(ModelFormatError, match="expected a map of options; got list"):
        PosenetOptions.read(flexbuffer.encode([1, 2]))


def make_operator(fields: tuple[Field, ...], outputs: int = 4) -> tuple[PosenetOperator, list[Any]]:
    specs, tensors = specs_and_tensors(fields)
    return PosenetOperator(flexbuffer.encode(OPTIONS), specs, outputs), tensors


def test_the_outputs_have_the_shapes_announced() -> None:
    operator, tensors = make_operator(quantised_maps(person(50, 200)))
    outputs = operator.run(tensors)
    assert operator.output_shapes == ((1, 3, 17, 2), (1, 3, 17), (1, 3), (1,))
    assert tuple(output.shape for output in outputs) == operator.output_shapes
    assert {output.dtype for output in outputs} == {np.dtype(np.float32)}


def test_the_scale_of_each_input_comes_from_its_spec() -> None:
    pose = person(50, 200)
    operator, tensors = make_operator(quantised_maps(pose))
    poses, _, _, count = operator.run(tensors)
    assert count[0] == 1
    np.testing.assert_allclose(poses[0, 0], pose, atol=0.7)


def test_inputs_that_are_not_quantised_are_real_values() -> None:
    pose = person(50, 200)
    specs, tensors = specs_and_tensors(maps(HEIGHT, WIDTH, [pose]))
    unscaled = [TensorSpec(spec.name, spec.shape, spec.dtype, 0.0, 0) for spec in specs]
    operator = PosenetOperator(flexbuffer.encode(OPTIONS), unscaled, 4)
    np.testing.assert_allclose(operator.run(tensors)[0][0, 0], pose, atol=1e-3)


def test_masks_say_whose_each_cell_is() -> None:
    left, right = person(50, 100), person(50, 300)
    operator, tensors = make_operator((*quantised_maps(left, right), long_offsets(left, right)), outputs=5)
    outputs = operator.run(tensors)
    masks, poses = outputs[4], outputs[0][0]
    assert masks.shape == operator.output_shapes[4] == (1, 3, HEIGHT, WIDTH)
    on_the_left = np.broadcast_to(np.arange(WIDTH) * STRIDE <= 200, (HEIGHT, WIDTH))
    first = on_the_left if poses[0, 0, 1] < 200 else ~on_the_left
    np.testing.assert_array_equal(masks[0], [first, ~first, np.zeros((HEIGHT, WIDTH))])


def test_without_a_pose_no_cell_is_anybodys() -> None:
    heat, short, mid = maps(HEIGHT, WIDTH, [person(50, 200)])
    nobody = Field(np.full_like(heat.values, -5.0))
    operator, tensors = make_operator((nobody, short, mid, long_offsets(person(50, 200))), outputs=5)
    assert not operator.run(tensors)[4].any()


def test_a_cell_is_as_far_from_a_pose_as_the_keypoints_it_points_at() -> None:
    pose, apart = person(50, 200).astype(np.float32), np.array([3, 4], np.float32)
    distances = pose_distances(np.stack([pose, pose + apart]), long_offsets(pose), STRIDE)
    np.testing.assert_allclose(distances[0], np.zeros((HEIGHT, WIDTH)), atol=1e-4)
    np.testing.assert_allclose(distances[1], np.full((HEIGHT, WIDTH), 5.0), atol=1e-4)


def test_distances_from_a_map_of_another_shape_are_refused() -> None:
    heat = quantised_maps(person(50, 100))[0]
    with pytest.raises(InputError, match=r"long offsets: expected \[height, width, 34\]; got \[20, 31, 17\]"):
        pose_distances(np.zeros((1, 17, 2), np.float32), heat, STRIDE)


@pytest.mark.parametrize(
    ("inputs", "outputs", "message"),
    [
        (2, 4, "expected 3 inputs; got 2"),
        (3, 5, "expected 4 inputs; got 3"),
        (3, 3, "expected 4 outputs, or 5 with masks; got 3"),
    ],
)
def test_another_number_of_tensors_is_refused(inputs: int, outputs: int, message: str) -> None:
    with pytest.raises(ModelFormatError, match=message):
        make_operator(quantised_maps(person(50, 200))[:inputs], outputs)


def test_an_input_of_another_shape_is_refused() -> None:
    heat, short, mid = quantised_maps(person(50, 200))
    message = r"expected short-range offsets \[1, height, width, 34\], as large .*; got \[1, 20, 31, 64\]"
    with pytest.raises(ModelFormatError, match=message):
        make_operator((heat, mid, short))


def test_masks_that_would_fill_the_memory_are_refused() -> None:
    options = flexbuffer.encode(OPTIONS | {"max_detections": 1000})
    channels = (17, 34, 64, 34)
    specs = [TensorSpec(f"map {each}", (1, 200, 200, each), np.dtype(np.uint8), 1.0, 0) for each in channels]
    with pytest.raises(ModelFormatError, match="masks of at most 33554432 cells; got 1000 of 200x200"):
        PosenetOperator(options, specs, 5)

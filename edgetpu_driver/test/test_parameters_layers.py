"""Layouts of convolutions, depthwise convolutions, coordinate rows and routing rows, byte by byte."""

from __future__ import annotations

import json

import numpy as np
import pytest
from numpy.typing import NDArray

from edgetpu_driver.darwinn.parameters.depthwise_layout import depthwise_layout
from edgetpu_driver.darwinn.parameters.layer_layout import (
    HeaderRows,
    LayerLayout,
    convolution_layout,
    matrix_layout,
)
from edgetpu_driver.darwinn.parameters.routing_layout import RoutingLayout
from edgetpu_driver.errors import InputError, ModelFormatError, ModelUnsupportedError
from testdata import ModelFolder

SCALES = HeaderRows(zero_points=True)

SECTIONS = [
    convolution_layout((1, 1, 1, 3)),
    convolution_layout((1, 3, 3, 1)),
    convolution_layout((1, 16, 16, 3)),
    convolution_layout((1, 32, 32, 1)),
    matrix_layout((1, 256)),
    depthwise_layout((1, 7, 7, 8), 1, SCALES),
    depthwise_layout((1, 3, 3, 16), 1, SCALES),
]


def encoded(section: LayerLayout, weights: NDArray[np.int8]) -> NDArray[np.uint8]:
    blob = np.full(section.size, 0x55, np.uint8)
    section.encode_header(blob)
    section.encode(weights, blob)
    return blob


def test_colour_filter_is_one_cell() -> None:
    weights = np.array([127, -64, -64], np.int8).reshape(1, 1, 1, 3)
    blob = encoded(convolution_layout((1, 1, 1, 3)), weights)
    assert blob.tobytes() == bytes([0xFF, 0x40, 0x40]) + b"\x80" * 13 + b"\0" * 48


def test_3x3_kernel_is_nine_cells_filled_up_to_64_bytes() -> None:
    weights = np.arange(-4, 5, dtype=np.int8).reshape(1, 3, 3, 1)
    blob = encoded(convolution_layout((1, 3, 3, 1)), weights)
    assert blob.size == 192
    np.testing.assert_array_equal(blob[:144:16], np.arange(0x7C, 0x85))
    np.testing.assert_array_equal(blob[:144].reshape(9, 16)[:, 1:], np.full((9, 15), 0x80))
    np.testing.assert_array_equal(blob[144:], np.zeros(48))


@pytest.mark.parametrize("name", ["pattern_64x64_8x8_1ch", "pattern_64x64_16x16_1ch"])
def test_kernel_weights_lie_where_pattern_models_have_them(golden: ModelFolder, name: str) -> None:
    sidecar = json.loads(golden.model(f"{name}_edgetpu.json").read_text())
    shape = tuple(sidecar[key] for key in ("kernel_height", "kernel_width", "channels"))
    layout = convolution_layout((1, *shape))
    assert layout.weight_offsets.reshape(-1).tolist() == sidecar["conv_weight_offsets"]


def test_cells_of_a_32x32_kernel_lie_64_bytes_apart() -> None:
    assert int(convolution_layout((1, 32, 32, 1)).weight_offsets.max()) == 65_472


def test_coordinate_row_holds_four_weights_in_every_64_bytes() -> None:
    weights = np.arange(8, dtype=np.int8).reshape(1, 8)
    blob = encoded(matrix_layout((1, 8)), weights)
    rows = [bytes(range(0x80 + start, 0x84 + start)) + b"\x80" * 12 + b"\0" * 48 for start in (0, 4)]
    assert blob.tobytes() == b"".join(rows)


def test_depthwise_layer_has_zero_points_and_a_row_per_kernel_position() -> None:
    weights = np.arange(-8, 8, dtype=np.int8).reshape(1, 1, 2, 8)
    blob = encoded(depthwise_layout((1, 1, 2, 8), 1, SCALES), weights)
    header = np.array([128] * 8 + [0] * 8, "<i4").tobytes()
    rows = [
        b"".join(bytes([value, 0x80, 0x80, 0x80]) for value in range(start, start + 8)) + b"\0" * 32
        for start in (0x78, 0x80)
    ]
    assert blob.tobytes() == header + b"".join(rows)


def test_depthwise_7x7x8_takes_3200_bytes() -> None:
    assert depthwise_layout((1, 7, 7, 8), 1, SCALES).size == 3200


def test_routing_rows_pass_one_lane_each() -> None:
    layout = RoutingLayout(9)
    blob = np.full(layout.size, 0x55, np.uint8)
    layout.encode(blob)
    assert blob.size == 640
    assert np.flatnonzero(blob).tolist() == [64 + 68 * row for row in range(9)]
    assert set(blob.tolist()) == {0, 1}
    layout.check(blob)


@pytest.mark.parametrize("section", SECTIONS, ids=lambda section: str(section.shape))
def test_decoding_gives_back_what_was_encoded(section: LayerLayout) -> None:
    weights = np.random.default_rng(3).integers(-128, 128, section.shape, np.int8)
    np.testing.assert_array_equal(section.decode(encoded(section, weights)), weights)


def changed_weights(section: LayerLayout, blob: NDArray[np.uint8]) -> int | None:
    """How many weights are not zero; None if the blob is malformed."""
    try:
        return int(np.count_nonzero(section.decode(blob)))
    except ModelFormatError:
        return None


@pytest.mark.parametrize("section", SECTIONS, ids=lambda section: str(section.shape))
def test_a_changed_byte_is_a_changed_weight_or_malformed(section: LayerLayout) -> None:
    blob = encoded(section, np.zeros(section.shape, np.int8))
    assert changed_weights(section, blob) == 0
    for position in range(0, section.size, 13):
        damaged = blob.copy()
        damaged[position] ^= 0x01
        assert changed_weights(section, damaged) in (1, None)


def test_other_routing_rows_are_malformed() -> None:
    with pytest.raises(ModelFormatError, match="routing rows"):
        RoutingLayout(2).check(np.zeros(192, np.uint8))


def test_blob_of_another_size_is_malformed() -> None:
    with pytest.raises(ModelFormatError, match="expected 64 contiguous parameter bytes; got uint8"):
        convolution_layout((1, 1, 1, 3)).decode(np.zeros(65, np.uint8))


def test_weights_of_another_shape_are_refused() -> None:
    with pytest.raises(InputError, match=r"expected weights int8\[1, 8\]; got int8\[8\]"):
        matrix_layout((1, 8)).encode(np.zeros(8, np.int8), np.zeros(128, np.uint8))


def test_more_routing_rows_than_lanes_are_refused() -> None:
    with pytest.raises(ModelUnsupportedError, match="1 to 16 routing rows, got 17"):
        RoutingLayout(17)


def test_the_cells_of_a_kernel_may_come_in_the_other_order() -> None:
    """A 3x3 convolution of 8 inputs, two cells; compilers of 2019 write all positions for the first cell."""
    weights = np.arange(4 * 3 * 3 * 8, dtype=np.uint8).view(np.int8).reshape(4, 3, 3, 8)
    usual = convolution_layout(weights.shape, HeaderRows(bias=True))
    other = usual.with_inputs_first()
    assert other is not None
    blob = np.zeros(other.size, np.uint8)
    other.encode_header(blob, bias=np.arange(4, dtype=np.int32))
    other.encode(weights, blob)
    np.testing.assert_array_equal(other.decode(blob), weights)
    np.testing.assert_array_equal(blob[other.weight_offsets] ^ 0x80, weights.view(np.uint8))
    row = 4 * 4  # four channels of four inputs
    first, second = usual.weight_offsets[0, 0, 1, [0, 4]]
    assert (first, second) == (3 * row, 4 * row)
    first, second = other.weight_offsets[0, 0, 1, [0, 4]]
    assert (first, second) == (2 * row, 11 * row)


@pytest.mark.parametrize("shape", [(4, 1, 1, 8), (4, 3, 3, 4)])
def test_a_kernel_of_one_position_or_one_cell_has_one_order(shape: tuple[int, ...]) -> None:
    assert convolution_layout(shape).with_inputs_first() is None

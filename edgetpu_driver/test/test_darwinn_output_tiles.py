"""Tiled outputs and sign convention: gather and scatter against the formula of the format."""

from __future__ import annotations

import tracemalloc
from itertools import product
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from edgetpu_driver.compiled_model import CompiledModel
from edgetpu_driver.darwinn.executable import DataType, Layer, OutputLayout
from edgetpu_driver.darwinn.output_tiles import TileGather, check_layout
from edgetpu_driver.darwinn.wire_format import flip_sign, input_from_wire, input_to_wire
from edgetpu_driver.errors import ModelFormatError
from testdata import COMPILED_MODELS, ModelFolder


def by_formula(layer: Layer, wire: NDArray[np.uint8]) -> NDArray[Any]:
    """One element after the other, as the format defines it."""
    unsigned = np.dtype(f"<u{layer.data_type.size}")
    elements = wire.view(unsigned)
    sign = 1 << (8 * layer.data_type.size - 1) if layer.data_type.is_signed_fixed else 0
    result = np.empty(layer.shape, unsigned)
    y_dim, x_dim, z_dim = layer.shape
    layout = layer.layout
    assert layout is not None
    for y, x in product(range(y_dim), range(x_dim)):
        start = 0
        if (y_dim, x_dim) != (1, 1):
            tile = layout.tile_offset[layout.y_to_tile[y] + layout.x_to_tile[x]]
            row = layout.y_to_local_row[y] * layout.x_to_local_row_size[x]
            start = tile + row + layout.x_to_local_offset[x]
        for z in range(z_dim):
            result[y, x, z] = elements[start + z] ^ unsigned.type(sign)
    return result.view(layer.data_type.dtype)


def assert_identical(found: NDArray[Any], expected: NDArray[Any]) -> None:
    """`assert_array_equal` with `strict=True`, which NumPy has since 1.24."""
    assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
    np.testing.assert_array_equal(found, expected)


def random_wire(layer: Layer) -> NDArray[np.uint8]:
    return np.random.default_rng(7).integers(0, 256, layer.size_bytes, np.uint8)


def shuffled_layer(data_type: DataType, channels: int, pitch: int) -> Layer:
    """5 x 7 pixels in a 2 x 3 grid whose tiles are sent in a permuted order."""
    rows, columns = (3, 2), (3, 3, 1)
    order = (4, 0, 5, 2, 1, 3)
    offsets, position = [0] * 6, 0
    for tile in order:
        offsets[tile] = position
        position += rows[tile // 3] * columns[tile % 3] * pitch
    layout = OutputLayout(
        y_to_tile=(0, 0, 0, 3, 3),
        x_to_tile=(0, 0, 0, 1, 1, 1, 2),
        tile_offset=tuple(offsets),
        x_to_local_offset=tuple(pitch * x for x in (0, 1, 2, 0, 1, 2, 0)),
        y_to_local_row=(0, 1, 2, 0, 1),
        x_to_local_row_size=tuple(pitch * columns[tile] for tile in (0, 0, 0, 1, 1, 1, 2)),
    )
    size = (position * data_type.size + 7) // 8 * 8
    return Layer("out", size, (5, 7, channels), data_type, 0, 1.0, layout)


SYNTHETIC = [
    shuffled_layer(data_type, channels, pitch)
    for data_type in (
        DataType.FIXED_POINT8,
        DataType.SIGNED_FIXED_POINT8,
        DataType.FIXED_POINT16,
        DataType.SIGNED_FIXED_POINT16,
    )
    for channels, pitch in ((4, 4), (5, 8), (1, 4), (3, 3))
]


@pytest.mark.parametrize("model", COMPILED_MODELS)
def test_gather_follows_the_formula_for_real_layers(golden: ModelFolder, model: str) -> None:
    for layer in CompiledModel.load(golden.model(f"{model}_edgetpu.tflite")).execution.outputs:
        wire = random_wire(layer)
        values = TileGather(layer).gather(wire)
        assert_identical(values, by_formula(layer, wire))


@pytest.mark.parametrize("layer", SYNTHETIC)
def test_gather_follows_the_formula_for_any_grid(layer: Layer) -> None:
    wire = random_wire(layer)
    assert_identical(TileGather(layer).gather(wire), by_formula(layer, wire))


@pytest.mark.parametrize("layer", SYNTHETIC)
def test_scatter_is_the_inverse_with_zeros_as_padding(layer: Layer) -> None:
    tiles = TileGather(layer)
    values = tiles.gather(random_wire(layer))
    wire = tiles.scatter(values)
    assert_identical(tiles.gather(wire), values)
    assert wire.shape == (layer.size_bytes,)
    # All bits of every element are set, so remaining zeros are padding.
    ones = np.full(layer.shape, -1, np.int64).astype(layer.data_type.dtype)
    flip_sign(ones, layer.data_type)
    assert np.count_nonzero(tiles.scatter(ones)) == layer.element_count * layer.data_type.size


def test_a_map_is_put_together_from_its_tiles() -> None:
    layout = OutputLayout((0, 0), (0, 1), (0, 4), (0, 0), (0, 1), (2, 2))
    layer = Layer("out", 8, (2, 2, 2), DataType.FIXED_POINT8, 0, 1.0, layout)
    values = TileGather(layer).gather(np.array([1, 2, 3, 4, 5, 6, 7, 8], np.uint8))
    assert values.tolist() == [[[1, 2], [5, 6]], [[3, 4], [7, 8]]]


def test_a_single_pixel_is_the_start_of_the_buffer_whatever_its_layout() -> None:
    layout = OutputLayout((3,), (0,), (0, 0, 0, 4), (0,), (0,), (2,))
    layer = Layer("out", 8, (1, 1, 3), DataType.FIXED_POINT8, 0, 1.0, layout)
    assert TileGather(layer).gather(np.arange(8, dtype=np.uint8)).tolist() == [[[0, 1, 2]]]


def test_the_result_belongs_to_the_caller() -> None:
    layer = SYNTHETIC[0]
    tiles, wire = TileGather(layer), random_wire(layer)
    first = tiles.gather(wire)
    kept = first.copy()
    tiles.gather(wire ^ np.uint8(0xFF))
    np.testing.assert_array_equal(first, kept)


def test_gather_leaves_the_received_bytes_alone() -> None:
    for layer in SYNTHETIC:
        wire = random_wire(layer)
        TileGather(layer).gather(wire)
        np.testing.assert_array_equal(wire, random_wire(layer))


def test_a_layout_that_leaves_the_layer_is_refused() -> None:
    layout = OutputLayout((0, 0), (0, 1), (0, 6), (0, 0), (0, 1), (2, 2))
    layer = Layer("out", 8, (2, 2, 2), DataType.FIXED_POINT8, 0, 1.0, layout)
    with pytest.raises(ModelFormatError, match="reaches elements 0 to 10 of 8"):
        TileGather(layer)


@pytest.mark.parametrize(
    ("data_type", "values", "wire"),
    [
        (DataType.FIXED_POINT8, [0, 1, 255], "00 01 ff 00 00 00 00 00"),
        (DataType.SIGNED_FIXED_POINT8, [-128, 0, 127], "00 80 ff 00 00 00 00 00"),
        (DataType.FIXED_POINT16, [0, 258, 65535], "00 00 02 01 ff ff 00 00"),
        (DataType.SIGNED_FIXED_POINT16, [-32768, 0, 258], "00 00 00 80 02 81 00 00"),
    ],
)
def test_inputs_cross_the_link_unsigned_and_padded(data_type: DataType, values: list[int], wire: str) -> None:
    layer = Layer("in", 8, (1, 1, 3), data_type, 0, 1.0)
    host = np.array([values], data_type.dtype)
    sent = input_to_wire(layer, host)
    assert sent.tobytes().hex(" ") == wire
    assert host.tolist() == [values]
    assert_identical(input_from_wire(layer, sent), host.reshape(1, 1, 3))


def test_inputs_can_be_written_into_a_buffer_of_the_caller() -> None:
    layer = Layer("in", 8, (1, 1, 3), DataType.SIGNED_FIXED_POINT8, 0, 1.0)
    buffer = np.zeros(8, np.uint8)
    assert input_to_wire(layer, np.array([1, 2, 3], np.int8), buffer) is buffer
    assert buffer.tolist() == [129, 130, 131, 0, 0, 0, 0, 0]


def large_layer(rows: int, columns: int, channels: int = 1, pitch: int = 0, first: int = 0) -> Layer:
    """A map in one tile; pitch: distance of pixels, if there is padding; first: where the first one is."""
    pitch = pitch or channels
    layout = OutputLayout(
        y_to_tile=(0,) * rows,
        x_to_tile=(0,) * columns,
        tile_offset=(first,),
        x_to_local_offset=tuple(range(0, columns * pitch, pitch)),
        y_to_local_row=tuple(range(rows)),
        x_to_local_row_size=(columns * pitch,) * columns,
    )
    size = rows * columns * pitch + first
    return Layer("large", size, (rows, columns, channels), DataType.FIXED_POINT8, 0, 1.0, layout)


def test_checking_the_layout_of_a_large_output_takes_little_memory() -> None:
    layer = large_layer(4096, 8192)
    tracemalloc.start()
    check_layout(layer)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 4 << 20


LARGE = [
    pytest.param(large_layer(2048, 4096), id="contiguous"),
    pytest.param(large_layer(1024, 4096, pitch=2), id="padded pixels"),
    pytest.param(large_layer(2048, 4096, first=1), id="not aligned"),
    pytest.param(large_layer(8, 4096, channels=256, first=1), id="channels not aligned"),
    pytest.param(large_layer(1, 2, channels=1 << 22, first=1), id="most channels not aligned"),
]
"""8 MiB of output, but for half of it with padding."""


@pytest.mark.parametrize("layer", LARGE)
def test_a_large_output_takes_little_more_memory_than_its_values(layer: Layer) -> None:
    wire = np.random.default_rng(7).integers(0, 256, layer.size_bytes, np.uint8)
    tracemalloc.start()
    tiles = TileGather(layer)
    prepared, peak = tracemalloc.get_traced_memory()
    assert prepared < 3 << 20
    assert peak < 20 << 20
    values = tiles.gather(wire)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < prepared + 20 * 2**20
    first = layer.layout.tile_offset[0] if layer.layout is not None else 0
    rows, columns, channels = layer.shape
    expected = wire[first:].reshape(rows, columns, -1)[:, :, :channels]
    assert_identical(values, expected)
    sent = tiles.scatter(values)[first:].reshape(rows, columns, -1)
    assert_identical(sent[:, :, :channels], expected)
    assert not sent[:, :, channels:].any()

"""Converts tiled outputs between the order on the wire and (y, x, z).

Each of the sixteen tiles sends its part of an output, so neighbouring pixels may be far apart on the wire and
pixels may be padded. Pixel positions depend only on the model; each inference costs one gather of the longest
contiguous rows of bytes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgetpu_driver.darwinn.executable import Layer, OutputLayout
from edgetpu_driver.darwinn.wire_format import flip_sign
from edgetpu_driver.errors import ModelFormatError

_BLOCK_PIXELS = 65536
"""Pixels checked at a time: their positions take 512 kB."""


class TileGather:
    """The conversion of one output layer, prepared once for all inferences; thread-safe.

    Raises ModelFormatError if the layer's layout is missing, incomplete or exceeds the layer.
    """

    def __init__(self, layer: Layer) -> None:
        self.layer = layer
        starts = pixel_starts(layer)
        rows, pitch, kept = _rows(starts, layer)
        size = layer.data_type.size
        self._rows: NDArray[np.intp] = rows
        self._pitch = pitch * size
        self._kept = kept * size
        self._used = (int(rows.max()) + 1) * self._pitch

    def gather(self, wire: NDArray[np.uint8]) -> NDArray[Any]:
        """Values of one inference, (y, x, z) in layer.data_type.dtype, newly allocated.

        wire: contiguous uint8[layer.size_bytes] as received.
        """
        rows = wire[: self._used].reshape(-1, self._pitch).take(self._rows, axis=0)
        if self._kept != self._pitch:
            rows = np.ascontiguousarray(rows[:, : self._kept])
        values = rows.reshape(-1).view(self.layer.data_type.dtype)
        flip_sign(values, self.layer.data_type)
        return values.reshape(self.layer.shape)

    def scatter(self, values: NDArray[Any]) -> NDArray[np.uint8]:
        """The inverse: uint8[layer.size_bytes] as the chip would send it, with zero padding.

        values: layer.element_count elements of layer.data_type.dtype in (y, x, z) order, any shape.
        """
        host = np.array(values, self.layer.data_type.dtype, order="C").reshape(-1)
        flip_sign(host, self.layer.data_type)
        wire = np.zeros(self.layer.size_bytes, np.uint8)
        rows = wire[: self._used].reshape(-1, self._pitch)
        rows[self._rows, : self._kept] = host.view(np.uint8).reshape(-1, self._kept)
        return wire


def pixel_starts(layer: Layer) -> NDArray[np.int64]:
    """Position on the wire of the first element of each pixel: int64[y, x], in elements.

    Raises ModelFormatError as `check_layout`.
    """
    return np.concatenate(list(_checked_blocks(layer)))


def check_layout(layer: Layer) -> None:
    """Raise ModelFormatError if a layout is missing, does not fit the layer or exceeds it.

    An output of one pixel is always contiguous. Uses little memory, since a small file can describe a large
    output.
    """
    for _ in _checked_blocks(layer):
        pass


def _checked_blocks(layer: Layer) -> Iterator[NDArray[np.int64]]:
    """Positions of the pixels on the wire, int64[rows, x], a block of rows at a time."""
    _, x_dim, z_dim = layer.shape
    capacity = layer.size_bytes // layer.data_type.size
    rows = max(1, _BLOCK_PIXELS // x_dim)
    for starts in _blocks(layer, rows):
        first, end = int(starts.min()), int(starts.max()) + z_dim
        if first < 0 or end > capacity:
            raise ModelFormatError(
                f"the layout of output layer '{layer.name}' reaches elements {first} to {end} of {capacity}"
            )
        yield starts


def _blocks(layer: Layer, rows: int) -> Iterator[NDArray[np.int64]]:
    y_dim, x_dim, _ = layer.shape
    if y_dim == x_dim == 1:
        return iter([np.zeros((1, 1), np.int64)])
    if layer.layout is None:
        raise ModelFormatError(f"output layer '{layer.name}' of shape {layer.shape} has no layout")
    return _layout_starts(layer, layer.layout, rows)


def _layout_starts(layer: Layer, layout: OutputLayout, rows: int) -> Iterator[NDArray[np.int64]]:
    y_dim, x_dim, _ = layer.shape
    y_lengths = {len(layout.y_to_tile), len(layout.y_to_local_row)}
    x_lengths = {len(layout.x_to_tile), len(layout.x_to_local_offset), len(layout.x_to_local_row_size)}
    if y_lengths != {y_dim} or x_lengths != {x_dim}:
        raise ModelFormatError(
            f"the layout of output layer '{layer.name}' maps {sorted(y_lengths)} rows and "
            f"{sorted(x_lengths)} columns; the layer has {y_dim} and {x_dim}"
        )
    y_tile, x_tile, tile_offset, x_local, y_row, row_size = (
        np.array(values, np.int64)
        for values in (
            layout.y_to_tile,
            layout.x_to_tile,
            layout.tile_offset,
            layout.x_to_local_offset,
            layout.y_to_local_row,
            layout.x_to_local_row_size,
        )
    )
    lowest, highest = y_tile.min() + x_tile.min(), y_tile.max() + x_tile.max()
    if lowest < 0 or highest >= tile_offset.size:
        raise ModelFormatError(
            f"the layout of output layer '{layer.name}' names tiles {lowest} to {highest} of "
            f"{tile_offset.size}"
        )
    for start in range(0, y_dim, rows):
        block = slice(start, start + rows)
        tiles = y_tile[block, np.newaxis] + x_tile
        yield tile_offset[tiles] + y_row[block, np.newaxis] * row_size + x_local


def _rows(starts: NDArray[np.int64], layer: Layer) -> tuple[NDArray[np.intp], int, int]:
    """Split the wire into rows of `pitch` elements; the output is the first `kept` of each row listed.

    Returns the list of rows, pitch and kept. Chooses the widest rows, since a gather costs by the row.
    """
    _, x_dim, z_dim = layer.shape
    pixels = starts.reshape(-1)
    for width in range(x_dim, 0, -1):  # whole runs of contiguous pixels
        if x_dim % width:
            continue
        runs, length = pixels.reshape(-1, width), width * z_dim
        together = np.array_equal(runs, runs[:, :1] + np.arange(width) * z_dim)
        if together and not (runs[:, 0] % length).any():
            return (runs[:, 0] // length).astype(np.intp), length, length
    pitch = int(np.gcd.reduce(pixels))
    if pitch >= z_dim and int(pixels.max()) + pitch <= layer.size_bytes // layer.data_type.size:
        return (pixels // pitch).astype(np.intp), pitch, z_dim  # padded pixels
    return (pixels[:, np.newaxis] + np.arange(z_dim)).reshape(-1).astype(np.intp), 1, 1

"""Converts tiled outputs between the order on the wire and (y, x, z).

Each of the sixteen tiles sends its part of an output, so neighbouring pixels may be far apart on the wire and
pixels may be padded. Pixel positions depend only on the model; each inference costs one gather of the longest
contiguous rows of bytes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgetpu_driver.darwinn.executable import Layer, OutputLayout
from edgetpu_driver.darwinn.wire_format import flip_sign
from edgetpu_driver.errors import ModelFormatError

_BLOCK_PIXELS = 65536
"""Pixels whose positions are computed at a time: 512 kB."""
_MOST_KEPT = 1 << 18
"""Largest number of rows whose list is kept, 2 MB; a longer list is computed again for each inference.
Uncritical: published models have up to 2304."""


class TileGather:
    """The conversion of one output layer, prepared once for all inferences; thread-safe.

    Raises ModelFormatError if the layer's layout is missing, incomplete or exceeds the layer.
    """

    def __init__(self, layer: Layer) -> None:
        check_layout(layer)
        self.layer = layer
        self._split = split = _Split.of(layer)
        size = layer.data_type.size
        self._pitch = split.pitch * size
        self._kept = split.kept * size
        self._used = (max(int(rows.max()) for rows in split.rows(layer)) + 1) * self._pitch
        count = layer.element_count // split.kept
        self._rows = [np.concatenate([*split.rows(layer)])] if count <= _MOST_KEPT else None

    def gather(self, wire: NDArray[np.uint8]) -> NDArray[Any]:
        """Values of one inference, (y, x, z) in layer.data_type.dtype, newly allocated.

        wire: contiguous uint8[layer.size_bytes] as received.
        """
        source = wire[: self._used].reshape(-1, self._pitch)
        parts = [
            np.ascontiguousarray(source.take(rows, axis=0)[:, : self._kept])
            for rows in self._rows or self._split.rows(self.layer)
        ]
        values = (parts[0] if len(parts) == 1 else np.concatenate(parts)).reshape(-1)
        values = values.view(self.layer.data_type.dtype)
        flip_sign(values, self.layer.data_type)
        return values.reshape(self.layer.shape)

    def scatter(self, values: NDArray[Any]) -> NDArray[np.uint8]:
        """The inverse: uint8[layer.size_bytes] as the chip would send it, with zero padding.

        values: layer.element_count elements of layer.data_type.dtype in (y, x, z) order, any shape.
        """
        host = np.array(values, self.layer.data_type.dtype, order="C").reshape(-1)
        flip_sign(host, self.layer.data_type)
        wire = np.zeros(self.layer.size_bytes, np.uint8)
        target = wire[: self._used].reshape(-1, self._pitch)
        source, start = host.view(np.uint8).reshape(-1, self._kept), 0
        for rows in self._rows or self._split.rows(self.layer):
            target[rows, : self._kept] = source[start : start + rows.size]
            start += rows.size
        return wire


def check_layout(layer: Layer) -> None:
    """Raise ModelFormatError if a layout is missing, does not fit the layer or exceeds it.

    An output of one pixel is always contiguous. Uses little memory, since a small file can describe a large
    output.
    """
    capacity = layer.size_bytes // layer.data_type.size
    for starts in _blocks(layer):
        first, end = int(starts.min()), int(starts.max()) + layer.shape[2]
        if first < 0 or end > capacity:
            raise ModelFormatError(
                f"the layout of output layer '{layer.name}' reaches elements {first} to {end} of {capacity}"
            )


def _blocks(layer: Layer) -> Iterator[NDArray[np.int64]]:
    """Positions on the wire of the first elements of pixels, int64[rows, x], a block of rows at a time."""
    y_dim, x_dim, _ = layer.shape
    if y_dim == x_dim == 1:
        return iter([np.zeros((1, 1), np.int64)])
    if layer.layout is None:
        raise ModelFormatError(f"output layer '{layer.name}' of shape {layer.shape} has no layout")
    return _layout_starts(layer, layer.layout, max(1, _BLOCK_PIXELS // x_dim))


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
        np.array(values, np.int64) for values in layout.maps
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


@dataclass(frozen=True)
class _Split:
    """The wire split into rows of equal length; the output is the first part of each row in a list."""

    pitch: int
    """Elements of a row."""
    kept: int
    """Elements of a row that belong to the output."""
    columns: int
    """Pixels of a row; 0 for a single element."""

    @classmethod
    def of(cls, layer: Layer) -> _Split:
        """The split of a checked layout into the widest rows, since a gather costs by the row."""
        _, x_dim, z_dim = layer.shape
        adjacent = np.ones(x_dim - 1, np.bool_)  # whether a column follows the one before in every row
        for starts in _blocks(layer):
            adjacent &= (np.diff(starts, axis=1) == z_dim).all(axis=0)
        breaks = np.flatnonzero(~adjacent) + 1
        for width in range(x_dim, 0, -1):  # whole runs of contiguous pixels
            if x_dim % width or (breaks % width).any():
                continue
            length = width * z_dim
            if not any((starts[:, ::width] % length).any() for starts in _blocks(layer)):
                return cls(length, length, width)
        pitch = int(np.gcd.reduce([np.gcd.reduce(starts, axis=None) for starts in _blocks(layer)]))
        last = max(int(starts.max()) for starts in _blocks(layer))
        if pitch >= z_dim and last + pitch <= layer.size_bytes // layer.data_type.size:
            return cls(pitch, z_dim, 1)  # padded pixels
        return cls(1, 1, 0)

    def rows(self, layer: Layer) -> Iterator[NDArray[np.intp]]:
        """The list of the rows, in the order of the output, a part at a time."""
        channels = layer.shape[2]
        for starts in _blocks(layer):
            if self.columns:
                yield (starts[:, :: self.columns] // self.pitch).reshape(-1)
                continue
            pixels = starts.reshape(-1)
            for first in range(0, pixels.size * channels, _BLOCK_PIXELS):
                elements = np.arange(first, min(first + _BLOCK_PIXELS, pixels.size * channels))
                yield pixels[elements // channels] + elements % channels

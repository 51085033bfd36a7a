"""Assigns the parts of an output to the chip's tiles, as the vendor's compiler does."""

from __future__ import annotations

from itertools import accumulate

from edgetpu_driver.darwinn.chip_geometry import CELLS, TILES, TILES_PER_SIDE
from edgetpu_driver.darwinn.executable import OutputLayout

_CHANNEL_ALIGNMENT = 4
"""Channels of a pixel are padded to a multiple of this in the compiler's output layouts: 91 take 92 bytes."""


def round_up(value: int, multiple: int) -> int:
    """Round up to a multiple."""
    return -(-value // multiple) * multiple


def output_layout(shape: tuple[int, int, int]) -> OutputLayout:
    """The layout of an output of shape (y, x, z), as observed in models that edgetpu_compiler 16 wrote.

    A single pixel is cut along z, 64 channels to a tile; more pixels are cut into a grid of 4 x 4 with the
    larger parts first. The channels of each pixel are padded to a multiple of 4.
    """
    y_dim, x_dim, z_dim = shape
    channels = round_up(z_dim, _CHANNEL_ALIGNMENT)
    if y_dim == x_dim == 1:
        width = min(channels, round_up(-(-z_dim // TILES), CELLS))
        offsets = tuple(min(tile * width, channels) for tile in range(TILES))
        return OutputLayout((0,), (0,), offsets, (0,), (0,), (width,))
    rows, columns = _parts(y_dim), _parts(x_dim)
    sizes = [height * width * channels for height in rows for width in columns]
    return OutputLayout(
        y_to_tile=tuple(TILES_PER_SIDE * part for part, height in enumerate(rows) for _ in range(height)),
        x_to_tile=tuple(part for part, width in enumerate(columns) for _ in range(width)),
        tile_offset=tuple(accumulate(sizes[:-1], initial=0)),
        x_to_local_offset=tuple(channels * x for width in columns for x in range(width)),
        y_to_local_row=tuple(y for height in rows for y in range(height)),
        x_to_local_row_size=tuple(channels * width for width in columns for _ in range(width)),
    )


def padded_elements(shape: tuple[int, int, int]) -> int:
    """Elements of an output on the wire, including the padding of its pixels."""
    y_dim, x_dim, z_dim = shape
    return y_dim * x_dim * round_up(z_dim, _CHANNEL_ALIGNMENT)


def _parts(extent: int) -> list[int]:
    base, larger = divmod(extent, TILES_PER_SIDE)
    return [base + (part < larger) for part in range(TILES_PER_SIDE)]

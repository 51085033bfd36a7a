"""The padding byte of images, stored four times in operations of the mesh bus.

Tiles exchange rows and columns with their neighbours over the mesh bus. Tiles at the border of the image have
no neighbour; operations for these tiles alone have a bit set and hold the padding value instead. Found with
six networks and two segments whose layers pad with 20 different zero points. Operations for all tiles with
the same bit write constants.
"""

from __future__ import annotations

from edgetpu_driver.darwinn.chip_geometry import ALL_TILES
from edgetpu_driver.darwinn.instructions.operations import MESH_OPERATIONS, Operation

IS_CONSTANT = 727, 727
"""Whether a constant is written instead of data of another tile."""
CONSTANT = 728, 759
"""First and last bit of the four bytes of the constant."""
_FOUR_TIMES = 0x01010101
"""Factor that repeats a byte four times in a word."""


def fills_border(operation: Operation) -> bool:
    """Whether an operation writes a constant into some tiles only, as at the borders of an image."""
    return (
        operation.numbered
        and operation.opcode in MESH_OPERATIONS
        and operation.field(*IS_CONSTANT) == 1
        and operation.tiles != ALL_TILES
    )


def has_border_value(operation: Operation, zero_point: int) -> bool:
    """Whether an operation that fills a border writes this byte."""
    return operation.field(*CONSTANT) == zero_point * _FOUR_TIMES


def with_border_value(operation: Operation, zero_point: int) -> Operation:
    """The operation with another padding byte."""
    return operation.with_field(*CONSTANT, zero_point * _FOUR_TIMES)

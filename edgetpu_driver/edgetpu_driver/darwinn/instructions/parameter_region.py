"""The rows of the chip's memory that a parameter caching program fills.

Each of the 16 tiles has 2048 rows of 256 bytes. A ring consumer (opcode 0x11) fills consecutive rows of some
tiles: bits 12..27 are the mask of the tiles, 62..72 the first row, 95..105 the number of rows less one. The
positions in operation 0x06 refer to the transferred parameters, not to the memory.

Found with 40 public files of edgetpu_compiler 16: no program fills a row twice, co-compiled models share no
rows, and segments of one pipeline all share some, although they have one caching token.
"""

from __future__ import annotations

from collections.abc import Sequence

from edgetpu_driver.darwinn.chip_geometry import ALL_TILES, TILES
from edgetpu_driver.darwinn.executable import Executable
from edgetpu_driver.darwinn.instructions.instruction_word import Instruction, disassemble
from edgetpu_driver.darwinn.instructions.instruction_word_fields import WORD_BYTES
from edgetpu_driver.darwinn.instructions.operations import RING_CONSUMER, operations
from edgetpu_driver.errors import InputError, ModelFormatError

ROWS = 2048
"""Rows of each tile's parameter memory."""
ROW_BYTES = 256
"""Size of a row of one tile's parameter memory."""
BYTES_OF_ALL_TILES = TILES * ROW_BYTES
"""Bytes in one row of all tiles."""

Region = int
"""A set of rows: bit `ROWS * tile + row` is set if the row belongs to it."""

EVERYWHERE: Region = (1 << TILES * ROWS) - 1
"""The whole memory."""


def region_of(executable: Executable) -> Region:
    """The rows that a parameter caching program fills; EVERYWHERE if its operations are not understood."""
    region = 0
    try:
        for operation in operations(bitstream.data for bitstream in executable.bitstreams):
            if operation.opcode != RING_CONSUMER:
                continue
            first, count = operation.field(62, 72), operation.field(95, 105) + 1
            rows = ((1 << count) - 1) << first
            if first + count > ROWS:
                return EVERYWHERE
            mask = operation.field(12, 27)
            region |= sum(rows << ROWS * tile for tile in range(TILES) if mask >> tile & 1)
    except ModelFormatError:
        return EVERYWHERE
    return region or EVERYWHERE


def rows_for(size: int) -> int:
    """The number of rows, across all tiles, needed for this many bytes."""
    return -(-size // BYTES_OF_ALL_TILES)


def fill_all_tiles(first_row: int, rows: int) -> Sequence[Instruction]:
    """The words of a ring consumer, number 0, that fills rows of all tiles; InputError beyond the memory."""
    if not 0 < rows <= ROWS - first_row <= ROWS:
        raise InputError(f"expected rows within 0 to {ROWS}; got {rows} from {first_row} on")
    value = RING_CONSUMER << 6 | ALL_TILES << 12 | 1 << 61 | first_row << 62 | (rows - 1) << 95
    return disassemble(value.to_bytes(4 * WORD_BYTES, "little"))

"""Finds which operations of a program use which bytes of the cached parameters.

The caching program puts each section into rows of some tiles: a ring consumer (opcode 0x11) gives the tiles
and rows, a pop (0x06) the bytes. In the execution program, a ring producer (0x10) with the same tiles and
first row sends a section to the tensor operations just before it. Found with public models; consistent with
the requantisation of every layer that has its own.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Sequence

from edgetpu_driver.darwinn.instructions.operations import (
    POP,
    RING_CONSUMER,
    RING_PRODUCER,
    Kind,
    Operation,
)
from edgetpu_driver.darwinn.instructions.tensor_operation import requantises

UNIT = 64
"""Unit of a pop's positions, bytes; the first position is 1."""

TileRow = tuple[int, int]
"""A mask of tiles, and the first of the rows in them."""


def uploaded_offsets(operations: Iterable[Operation]) -> dict[TileRow, int]:
    """The byte offset of the parameters that a caching program stores from each row on."""
    waiting: dict[int, deque[int]] = defaultdict(deque)
    offsets = {}
    for operation in operations:
        if operation.kind == Kind(RING_CONSUMER, False):
            waiting[operation.field(12, 27)].append(operation.field(62, 72))
        elif operation.kind == Kind(POP, True):
            tiles = operation.field(409, 424)
            if waiting[tiles]:
                offset = UNIT * (operation.field(320, 335) - 1)
                offsets[tiles, waiting[tiles].popleft()] = offset
    return offsets


def parameters_used(operations: Sequence[Operation], offsets: dict[TileRow, int]) -> dict[int, int]:
    """The byte offset of the parameters sent to each requantising operation, by position in the program."""
    used: dict[int, int] = {}
    run: list[int] = []
    for position, operation in enumerate(operations):
        if requantises(operation):
            run.append(position)
        elif operation.numbered:
            if operation.kind == Kind(RING_PRODUCER, False):
                offset = offsets.get((operation.field(12, 27), operation.field(62, 72)))
                if offset is not None:
                    used |= dict.fromkeys(run, offset)
            run = []
    return used

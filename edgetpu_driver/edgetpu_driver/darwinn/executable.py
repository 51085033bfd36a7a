"""The compiler's output for the chip as dataclasses.

A package holds executables; an executable holds instruction bitstreams, parameters, the layers it reads and
writes, and the DMA hints, which are the order of the transfers over USB. Names are those of the vendor's
`executable.fbs`; `package_reader` and `package_writer` convert from and to bytes.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np


class ExecutableType(IntEnum):
    """Role of an executable in its package."""

    STAND_ALONE = 0
    PARAMETER_CACHING = 1
    EXECUTION_ONLY = 2


class Description(IntEnum):
    """What a DMA transfer or an address field refers to."""

    OUTPUT = 0
    INPUT = 1
    PARAMETER = 2
    SCRATCH = 3


class Direction(IntEnum):
    """Direction of a DMA transfer, seen from the host."""

    INFEED = 0
    OUTFEED = 1


class Position(IntEnum):
    """Half of a 64-bit address that an address field holds."""

    LOWER_32BIT = 0
    UPPER_32BIT = 1


class DataType(IntEnum):
    """Element type of a layer on the wire."""

    FIXED_POINT8 = 0
    FIXED_POINT16 = 1
    SIGNED_FIXED_POINT32 = 2
    BFLOAT = 3
    HALF = 4
    SINGLE = 5
    SIGNED_FIXED_POINT8 = 8
    SIGNED_FIXED_POINT16 = 9

    @property
    def dtype(self) -> np.dtype[Any]:
        """NumPy type of an element on the host; bfloat16, which NumPy lacks, appears as 16 raw bits."""
        return _DTYPE[self]

    @property
    def size(self) -> int:
        """Bytes per element."""
        return _DTYPE[self].itemsize

    @property
    def is_signed_fixed(self) -> bool:
        """Whether the most significant bit of each element is flipped on the wire."""
        return self in (DataType.SIGNED_FIXED_POINT8, DataType.SIGNED_FIXED_POINT16)


_DTYPE: dict[DataType, np.dtype[Any]] = {
    DataType.FIXED_POINT8: np.dtype("u1"),
    DataType.FIXED_POINT16: np.dtype("<u2"),
    DataType.SIGNED_FIXED_POINT32: np.dtype("<i4"),
    DataType.BFLOAT: np.dtype("<u2"),
    DataType.HALF: np.dtype("<f2"),
    DataType.SINGLE: np.dtype("<f4"),
    DataType.SIGNED_FIXED_POINT8: np.dtype("i1"),
    DataType.SIGNED_FIXED_POINT16: np.dtype("<i2"),
}


@dataclass(frozen=True)
class InstructionHint:
    """Send a whole instruction bitstream."""

    chunk: int


@dataclass(frozen=True)
class DmaHint:
    """Move bytes [offset, offset + size) of a named layer, the parameters or the scratch buffer."""

    description: Description
    direction: Direction
    name: str
    offset: int
    size: int
    batch: int = 0


@dataclass(frozen=True)
class InterruptHint:
    """Wait for the event of scalar-core interrupt 0..3."""

    number: int


@dataclass(frozen=True)
class FenceHint:
    """All hints before must be complete before any hint after starts."""


Hint = InstructionHint | DmaHint | InterruptHint | FenceHint


@dataclass(frozen=True)
class FieldOffset:
    """An address field: the bit at which half of an address is inserted into a bitstream."""

    description: Description
    name: str
    position: Position
    bit: int
    batch: int = 0


@dataclass(frozen=True)
class InstructionBitstream:
    """Machine code."""

    data: bytes
    field_offsets: tuple[FieldOffset, ...] = ()


@dataclass(frozen=True)
class OutputLayout:
    """How an output layer is split into tiles.

    Element (y, x, z) is tile_offset[y_to_tile[y] + x_to_tile[x]] + y_to_local_row[y] *
    x_to_local_row_size[x] + x_to_local_offset[x] + z elements after the first. (The format calls these byte
    offsets, but they count elements of the layer.)
    """

    y_to_tile: tuple[int, ...]
    x_to_tile: tuple[int, ...]
    tile_offset: tuple[int, ...]
    x_to_local_offset: tuple[int, ...]
    y_to_local_row: tuple[int, ...]
    x_to_local_row_size: tuple[int, ...]

    @property
    def maps(self) -> tuple[tuple[int, ...], ...]:
        """All fields, in their order."""
        return (
            self.y_to_tile,
            self.x_to_tile,
            self.tile_offset,
            self.x_to_local_offset,
            self.y_to_local_row,
            self.x_to_local_row_size,
        )


@dataclass(frozen=True)
class Layer:
    """An input or output of an executable, in its form on the wire."""

    name: str
    size_bytes: int
    """Bytes on the wire for batch 1, padding included."""
    shape: tuple[int, int, int]
    """(y, x, z)."""
    data_type: DataType
    zero_point: int
    """For the unsigned values on the wire."""
    dequantization_factor: float
    layout: OutputLayout | None = None
    """Output layers only; None for inputs."""
    execution_count: int = 1
    """Number of transfers per inference."""

    @property
    def element_count(self) -> int:
        """Elements of one batch item, padding excluded."""
        y, x, z = self.shape
        return y * x * z


@dataclass(frozen=True)
class Executable:
    """One program for the chip, with its parameters, layers and DMA hints."""

    type: ExecutableType
    name: str
    parameter_caching_token: int
    bitstreams: tuple[InstructionBitstream, ...]
    parameters: bytes | memoryview
    """Read only; a view of the file in a parsed model."""
    hints: tuple[Hint, ...]
    fully_deterministic: bool
    inputs: tuple[Layer, ...]
    outputs: tuple[Layer, ...]
    batch_size: int = 1
    scratch_size_bytes: int = 0
    chip: str = "beagle"
    version: int = 0
    estimated_cycles: int = 0
    narrow_memory_bytes_per_tile: int = 0
    uses_dram_for_parameters: bool = False


@dataclass(frozen=True)
class Package:
    """The executables of one model, in file order, and the version of the compiler."""

    executables: tuple[Executable, ...]
    min_runtime_version: int
    compiler_version: str
    model_identifier: str = ""
    virtual_chip_id: int = 0
    keypair_version: int = 0
    signature: bytes = b""

"""Reads the DarwiNN package, the FlatBuffer that the Edge TPU compiler puts into a model.

`parse_package` validates every index, range and layout, so that later code can rely on them.
"""

from __future__ import annotations

from enum import IntEnum
from typing import TypeVar, cast

import numpy as np

from edgetpu_driver.darwinn.executable import (
    DataType,
    Description,
    Direction,
    DmaHint,
    Executable,
    ExecutableType,
    FenceHint,
    FieldOffset,
    Hint,
    InstructionBitstream,
    InstructionHint,
    InterruptHint,
    Layer,
    OutputLayout,
    Package,
    Position,
)
from edgetpu_driver.darwinn.executable_checks import check_executable
from edgetpu_driver.darwinn.package_tables import (
    BITSTREAM,
    DESCRIPTOR_HINT,
    DMA_HINT,
    DMA_HINTS,
    EXECUTABLE,
    FIELD_OFFSET,
    INSTRUCTION_HINT,
    INTERRUPT_HINT,
    LAYER,
    META,
    MULTI_EXECUTABLE,
    NUMERICS,
    OUTPUT_LAYER,
    OUTPUT_LAYOUT,
    PACKAGE,
    SERIALIZED_PACKAGE,
)
from edgetpu_driver.errors import ModelFormatError, ModelUnsupportedError
from edgetpu_driver.files.flatbuffer import Fields, Table, nested_root, read_root

FILE_IDENTIFIER = b"DWN1"
MAX_EXECUTABLES = 3  # parameter caching, execution only, stand-alone

# Members of the unions AnyHint and AnyLayer.
_DESCRIPTOR, _INSTRUCTION, _INTERRUPT, _FENCE = 1, 2, 3, 4
_OUTPUT = 1
"""The member OutputLayer of the union AnyLayer."""

_MEMBERS: dict[type[IntEnum], dict[int, IntEnum]] = {
    kind: {int(member): member for member in kind}
    for kind in (DataType, Description, Direction, ExecutableType, Position)
}
"""Enumeration members by number: five times faster than calling the enumeration."""

E = TypeVar("E", bound=IntEnum)


def parse_package(data: bytes | memoryview) -> Package:
    """Parse and validate a package.

    Raises ModelFormatError, naming the field, if it is malformed; ModelUnsupportedError for a model compiled
    for several chips at once.
    """
    table = read_root(data, FILE_IDENTIFIER, "package", PACKAGE)
    if table.tables("multi_chip_package", SERIALIZED_PACKAGE):
        raise ModelUnsupportedError("the model is compiled for several Edge TPUs at once; one is expected")
    return Package(
        executables=_executables(table.view("serialized_multi_executable")),
        min_runtime_version=_int(table, "min_runtime_version"),
        compiler_version=table.string("compiler_version"),
        model_identifier=table.string("model_identifier"),
        virtual_chip_id=_int(table, "virtual_chip_id"),
        keypair_version=_int(table, "keypair_version"),
        signature=table.data("signature"),
    )


def _int(table: Table, field: str, default: int = 0) -> int:
    value: int = table.scalar(field, np.int32, default)
    return value


def _enum(kind: type[E], table: Table, field: str) -> E:
    value = table.scalar(field, np.int16)
    member = _MEMBERS[kind].get(value)
    if member is None:
        raise ModelFormatError(f"{table.path}.{field}: expected a value of {kind.__name__}, got {value}")
    return cast(E, member)


def _required(table: Table, field: str, fields: Fields) -> Table:
    inner = table.table(field, fields)
    if inner is None:
        raise ModelFormatError(f"{table.path}.{field} is missing")
    return inner


def _executables(data: memoryview) -> tuple[Executable, ...]:
    serialized = nested_root(data, "multi_executable", MULTI_EXECUTABLE).views("serialized_executables")
    if not 1 <= len(serialized) <= MAX_EXECUTABLES:
        raise ModelFormatError(
            f"multi_executable: expected 1 to {MAX_EXECUTABLES} executables, got {len(serialized)}"
        )
    executables = tuple(
        _executable(nested_root(item, f"executables[{index}]", EXECUTABLE))
        for index, item in enumerate(serialized)
    )
    for index, executable in enumerate(executables):
        check_executable(executable, f"executables[{index}]")
    return executables


def _executable(table: Table) -> Executable:
    hints = table.table("dma_hints", DMA_HINTS)
    cycles = table.scalar("estimated_cycles_64bit", np.int64)
    return Executable(
        type=_enum(ExecutableType, table, "type"),
        name=table.string("name"),
        parameter_caching_token=table.scalar("parameter_caching_token", np.uint64),
        bitstreams=tuple(map(_bitstream, table.tables("instruction_bitstreams", BITSTREAM))),
        parameters=table.view("parameters"),
        hints=tuple(map(_hint, hints.tables("hints", DMA_HINT))) if hints else (),
        fully_deterministic=bool(hints and hints.scalar("fully_deterministic", np.bool_)),
        inputs=tuple(map(_layer, table.tables("input_layers", LAYER))),
        outputs=tuple(map(_layer, table.tables("output_layers", LAYER))),
        batch_size=_int(table, "batch_size"),
        scratch_size_bytes=_int(table, "scratch_size_bytes"),
        chip=table.string("chip"),
        version=_int(table, "version"),
        estimated_cycles=cycles or _int(table, "estimated_cycles"),
        narrow_memory_bytes_per_tile=_int(table, "used_narrow_memory_bytes_per_tile"),
        uses_dram_for_parameters=table.scalar("use_tpu_dram_for_parameters", np.bool_, default=False),
    )


def _bitstream(table: Table) -> InstructionBitstream:
    fields = tuple(map(_field_offset, table.tables("field_offsets", FIELD_OFFSET)))
    return InstructionBitstream(table.data("bitstream"), fields)


def _field_offset(table: Table) -> FieldOffset:
    meta = _required(table, "meta", META)
    return FieldOffset(
        description=_enum(Description, meta, "desc"),
        name=meta.string("name"),
        position=_enum(Position, meta, "position"),
        bit=_int(table, "offset_bit"),
        batch=_int(meta, "batch"),
    )


def _hint(table: Table) -> Hint:
    kind = table.scalar("any_hint_type", np.uint8)
    if kind == _INSTRUCTION:
        return InstructionHint(
            _int(_required(table, "any_hint", INSTRUCTION_HINT), "instruction_chunk_index")
        )
    if kind == _INTERRUPT:
        return InterruptHint(_required(table, "any_hint", INTERRUPT_HINT).scalar("type", np.int16))
    if kind == _FENCE:
        return FenceHint()
    if kind != _DESCRIPTOR:
        raise ModelFormatError(f"{table.path}.any_hint_type: expected a kind of hint, got {kind}")
    descriptor = _required(table, "any_hint", DESCRIPTOR_HINT)
    meta = _required(descriptor, "meta", META)
    return DmaHint(
        description=_enum(Description, meta, "desc"),
        direction=_enum(Direction, table, "direction"),
        name=meta.string("name"),
        offset=_int(descriptor, "offset_in_bytes"),
        size=_int(descriptor, "size_in_bytes"),
        batch=_int(meta, "batch"),
    )


def _layer(table: Table) -> Layer:
    numerics = _required(table, "numerics", NUMERICS)
    return Layer(
        name=table.string("name"),
        size_bytes=_int(table, "size_bytes"),
        shape=(_int(table, "y_dim"), _int(table, "x_dim"), _int(table, "z_dim")),
        data_type=_enum(DataType, table, "data_type"),
        zero_point=_int(numerics, "zero_point"),
        dequantization_factor=numerics.scalar("dequantization_factor", np.float32, 0.0),
        layout=_layout(table),
        execution_count=_int(table, "execution_count_per_inference", default=1),
    )


def _layout(layer: Table) -> OutputLayout | None:
    if layer.scalar("any_layer_type", np.uint8) != _OUTPUT:
        return None
    table = _required(layer, "any_layer", OUTPUT_LAYER).table("layout", OUTPUT_LAYOUT)
    if table is None:
        return None

    return OutputLayout(
        y_to_tile=table.integers("y_coordinate_to_linear_tile_id_map"),
        x_to_tile=table.integers("x_coordinate_to_linear_tile_id_map"),
        tile_offset=table.integers("linearized_tile_byte_offset"),
        x_to_local_offset=table.integers("x_coordinate_to_local_byte_offset"),
        y_to_local_row=table.integers("y_coordinate_to_local_y_offset"),
        x_to_local_row_size=table.integers("x_coordinate_to_local_y_row_size"),
    )

"""Changes a package in place; all other bytes of the vendor's compiler remain."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from edgetpu_driver.darwinn.executable import DmaHint, Executable, FieldOffset, Hint, Layer, Package
from edgetpu_driver.darwinn.package_reader import FILE_IDENTIFIER
from edgetpu_driver.darwinn.package_tables import (
    BITSTREAM,
    DESCRIPTOR_HINT,
    DMA_HINT,
    DMA_HINTS,
    EXECUTABLE,
    FIELD_OFFSET,
    LAYER,
    META,
    MULTI_EXECUTABLE,
    NUMERICS,
    PACKAGE,
)
from edgetpu_driver.files.flatbuffer import Table, nested_root, read_root
from edgetpu_driver.files.flatbuffer_edit import FlatbufferEdit


def edit_package(data: bytes | memoryview, package: Package) -> bytes | None:
    """The package bytes with other parameters, bitstreams, caching tokens, names and quantisation of layers.

    data: bytes that `parse_package` accepted. package: the same package with other values of those kinds.
    Returns None if they need more room; use `write_package` then.
    """
    copy = bytearray(data)
    outer = read_root(data, FILE_IDENTIFIER, "package", PACKAGE)
    multi_start = outer.data_offset("serialized_multi_executable")
    multi = nested_root(outer.view("serialized_multi_executable"), "multi_executable", MULTI_EXECUTABLE)
    starts = multi.data_offsets("serialized_executables")
    items = multi.views("serialized_executables")
    for start, item, executable in zip(starts, items, package.executables, strict=True):
        edit = FlatbufferEdit(copy, multi_start + start)
        if not all(_executable(edit, nested_root(item, "executable", EXECUTABLE), executable)):
            return None
    return bytes(copy)


def _executable(edit: FlatbufferEdit, table: Table, executable: Executable) -> Iterator[bool]:
    yield edit.scalar(table, "parameter_caching_token", np.uint64, executable.parameter_caching_token)
    yield edit.data(table, "parameters", executable.parameters)
    bitstreams = table.tables("instruction_bitstreams", BITSTREAM)
    for each, bitstream in zip(bitstreams, executable.bitstreams, strict=True):
        yield edit.data(each, "bitstream", bitstream.data)
        yield from _names(edit, each.tables("field_offsets", FIELD_OFFSET), bitstream.field_offsets)
    hints = table.table("dma_hints", DMA_HINTS)
    if hints is not None:
        yield from _hint_names(edit, hints.tables("hints", DMA_HINT), executable.hints)
    yield from _layers(edit, table.tables("input_layers", LAYER), executable.inputs)
    yield from _layers(edit, table.tables("output_layers", LAYER), executable.outputs)


def _names(
    edit: FlatbufferEdit, tables: Sequence[Table], owners: Sequence[FieldOffset | DmaHint]
) -> Iterator[bool]:
    for each, owner in zip(tables, owners, strict=True):
        meta = each.table("meta", META)
        yield meta is not None and edit.text(meta, "name", owner.name)


def _hint_names(edit: FlatbufferEdit, tables: Sequence[Table], hints: Sequence[Hint]) -> Iterator[bool]:
    for each, hint in zip(tables, hints, strict=True):
        if isinstance(hint, DmaHint):
            descriptor = each.table("any_hint", DESCRIPTOR_HINT)
            yield from _names(edit, [descriptor] if descriptor is not None else [], [hint])


def _layers(edit: FlatbufferEdit, tables: Sequence[Table], layers: Sequence[Layer]) -> Iterator[bool]:
    for each, layer in zip(tables, layers, strict=True):
        numerics = each.table("numerics", NUMERICS)
        yield edit.text(each, "name", layer.name)
        if numerics is None:
            yield False
        else:
            yield edit.scalar(numerics, "zero_point", np.int32, layer.zero_point)
            yield edit.scalar(numerics, "dequantization_factor", np.float32, layer.dequantization_factor)

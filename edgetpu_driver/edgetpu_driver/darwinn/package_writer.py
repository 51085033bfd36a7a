"""Writes a DarwiNN package as a FlatBuffer with the page alignment of the vendor's files."""

from __future__ import annotations

from collections.abc import Sequence

import flatbuffers

from edgetpu_driver.darwinn.executable import (
    Description,
    Direction,
    DmaHint,
    Executable,
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
from edgetpu_driver.darwinn.executable_checks import INSTRUCTION_BYTES
from edgetpu_driver.darwinn.schema import darwinn_generated as schema
from edgetpu_driver.files.flatbuffer_vectors import aligned_bytes, int32_vector, offset_vector

PAGE_BYTES = 4096
"""Alignment of parameters and nested buffers; every buffer is a multiple of it."""


def write_package(package: Package) -> bytes:
    """Write a package, padded to a multiple of 4096 bytes; equal packages give equal bytes."""
    multi = _write_multi_executable(package.executables)
    builder = flatbuffers.Builder(len(multi) + 2 * PAGE_BYTES)
    executables = aligned_bytes(builder, multi, PAGE_BYTES)
    signature = builder.CreateByteVector(package.signature)
    compiler = builder.CreateString(package.compiler_version)
    identifier = builder.CreateString(package.model_identifier)
    schema.PackageStart(builder)
    schema.PackageAddMinRuntimeVersion(builder, package.min_runtime_version)
    schema.PackageAddSerializedMultiExecutable(builder, executables)
    schema.PackageAddSignature(builder, signature)
    schema.PackageAddKeypairVersion(builder, package.keypair_version)
    schema.PackageAddCompilerVersion(builder, compiler)
    schema.PackageAddVirtualChipId(builder, package.virtual_chip_id)
    schema.PackageAddModelIdentifier(builder, identifier)
    builder.Finish(schema.PackageEnd(builder), file_identifier=b"DWN1")
    return bytes(builder.Output())


def _write_multi_executable(executables: Sequence[Executable]) -> bytes:
    serialized = [_write_executable(executable) for executable in executables]
    builder = flatbuffers.Builder(sum(map(len, serialized)) + (len(serialized) + 1) * PAGE_BYTES)
    strings = []
    for data in serialized:
        builder.Prep(PAGE_BYTES, len(data) + 1)
        strings.append(builder.CreateString(data))
    vector = offset_vector(builder, strings)
    schema.MultiExecutableStart(builder)
    schema.MultiExecutableAddSerializedExecutables(builder, vector)
    builder.Finish(schema.MultiExecutableEnd(builder))
    return bytes(builder.Output())


def _write_executable(executable: Executable) -> bytes:
    size = len(executable.parameters) + sum(len(bitstream.data) for bitstream in executable.bitstreams)
    builder = flatbuffers.Builder(size + 4 * PAGE_BYTES)
    parameters = aligned_bytes(builder, bytes(executable.parameters), PAGE_BYTES)
    bitstreams = offset_vector(builder, [_bitstream(builder, item) for item in executable.bitstreams])
    hints = _hints(builder, executable.hints, executable.fully_deterministic)
    inputs = offset_vector(builder, [_layer(builder, layer, is_output=False) for layer in executable.inputs])
    outputs = offset_vector(builder, [_layer(builder, layer, is_output=True) for layer in executable.outputs])
    # It may be the name of a file, which need not be UTF-8.
    name = builder.CreateString(executable.name, errors="backslashreplace")
    chip = builder.CreateString(executable.chip)
    schema.ExecutableStart(builder)
    schema.ExecutableAddVersion(builder, executable.version)
    schema.ExecutableAddName(builder, name)
    schema.ExecutableAddBatchSize(builder, executable.batch_size)
    schema.ExecutableAddScratchSizeBytes(builder, executable.scratch_size_bytes)
    schema.ExecutableAddInstructionBitstreams(builder, bitstreams)
    schema.ExecutableAddParameters(builder, parameters)
    schema.ExecutableAddDmaHints(builder, hints)
    schema.ExecutableAddInputLayers(builder, inputs)
    schema.ExecutableAddOutputLayers(builder, outputs)
    schema.ExecutableAddChip(builder, chip)
    schema.ExecutableAddEstimatedCycles64bit(builder, executable.estimated_cycles)
    schema.ExecutableAddUsedNarrowMemoryBytesPerTile(builder, executable.narrow_memory_bytes_per_tile)
    schema.ExecutableAddType(builder, executable.type)
    schema.ExecutableAddParameterCachingToken(builder, executable.parameter_caching_token)
    schema.ExecutableAddUseTpuDramForParameters(builder, executable.uses_dram_for_parameters)
    builder.Finish(schema.ExecutableEnd(builder))
    return bytes(builder.Output())


def _meta(
    builder: flatbuffers.Builder, description: Description, name: str, batch: int, position: Position
) -> int:
    text = builder.CreateString(name)
    schema.MetaStart(builder)
    schema.MetaAddDesc(builder, description)
    schema.MetaAddBatch(builder, batch)
    schema.MetaAddName(builder, text)
    schema.MetaAddPosition(builder, position)
    return int(schema.MetaEnd(builder))


def _bitstream(builder: flatbuffers.Builder, bitstream: InstructionBitstream) -> int:
    data = aligned_bytes(builder, bitstream.data, INSTRUCTION_BYTES)
    fields = offset_vector(builder, [_field_offset(builder, field) for field in bitstream.field_offsets])
    schema.InstructionBitstreamStart(builder)
    schema.InstructionBitstreamAddBitstream(builder, data)
    schema.InstructionBitstreamAddFieldOffsets(builder, fields)
    return int(schema.InstructionBitstreamEnd(builder))


def _field_offset(builder: flatbuffers.Builder, field: FieldOffset) -> int:
    meta = _meta(builder, field.description, field.name, field.batch, field.position)
    schema.FieldOffsetStart(builder)
    schema.FieldOffsetAddMeta(builder, meta)
    schema.FieldOffsetAddOffsetBit(builder, field.bit)
    return int(schema.FieldOffsetEnd(builder))


def _hints(builder: flatbuffers.Builder, hints: Sequence[Hint], fully_deterministic: bool) -> int:
    vector = offset_vector(builder, [_hint(builder, hint) for hint in hints])
    schema.DmaHintsStart(builder)
    schema.DmaHintsAddHints(builder, vector)
    schema.DmaHintsAddFullyDeterministic(builder, fully_deterministic)
    return int(schema.DmaHintsEnd(builder))


def _hint(builder: flatbuffers.Builder, hint: Hint) -> int:
    direction = Direction.INFEED
    if isinstance(hint, DmaHint):
        direction = hint.direction
        meta = _meta(builder, hint.description, hint.name, hint.batch, Position.LOWER_32BIT)
        schema.DmaDescriptorHintStart(builder)
        schema.DmaDescriptorHintAddMeta(builder, meta)
        schema.DmaDescriptorHintAddOffsetInBytes(builder, hint.offset)
        schema.DmaDescriptorHintAddSizeInBytes(builder, hint.size)
        kind, union = schema.AnyHint.DmaDescriptorHint, schema.DmaDescriptorHintEnd(builder)
    elif isinstance(hint, InstructionHint):
        schema.InstructionHintStart(builder)
        schema.InstructionHintAddInstructionChunkIndex(builder, hint.chunk)
        kind, union = schema.AnyHint.InstructionHint, schema.InstructionHintEnd(builder)
    elif isinstance(hint, InterruptHint):
        direction = Direction.OUTFEED
        schema.InterruptHintStart(builder)
        schema.InterruptHintAddType(builder, hint.number)
        kind, union = schema.AnyHint.InterruptHint, schema.InterruptHintEnd(builder)
    else:
        schema.FenceHintStart(builder)
        kind, union = schema.AnyHint.FenceHint, schema.FenceHintEnd(builder)
    schema.DmaHintStart(builder)
    schema.DmaHintAddAnyHintType(builder, kind)
    schema.DmaHintAddAnyHint(builder, union)
    schema.DmaHintAddDirection(builder, direction)
    return int(schema.DmaHintEnd(builder))


def _layer(builder: flatbuffers.Builder, layer: Layer, *, is_output: bool) -> int:
    if is_output:
        layout = _layout(builder, layer.layout) if layer.layout is not None else 0
        schema.OutputLayerStart(builder)
        schema.OutputLayerAddLayout(builder, layout)
        kind, union = schema.AnyLayer.OutputLayer, schema.OutputLayerEnd(builder)
    else:
        schema.InputLayerStart(builder)
        kind, union = schema.AnyLayer.InputLayer, schema.InputLayerEnd(builder)
    name = builder.CreateString(layer.name)
    schema.NumericsConstantsStart(builder)
    schema.NumericsConstantsAddZeroPoint(builder, layer.zero_point)
    schema.NumericsConstantsAddDequantizationFactor(builder, layer.dequantization_factor)
    numerics = schema.NumericsConstantsEnd(builder)
    y_dim, x_dim, z_dim = layer.shape
    schema.LayerStart(builder)
    schema.LayerAddName(builder, name)
    schema.LayerAddSizeBytes(builder, layer.size_bytes)
    schema.LayerAddYDim(builder, y_dim)
    schema.LayerAddXDim(builder, x_dim)
    schema.LayerAddZDim(builder, z_dim)
    schema.LayerAddNumerics(builder, numerics)
    schema.LayerAddDataType(builder, layer.data_type)
    schema.LayerAddAnyLayerType(builder, kind)
    schema.LayerAddAnyLayer(builder, union)
    schema.LayerAddExecutionCountPerInference(builder, layer.execution_count)
    return int(schema.LayerEnd(builder))


def _layout(builder: flatbuffers.Builder, layout: OutputLayout) -> int:
    y_to_tile, x_to_tile, tile_offset, x_local, y_local, row_size = (
        int32_vector(builder, values) for values in layout.maps
    )
    schema.OutputLayoutStart(builder)
    schema.OutputLayoutAddYCoordinateToLinearTileIdMap(builder, y_to_tile)
    schema.OutputLayoutAddXCoordinateToLinearTileIdMap(builder, x_to_tile)
    schema.OutputLayoutAddLinearizedTileByteOffset(builder, tile_offset)
    schema.OutputLayoutAddXCoordinateToLocalByteOffset(builder, x_local)
    schema.OutputLayoutAddYCoordinateToLocalYOffset(builder, y_local)
    schema.OutputLayoutAddXCoordinateToLocalYRowSize(builder, row_size)
    return int(schema.OutputLayoutEnd(builder))

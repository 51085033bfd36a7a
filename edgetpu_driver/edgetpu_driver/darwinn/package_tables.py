"""The tables of the DarwiNN package, with their fields in the order of schema/darwinn.fbs.

A union has two fields, its type and its table.
"""

from __future__ import annotations

from edgetpu_driver.files.flatbuffer import table_fields

PACKAGE = table_fields(
    "min_runtime_version", "serialized_multi_executable", "signature", "keypair_version", "compiler_version",
    "virtual_chip_id", "multi_chip_package", "model_identifier",
)  # fmt: skip
SERIALIZED_PACKAGE = table_fields("serialized_package")
MULTI_EXECUTABLE = table_fields("serialized_executables")
EXECUTABLE = table_fields(
    "version", "name", "serialized_model", "batch_size", "scratch_size_bytes", "instruction_bitstreams",
    "parameters", "dma_hints", "input_layers", "output_layers", "chip", "estimated_cycles",
    "used_narrow_memory_bytes_per_tile", "type", "parameter_caching_token", "use_tpu_dram_for_parameters",
    "estimated_cycles_64bit",
)  # fmt: skip
BITSTREAM = table_fields("bitstream", "field_offsets")
FIELD_OFFSET = table_fields("meta", "offset_bit")
META = table_fields("desc", "batch", "name", "position")
DMA_HINTS = table_fields("hints", "fully_deterministic")
DMA_HINT = table_fields("any_hint_type", "any_hint", "direction")
DESCRIPTOR_HINT = table_fields("meta", "offset_in_bytes", "size_in_bytes")
INSTRUCTION_HINT = table_fields("instruction_chunk_index")
INTERRUPT_HINT = table_fields("type")
LAYER = table_fields(
    "name", "size_bytes", "y_dim", "x_dim", "z_dim", "numerics", "data_type", "any_layer_type", "any_layer",
    "execution_count_per_inference", "cache_on_dram", "shape",
)  # fmt: skip
NUMERICS = table_fields("zero_point", "dequantization_factor")
OUTPUT_LAYER = table_fields("layout", "data_type", "shape_info")
OUTPUT_LAYOUT = table_fields(
    "y_coordinate_to_linear_tile_id_map", "x_coordinate_to_linear_tile_id_map", "linearized_tile_byte_offset",
    "x_coordinate_to_local_byte_offset", "y_coordinate_to_local_y_offset", "x_coordinate_to_local_y_row_size",
)  # fmt: skip

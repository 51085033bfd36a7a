"""The rows of the chip's memory that parameter caching programs fill."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path

import pytest

from edgetpu_driver.compiled_model import CompiledModel
from edgetpu_driver.darwinn.chip_geometry import TILES
from edgetpu_driver.darwinn.executable import Executable, ExecutableType, InstructionBitstream
from edgetpu_driver.darwinn.instructions.instruction_word import assemble
from edgetpu_driver.darwinn.instructions.operations import operations
from edgetpu_driver.darwinn.instructions.parameter_region import (
    EVERYWHERE,
    ROW_BYTES,
    ROWS,
    Region,
    fill_all_tiles,
    region_of,
    rows_for,
)
from edgetpu_driver.errors import InputError, ModelFormatError
from testdata import GOLDEN, ModelFolder

HEADER_BYTES = 512
"""Multipliers and zero points of 64 outputs, which are not in the rows."""


def caching(path: Path) -> Executable:
    executable = CompiledModel.load(path).caching
    assert executable is not None
    return executable


def size(region: Region) -> int:
    return region.bit_count() * ROW_BYTES


def rows(region: Region, tile: int) -> list[int]:
    return [row for row in range(ROWS) if region >> ROWS * tile + row & 1]


def filling(*operation: tuple[int, int]) -> Executable:
    """A program of ring consumers, each with its first row and its number of rows."""
    words = [assemble(fill_all_tiles(*each)) for each in operation]
    numbered = [
        (int.from_bytes(word, "little") | number << 46).to_bytes(64, "little")
        for number, word in enumerate(words)
    ]
    return caching_program(b"".join(numbered))


def caching_program(data: bytes) -> Executable:
    return Executable(
        type=ExecutableType.PARAMETER_CACHING,
        name="",
        parameter_caching_token=1,
        bitstreams=(InstructionBitstream(data),),
        parameters=b"",
        hints=(),
        fully_deterministic=True,
        inputs=(),
        outputs=(),
    )


def test_a_dense_model_has_its_groups_on_tiles_of_their_own(golden: ModelFolder) -> None:
    executable = caching(golden.model("dense_256_edgetpu.tflite"))
    region = region_of(executable)
    assert [rows(region, tile) for tile in range(TILES)] == [list(range(2, 66))] * 4 + [[]] * 12
    assert size(region) == len(executable.parameters) - 4 * HEADER_BYTES


def test_all_programs_of_the_real_compiler_are_understood(golden: ModelFolder) -> None:
    compiled = [CompiledModel.load(path) for path in golden.models("_edgetpu.tflite")]
    regions = [region_of(model.caching) for model in compiled if model.caching is not None]
    assert len(regions) > 10
    assert EVERYWHERE not in regions


def test_models_compiled_together_have_no_row_in_common(golden: ModelFolder) -> None:
    one = "mobilenet_v1_0.25_128_quant_cocompiled_with_mobilenet_v1_0.5_160_quant_edgetpu.tflite"
    other = "cocompiled/mobilenet_v1_0.5_160_quant_cocompiled_with_mobilenet_v1_0.25_128_quant_edgetpu.tflite"
    first, second = caching(golden.model(one)), caching(GOLDEN.path(other))
    assert first.parameter_caching_token == second.parameter_caching_token
    assert region_of(first) & region_of(second) == 0


def test_segments_of_a_pipeline_have_rows_in_common_although_they_have_one_token(golden: ModelFolder) -> None:
    name = "ssd_mobilenet_v1_coco_quant_postprocess_segment_{}_of_2_edgetpu.tflite"
    first = caching(GOLDEN.path(f"vision/{name.format(0)}"))
    second = caching(golden.model(name.format(1)))
    assert first.parameter_caching_token == second.parameter_caching_token
    assert (size(region_of(first)), size(region_of(second))) == (3_364_352, 3_787_008)
    assert size(region_of(first) & region_of(second)) > 2_000_000


def test_the_region_is_the_union_of_what_the_operations_fill() -> None:
    region = region_of(filling((3, 2), (10, 1)))
    assert [rows(region, tile) for tile in range(TILES)] == [[3, 4, 10]] * TILES


@pytest.mark.parametrize(
    "data",
    [
        b"",
        bytes(16),
        filling((3, 2)).bitstreams[0].data[:-16],
        filling((3, 2)).bitstreams[0].data * 2,
    ],
    ids=["nothing", "unknown", "cut short", "out of number"],
)
def test_a_program_that_is_not_understood_may_fill_everything(data: bytes) -> None:
    assert region_of(caching_program(data)) == EVERYWHERE


def test_rows_beyond_the_memory_are_not_understood() -> None:
    data = bytearray(filling((ROWS - 2, 2)).bitstreams[0].data)
    data[12] += 1  # a third row
    assert region_of(caching_program(bytes(data))) == EVERYWHERE


def test_numbers_continue_from_chunk_to_chunk(golden: ModelFolder) -> None:
    model = CompiledModel.load(golden.model("deeplabv3_mnv2_pascal_quant_edgetpu.tflite"))
    chunks = [bitstream.data for bitstream in model.execution.bitstreams]
    assert len(chunks) == 2
    assert sum(each.numbered for each in operations(chunks)) > 1024
    with pytest.raises(ModelFormatError, match="expected operation 0; got"):
        list(operations(chunks[1:]))


@pytest.mark.parametrize(("first", "count"), [(0, 0), (-1, 1), (0, ROWS + 1), (ROWS, 1)])
def test_no_program_is_written_that_fills_other_than_rows_of_the_memory(first: int, count: int) -> None:
    with pytest.raises(InputError, match="expected rows within 0 to 2048"):
        fill_all_tiles(first, count)


@pytest.mark.parametrize(("count", "expected"), [(0, 0), (1, 1), (4096, 1), (4097, 2)])
def test_rows_that_parameters_take(count: int, expected: int) -> None:
    assert rows_for(count) == expected


def test_regions_of_one_row_each_differ() -> None:
    regions = [region_of(filling((row, 1))) for row in (0, 1, 2047)]
    assert all(first & second == 0 for first, second in combinations(regions, 2))

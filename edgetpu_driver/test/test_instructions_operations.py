"""Bitstreams as operations: splitting, numbering, text form, and the requantisation of golden programs."""

from __future__ import annotations

import struct
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from edgetpu_driver.compiled_model import CompiledModel
from edgetpu_driver.darwinn.executable import Executable
from edgetpu_driver.darwinn.instructions.border_fill import with_border_value
from edgetpu_driver.darwinn.instructions.operation_assembly import from_text, to_text
from edgetpu_driver.darwinn.instructions.operations import FORMS, Operation, join, operations, split
from edgetpu_driver.darwinn.instructions.program_frame import NOP
from edgetpu_driver.darwinn.instructions.tensor_operation import (
    read_requantisation,
    requantises,
    with_offset,
    write_requantisation,
)
from edgetpu_driver.darwinn.requantisation import Activation, Requantisation, clamps, multipliers
from edgetpu_driver.errors import InputError, ModelFormatError
from testdata import ModelFolder

WAIT = 0x1A << 6
TENSOR = 0x01 << 6
READS = Requantisation(0.25, -128.0, 127.0, 3, 4, 128)
DENSE_SCALE = 0.01904885843396187
"""Of the output of golden dense_256."""


def executables(golden: ModelFolder) -> Iterator[Executable]:
    for path in golden.models("_edgetpu.tflite"):
        for model in CompiledModel.parse_parts(path.read_bytes()):
            yield model.execution
            if model.caching is not None:
                yield model.caching


def wait(number: int) -> bytes:
    return Operation.of(WAIT).numbered_as(number).encode()


def test_every_golden_stream_is_split_to_its_end_and_put_together_again(golden: ModelFolder) -> None:
    for executable in executables(golden):
        streams = [bitstream.data for bitstream in executable.bitstreams]
        chunks = split(streams)
        assert [chunk.obstacle for chunk in chunks] == [""] * len(chunks)
        assert [join(chunk.operations) for chunk in chunks] == streams


def test_a_golden_stream_has_a_text_that_reads_back(golden: ModelFolder) -> None:
    model = CompiledModel.load(golden.model("gabor_64x64_p4_edgetpu.tflite"))
    streams = [bitstream.data for bitstream in model.execution.bitstreams]
    assert [join(from_text(to_text(chunk.operations))) for chunk in split(streams)] == streams


def test_golden_operations_of_every_kind_have_a_text_that_reads_back(golden: ModelFolder) -> None:
    """Up to 500 of each kind."""
    kinds: dict[str, list[Operation]] = defaultdict(list)
    for executable in executables(golden):
        for each in operations(bitstream.data for bitstream in executable.bitstreams):
            kinds[each.name].append(each)
    for found in kinds.values():
        chosen = found[:: -(-len(found) // 500)]
        assert from_text(to_text(chosen)) == chosen


def test_an_operation_has_as_many_words_as_its_kind() -> None:
    words = {form.name: form.words for form in FORMS.values()}
    assert words["tensor"] == 17
    assert words["wait"] == 1
    tensor = Operation.of(TENSOR)
    assert (tensor.name, len(tensor.encode()), tensor.numbered, tensor.tiles) == ("tensor", 272, True, 0)


def test_a_pop_keeps_its_tiles_elsewhere_and_has_no_number() -> None:
    pop = Operation.of(0x06 << 6 | 1 << 11 | 0xF0 << 409)
    assert (pop.name, pop.words, pop.numbered, pop.tiles) == ("pop", 4, False, 0xF0)


def test_a_word_of_the_scalar_core_is_for_no_tiles() -> None:
    assert next(operations([NOP.encode()])).tiles is None


def test_numbers_continue_from_chunk_to_chunk() -> None:
    assert [each.number for each in operations([wait(0) + wait(1), wait(2)])] == [0, 1, 2]


def test_a_stream_is_split_up_to_an_operation_out_of_number() -> None:
    first, second = split([wait(0) + wait(2), wait(1)])
    assert [each.number for each in first.operations] == [0]
    assert first.rest == wait(2)
    assert first.obstacle == "byte 16: expected operation 1; got 2"
    assert (second.operations, second.rest) == ((), wait(1))
    assert second.obstacle == "an earlier chunk was not split to its end"


def test_a_stream_is_split_up_to_an_unknown_operation() -> None:
    unknown = (0x08 << 6).to_bytes(16, "little")
    (chunk,) = split([wait(0) + unknown])
    assert (len(chunk.operations), chunk.rest) == (1, unknown)
    assert chunk.obstacle == "byte 16: expected a known operation; got opcode 0x8"


def test_an_incomplete_operation_is_not_split() -> None:
    tensor = Operation.of(TENSOR).encode()
    (chunk,) = split([tensor[:-16]])
    assert (chunk.operations, chunk.rest) == ((), tensor[:-16])


def test_a_number_of_an_unknown_kind_is_no_operation() -> None:
    with pytest.raises(ModelFormatError, match="expected an operation; got 0x200"):
        Operation.of(0x08 << 6)


def test_fields_can_be_changed_if_the_value_fits() -> None:
    assert Operation.of(WAIT).with_field(12, 27, 0xFFFF).tiles == 0xFFFF
    with pytest.raises(InputError, match="bits 12 to 27 do not hold 0x10000"):
        Operation.of(WAIT).with_field(12, 27, 0x10000)


def test_the_text_names_what_is_known_and_shows_the_rest() -> None:
    moves = Operation.of(int.from_bytes(NOP.encode(), "little"))
    filled = Operation.of(0x11 << 6 | 0x8 << 12 | 63 << 95 | 1 << 61)
    tensor = with_offset(write_requantisation(Operation.of(TENSOR), READS), -96)
    border = with_border_value(Operation.of(0x15 << 6 | 0x8 << 12 | 1 << 727), 0x80)
    assert to_text([moves, filled, tensor, border], offset=0x20).splitlines() == [
        "0020: scalar",
        "0030: ring_consumer number=0 tiles=8 first_row=0 last_row=0x3f u32[1]=0x20000000",
        "0070: tensor number=0 tiles=0 multiplier=0x3e800000 minimum=0xc3000000 maximum=0x42fe0000 "
        "input_zero_point=3 weight_zero_point=4 output_zero_point=0x80 offset=0xffffffa0"
        "  # clip(0.25 * (sum -96), -128, 127) + 128",
        "0180: mesh_0 number=0 tiles=8 is_constant=1 constant=0x80808080",
    ]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("jump", "line 2: 'jump' is not an operation; expected one of start, end"),
        ("wait tiles=0x10000", "line 2: tiles has 16 bits; 0x10000 does not fit"),
        ("wait tiles=many", "line 2: expected a number for tiles, got 'many'"),
        ("wait row=1", "line 2: 'row' is not a field of wait"),
        ("wait tiles=1 tiles=1", "line 2: the field tiles is given twice"),
        ("wait u32[4]=1", r"line 2: u32\[4\]=1 does not fit into 4 numbers"),
        ("wait u32[0]=0x800", r"line 2: u32\[0\] changes the kind of the operation"),
        ("scalar branch=4", "line 2: expected scalar; these are the fields of synchronise"),
        ("scalar branch=0x1e", "line 2: expected scalar; these are the fields of start"),
        ("scalar gate=2", "line 2: gate has 1 bits"),
        ("0010:", "line 2: expected the name of an operation"),
        ("xyz: wait", "line 2: expected a byte offset before the colon, got 'xyz'"),
    ],
)
def test_anything_else_is_malformed_and_the_line_is_named(line: str, message: str) -> None:
    with pytest.raises(ModelFormatError, match=message):
        from_text(f"# a comment\n{line}\n")


def test_a_requantisation_that_was_written_is_read_back() -> None:
    marked = Operation.of(TENSOR | 1 << 1948 | 1 << 2045 | 0xFFFF << 12)
    written = write_requantisation(marked, READS)
    assert read_requantisation(written) == READS
    cleared = write_requantisation(written, Requantisation(0.0, 0.0, 0.0, 0, 0, 0))
    assert cleared == marked


def test_only_operations_of_17_words_requantise() -> None:
    assert not requantises(Operation.of(WAIT))
    with pytest.raises(ModelFormatError, match="expected an operation that requantises; got wait"):
        read_requantisation(Operation.of(WAIT))


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 1e300])
def test_numbers_that_are_not_finite_as_float32_are_refused(value: float) -> None:
    with pytest.raises(InputError, match="finite as float32"):
        write_requantisation(Operation.of(TENSOR), replace(READS, multiplier=value))


def test_a_zero_point_beyond_a_byte_is_refused() -> None:
    with pytest.raises(InputError, match="do not hold 0x100"):
        write_requantisation(Operation.of(TENSOR), replace(READS, output_zero_point=256))


@pytest.mark.parametrize(
    ("scale", "zero_point", "activation", "bits"),
    [
        pytest.param(DENSE_SCALE, 129, "NONE", (0xC3010001, 0x42FC0001), id="dense_256"),
        pytest.param(DENSE_SCALE, 129, "RELU", (0, 0x42FC0001), id="dense_256 with RELU"),
        pytest.param(DENSE_SCALE, 129, "RELU6", (0, 0x42FC0001), id="dense_256 with RELU6"),
        pytest.param(0.023529469966888428, 0, "RELU6", (0, 0x437EFFD6), id="DeepLab: 6 is within the range"),
        pytest.param(
            0.023528477177023888, 0, "RELU6", (0, 0x437F0000), id="MobileNet: 6 is beyond the range"
        ),
    ],
)
def test_clamps_round_as_the_compiler_rounds(
    scale: float, zero_point: int, activation: Activation, bits: tuple[int, int]
) -> None:
    """The first pair is in the program of golden dense_256, the last two in those of the networks named."""
    found = clamps(scale, zero_point, activation)
    assert tuple(struct.unpack("<I", struct.pack("<f", each))[0] for each in found) == bits


def test_a_layer_of_golden_mobilenet_is_requantised_as_its_scales_say(golden: ModelFolder) -> None:
    """Its classifier: scales and zero points of the public graph, in two operations."""
    model = CompiledModel.load(golden.model("mobilenet_v1_0.25_128_quant_edgetpu.tflite"))
    (multiplier,) = multipliers(0.023528477, [0.005540293], 0.13083284).tolist()
    minimum, maximum = clamps(0.13083284, 96, "NONE")
    expected = Requantisation(multiplier, minimum, maximum, 0, 94, 96)
    streams = [bitstream.data for bitstream in model.execution.bitstreams]
    found = [read_requantisation(each) for each in operations(streams) if requantises(each)]
    assert found.count(expected) == 2
    assert np.float32(multiplier) == multiplier

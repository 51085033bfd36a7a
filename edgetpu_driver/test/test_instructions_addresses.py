"""Address fields: 32 bits at any bit offset, and where golden programs have them."""

from __future__ import annotations

import pytest

from edgetpu_driver.compiled_model import CompiledModel
from edgetpu_driver.darwinn.executable import Description
from edgetpu_driver.darwinn.instructions.address_fields import read_field, write_field
from edgetpu_driver.darwinn.instructions.instruction_word import Instruction
from edgetpu_driver.errors import InputError, ModelFormatError
from testdata import ModelFolder


@pytest.mark.parametrize("bit", [0, 1, 7, 8, 70, 95, 96])
@pytest.mark.parametrize("background", [0x00, 0xFF])
def test_a_value_replaces_its_32_bits_and_no_others(bit: int, background: int) -> None:
    data = bytearray([background] * 16)
    before = int.from_bytes(data, "little")
    write_field(data, bit, 0xDEAD_BEEF)
    after = int.from_bytes(data, "little")
    mask = 0xFFFF_FFFF << bit
    assert after & mask == 0xDEAD_BEEF << bit
    assert after & ~mask == before & ~mask
    assert read_field(data, bit) == 0xDEAD_BEEF


@pytest.mark.parametrize("bit", [-1, 97, 1000])
def test_fields_outside_the_bitstream_are_malformed(bit: int) -> None:
    with pytest.raises(ModelFormatError, match=f"128 bits has no 32-bit address field at bit {bit}"):
        read_field(bytes(16), bit)
    with pytest.raises(ModelFormatError, match=f"no 32-bit address field at bit {bit}"):
        write_field(bytearray(16), bit, 0)


@pytest.mark.parametrize("value", [-1, 1 << 32])
def test_values_of_more_than_32_bits_are_refused(value: int) -> None:
    with pytest.raises(InputError, match="an address field has 32 bits"):
        write_field(bytearray(16), 0, value)


def test_golden_address_fields_are_immediates_of_moves_and_zero(golden: ModelFolder) -> None:
    for path in golden.models("_edgetpu.tflite"):
        for bitstream in CompiledModel.load(path).execution.bitstreams:
            for field in bitstream.field_offsets:
                index, bit = divmod(field.bit, 128)
                assert bit == 70
                move = Instruction.decode(bitstream.data[16 * index : 16 * (index + 1)])
                assert (move.s_op, move.imm_scalar) == (0x2F, 0)


def test_dense_256_has_its_address_fields_at_the_published_bytes(golden: ModelFolder) -> None:
    model = CompiledModel.load(golden.model("dense_256_edgetpu.tflite"))
    fields = model.execution.bitstreams[0].field_offsets
    described = [(field.description, field.bit // 8) for field in fields[:6]]
    assert described == [
        (Description.PARAMETER, 0x048),
        (Description.PARAMETER, 0x058),
        (Description.SCRATCH, 0x068),
        (Description.SCRATCH, 0x078),
        (Description.INPUT, 0x0E8),
        (Description.INPUT, 0x0F8),
    ]


def test_writing_zero_addresses_leaves_a_golden_bitstream_unchanged(golden: ModelFolder) -> None:
    model = CompiledModel.load(golden.model("dense_256_edgetpu.tflite"))
    bitstream = model.execution.bitstreams[0]
    data = bytearray(bitstream.data)
    for field in bitstream.field_offsets:
        write_field(data, field.bit, 0)
    assert data == bitstream.data
    write_field(data, bitstream.field_offsets[0].bit, 1)
    assert data != bitstream.data

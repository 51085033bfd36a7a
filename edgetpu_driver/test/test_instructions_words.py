"""Instruction words: fields and bits, singly and in bulk, constructed and from every golden bitstream."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from edgetpu_driver.compiled_model import CompiledModel
from edgetpu_driver.darwinn.instructions.field_statistics import field_statistics
from edgetpu_driver.darwinn.instructions.instruction_word import (
    Instruction,
    assemble,
    disassemble,
    field_arrays,
    with_length,
)
from edgetpu_driver.darwinn.instructions.instruction_word_fields import FIELDS, LENGTH, scalar_mnemonic
from edgetpu_driver.darwinn.instructions.word_assembly import from_text, to_text
from edgetpu_driver.errors import InputError, ModelFormatError
from testdata import ModelFolder


def golden_bitstreams(golden: ModelFolder) -> list[bytes]:
    """The machine code of every golden model."""
    found = []
    for path in golden.models("_edgetpu.tflite"):
        model = CompiledModel.load(path)
        executables = [model.execution] if model.caching is None else [model.caching, model.execution]
        found += [bitstream.data for each in executables for bitstream in each.bitstreams]
    return found


def random_words(count: int) -> bytes:
    return np.random.default_rng(1).bytes(16 * count)


def test_fields_cover_the_128_bits_without_gaps() -> None:
    ends = [field.position + field.width for field in FIELDS]
    assert [field.position for field in FIELDS] == [0, *ends[:-1]]
    assert ends[-1] == 128


@pytest.mark.parametrize("field", FIELDS, ids=lambda field: field.name)
def test_each_field_holds_its_bits_and_no_others(field: tuple[str, int, int]) -> None:
    name, position, width = field
    largest = (1 << width) - 1
    instruction = Instruction(**{name: largest})
    assert int.from_bytes(instruction.encode(), "little") == largest << position
    assert Instruction.decode(instruction.encode()) == instruction
    assert instruction.fields == {name: largest}


@pytest.mark.parametrize("field", FIELDS, ids=lambda field: field.name)
def test_values_too_large_for_a_field_are_refused(field: tuple[str, int, int]) -> None:
    name, _, width = field
    with pytest.raises(InputError, match=f"the field {name} has {width} bits"):
        Instruction(**{name: 1 << width}).encode()


def test_a_real_word_sets_one_register_while_another_goes_to_the_descriptor(golden: ModelFolder) -> None:
    caching = CompiledModel.load(golden.model("dense_256_edgetpu.tflite")).caching
    assert caching is not None
    word = caching.bitstreams[0].data[11 * 16 : 12 * 16]
    assert Instruction.decode(word).fields == {
        "enable_scalar": 1,
        "v_op": 0xA,
        "v_offset": 1,
        "vs_reg": 5,
        "s_op": 0x2F,
        "s_x": 6,
        "imm_scalar": 67_584,
    }


def test_word_of_another_length_is_malformed() -> None:
    with pytest.raises(ModelFormatError, match="an instruction has 16 bytes; got 15"):
        Instruction.decode(bytes(15))


def test_bitstream_that_ends_within_a_word_is_malformed() -> None:
    with pytest.raises(ModelFormatError, match="byte 16 starts an incomplete one"):
        field_arrays(bytes(31))


def test_bulk_and_single_decoding_agree() -> None:
    data = random_words(200)
    singly = [Instruction.decode(data[start : start + 16]) for start in range(0, len(data), 16)]
    assert disassemble(data) == singly
    assert assemble(singly) == data


def test_an_empty_bitstream_has_no_instructions() -> None:
    assert disassemble(b"") == []
    assert assemble([]) == b""


def test_lengths_reach_beyond_the_12_bits_of_imm_size() -> None:
    marker = with_length(0x1E, 2_096_640)
    assert marker.length_bits == 2_096_640
    assert marker.fields == {
        "branch": 0x1E,
        "enable_scalar": 1,
        "imm_size": 0xE00,
        "v_op": 0x1F,
        "v_offset": 0xF,
    }
    with pytest.raises(InputError, match="the field length has 32 bits"):
        with_length(0x1E, 1 << LENGTH.width)


@pytest.mark.parametrize(
    ("s_op", "mnemonic"),
    [(0x00, "NOP"), (0x01, "ADD"), (0x21, "ADDI"), (0x2F, "MOVI"), (0x10, None), (0x3F, None)],
)
def test_scalar_operations_have_the_documented_names(s_op: int, mnemonic: str | None) -> None:
    assert scalar_mnemonic(s_op) == mnemonic


def test_every_golden_word_survives_all_representations(golden: ModelFolder) -> None:
    data = np.unique(np.frombuffer(b"".join(golden_bitstreams(golden)), "V16")).tobytes()
    instructions = disassemble(data)
    assert from_text(to_text(instructions)) == instructions
    assert assemble(instructions) == data


def test_dense_256_has_the_published_instruction_counts(golden: ModelFolder) -> None:
    model = CompiledModel.load(golden.model("dense_256_edgetpu.tflite"))
    assert model.caching is not None
    counts = [len(disassemble(each.bitstreams[0].data)) for each in (model.caching, model.execution)]
    assert counts == [67, 264]


def test_statistics_count_every_value_of_every_field() -> None:
    one = assemble([Instruction(v_op=0xA), Instruction(v_op=0xC, s_op=0x2F)])
    statistics = field_statistics([one, assemble([Instruction(v_op=0xA)])])
    assert statistics["v_op"] == {0xA: 2, 0xC: 1}
    assert statistics["s_op"] == {0: 2, 0x2F: 1}
    assert statistics["unk_3"] == {0: 3}


def test_statistics_of_no_bitstreams_are_empty() -> None:
    assert set(field_statistics([])) == {field.name for field in FIELDS}
    assert not any(field_statistics([]).values())


def test_golden_statistics_agree_with_counting_one_by_one(golden: ModelFolder) -> None:
    bitstreams = golden_bitstreams(golden)
    statistics = field_statistics(bitstreams)
    words = Counter(data[start : start + 16] for data in bitstreams for start in range(0, len(data), 16))
    triggers = sum(count for word, count in words.items() if Instruction.decode(word).v_op == 0xC)
    assert statistics["v_op"][0xC] == triggers
    assert {sum(counts.values()) for counts in statistics.values()} == {sum(map(len, bitstreams)) // 16}

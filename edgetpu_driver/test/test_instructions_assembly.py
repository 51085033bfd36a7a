"""The text form of programs: its format, and malformed text."""

from __future__ import annotations

import pytest

from edgetpu_driver.darwinn.instructions.instruction_word import Instruction, disassemble
from edgetpu_driver.darwinn.instructions.program_frame import ProgramBuilder
from edgetpu_driver.darwinn.instructions.word_assembly import from_text, to_text
from edgetpu_driver.errors import ModelFormatError


def test_lines_show_offset_fields_and_meaning() -> None:
    builder = ProgramBuilder()
    builder.append(
        Instruction(enable_scalar=1, v_op=0xA, v_offset=1, vs_reg=5, s_op=0x2F, s_x=6, imm_scalar=0x10800)
    )
    builder.append(Instruction(unk_3=0x1F00))
    builder.append(Instruction())
    assert to_text(disassemble(builder.build())).splitlines() == [
        "0000: branch=0x1e enable_scalar=1 imm_size=0x400  # start, 1024 bits",
        "0010: enable_scalar=1 v_op=0xa v_offset=1 vs_reg=5 s_op=MOVI s_x=6 imm_scalar=0x10800"
        "  # s6 = 0x10800",
        "0020: unk_3=0x1f00",
        "0030:",
        "0040: branch=1 enable_scalar=1 vs_reg_v1=4  # halt",
        "0050: enable_scalar=1",
        "0060: enable_scalar=1",
        "0070: enable_scalar=1",
        "0080: enable_scalar=1",
        "0090: branch=0x1f enable_scalar=1 imm_size=0x80  # end, 128 bits",
    ]


@pytest.mark.parametrize(
    ("instruction", "comment"),
    [
        (Instruction(enable_scalar=1, s_op=0x01, s_x=3, s_y=4, imm_scalar=5), "s3 = s4 + s5"),
        (Instruction(enable_scalar=1, s_op=0x27, s_x=3, s_y=4, imm_scalar=5), "s3 = s4 >> 0x5"),
        (Instruction(enable_scalar=1, s_op=0x2C, s_x=1, s_y=4, imm_scalar=16), "p1 = s4 < 0x10"),
        (Instruction(enable_scalar=1, s_op=0x0B, s_x=1, s_y=4, imm_scalar=2), "p1 = s4 > (signed) s2"),
        (Instruction(enable_scalar=1, s_op=0x0F, s_x=1, imm_scalar=2), "s1 = s2"),
        (Instruction(enable_scalar=1), ""),
        (Instruction(enable_scalar=1, s_op=0x20, imm_scalar=1), ""),  # NOP with an operand
        (Instruction(enable_scalar=1, s_op=0x34), "scalar operation not documented"),
    ],
)
def test_comments_explain_scalar_operations(instruction: Instruction, comment: str) -> None:
    assert to_text([instruction]).rstrip("\n").partition("  # ")[2] == comment


def test_comments_offsets_and_blank_lines_are_optional() -> None:
    text = """
    # a program
    s_op=MOVI enable_scalar=1 imm_scalar=42

    0010:   # a word of zeros
    branch=0x1f
    """
    assert from_text(text) == [
        Instruction(enable_scalar=1, s_op=0x2F, imm_scalar=42),
        Instruction(),
        Instruction(branch=0x1F),
    ]


def test_undocumented_operations_are_read_as_numbers() -> None:
    assert from_text("s_op=0x34") == [Instruction(s_op=0x34)]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("opcode=1", "line 2: 'opcode' is not a field of an instruction"),
        ("gate", "line 2: expected a number for gate, got ''"),
        ("v_op=ten", "line 2: expected a number for v_op, got 'ten'"),
        ("v_op=32", "line 2: v_op has 5 bits; 32 does not fit"),
        ("v_op=-1", "line 2: v_op has 5 bits; -1 does not fit"),
        ("gate=1 gate=1", "line 2: the field gate is given twice"),
        ("xyz: gate=1", "line 2: expected a byte offset before the colon, got 'xyz'"),
    ],
)
def test_anything_else_is_malformed_and_the_line_is_named(line: str, message: str) -> None:
    with pytest.raises(ModelFormatError, match=message):
        from_text(f"gate=1\n{line}\n")

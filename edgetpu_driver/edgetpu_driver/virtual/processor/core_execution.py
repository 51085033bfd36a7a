"""Programs that a virtual Edge TPU runs from their bytes, operation by operation, on its scalar core.

The core executes its own words. The operations for tiles are known only in the form that they have in
programs of matrices; in any other program they make it hang, as do words whose meaning is not established.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from edgetpu_driver.darwinn.instructions.instruction_word import Instruction, disassemble
from edgetpu_driver.darwinn.instructions.instruction_word_fields import Branch, VectorOp
from edgetpu_driver.darwinn.instructions.operations import Operation, split_by_length
from edgetpu_driver.darwinn.instructions.program_frame import check_frame
from edgetpu_driver.darwinn.instructions.requested_transfers import DESCRIPTOR_WORDS, Transfer
from edgetpu_driver.darwinn.instructions.scalar_core import ScalarCore
from edgetpu_driver.errors import ModelFormatError, ModelUnsupportedError
from edgetpu_driver.usb.framing import Tag
from edgetpu_driver.virtual.matrix_programs.operation_roles import (
    ProgramFaultError,
    execution_roles,
    upload_roles,
)
from edgetpu_driver.virtual.matrix_programs.product import MatrixProduct, read_product
from edgetpu_driver.virtual.matrix_programs.upload import MatrixUpload, read_upload

_TO_CHIP = (Tag.INPUT_ACTIVATIONS, Tag.PARAMETERS)
_INTERRUPTS = range(Tag.INTERRUPT_0, Tag.INTERRUPT_3 + 1)
"""The tags of the scalar core's interrupts, by which a program says that a part of it is done."""


@dataclass(frozen=True)
class CodeProgram:
    """A program whose operations are all understood."""

    operations: tuple[Operation, ...]
    upload: MatrixUpload | None = None
    """The destinations of a matrix's parameters; None if the program uploads none."""
    product: MatrixProduct | None = None
    """The product that the program computes; None if it does not multiply by a matrix."""

    @property
    def scalar(self) -> bool:
        """Whether it uses the scalar core alone."""
        return self.upload is None and self.product is None


def read_program(instructions: bytes) -> CodeProgram | None:
    """A program that can be run from its bytes; None for any other program.

    Raises ProgramFaultError for a program that a chip would not run to its end.
    """
    matrix = read_matrix_program(instructions)
    if matrix is not None:
        return matrix
    try:
        operations = tuple(split_by_length(instructions))
    except ModelFormatError:
        return None
    if not operations or any(each.words > 1 or each.numbered for each in operations):
        return None
    try:
        check_frame(disassemble(instructions))
    except ModelFormatError as error:
        raise ProgramFaultError(str(error)) from None
    return CodeProgram(operations)


def read_matrix_program(instructions: bytes) -> CodeProgram | None:
    """The program if it is that of a matrix, otherwise None; raises what `read_program` raises."""
    try:
        operations = split_by_length(instructions)
    except ModelFormatError:
        return None
    roles = upload_roles(operations)
    if roles is not None:
        return CodeProgram(tuple(operations), upload=read_upload(roles))
    roles = execution_roles(operations)
    return None if roles is None else CodeProgram(tuple(operations), product=read_product(roles))


class CoreExecution:
    """One program on the scalar core, from its first word to its halt."""

    def __init__(self, program: CodeProgram, core: ScalarCore) -> None:
        self.program = program
        self.halted = False
        self.wanted: Transfer | None = None
        """The transfer to the chip for which the program waits."""
        self.received: deque[tuple[int, bytes]] = deque()
        """Frames of inputs and parameters that the program has not taken yet: tag and payload."""
        self.streamed = b""
        """The inputs or the parameters that the program took last."""
        self._core = core
        self._descriptor = [0] * DESCRIPTOR_WORDS
        self._next = 0
        self.word = 0
        """Position of the next operation, in words from the start of the program."""

    def step(self) -> Transfer | None:
        """Execute one operation; returns the transfer that it requests.

        ModelUnsupportedError for an operation whose meaning is not established.
        """
        if self._next == len(self.program.operations):
            raise ModelUnsupportedError(f"the program of {self.word} instructions does not halt")
        operation = self.program.operations[self._next]
        transfer = None
        if operation.kind.scalar and operation.words == 1:
            transfer = self._scalar(Instruction.decode(operation.encode()))
        if not self.halted:
            self._next += 1
            self.word += operation.words
        return transfer

    def _scalar(self, word: Instruction) -> Transfer | None:
        core = self._core
        if word.branch == Branch.START and self.word == 0:
            return None
        if word.branch == Branch.HALT:
            self.halted = core.selects(word)
            return None
        if word.branch:
            raise ModelUnsupportedError(
                f"instruction {self.word}: what branch {word.branch:#x} does is not established"
            )
        transfer = self._transfer(word) if core.selects(word) else None
        core.execute(word, self.word)
        return transfer

    def _transfer(self, word: Instruction) -> Transfer | None:
        """Store a word of a descriptor, or return the transfer that the complete descriptor describes."""
        if word.v_op == VectorOp.LOAD_DESCRIPTOR and word.v_offset < DESCRIPTOR_WORDS:
            self._descriptor[word.v_offset] = self._core.registers[word.vs_reg]
        elif word.v_op == VectorOp.TRANSFER:
            low, high, size, tag = self._descriptor
            self._check(tag, size)
            found = Transfer(tag, size, high << 32 | low, self.word)
            self.wanted = found if tag in _TO_CHIP else None
            return found
        elif word.v_op or word.v_offset or word.vs_reg:
            raise ModelUnsupportedError(
                f"instruction {self.word}: what v_op {word.v_op:#x} with v_offset {word.v_offset} does "
                "is not established"
            )
        return None

    def _check(self, tag: int, size: int) -> None:
        if tag in _INTERRUPTS and size == 0:
            return
        if self.program.scalar:
            raise ModelUnsupportedError(
                f"instruction {self.word}: a transfer with tag {tag} of {size} bytes; the scalar core "
                "by itself only sends interrupts, tags 4 to 7 of 0 bytes"
            )

"""Splits bitstreams into operations of 1 to 17 words, joins them, and reads and changes their bits.

Lengths were found by aligning streams of edgetpu_compiler 16. Operations of the tiles (bit 11 is not set)
carry consecutive numbers, which confirm that a stream is split correctly, as all streams of the golden models
are, to their end. Splitting stops at an unknown opcode.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from edgetpu_driver.darwinn.instructions.instruction_word_fields import WORD_BYTES
from edgetpu_driver.errors import InputError, ModelFormatError

MOST_WORDS = 17
"""Words of the longest operation in compiled models, a tensor operation."""

# Opcodes; the scalar core and the tiles have separate ones, see `Kind`.
INFEED = 0x05
POP = 0x06
OUTFEED = 0x07
"""Opcodes for the link: receive data, pass it to tiles, send data. Inferred, see FORMS."""
RING_PRODUCER = 0x10
"""Puts data on the ring bus."""
RING_CONSUMER = 0x11
"""Moves parameters from the ring bus into the memory of tiles."""
NARROW_MEMORY = 0x13
ACTIVATION_CONSUMER = 0x14
"""Opcodes that move data within tiles and receive activations from the ring bus."""
WAIT = 0x1A
"""Opcode that waits for an operation of a given number."""
MESH_OPERATIONS = range(0x15, 0x19)
"""Exchange rows and columns between neighbouring tiles, one opcode for each direction."""
TENSOR_OPERATIONS = (0x01, 0x02, 0x03)
"""Multiply, accumulate and requantise; 0x02 and 0x03 appear in models with a softmax.

0x05, of the same length, was seen in one pose model. Its fields are unknown.
"""
LARGEST_OPERATION = 0x02
"""The tensor operation that finds the largest value, for a softmax."""
RESIZING_OPERATION = 0x05
"""The tensor operation 0x05. Of the models examined, only MoveNet has it; its graph resizes."""


class Kind(NamedTuple):
    """An opcode and the bit that says whether it is for the scalar core or for tiles."""

    opcode: int
    scalar: bool
    """Whether it is for the scalar core and the link; operations for tiles are numbered."""


class Form(NamedTuple):
    """Name and length of one kind of operations."""

    name: str
    words: int


SCALAR_WORD = "scalar"
"""Name of operations that are a word of the scalar core."""

FORMS: dict[Kind, Form] = {
    **{Kind(opcode, True): Form(SCALAR_WORD, 1) for opcode in (0x00, 0x01, 0x02, 0x03)},
    Kind(0x1E, True): Form("start", 1),
    Kind(0x1F, True): Form("end", 1),
    Kind(0x04, True): Form("synchronise", 2),
    Kind(INFEED, True): Form("infeed", 2),
    Kind(POP, True): Form("pop", 4),
    Kind(OUTFEED, True): Form("outfeed", 2),
    Kind(0x01, False): Form("tensor", MOST_WORDS),
    Kind(LARGEST_OPERATION, False): Form("tensor_2", MOST_WORDS),
    Kind(0x03, False): Form("tensor_3", MOST_WORDS),
    Kind(RESIZING_OPERATION, False): Form("tensor_5", MOST_WORDS),
    Kind(RING_PRODUCER, False): Form("ring_producer", 4),
    Kind(RING_CONSUMER, False): Form("ring_consumer", 4),
    Kind(0x12, False): Form("ring_12", 4),
    Kind(NARROW_MEMORY, False): Form("narrow_memory", 7),
    Kind(ACTIVATION_CONSUMER, False): Form("ring_activations", 7),
    **{Kind(opcode, False): Form(f"mesh_{bus}", 6) for bus, opcode in enumerate(MESH_OPERATIONS)},
    Kind(0x19, False): Form("op_19", 13),
    Kind(WAIT, False): Form("wait", 1),
}
"""The kinds of known length. Names give the inferred function; a number means that it is unknown."""

NUMBERS = 1 << 10
"""Operation numbers have 10 bits and wrap around."""
WAIT_NUMBER, NUMBER = (28, 37), (46, 55)
"""First and last bit of the number: in a wait, and in other operations. Inferred, see FORMS."""
TILE_MASK, POP_TILE_MASK = (12, 27), (409, 424)
"""First and last bit of the mask of tiles: in most operations, and in a pop. Also inferred."""


class Operation(NamedTuple):
    """One operation, as a little-endian number of all its words. Fields are given by first and last bit."""

    value: int
    words: int

    @classmethod
    def of(cls, value: int) -> Operation:
        """The operation with this value; ModelFormatError if its kind is unknown or the value too long."""
        form = FORMS.get(_kind(value))
        if form is None or value >> 8 * WORD_BYTES * form.words or value < 0:
            raise ModelFormatError(f"expected an operation; got {value:#x}")
        return cls(value, form.words)

    @property
    def kind(self) -> Kind:
        """The opcode, and whether the operation is for the scalar core."""
        return _kind(self.value)

    @property
    def opcode(self) -> int:
        """Bits 6 to 10."""
        return self.kind.opcode

    @property
    def name(self) -> str:
        """The name of its kind."""
        return FORMS[self.kind].name

    @property
    def numbered(self) -> bool:
        """Whether it has a number; operations of the scalar core and those that cross the link have none."""
        return not self.kind.scalar

    @property
    def number(self) -> int:
        """The consecutive number, modulo 1024, of an operation that has one."""
        return self.field(*_number_bits(self.opcode))

    @property
    def tiles(self) -> int | None:
        """Mask of the tiles that execute it; None if it has none."""
        if self.kind == (POP, True):
            return self.field(*POP_TILE_MASK)
        return self.field(*TILE_MASK) if self.numbered else None

    def field(self, first: int, last: int) -> int:
        """Bits `first` to `last`, inclusive, as a number."""
        return (self.value >> first) & ((1 << (last - first + 1)) - 1)

    def with_field(self, first: int, last: int, value: int) -> Operation:
        """The operation with bits `first` to `last` replaced; InputError unless the value fits."""
        width = last - first + 1
        if not 0 <= value < 1 << width:
            raise InputError(f"bits {first} to {last} do not hold {value:#x}")
        mask = (1 << width) - 1
        return self._replace(value=self.value & ~(mask << first) | value << first)

    def numbered_as(self, number: int) -> Operation:
        """The operation with that consecutive number, modulo 1024."""
        return self.with_field(*_number_bits(self.opcode), number % NUMBERS)

    def encode(self) -> bytes:
        """The words of the operation."""
        return self.value.to_bytes(WORD_BYTES * self.words, "little")


class Chunk(NamedTuple):
    """A bitstream, split as far as its operations are known."""

    operations: tuple[Operation, ...]
    rest: bytes
    """The bytes after them; empty if all operations are known."""
    obstacle: str
    """Why the rest was not split; empty if there is none."""


def operations(bitstreams: Iterable[bytes | memoryview]) -> Iterator[Operation]:
    """The operations of all chunks of an executable, in order.

    Raises ModelFormatError, after yielding those before it, at an operation that is of unknown length,
    incomplete, or out of sequence.
    """
    for operation, _ in _located(bitstreams):
        yield operation


def split(bitstreams: Iterable[bytes | memoryview]) -> tuple[Chunk, ...]:
    """All chunks of an executable, split up to the first operation that is unknown or out of sequence."""
    chunks = []
    expected: int | None = 0
    for data in bitstreams:
        found: list[Operation] = []
        position, obstacle = 0, "" if expected is not None else "an earlier chunk was not split to its end"
        try:
            for operation, end in _split_one(data, expected) if expected is not None else ():
                found.append(operation)
                position = end
                expected = (expected or 0) + operation.numbered
        except ModelFormatError as error:
            obstacle, expected = str(error), None
        chunks.append(Chunk(tuple(found), bytes(data[position:]), obstacle))
    return tuple(chunks)


def split_by_length(data: bytes | memoryview) -> list[Operation]:
    """The operations of one chunk, without a check of their numbers.

    Raises ModelFormatError at an operation that is of unknown length or incomplete.
    """
    found, position = [], 0
    while position < len(data):
        found.append(_operation(data, position))
        position += WORD_BYTES * found[-1].words
    return found


def join(parts: Iterable[Operation]) -> bytes:
    """The bitstream of operations."""
    return b"".join(operation.encode() for operation in parts)


def _located(bitstreams: Iterable[bytes | memoryview]) -> Iterator[tuple[Operation, int]]:
    expected = 0
    for data in bitstreams:
        for operation, end in _split_one(data, expected):
            expected += operation.numbered
            yield operation, end


def _split_one(data: bytes | memoryview, expected: int) -> Iterator[tuple[Operation, int]]:
    """Each operation of one chunk and the byte where it ends."""
    position = 0
    while position < len(data):
        operation = _operation(data, position)
        if operation.numbered:
            if operation.number != expected % NUMBERS:
                raise ModelFormatError(
                    f"byte {position}: expected operation {expected % NUMBERS}; got {operation.number}"
                )
            expected += 1
        position += WORD_BYTES * operation.words
        yield operation, position


def _operation(data: bytes | memoryview, position: int) -> Operation:
    """The operation that starts at a byte."""
    word = int.from_bytes(data[position : position + WORD_BYTES], "little")
    form = FORMS.get(_kind(word))
    end = position + WORD_BYTES * (form.words if form else 0)
    if form is None or end > len(data):
        raise ModelFormatError(
            f"byte {position}: expected a known operation; got opcode {_kind(word).opcode:#x}"
        )
    return Operation(int.from_bytes(data[position:end], "little"), form.words)


def _kind(value: int) -> Kind:
    return Kind(value >> 6 & 0x1F, bool(value >> 11 & 1))


def _number_bits(opcode: int) -> tuple[int, int]:
    return WAIT_NUMBER if opcode == WAIT else NUMBER

"""Mutations of valid inputs as Hypothesis strategies, so that findings shrink to a few mutations.

Hypothesis draws mutations, not mutated bytes, because it retains all it draws.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hypothesis import strategies as st

from fuzz.corpus import Sample

_COUNTS = (1, 1, 1, 2, 3, 8)
_INTERESTING = (
    0,
    1,
    2,
    4,
    0x7F,
    0x80,
    0xFF,
    0x7FFF,
    0x8000,
    0xFFFF,
    0x7FFFFFFF,
    0x80000000,
    0xFFFFFFFC,
    0xFFFFFFFF,
)
_LONGEST_BLOCK = 256


@dataclass(frozen=True)
class Replace:
    """Replace a range by other bytes of any length."""

    position: int
    length: int
    value: bytes

    def apply(self, data: bytearray) -> None:
        """Change the data."""
        data[self.position : self.position + self.length] = self.value


@dataclass(frozen=True)
class Copy:
    """Copy a block over another of the same length."""

    position: int
    source: int
    length: int

    def apply(self, data: bytearray) -> None:
        """Change the data."""
        block = data[self.source : self.source + self.length]
        data[self.position : self.position + len(block)] = block[: max(len(data) - self.position, 0)]


@dataclass(frozen=True)
class Add:
    """Add to a little-endian 32-bit number, such as an offset or a length."""

    position: int
    amount: int

    def apply(self, data: bytearray) -> None:
        """Change the data."""
        span = slice(self.position, self.position + 4)
        number = int.from_bytes(data[span], "little") + self.amount
        data[span] = (number % (1 << 32)).to_bytes(4, "little")[: len(data[span])]


Edit = Replace | Copy | Add


@dataclass(frozen=True)
class Mutant:
    """A sample after one to eight changes."""

    sample: Sample
    edits: tuple[Edit, ...]

    def data(self) -> bytes:
        """The changed bytes."""
        data = bytearray(self.sample.data)
        for edit in self.edits:
            edit.apply(data)
        return bytes(data)


@st.composite
def mutants(draw: st.DrawFn, samples: Sequence[Sample]) -> Mutant:
    """Any of the samples, mutated mostly in its structure."""
    sample = draw(st.sampled_from(samples))
    kinds = (draw(st.sampled_from(_KINDS)) for _ in range(draw(st.sampled_from(_COUNTS))))
    return Mutant(sample, tuple(kind(draw, len(sample.data), draw(_positions(sample))) for kind in kinds))


def _positions(sample: Sample) -> st.SearchStrategy[int]:
    structure = sample.structure
    if not len(structure):
        return st.integers(0, len(sample.data) - 1)
    return st.integers(0, len(structure) - 1).map(lambda index: int(structure[index]))


def _set_byte(draw: st.DrawFn, size: int, position: int) -> Edit:  # noqa: ARG001
    return Replace(position, 1, bytes([draw(st.integers(0, 255))]))


def _set_number(draw: st.DrawFn, size: int, position: int) -> Edit:
    """Write a little-endian number at its natural alignment."""
    width = draw(st.sampled_from((1, 2, 4, 8)))
    limits = st.sampled_from((*_INTERESTING, size, size - position)) | st.integers(0, 2**32 - 1)
    value = draw(limits) % (1 << 8 * width)
    return Replace(position - position % width, width, value.to_bytes(width, "little"))


def _add(draw: st.DrawFn, size: int, position: int) -> Edit:  # noqa: ARG001
    return Add(position - position % 4, draw(st.integers(-64, 64)))


def _copy(draw: st.DrawFn, size: int, position: int) -> Edit:
    return Copy(position, draw(st.integers(0, size - 1)), draw(st.integers(1, _LONGEST_BLOCK)))


def _delete(draw: st.DrawFn, size: int, position: int) -> Edit:  # noqa: ARG001
    return Replace(position, draw(st.integers(1, _LONGEST_BLOCK)), b"")


def _insert(draw: st.DrawFn, size: int, position: int) -> Edit:  # noqa: ARG001
    return Replace(position, 0, draw(st.binary(min_size=1, max_size=_LONGEST_BLOCK)))


def _truncate(draw: st.DrawFn, size: int, position: int) -> Edit:  # noqa: ARG001
    return Replace(position, size, b"")


_KINDS = (_set_byte, _set_number, _set_number, _set_number, _add, _add, _copy, _delete, _insert, _truncate)

"""Changes to valid inputs, as Hypothesis strategies, so that a finding shrinks to the few that matter."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from hypothesis import strategies as st

from fuzz.corpus import Sample

Mutation = Callable[[bytearray], None]

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


@st.composite
def mutated(draw: st.DrawFn, samples: Sequence[Sample]) -> bytes:
    """One of the samples after one to eight changes, most of them where its structure stands."""
    sample = draw(st.sampled_from(samples))
    data = bytearray(sample.data)
    for _ in range(draw(st.sampled_from(_COUNTS))):
        position = draw(_positions(sample))
        draw(st.sampled_from(_KINDS))(draw, data, min(position, max(len(data) - 1, 0)))
    return bytes(data)


def _positions(sample: Sample) -> st.SearchStrategy[int]:
    anywhere = st.integers(0, len(sample.data) - 1)
    return st.sampled_from(sample.structure) if sample.structure else anywhere


def _set_byte(draw: st.DrawFn, data: bytearray, position: int) -> None:
    data[position : position + 1] = bytes([draw(st.integers(0, 255))])


def _set_number(draw: st.DrawFn, data: bytearray, position: int) -> None:
    """Write a little-endian number, at its natural alignment as the format has it."""
    width = draw(st.sampled_from((1, 2, 4, 8)))
    limits = st.sampled_from((*_INTERESTING, len(data), len(data) - position)) | st.integers(0, 2**32 - 1)
    start = position - position % width
    value = draw(limits) % (1 << 8 * width)
    data[start : start + width] = value.to_bytes(width, "little")[: len(data) - start]


def _add(draw: st.DrawFn, data: bytearray, position: int) -> None:
    """Change a 32-bit number by a little: an offset to a neighbouring place, a length by one."""
    start = position - position % 4
    word = int.from_bytes(data[start : start + 4], "little") + draw(st.integers(-64, 64))
    data[start : start + 4] = (word % (1 << 32)).to_bytes(4, "little")[: len(data) - start]


def _copy(draw: st.DrawFn, data: bytearray, position: int) -> None:
    """Copy a block over another one of the same length."""
    source = draw(st.integers(0, max(len(data) - 1, 0)))
    block = data[source : source + draw(st.integers(1, _LONGEST_BLOCK))]
    data[position : position + len(block)] = block[: len(data) - position]


def _delete(draw: st.DrawFn, data: bytearray, position: int) -> None:
    del data[position : position + draw(st.integers(1, _LONGEST_BLOCK))]


def _insert(draw: st.DrawFn, data: bytearray, position: int) -> None:
    data[position:position] = draw(st.binary(min_size=1, max_size=_LONGEST_BLOCK))


def _truncate(draw: st.DrawFn, data: bytearray, position: int) -> None:  # noqa: ARG001
    del data[position:]


_KINDS = (_set_byte, _set_number, _set_number, _set_number, _add, _add, _copy, _delete, _insert, _truncate)

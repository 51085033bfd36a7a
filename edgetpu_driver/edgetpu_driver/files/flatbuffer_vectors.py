"""Vectors of a FlatBuffer that is being built, which flatbuffers.Builder has no functions for."""

from __future__ import annotations

from collections.abc import Sequence

import flatbuffers
import numpy as np

_OFFSET_BYTES = 4


def offset_vector(builder: flatbuffers.Builder, offsets: Sequence[int]) -> int:
    """Write a vector of tables, strings or vectors that have been written; returns its own offset."""
    builder.StartVector(_OFFSET_BYTES, len(offsets), _OFFSET_BYTES)
    for offset in reversed(offsets):
        builder.PrependUOffsetTRelative(offset)
    return int(builder.EndVector())


def int32_vector(builder: flatbuffers.Builder, values: Sequence[int]) -> int:
    """Write a vector of int32; returns its offset."""
    return int(builder.CreateNumpyVector(np.array(values, np.int32)))


def aligned_bytes(builder: flatbuffers.Builder, data: bytes, alignment: int) -> int:
    """Write a vector of bytes, the first of which is at a multiple of `alignment`; returns its offset."""
    builder.Prep(alignment, len(data))
    return int(builder.CreateByteVector(data))

"""Memory that is touched before it is needed, so that its user has no page faults."""

from __future__ import annotations

import mmap
from contextlib import suppress

import numpy as np
from numpy.typing import NDArray

from edgetpu_driver.node_kit.process.unused_memory import KEPT_BYTES

_PIECE_BYTES = 2 << 20
"""Size of the blocks in which memory is touched. Given by NumPy: it releases the interpreter lock only for
500 elements or more, here pages, and has the kernel use huge pages, also later, where it has allocated 4 MiB
at once."""


def touch_memory(count: int) -> None:
    """Have the heap hold `count` bytes of free memory, at most KEPT_BYTES.

    The page faults occur here, without the interpreter lock.
    """
    pieces: list[NDArray[np.uint8]] = []
    with suppress(MemoryError):  # the process may have no more
        for _ in range(0, min(count, KEPT_BYTES), _PIECE_BYTES):
            pieces.append(np.empty(_PIECE_BYTES, np.uint8))
            pieces[-1][:: mmap.PAGESIZE] = 0

"""Returns memory that glibc's heap does not use to the system; without effect where libc is not glibc."""

from __future__ import annotations

import ctypes

_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -3, -8
"""Parameters of glibc's mallopt (malloc.h)."""

_MOST_MAPPED_BYTES = 32 << 20
"""Size of a block, bytes, from which it is mapped, and returned to the system when it is freed: the largest
that glibc accepts."""

KEPT_BYTES = 64 << 20
"""Free memory that the heap keeps, bytes. Derived: a matrix of 2048 x 2048 in float32 as the middleware, the
message and the request hold it, and one more."""

RELEASE_PERIOD = 10.0
"""Seconds between two releases of unused memory. Derived: a release takes 1 to 5 ms for a heap of 100 MiB,
and costs the next request of 16 MiB 30 ms: less than one in a hundred images of a camera meets either."""


def reuse_large_blocks() -> None:
    """Keep the memory of images and large requests for the next ones, in one heap for all threads.

    Memory that comes from the system costs a page fault every 4 KiB. An image of 640x480 passes through three
    blocks on its way from the middleware: 30 us instead of 500 for two of them. A request of 16 MiB takes
    5 ms instead of 36 to be read; the interpreter lock is held meanwhile.
    """
    _set((_MMAP_THRESHOLD, _MOST_MAPPED_BYTES), (_TRIM_THRESHOLD, KEPT_BYTES), (_ARENA_MAX, 1))


def release_unused_memory() -> None:
    """Return memory that the heap does not use: gaps between blocks, and what it keeps for large requests."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(ctypes.c_size_t(0))


def _set(*values: tuple[int, int]) -> None:
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        for parameter, value in values:
            mallopt(parameter, value)

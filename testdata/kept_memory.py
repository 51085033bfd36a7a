"""Memory that a test has allocated, as tracemalloc sees it."""

from __future__ import annotations

import tracemalloc

FRAMES = 8
"""Frames to trace, with `tracemalloc.start(FRAMES)`: a test is found only so far above an allocation."""


def kept_below(file: str) -> int:
    """Bytes that were allocated below a file's code and not released; other threads allocate, too."""
    here = tracemalloc.Filter(True, file, all_frames=True)
    return sum(each.size for each in tracemalloc.take_snapshot().filter_traces([here]).traces)

"""Deletes the segments that killed processes have left in the shared memory of Fast DDS.

A process keeps its messages in a segment of its own, and locks it for as long as it runs. If the process is
killed, the segment can remain until the computer is restarted: up to 17.6 MB with the launch file's profile.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from pathlib import Path

from edgetpu_driver.node_kit.middleware.fast_dds_memory.fast_dds_port import SEGMENT_LOCK, SHARED_MEMORY

MIN_AGE = 10.0
"""Least age of a segment to be deleted, s. Derived: a process creates its lock file and locks it at once, and
fails if another process holds the lock at that moment."""


def remove_dead_segments(directory: Path = SHARED_MEMORY) -> None:
    """Delete the segments whose processes have ended, as far as permissions allow.

    Processes that have mapped a segment keep its memory until they unmap it. Messages in a segment that their
    receivers have not mapped yet are lost.
    """
    for lock in directory.glob("fast*_el"):
        if name := SEGMENT_LOCK.fullmatch(lock.name):
            with contextlib.suppress(OSError):
                _remove_if_dead(lock, directory / name[1])


def _remove_if_dead(lock: Path, segment: Path) -> None:
    """Delete a segment that is older than MIN_AGE; raises BlockingIOError if its process is running."""
    with lock.open("rb") as file:
        if time.time() - os.fstat(file.fileno()).st_mtime >= MIN_AGE:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            segment.unlink(missing_ok=True)
            lock.unlink()

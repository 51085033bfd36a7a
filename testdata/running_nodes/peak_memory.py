"""The largest resident memory of a process."""

from __future__ import annotations

from pathlib import Path


def peak_memory(pid: int) -> float:
    """Largest resident memory of a process so far, MiB; raises OSError if there is no such process."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    # A process that has ended and is not reaped yet has no memory.
    return next((int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM")), 0.0)

"""The limits of a process that runs a graph."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ProcessLimits:
    """Memory and time limits of a process that runs one graph; exceeding one ends the process."""

    memory: int = 1 << 30
    """Bytes beyond what LiteRT itself takes: the file, its repacked weights, and tensors."""
    load_seconds: float = 5.0
    """Limit for loading the graph."""
    run_seconds: float = 5.0
    """Limit for one run."""

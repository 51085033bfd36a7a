"""Limits on what a host takes, so that no client can use up its memory or its time."""

from __future__ import annotations

from dataclasses import dataclass

MOST_SEGMENTS = 64
"""Files of one pipeline. Given by no computer having more sticks."""


@dataclass(frozen=True)
class HostLimits:
    """What a host accepts. A request beyond the first three is answered BUSY, beyond the others refused."""

    waiting_per_client: int = 100
    """Requests of one client that may wait."""
    waiting: int = 1000
    """Requests of all clients that may wait."""
    wait: float = 10.0
    """Seconds that a request without a deadline may wait before it is begun. Chosen: a third of the 30 s for
    which clients commonly wait for a service, so that work that has begun late ends within them."""
    batch: int = 65536
    """Vectors in one product."""
    passes: int = 64
    """Repetitions of one product."""
    tiles: int = 256
    """Tiles of one matrix."""
    models: int = 100
    """Names that may be loaded."""
    model_bytes: int = 512 * 2**20
    """Size of all loaded model files together."""

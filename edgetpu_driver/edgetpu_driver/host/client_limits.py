"""Limits that keep clients from using up a host's memory or time."""

from __future__ import annotations

from dataclasses import dataclass

MOST_SEGMENTS = 64
"""Largest number of segments of a pipeline: more than the sticks that any computer has."""


@dataclass(frozen=True)
class ClientLimits:
    """What a host accepts. Requests beyond the first three limits are answered BUSY, others are refused."""

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
    inferences: int = 2**21
    """Inferences of one product, vectors times passes times tiles. Chosen: 20,000 vectors in 64 passes on one
    tile are accepted. They take minutes; others run between the pieces. The largest batch, passes and tiles
    together would take days."""
    models: int = 100
    """Names of loaded models."""
    model_bytes: int = 512 * 2**20
    """Total size of all loaded model files, bytes."""

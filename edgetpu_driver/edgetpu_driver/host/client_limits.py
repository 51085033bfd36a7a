"""Limits that keep clients from using up a host's memory or time."""

from __future__ import annotations

from dataclasses import dataclass

from edgetpu_driver.errors import InputError

MOST_SEGMENTS = 64
"""Largest number of segments of a pipeline: more than any computer has sticks."""


@dataclass(frozen=True)
class ClientLimits:
    """The limits of a host: InputError for products beyond them, BusyError for requests and models."""

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
    tile are accepted. They take minutes; other requests run between the pieces. The largest batch, passes and
    tiles together would take days."""
    models: int = 100
    """Names of loaded models."""
    model_bytes: int = 512 * 2**20
    """Total size of all loaded model files, bytes."""

    def check_product(self, batch: int, passes: int, tiles: int = 1) -> None:
        """Raise InputError for a product that is too large."""
        if not 1 <= batch <= self.batch:
            raise InputError(f"expected a batch of 1 to {self.batch} vectors; got {batch}")
        if not 1 <= passes <= self.passes:
            raise InputError(f"expected 1 to {self.passes} passes; got {passes}")
        inferences = batch * passes * tiles
        if inferences > self.inferences:
            raise InputError(
                f"expected a product of at most {self.inferences} inferences; {batch} vectors, {passes} "
                f"passes and {tiles} tiles take {inferences}: send fewer vectors or passes at a time"
            )

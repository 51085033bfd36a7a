"""The errors of this package; those of products and of the device are in edgetpu_driver.errors."""

from __future__ import annotations

from edgetpu_driver.errors import InputError


class NotTrainedError(InputError):
    """A readout with too few samples to be trained."""


class UnknownPlaceError(InputError):
    """A label under which no place is known."""


class DatabaseFullError(InputError):
    """More embeddings than the database may hold."""

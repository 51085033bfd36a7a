"""What can go wrong above the matrix engine; everything below it is in edgetpu_driver.errors."""

from __future__ import annotations

from edgetpu_driver.errors import InputError


class ArchiveError(InputError):
    """A file that holds something else than what is to be loaded from it."""


class NotTrainedError(InputError):
    """A readout that has seen too little to be solved for."""


class UnknownPlaceError(InputError):
    """A label that no place has."""


class DatabaseFullError(InputError):
    """More places than the database may hold."""

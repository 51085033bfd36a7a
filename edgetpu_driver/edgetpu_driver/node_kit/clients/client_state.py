"""The states of a client for one model on the driver."""

from __future__ import annotations

from enum import Enum

from edgetpu_driver.errors import UnavailableError


class ClientState(Enum):
    """The states of a ModelClient."""

    UNLOADED = "looking for the driver, or waiting to load the model"
    LOADING = "the driver was asked to load the model"
    CHECKING = "that takes long: the driver was asked whether it is loading the model"
    READY = "the model is loaded, no request is under way"
    BUSY = "a request is under way"


class ClientClosedError(UnavailableError):
    """The node of the client has ended. The driver may be running: nodes that share the request keep it."""

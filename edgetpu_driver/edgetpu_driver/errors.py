"""The exceptions of the driver.

Messages say what was expected and what was given; they are shown to users as they are.
"""

from __future__ import annotations


class EdgeTpuError(Exception):
    """Base class of all errors that this package raises."""


class ModelFormatError(EdgeTpuError):
    """A model file is malformed; the message names the malformed part."""


class ModelUnsupportedError(EdgeTpuError):
    """A well-formed model cannot run on this engine or device; the message says why."""


class GraphProcessError(ModelUnsupportedError):
    """The process that runs a user's graph died, took too long or has not been started again yet."""


class ProcessStartError(GraphProcessError):
    """The system cannot start a process for a graph, or share memory with it; it may succeed later."""


class GraphError(EdgeTpuError, ValueError):
    """Shapes, dtypes or quantisation of a graph under construction do not fit."""


class ModelNotFoundError(EdgeTpuError):
    """No model of that name is loaded, or no such file is in the model directories."""


class ModelNameError(EdgeTpuError, ValueError):
    """None of the suite's graphs has this name."""


class CompilerError(EdgeTpuError):
    """edgetpu_compiler is missing, failed or took too long; the message contains its output."""


class PathRefusedError(EdgeTpuError):
    """The path of a model is outside the directories that the driver may read."""


class UnavailableError(EdgeTpuError):
    """The driver is not running, is inactive or has no device yet; the same request may succeed later."""


class BusyError(EdgeTpuError):
    """Too many requests wait already; the same request may succeed later."""

    def __init__(self, message: str, retry_after: float = 0.0) -> None:
        super().__init__(message)
        self.retry_after = retry_after
        """Seconds after which to try again, estimated from the waiting work; 0 if there is no estimate."""


class ExpiredError(EdgeTpuError):
    """The deadline of a request passed before it could be run."""


class OwnershipError(EdgeTpuError):
    """The model belongs to another client, which did not load it as shared."""


class InputError(EdgeTpuError, ValueError):
    """An input has a name, shape, dtype or value that is not accepted."""


class ClippingError(InputError):
    """Values are outside the quantised range, and clipping was not accepted."""

    def __init__(self, message: str, clipped: int = 0) -> None:
        super().__init__(message)
        self.clipped = clipped
        """Number of values outside the range."""


class ArchiveError(InputError):
    """A file of arrays cannot be written, or lacks the expected content."""


class DependencyMissingError(EdgeTpuError):
    """An optional dependency is needed but not installed; the message says how to install it."""


class DeviceError(EdgeTpuError):
    """Base class of errors of the device and the USB link to it."""


class DeviceNotFoundError(DeviceError):
    """There is no Edge TPU on the bus, or not the selected one."""


class DeviceAccessError(DeviceError):
    """The device is present, but the operating system denies access to it."""


class DeviceBusyError(DeviceError):
    """Another process uses the device."""


class DeviceLostError(DeviceError):
    """The device left the bus while in use."""


class FirmwareError(DeviceError):
    """The firmware image is missing or invalid, or loading it failed."""


class TransferError(DeviceError):
    """A USB transfer failed; the device is still on the bus."""


class TransferTimeoutError(TransferError):
    """A USB transfer did not finish in time."""


class TransferLengthError(TransferError):
    """A transfer had more or fewer bytes than the model's DMA hints announce."""


class TransferStallError(TransferError):
    """An endpoint refused a transfer (stall or pipe error)."""


class ProtocolError(DeviceError):
    """The device sent something that the protocol does not allow at this point."""


class ChipFaultError(DeviceError):
    """The chip reports a fatal error; the message lists its error registers."""


def unexpected(error: Exception) -> EdgeTpuError:
    """An EdgeTpuError for an exception of any other type, which the message names."""
    return EdgeTpuError(f"unexpected {type(error).__name__}: {error}")


def reason_of(error: Exception) -> str:
    """The message of an error, in one line; that of an OSError without its number."""
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    return " ".join(str(error).split())

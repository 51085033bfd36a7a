"""Everything that can go wrong in the driver, as one hierarchy of exceptions.

A message says what was expected and what came; it is shown to users as it stands.
"""

from __future__ import annotations


class EdgeTpuError(Exception):
    """Base of all errors this package raises on purpose."""


class ModelFormatError(EdgeTpuError):
    """A model file is malformed; the message names the place."""


class ModelUnsupportedError(EdgeTpuError):
    """A well-formed model that this engine or device cannot run; the message says why."""


class GraphError(EdgeTpuError, ValueError):
    """A graph under construction whose shapes, dtypes or quantisation do not fit."""


class ModelNotFoundError(EdgeTpuError):
    """No model of that name is loaded, or no such file lies in the model directories."""


class ModelNameError(EdgeTpuError, ValueError):
    """A name that is none of the suite's own graphs."""


class CompilerError(EdgeTpuError):
    """edgetpu_compiler is missing, failed or took too long; the message holds what it said."""


class PathRefusedError(EdgeTpuError):
    """A model path outside the directories the driver may read."""


class UnavailableError(EdgeTpuError):
    """The driver is not running, is inactive or has no device yet; the same request may succeed later."""


class InputError(EdgeTpuError, ValueError):
    """An input whose name, shape, dtype or values the model does not take."""


class ClippingError(InputError):
    """Values that the quantised range cannot hold, where clipping was not accepted."""

    def __init__(self, message: str, clipped: int = 0) -> None:
        super().__init__(message)
        self.clipped = clipped
        """Number of such values."""


class DependencyMissingError(EdgeTpuError):
    """An optional dependency is needed and not installed; the message says how to get it."""


class DeviceError(EdgeTpuError):
    """Base of everything that concerns the device and the USB link to it."""


class DeviceNotFoundError(DeviceError):
    """No Edge TPU, or not the selected one, is on the bus."""


class DeviceAccessError(DeviceError):
    """The device is there but the operating system does not let us use it."""


class DeviceBusyError(DeviceError):
    """Another process holds the device."""


class DeviceLostError(DeviceError):
    """The device left the bus while in use."""


class FirmwareError(DeviceError):
    """The firmware image is missing or wrong, or loading it failed."""


class TransferError(DeviceError):
    """A USB transfer failed; the device is still on the bus."""


class TransferTimeoutError(TransferError):
    """A USB transfer did not finish in time."""


class TransferLengthError(TransferError):
    """More or fewer bytes came than the model's DMA hints promise."""


class TransferStallError(TransferError):
    """An endpoint refused a transfer (stall or pipe error)."""


class ProtocolError(DeviceError):
    """The device answered something the protocol does not allow here."""


class ChipFaultError(DeviceError):
    """The chip reports a fatal error; the message holds its error registers."""

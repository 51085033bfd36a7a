"""Converts pyusb's errors to exceptions of this package: stall, timeout, unplugged, busy, access denied."""

from __future__ import annotations

import errno

from edgetpu_driver.errors import (
    DeviceAccessError,
    DeviceBusyError,
    DeviceError,
    DeviceLostError,
    EdgeTpuError,
    TransferError,
    TransferLengthError,
    TransferStallError,
    TransferTimeoutError,
)
from edgetpu_driver.usb.libusb import USBError, USBTimeoutError

_HINTS: dict[type[DeviceError], str] = {
    DeviceAccessError: "install the udev rule 60-edgetpu.rules of edgetpu_driver and plug the stick in again",
    DeviceBusyError: "another process, or an open EdgeTpu of this one, has it: close that or select another",
}
_HELD_HERE = "this process could not close the stick after a fault and still holds it; plug it in again"
_IN_TRANSFER: dict[int | None, str] = {
    errno.EACCES: "the system withdrew its access to the open stick",
    errno.EPERM: "the system withdrew its access to the open stick",
    errno.EBUSY: "another transfer or process has the interface of the open stick",
}
"""Meaning of a refusal once the stick is open and claimed. Reopening the stick helps, or gives the reason."""
_BY_ERRNO: dict[int | None, type[DeviceError]] = {
    errno.ETIMEDOUT: TransferTimeoutError,
    errno.EPIPE: TransferStallError,
    errno.EOVERFLOW: TransferLengthError,
    errno.ENODEV: DeviceLostError,
    errno.ENOENT: DeviceLostError,
    errno.EACCES: DeviceAccessError,
    errno.EPERM: DeviceAccessError,
    errno.EBUSY: DeviceBusyError,
}


def typed_error(
    error: Exception, doing: str, *, opening: bool = False, held_here: bool = False
) -> EdgeTpuError:
    """Convert an exception of a pyusb backend to one of this package that names the failed operation.

    Exceptions of this package are returned unchanged: a virtual stick may be unable to compute a graph.

    opening: whether the operation was to find or open the stick; only then is a refusal final. held_here:
    whether this process itself has the stick open.
    """
    if isinstance(error, EdgeTpuError):
        return error
    number = error.errno if isinstance(error, OSError) else None  # USBError is one
    if isinstance(error, USBTimeoutError):
        kind: type[DeviceError] = TransferTimeoutError
    elif number in _IN_TRANSFER and not opening:
        return TransferError(f"{doing}: {_text(error)}; {_IN_TRANSFER[number]}")
    else:
        kind = _BY_ERRNO.get(number, TransferError)
    hint = _HELD_HERE if held_here and kind is DeviceBusyError else _HINTS.get(kind, "")
    return kind(f"{doing}: {_text(error)}{'; ' if hint else ''}{hint}")


def _text(error: Exception) -> str:
    if isinstance(error, USBError):
        return str(error.strerror or error)
    return f"{type(error).__name__}{': ' if str(error) else ''}{error}"

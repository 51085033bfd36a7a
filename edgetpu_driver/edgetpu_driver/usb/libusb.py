"""Access to pyusb: its libusb backend, and its errors as exceptions of this package."""

from __future__ import annotations

import errno
from typing import Any

from edgetpu_driver.errors import (
    DependencyMissingError,
    DeviceAccessError,
    DeviceBusyError,
    DeviceError,
    DeviceLostError,
    TransferError,
    TransferLengthError,
    TransferStallError,
    TransferTimeoutError,
)

try:
    from usb.core import USBError, USBTimeoutError
except ImportError as missing:
    raise DependencyMissingError(
        "an Edge TPU on USB needs pyusb: apt install python3-usb, or pip install pyusb"
    ) from missing


__all__ = ["USBError", "default_backend", "typed_error"]

_HINTS = {
    DeviceAccessError: "install the udev rule 60-edgetpu.rules of edgetpu_driver and plug the stick in again",
    DeviceBusyError: "another process is using the stick; stop it or select another stick",
}
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


def typed_error(error: USBError, doing: str) -> DeviceError:
    """The exception of this package for an exception of pyusb, with the operation that failed."""
    if isinstance(error, USBTimeoutError):
        kind: type[DeviceError] = TransferTimeoutError
    else:
        kind = _BY_ERRNO.get(error.errno, TransferError)
    hint = f"; {_HINTS[kind]}" if kind in _HINTS else ""
    return kind(f"{doing}: {error.strerror or error}{hint}")


def default_backend() -> Any:
    """The libusb 1.0 backend of pyusb; DependencyMissingError if the library is not installed."""
    from usb.backend import libusb1

    backend = libusb1.get_backend()
    if backend is None:
        raise DependencyMissingError(
            "an Edge TPU on USB needs the libusb 1.0 library: apt install libusb-1.0-0"
        )
    return backend

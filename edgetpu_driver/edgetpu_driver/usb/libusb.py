"""Access to pyusb: its libusb backend and its exceptions."""

from __future__ import annotations

from typing import Any

from edgetpu_driver.errors import DependencyMissingError

try:
    from usb.core import USBError, USBTimeoutError
except ImportError as missing:
    raise DependencyMissingError(
        "an Edge TPU on USB needs pyusb: apt install python3-usb, or pip install pyusb"
    ) from missing


__all__ = ["USBError", "USBTimeoutError", "default_backend"]


def default_backend() -> Any:
    """The libusb 1.0 backend of pyusb; DependencyMissingError if the library is not installed."""
    from usb.backend import libusb1

    backend = libusb1.get_backend()
    if backend is None:
        raise DependencyMissingError(
            "an Edge TPU on USB needs the libusb 1.0 library: apt install libusb-1.0-0"
        )
    return backend

"""The link to one stick, kept working: what fails is understood, got out of the way, and done once more."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TypeVar

from edgetpu_driver.errors import (
    ChipFaultError,
    DeviceError,
    DeviceLostError,
    ProtocolError,
    TransferError,
    TransferLengthError,
)
from edgetpu_driver.usb.bringup import shut_down
from edgetpu_driver.usb.connector import StickConnector
from edgetpu_driver.usb.fault_diagnosis import chip_fault, drain
from edgetpu_driver.usb.link import UsbLink

_log = logging.getLogger(__name__)
_Result = TypeVar("_Result")
_FAULTS = (TransferError, ProtocolError, ChipFaultError, DeviceLostError)


class ResilientLink:
    """Does work on the link to a stick and recovers it from faults. Not thread-safe.

    A program that came to its end but sent too much is drained; after any other fault the device is reset and
    brought up again. Either way the work is done a second time. When that fails too its exception is raised,
    and the next piece of work begins with a reset; so does one after DeviceLostError, once the stick is back
    in its port.

    With `resets` false a fault that takes a reset is raised at once instead, and the link is of no more use:
    for an owner that cannot wait and opens the stick anew elsewhere.
    """

    def __init__(
        self, connector: StickConnector, on_reset: Callable[[], None], *, resets: bool = True
    ) -> None:
        """Connect at once. on_reset: called whenever the chip has lost or will lose what is in its memory."""
        self.connector = connector
        self._resets = resets
        self.retries = 0
        """Pieces of work done a second time after a fault."""
        self.recoveries = 0
        """Times the device was reset and brought up again."""
        self._on_reset = on_reset
        self._closed = False
        self._link: UsbLink | None = connector.connect()

    def close(self) -> None:
        """Halt the chip, put it to sleep, release it; harmless when called again."""
        self._closed = True
        link, self._link = self._link, None
        self._on_reset()
        if link is None:
            return
        try:
            shut_down(link)
        except DeviceError as error:
            _log.warning("the Edge TPU at %s was not shut down: %s", link.stick.bus_path, error)
        finally:
            link.close()

    def attempt(self, work: Callable[[UsbLink], _Result]) -> _Result:
        """Do the work, twice if need be. Raises the DeviceError it did not recover from."""
        if self._closed:
            raise DeviceLostError("this EdgeTpu is closed")
        try:
            return self._twice(self._link or self._recover(None), work)
        except BaseException:
            self._abandon()
            raise

    def _twice(self, link: UsbLink, work: Callable[[UsbLink], _Result]) -> _Result:
        try:
            return work(link)
        except _FAULTS as error:
            fault = self._understand(link, error)
        drained = self._drained(link, fault)
        if not drained and not self._resets:
            raise fault
        _log.warning("the Edge TPU failed, trying once more: %s", fault)
        if not drained:
            link = self._recover(fault)
        self.retries += 1
        try:
            return work(link)
        except _FAULTS as error:
            fault = self._understand(link, error)
            if fault is error:
                raise
            raise fault from error

    def _understand(self, link: UsbLink, error: DeviceError) -> DeviceError:
        """What the chip says of the matter, if it says anything; else the error as it is."""
        if isinstance(error, ChipFaultError | DeviceLostError):
            return error
        return chip_fault(link) or error

    def _drained(self, link: UsbLink, fault: DeviceError) -> bool:
        """Whether nothing more than reading is needed before the next request."""
        if not isinstance(fault, TransferLengthError | ProtocolError):
            return False
        try:
            return drain(link)
        except DeviceError:
            return False

    def _recover(self, fault: DeviceError | None) -> UsbLink:
        if not self._resets:
            raise DeviceLostError("the Edge TPU failed before; it must be opened again")
        failed, self._link = self._link, None
        self._on_reset()
        try:
            self._link = self.connector.reconnect(failed)
        except DeviceError as error:
            raise error from fault
        self.recoveries += 1
        return self._link

    def _abandon(self) -> None:
        """Nothing that is still under way may reach a later request: the next one starts with a reset."""
        self._on_reset()
        link, self._link = self._link, None
        if link is not None:
            link.close()

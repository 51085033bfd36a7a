"""Recovery of the USB link to one stick after faults."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, TypeVar

from edgetpu_driver.errors import (
    ChipFaultError,
    DeviceError,
    DeviceLostError,
    EdgeTpuError,
    ModelUnsupportedError,
    ProtocolError,
    TransferError,
    TransferLengthError,
    unexpected,
)
from edgetpu_driver.stick.forked_processes import NOT_OURS
from edgetpu_driver.usb.chip_bringup import shut_down
from edgetpu_driver.usb.chip_faults import chip_fault, drain
from edgetpu_driver.usb.connector import StickConnector
from edgetpu_driver.usb.link import UsbLink

_log = logging.getLogger(__name__)
_Result = TypeVar("_Result")
_FAULTS = (TransferError, ProtocolError, ChipFaultError, DeviceLostError)


class ResilientLink:
    """A USB link that diagnoses faults, recovers and retries once. Not thread-safe.

    After a program that ended but sent too much, the remaining data are drained; after any other fault the
    device is reset and brought up again. Then the operation is retried. If it fails again, its exception is
    raised and the next operation begins with a reset; so does one after DeviceLostError, once the stick is
    back in its port.
    """

    def __init__(self, connector: StickConnector, on_reset: Callable[[], None]) -> None:
        """Connect at once. on_reset: called whenever the content of the chip's memory is lost."""
        self.connector = connector
        self.retries = 0
        """Number of operations repeated after a fault."""
        self.recoveries = 0
        """Number of times the device was reset and brought up again."""
        self._on_reset = on_reset
        self._ended = ""
        """Why the link was closed; empty while it is in use."""
        self._link: UsbLink | None = connector.connect()

    def close(self) -> None:
        """Halt the chip, put it to sleep, release it; harmless when called again."""
        self._ended = "this EdgeTpu is closed"
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

    def disown(self) -> None:
        """Drop the stick without any transfer, in a process forked from the one that opened it."""
        self._ended = f"this EdgeTpu {NOT_OURS}"
        link, self._link = self._link, None
        if link is not None:
            link.disown()

    def attempt(self, operation: Callable[..., _Result], *arguments: Any) -> _Result:
        """Call the operation with the link and the arguments, a second time after a fault.

        Raises the DeviceError it did not recover from.
        """
        if self._ended:
            raise DeviceLostError(self._ended)
        try:
            return self._run(self._link or self._recover(None), operation, arguments)
        except ModelUnsupportedError:  # a virtual stick failed to compute; nothing is pending
            raise
        except BaseException:
            self._abandon()
            raise

    def _run(self, link: UsbLink, operation: Callable[..., _Result], arguments: tuple[Any, ...]) -> _Result:
        try:
            return _carry_out(operation, link, arguments)
        except _FAULTS as error:
            fault = self._diagnose(link, error)
        drained = self._drained(link, fault)
        _log.warning("the Edge TPU failed, trying again: %s", fault)
        if not drained:
            link = self._recover(fault)
        self.retries += 1
        try:
            return _carry_out(operation, link, arguments)
        except _FAULTS as error:
            fault = self._diagnose(link, error)
            if fault is error:
                raise
            raise fault from error

    def _diagnose(self, link: UsbLink, error: DeviceError) -> DeviceError:
        """The chip's own error report if there is one, else the error itself."""
        if isinstance(error, ChipFaultError | DeviceLostError):
            return error
        return chip_fault(link) or error

    def _drained(self, link: UsbLink, fault: DeviceError) -> bool:
        """Drain the device; returns whether that is enough to recover from the fault."""
        if not isinstance(fault, TransferLengthError | ProtocolError):
            return False
        try:
            return drain(link)
        except DeviceError:
            return False

    def _recover(self, fault: DeviceError | None) -> UsbLink:
        failed, self._link = self._link, None
        self._on_reset()
        try:
            self._link = self.connector.reconnect(failed)
        except DeviceError as error:
            raise error from fault
        self.recoveries += 1
        return self._link

    def _abandon(self) -> None:
        """Drop the link: no pending transfer may reach a later operation, which starts with a reset."""
        self._on_reset()
        link, self._link = self._link, None
        if link is not None:
            link.close()


def _carry_out(operation: Callable[..., _Result], link: UsbLink, arguments: tuple[Any, ...]) -> _Result:
    """Call the operation; an unexpected exception becomes a ProtocolError, from which the link recovers."""
    try:
        return operation(link, *arguments)
    except EdgeTpuError:
        raise
    except Exception as error:
        raise ProtocolError(str(unexpected(error))) from error

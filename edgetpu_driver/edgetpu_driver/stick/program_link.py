"""A link for unchecked programs: it resets the stick after every failure and at the end."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar

from edgetpu_driver.errors import DeviceError, DeviceLostError, ProtocolError, TransferTimeoutError
from edgetpu_driver.stick.forked_processes import NOT_OURS, disown_when_forked
from edgetpu_driver.usb.chip_bringup import shut_down
from edgetpu_driver.usb.chip_faults import chip_fault
from edgetpu_driver.usb.connector import StickConnector
from edgetpu_driver.usb.link import UsbLink
from edgetpu_driver.usb.registers import Register

_Result = TypeVar("_Result")


class ProgramLink:
    """The link to a stick that is reset after every failure, and at the end. Not thread-safe: see `lock`."""

    def __init__(self, connector: StickConnector, timeout: float) -> None:
        self.lock = threading.RLock()
        """To be held during every call."""
        self._connector = connector
        self._timeout = timeout
        self._failed: UsbLink | None = None
        """A failed link whose stick has not been reset yet."""
        self._ended = ""
        """Why the link was closed; empty while it is in use."""
        self.doing = ""
        """What the running operation is doing, for messages."""
        self._link: UsbLink | None = None
        self._keep(connector.connect())
        disown_when_forked(self)

    def _keep(self, link: UsbLink) -> UsbLink:
        link.timeout_ms = max(1, round(1000 * self._timeout))
        self._link, self._failed = link, None
        return link

    def attempt(self, operation: Callable[[UsbLink], _Result]) -> _Result:
        """Carry out an operation; after any exception the next one begins with a reset.

        Raises what the operation raises, ChipFaultError for an error that the chip reports, ProtocolError if
        a virtual stick hangs, and DeviceLostError if the link was closed or the stick does not come back.
        """
        if self._ended:
            raise DeviceLostError(self._ended)
        link = self._link or self._keep(self._connector.reconnect(self._failed))
        self.doing = "accessing registers"
        try:
            result = operation(link)
            fault = chip_fault(link) or self._virtual_fault()
            if fault is not None:
                raise fault
            return result
        except TransferTimeoutError as error:
            self._failed, self._link = link, None
            raise chip_fault(link) or self._timeout_error(link) from error
        except BaseException:
            self._failed, self._link = link, None
            raise

    def _virtual_fault(self) -> DeviceError | None:
        """The error for a virtual stick that hangs; a program without transfers would end without one."""
        reason = self._connector.simulated_hang_reason
        return ProtocolError(f"the virtual stick hangs: {reason}") if reason else None

    def _timeout_error(self, link: UsbLink) -> TransferTimeoutError:
        """The error that says how far the program got."""
        try:
            with link.impatient():
                where = f"the core is at {link.read_register(Register.currentPc):#x}"
        except DeviceError:
            where = "the core does not answer"
        reason = self._connector.simulated_hang_reason
        why = f"; the virtual stick hangs: {reason}" if reason else ""
        return TransferTimeoutError(f"no answer within {self._timeout:g} s {self.doing}; {where}{why}")

    def disown(self) -> None:
        """Leave the stick to the process that this one was forked from; see StickHolder."""
        self.lock = threading.RLock()
        self._ended = f"this ProgramRunner {NOT_OURS}"
        for link in (self._link, self._failed):
            if link is not None:
                link.disown()

    def close(self) -> None:
        """Reset the stick, see that it comes up, put it to sleep; harmless when called again.

        DeviceLostError if it does not come up.
        """
        if self._ended:
            return
        self._ended = "this ProgramRunner is closed"
        used, self._link = self._link or self._failed, None
        try:
            link = self._connector.reconnect(used)
        except DeviceError as error:
            raise DeviceLostError(
                f"the stick did not come up after the program; unplug it and plug it in again: {error}"
            ) from error
        try:
            shut_down(link)
        finally:
            link.close()

"""One open USB connection to a stick: register access, frames out, activations and events in."""

from __future__ import annotations

import contextlib
import errno
from array import array
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgetpu_driver.errors import (
    DeviceLostError,
    ProtocolError,
    TransferError,
    TransferLengthError,
    TransferTimeoutError,
)
from edgetpu_driver.usb.discovery import UsbStick
from edgetpu_driver.usb.framing import EVENT, Event, Frame, parse_event
from edgetpu_driver.usb.handles import close_handle, close_left_open, is_left_open
from edgetpu_driver.usb.libusb import USBError
from edgetpu_driver.usb.registers import BitField, Register, register_width
from edgetpu_driver.usb.time_source import Clock, clock_of
from edgetpu_driver.usb.usb_errors import typed_error

# As in the descriptors of a stick that runs its firmware.
CONFIGURATION = 1
INTERFACE = 0
"""The configuration and the interface that the vendor's driver uses."""
ENDPOINT_OUT = 0x01
ENDPOINT_ACTIVATIONS = 0x81
ENDPOINT_EVENTS = 0x82
ENDPOINT_INTERRUPTS = 0x83
"""Endpoint addresses in the stick's descriptors; bit 7 set: to the host."""

TIMEOUT_MS = 6000
"""Default timeout of a bulk transfer, ms, as in the vendor's driver."""
MAX_PACKET = 1024
"""Largest bulk packet (SuperSpeed); reads ask for whole packets so that a longer answer cannot overflow."""
MAX_BULK_READ = 1 << 20
"""Maximum size of a bulk read and of its buffer, bytes. Uncritical."""
CONTINUED_READ = 1 << 14
"""Maximum read size when an output arrives in short packets, bytes: 16 of the largest packets."""
CONTROL_ATTEMPTS = 5
"""Attempts per control transfer, as in the vendor's driver."""
IMPATIENT_MS = 100
"""Timeout of a control transfer to a device that may no longer answer, ms; a reply takes less than 1."""
POLL_SECONDS = 0.5
"""Timeout of polling a register, s; the chip changes it within microseconds."""
POLL_INTERVAL = 0.001
"""Interval of polling a register, s: long compared with a transfer of 0.1 ms."""

_VENDOR_OUT = 0x40
_VENDOR_IN = 0xC0
"""bmRequestType of the vendor requests that write and read registers (USB 2.0, table 9-2)."""
_STANDARD_IN = 0x80
_GET_DESCRIPTOR = 6
_STRING_DESCRIPTOR = 3
_ENGLISH = 0x0409
"""A standard request for a string descriptor in US English (USB 2.0, sections 9.3 and 9.4.3)."""
_INTERRUPT_BYTES = 4
"""Length of a message on the interrupt endpoint."""


class Reception:
    """A preallocated buffer for one transfer of known size from the device."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.buffer = array("B", bytes(_whole_packets(min(size, MAX_BULK_READ))))
        self.data: NDArray[np.uint8] = np.frombuffer(self.buffer, np.uint8)[:size]
        """uint8[size]: the data received last."""
        if size > MAX_BULK_READ:
            self.data = np.zeros(size, np.uint8)


@dataclass
class Traffic:
    """Bytes that crossed the link, framing included."""

    sent: int = 0
    received: int = 0


class UsbLink:
    """An opened device with its interface claimed. Not thread-safe.

    Every method that communicates raises DeviceLostError if the device left the bus, and TransferError
    (TransferTimeoutError, TransferStallError or TransferLengthError if known) if a transfer failed.
    """

    def __init__(self, backend: Any, stick: UsbStick, traffic: Traffic | None = None) -> None:
        """Open the stick; DeviceAccessError or DeviceBusyError if the system refuses.

        traffic: counts the bytes.
        """
        self.stick = stick
        self.clock: Clock = clock_of(backend)
        self.traffic = traffic or Traffic()
        self._backend = backend
        self.timeout_ms = TIMEOUT_MS
        """Timeout of a bulk transfer, ms."""
        self._attempts, self._control_timeout = CONTROL_ATTEMPTS, TIMEOUT_MS
        self._event = array("B", bytes(EVENT.size))
        self._pieces: dict[int, array[int]] = {}
        close_left_open(backend)
        self._handle = None
        self._handle = self._open(f"opening the stick at {stick.bus_path}", backend.open_device, stick.device)
        try:
            self._claim()
        except BaseException:
            self.close()
            raise

    def _claim(self) -> None:
        with contextlib.suppress(Exception):  # not implemented on most systems
            if self._backend.is_kernel_driver_active(self._handle, INTERFACE):
                self._backend.detach_kernel_driver(self._handle, INTERFACE)
        doing = f"claiming the stick at {self.stick.bus_path}"
        self._open(doing, self._backend.set_configuration, self._handle, CONFIGURATION)
        self._open(doing, self._backend.claim_interface, self._handle, INTERFACE)

    def _open(self, doing: str, function: Any, *arguments: Any) -> Any:
        try:
            return function(*arguments)
        except Exception as error:
            held = is_left_open(self._backend, self.stick.bus_path)
            raise typed_error(error, doing, opening=True, held_here=held) from error

    def _call(self, doing: str, function: Any, *arguments: Any) -> Any:
        try:
            return function(*arguments)
        except Exception as error:  # a backend may raise anything, for example OSError or MemoryError
            raise typed_error(error, doing) from error

    def close(self) -> None:
        """Release the device, present or not; repeated calls have no effect."""
        handle, self._handle = self._handle, None
        if handle is not None:
            close_handle(self._backend, handle, INTERFACE, self.stick.bus_path)

    def disown(self) -> None:
        """Drop the handle without closing it: it belongs to the process that this one was forked from."""
        self._handle = None

    def reset(self) -> None:
        """Reset the USB port; the device enumerates again. The link is unusable afterwards; close it."""
        try:
            self._backend.reset_device(self._open_handle())
        except Exception as error:
            # libusb's error when the device enumerates as another one
            if not (isinstance(error, USBError) and error.errno == errno.ENOENT):
                raise typed_error(error, "resetting the device") from error

    def serial_number(self) -> str:
        """The USB serial number; empty if the stick has none."""
        if not self.stick.serial_index:
            return ""
        value = _STRING_DESCRIPTOR << 8 | self.stick.serial_index
        descriptor = self.control_in(_STANDARD_IN, _GET_DESCRIPTOR, value, _ENGLISH, 255)
        if not descriptor:
            raise TransferLengthError("reading the serial number: expected a descriptor; got none")
        return descriptor[2 : descriptor[0]].decode("utf-16-le", "replace")

    def extra_descriptors(self) -> bytes:
        """The class-specific descriptors of the interface, concatenated."""
        doing = "reading the interface descriptor"
        interface = self._call(doing, self._backend.get_interface_descriptor, self.stick.device, 0, 0, 0)
        return bytes(getattr(interface, "extra_descriptors", None) or b"")

    # Control transfers and registers.

    def control_out(self, request_type: int, request: int, value: int, index: int, data: bytes = b"") -> None:
        """One control transfer to the device, not repeated on failure."""
        buffer = array("B", data)
        doing = f"control transfer {request_type:#04x}/{request} (value {value:#x}, index {index:#x})"
        arguments = (self._open_handle(), request_type, request, value, index, buffer, self._control_timeout)
        sent = self._call(doing, self._backend.ctrl_transfer, *arguments)
        if sent != len(buffer):
            raise TransferLengthError(f"{doing}: expected to send {len(buffer)} bytes; sent {sent}")
        self.traffic.sent += sent

    def control_in(self, request_type: int, request: int, value: int, index: int, size: int) -> bytes:
        """One control transfer from the device of at most size bytes, not repeated on failure."""
        buffer = array("B", bytes(size))
        doing = f"control transfer {request_type:#04x}/{request} (value {value:#x}, index {index:#x})"
        arguments = (self._open_handle(), request_type, request, value, index, buffer, self._control_timeout)
        received = self._call(doing, self._backend.ctrl_transfer, *arguments)
        self.traffic.received += received
        return buffer[:received].tobytes()

    def read_register(self, register: int) -> int:
        """The register's value, 32 or 64 bits wide by its address."""
        data: bytes = self._persistently(self._read_register, register)
        return int.from_bytes(data, "little")

    def _read_register(self, register: int) -> bytes:
        width = register_width(register)
        data = self.control_in(_VENDOR_IN, int(width == 4), register & 0xFFFF, register >> 16, width)
        if len(data) != width:
            raise TransferLengthError(f"register {register:#x}: expected {width} bytes; got {len(data)}")
        return data

    def write_register(self, register: int, value: int) -> None:
        """Set a register, 32 or 64 bits wide by its address."""
        data = value.to_bytes(register_width(register), "little")
        request = int(len(data) == 4)
        self._persistently(self.control_out, _VENDOR_OUT, request, register & 0xFFFF, register >> 16, data)

    def _persistently(self, transfer: Any, *arguments: Any) -> Any:
        for _ in range(self._attempts - 1):
            with contextlib.suppress(TransferError):
                return transfer(*arguments)
        return transfer(*arguments)

    @contextmanager
    def impatient(self) -> Iterator[None]:
        """Within the context, try control transfers once and with a short timeout: the device may be dead."""
        before = self._attempts, self._control_timeout
        self._attempts, self._control_timeout = 1, IMPATIENT_MS
        try:
            yield
        finally:
            self._attempts, self._control_timeout = before

    def change_register(self, register: Register, *fields: tuple[BitField, int]) -> None:
        """Read a register, replace the given fields, write it back."""
        value = self.read_register(register)
        for field, setting in fields:
            value = field.put(value, setting)
        self.write_register(register, value)

    def poll_register(self, register: Register, mask: int, expected: int) -> None:
        """Read until (value & mask) == expected; ProtocolError if it takes more than 0.5 s."""
        end = self.clock.monotonic() + POLL_SECONDS
        while (value := self.read_register(register)) & mask != expected:
            if self.clock.monotonic() >= end:
                raise ProtocolError(
                    f"expected {register.name} & {mask:#x} to become {expected:#x} within {POLL_SECONDS:g} s;"
                    f" the register reads {value:#x}"
                )
            self.clock.sleep(POLL_INTERVAL)

    # Bulk transfers.

    def send(self, frame: Frame) -> None:
        """Write a frame; TransferLengthError if the device accepts only part of it."""
        for piece in frame.pieces():
            try:
                handle = self._handle or self._open_handle()
                sent = self._backend.bulk_write(handle, ENDPOINT_OUT, INTERFACE, piece, self.timeout_ms)
            except Exception as error:
                raise typed_error(error, f"sending {len(piece)} bytes") from error
            self.traffic.sent += sent
            if sent != len(piece):
                raise TransferLengthError(f"expected to send {len(piece)} bytes; sent {sent}")

    def receive(self, reception: Reception) -> None:
        """Read exactly reception.size bytes; TransferLengthError for more or fewer.

        The zero-length packet that ends the previous transfer may arrive first.
        """
        received = self._read(ENDPOINT_ACTIVATIONS, reception.buffer)
        if reception.size > MAX_BULK_READ:
            reception.data[:received] = np.frombuffer(reception.buffer, np.uint8)[:received]
        if received < reception.size:
            received = self._receive_rest(reception, received)
        if received > reception.size:
            raise TransferLengthError(f"expected {reception.size} bytes; got at least {received}")

    def _receive_rest(self, reception: Reception, received: int) -> int:
        """Continue after a short first read; returns the total number of bytes."""
        largest = CONTINUED_READ if reception.size <= MAX_BULK_READ else MAX_BULK_READ
        may_be_empty = received == 0
        while received < reception.size:
            left = reception.size - received
            piece = self._piece(_whole_packets(min(left, largest)))
            count = self._read(ENDPOINT_ACTIVATIONS, piece)
            if not count and not may_be_empty:
                raise TransferLengthError(f"expected {reception.size} bytes; got only {received}")
            may_be_empty = False
            kept = min(count, left)
            reception.data[received : received + kept] = np.frombuffer(piece, np.uint8)[:kept]
            received += count
        return received

    def _piece(self, size: int) -> array[int]:
        """A cached buffer of that size."""
        piece = self._pieces.get(size)
        if piece is None:
            piece = array("B", bytes(size))
            if size <= CONTINUED_READ or size == MAX_BULK_READ:
                self._pieces[size] = piece
        return piece

    def read_event(self) -> Event:
        """Wait for the next event packet; ProtocolError for an unknown tag."""
        return self._event_of(self._read(ENDPOINT_EVENTS, self._event))

    def poll_event(self, timeout_ms: int) -> Event | None:
        """The next event packet if it arrives in time; raises as `read_event`."""
        size = self._poll(ENDPOINT_EVENTS, self._event, timeout_ms)
        return None if size is None else self._event_of(size)

    def discard_activations(self, timeout_ms: int) -> bool:
        """Discard the next packets of output; returns whether any arrived in time."""
        return self._poll(ENDPOINT_ACTIVATIONS, self._piece(CONTINUED_READ), timeout_ms) is not None

    def poll_interrupt(self, timeout_ms: int) -> int | None:
        """The next word of the interrupt endpoint if it arrives in time.

        A word of another length is ignored.
        """
        buffer = self._piece(_INTERRUPT_BYTES)
        size = self._poll(ENDPOINT_INTERRUPTS, buffer, timeout_ms)
        return int.from_bytes(buffer.tobytes(), "little") if size == _INTERRUPT_BYTES else None

    def _event_of(self, size: int) -> Event:
        if size != EVENT.size:
            raise TransferLengthError(f"expected an event packet of {EVENT.size} bytes; got {size}")
        try:
            return parse_event(self._event)
        except ValueError as error:
            raise ProtocolError(f"an event packet: {error}") from error

    def _poll(self, endpoint: int, buffer: array[int], timeout_ms: int) -> int | None:
        try:
            return self._read(endpoint, buffer, timeout_ms)
        except TransferTimeoutError:
            return None

    def _read(self, endpoint: int, buffer: array[int], timeout_ms: int | None = None) -> int:
        backend = self._backend
        read = backend.intr_read if endpoint == ENDPOINT_INTERRUPTS else backend.bulk_read
        try:
            handle = self._handle or self._open_handle()
            timeout = self.timeout_ms if timeout_ms is None else timeout_ms
            count: int = read(handle, endpoint, INTERFACE, buffer, timeout)
        except Exception as error:
            if isinstance(error, NotImplementedError) and endpoint == ENDPOINT_INTERRUPTS:
                return 0  # a backend without interrupt transfers
            raise typed_error(error, f"reading {len(buffer)} bytes from endpoint {endpoint:#04x}") from error
        self.traffic.received += count
        return count

    def _open_handle(self) -> Any:
        if self._handle is None:
            raise DeviceLostError("the link to the device is closed")
        return self._handle


def _whole_packets(size: int) -> int:
    return -(-size // MAX_PACKET) * MAX_PACKET

"""A virtual Edge TPU behind the interface of a pyusb backend: pass it as `usb_backend` to EdgeTpu.open."""

# ruff: noqa: ARG002, N803 - the signatures are those of pyusb's IBackend
from __future__ import annotations

import errno
import threading
from array import array
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import NoReturn

from usb.backend import IBackend
from usb.core import USBError, USBTimeoutError

from edgetpu_driver.compiled_model import CompiledModel
from edgetpu_driver.tflite.checks.file_checks import read_model_file
from edgetpu_driver.usb.chip_faults import Interrupt
from edgetpu_driver.usb.framing import Tag
from edgetpu_driver.virtual import usb_descriptors as descriptors
from edgetpu_driver.virtual.chip import Chip
from edgetpu_driver.virtual.fault_injection import SLOW_SECONDS, Fault, FaultScript, Transfer, flip_bit
from edgetpu_driver.virtual.program_library import ProgramLibrary
from edgetpu_driver.virtual.simulated_clock import SimulatedClock
from edgetpu_driver.virtual.simulated_timing import HIGH_SPEED, SUPER_SPEED
from edgetpu_driver.virtual.usb_port import Handle, Port

# The request for a string descriptor (USB 2.0, 9.4.3).
_STANDARD_IN = 0x80
_GET_DESCRIPTOR = 6
_STRING_DESCRIPTOR = 3
_OUT, _ACTIVATIONS, _EVENTS, _INTERRUPTS = 0x01, 0x81, 0x82, 0x83
"""Addresses of the endpoints; with bit 7 they lead to the host."""
_EVENT_TAG = 12  # byte of an event packet
_EXTRA = bytes(range(8))
_LEAVES = (Fault.UNPLUG, Fault.REPLUG, Fault.REPLUG_IN_BOOT_MODE, Fault.SLOW_REENUMERATION)


class VirtualEdgeTpu(IBackend):  # type: ignore[misc]
    """One virtual stick on its own bus. It behaves like the silicon, in simulated time.

    `register_model(compiled, source)` declares a model that it can run. The stick sees only what crosses the
    bus (instructions with or without addresses, parameters, inputs) and looks the instructions up in its
    library. Programs of matrices, and of the scalar core alone, need no model: they are run from their bytes
    (docs/programs.md). Models with a known parameter layout (weights.packed_layout, weights.compiler_layout)
    are run with the weights that crossed the bus. Parameters of other models are not decoded: the source
    graph's weights are used as long as the parameters are the file's own. Other parameters, or none in
    memory, give noise. Unknown instructions, and transfers that do not follow the DMA hints, make it hang
    until it is reset; `hang_reason` says why.

    Transfers and computation take simulated time (simulated_timing): `last_inference_time`, `clock`.
    """

    def __init__(
        self,
        *,
        serial: str = "",
        bus: int = 2,
        ports: tuple[int, ...] = (1,),
        speed: str = "super",
        boot_mode: bool = False,
        library: ProgramLibrary | None = None,
        celsius: float = 40.0,
    ) -> None:
        """Make a stick that is plugged in at `bus` and `ports`.

        speed: "super" or "high" (USB 3 or USB 2). boot_mode: without firmware. library: the models it can
        run, to be shared by several sticks. celsius: temperature of the die. ValueError for another speed.
        """
        if speed not in ("super", "high"):
            raise ValueError(f"expected the speed super or high, got {speed!r}")
        super().__init__()
        self.clock = SimulatedClock()
        self.library = library or ProgramLibrary()
        self.faults = FaultScript()
        self.last_inference_time = 0.0
        """Simulated seconds from the first byte of the instructions to the event that ended the inference."""
        self._chip = Chip(self.library, speed == "super", boot_mode, celsius)
        self._super_speed = speed == "super"
        self._timing = SUPER_SPEED if self._super_speed else HIGH_SPEED
        self._serial = serial
        self._port = Port(bus, ports)
        self._bit_errors = 0
        self._inference_start = 0.0
        self._lock = threading.RLock()

    # Control from tests and users.

    def register_model(
        self, compiled: CompiledModel | str | Path | bytes, source: str | Path | bytes
    ) -> VirtualEdgeTpu:
        """Register a compiled model, or a file with all its parts, with the graph that defines its results.

        Returns the stick itself. Raises what CompiledModel.load raises, and ModelUnsupportedError if the two
        do not belong together.
        """
        graph = source if isinstance(source, bytes) else read_model_file(Path(source))
        for part in _parts(compiled):
            self.library.register_model(part, graph)
        return self

    teach = register_model
    """The name of `register_model` in version 0.1."""

    def fail(self, fault: Fault, on: Transfer, after: int = 0, times: int = 1) -> None:
        """Inject a fault into the next `times` transfers of that kind, after `after` successful ones."""
        self.faults.add(fault, on, after, times)

    def unplug(self) -> None:
        """Unplug the stick; it loses power."""
        with self._lock:
            self._port.leave()

    def plug(self, boot_mode: bool = False, after: float = 0.0) -> None:
        """Plug the stick back into its port, by default with its firmware already loaded.

        after: simulated seconds until it shows on the bus.
        """
        with self._lock:
            self._chip.power_on(boot_mode)
            self._port.enumerate(self.clock.monotonic() + after)

    def warn_of_heat(self) -> None:
        """Let the chip raise its thermal warning."""
        with self._lock:
            self._chip.interrupt(Interrupt.THERMAL_WARNING)

    @property
    def is_plugged(self) -> bool:
        """Whether the stick is plugged in, even if not yet enumerated."""
        return self._port.is_plugged

    @property
    def hang_reason(self) -> str:
        """Why the chip hangs; empty if it does not."""
        return self._chip.hang_reason

    # The backend interface: enumeration and descriptors.

    def enumerate_devices(self) -> Iterator[Handle]:
        """The stick, if it is plugged in."""
        there = self._port.look(self.clock)
        return iter((Handle(self, self._port.enumeration),) if there else ())

    def get_parent(self, dev: Handle) -> None:
        """The stick is on the root hub."""

    def get_device_descriptor(self, dev: Handle) -> SimpleNamespace:
        """The descriptor of the current identity."""
        port, boot_mode = self._port, self._chip.boot_mode
        return descriptors.device_descriptor(
            boot_mode, self._super_speed, port.bus, port.ports, port.address, bool(self._serial)
        )

    def get_configuration_descriptor(self, dev: Handle, config: int) -> SimpleNamespace:
        """There is one configuration."""
        if config:
            raise IndexError(config)
        return descriptors.configuration_descriptor()

    def get_interface_descriptor(
        self,
        dev: Handle,
        intf: int,
        alt: int,
        config: int,
    ) -> SimpleNamespace:
        """There is one interface."""
        if intf or alt:
            raise IndexError(intf or alt)
        return descriptors.interface_descriptor(self._chip.boot_mode)

    def get_endpoint_descriptor(
        self,
        dev: Handle,
        ep: int,
        intf: int,
        alt: int,
        config: int,
    ) -> SimpleNamespace:
        """The endpoints of the running stick."""
        return descriptors.endpoint_descriptor(ep, self._super_speed)

    # Opening, claiming, resetting.

    def open_device(self, dev: Handle) -> Handle:
        """Open a handle; any number may be open for the current enumeration."""
        self._check(dev)
        return Handle(self, dev.enumeration)

    def close_device(self, dev_handle: Handle) -> None:
        """Releases the interface as well."""
        self._port.release(dev_handle)

    def set_configuration(self, dev_handle: Handle, config_value: int) -> None:
        """Only configuration 1, and not while another handle has the interface."""
        self._check(dev_handle)
        self._port.check_free(dev_handle)
        if config_value != 1:
            raise USBError("Entity not found", errno=errno.ENOENT)

    def get_configuration(self, dev_handle: Handle) -> int:
        """Always 1."""
        self._check(dev_handle)
        return 1

    def claim_interface(self, dev_handle: Handle, intf: int) -> None:
        """Claim the interface for one handle at a time."""
        with self._lock:
            self._check(dev_handle)
            self._port.claim(dev_handle)

    def release_interface(self, dev_handle: Handle, intf: int) -> None:
        """Release the interface."""
        self._port.release(dev_handle)

    def reset_device(self, dev_handle: Handle) -> None:
        """Reset the chip; a stick with newly loaded firmware re-enumerates under its other identity."""
        with self._lock:
            self._check(dev_handle)
            gone = self._strike(dev_handle, Transfer.RESET, 0) in _LEAVES
            if not gone and self._chip.reset():
                self._port.enumerate(self.clock.monotonic())
                gone = True
            if gone:
                raise USBError("Entity not found", errno=errno.ENOENT)

    def is_kernel_driver_active(self, dev_handle: Handle, intf: int) -> bool:
        """No kernel driver is attached."""
        return False

    # Transfers.

    def ctrl_transfer(
        self,
        dev_handle: Handle,
        bmRequestType: int,
        bRequest: int,
        wValue: int,
        wIndex: int,
        data: array[int],
        timeout: int,
    ) -> int:
        """Registers, descriptors and DFU requests; anything else stalls."""
        with self._lock:
            fault = self._strike(dev_handle, Transfer.CONTROL, timeout)
            is_read = bool(bmRequestType & 0x80)
            payload = data.tobytes() if is_read else self._spoilt(data.tobytes(), fault)
            if (bmRequestType, bRequest) == (_STANDARD_IN, _GET_DESCRIPTOR):
                answer = self._descriptor(wValue)
            else:
                try:
                    answer = self._chip.control(bmRequestType, bRequest, wValue, wIndex, payload)
                except TimeoutError:
                    self._time_out(timeout)
            if answer is None:
                raise USBError("Pipe error", errno=errno.EPIPE)
            if is_read and fault is Fault.EXTRA_BYTES:
                raise USBError("Overflow", errno=errno.EOVERFLOW)
            self.clock.sleep(self._timing.control_seconds)
            if not is_read:
                return len(payload)
            answer = self._spoilt(answer, fault)
            count = min(len(answer), len(data))
            data[:count] = array("B", answer[:count])
            return count

    def _spoilt(self, data: bytes, fault: Fault | None) -> bytes:
        if fault is Fault.SHORT_PACKET:
            return data[: len(data) // 2]
        if fault is not Fault.BIT_ERROR:
            return data
        self._bit_errors += 1
        return flip_bit(data, self._bit_errors)

    def _descriptor(self, value: int) -> bytes | None:
        if value >> 8 != _STRING_DESCRIPTOR or self._chip.boot_mode:
            return None
        return descriptors.string_descriptor(value & 0xFF, self._serial)

    def bulk_write(self, dev_handle: Handle, ep: int, intf: int, data: array[int], timeout: int) -> int:
        """Framed data to endpoint 1; a hung chip accepts nothing."""
        with self._lock:
            fault = self._strike(dev_handle, Transfer.BULK_OUT, timeout)
            self._port.check_claimed(dev_handle)
            if ep != _OUT:
                raise USBError("Entity not found", errno=errno.ENOENT)
            start, begins = self.clock.monotonic(), self._chip.begins_program
            content = self._spoilt(data.tobytes(), fault)
            if not self._chip.take(content):
                self._time_out(timeout)
            if begins:
                self._inference_start = start
            self.clock.sleep(self._timing.bulk(len(content)) + self._chip.compute_seconds())
            return len(content)

    def bulk_read(self, dev_handle: Handle, ep: int, intf: int, buff: array[int], timeout: int) -> int:
        """Activations from endpoint 0x81, events from 0x82."""
        if ep not in (_ACTIVATIONS, _EVENTS):
            raise USBError("Entity not found", errno=errno.ENOENT)
        with self._lock:
            fault = self._strike(
                dev_handle, Transfer.OUTPUT if ep == _ACTIVATIONS else Transfer.EVENT, timeout
            )
            self._port.check_claimed(dev_handle)
            try:
                if ep == _ACTIVATIONS:
                    data, complete = self._chip.give_outputs(len(buff))
                    self.clock.sleep(self._timing.bulk(len(data)) if data else 0.0)
                else:
                    data, complete = self._event(len(buff), fault)
                if fault is Fault.EXTRA_BYTES and data:
                    data += _EXTRA
                if len(data) > len(buff):
                    raise OverflowError
            except OverflowError as error:
                raise USBError("Overflow", errno=errno.EOVERFLOW) from error
            if fault is Fault.SHORT_PACKET:
                data = data[: len(data) // 2]
            if not complete:
                self.clock.sleep(timeout / 1000)
            if not data and not complete:
                raise USBTimeoutError("Operation timed out", errno=errno.ETIMEDOUT)
            buff[: len(data)] = array("B", data)
            return len(data)

    def _event(self, size: int, fault: Fault | None) -> tuple[bytes, bool]:
        event = self._chip.give_event(size)
        if event is None:
            return b"", False
        self.clock.sleep(self._timing.bulk(len(event.packet)))
        if event.ends_inference:
            self.last_inference_time = self.clock.monotonic() - self._inference_start
        if fault is not Fault.WRONG_EVENT:
            return event.packet, True
        packet = bytearray(event.packet)
        packet[_EVENT_TAG] = Tag.INTERRUPT_3
        return bytes(packet), True

    def intr_read(self, dev_handle: Handle, ep: int, intf: int, buff: array[int], timeout: int) -> int:
        """The words of endpoint 0x83."""
        if ep != _INTERRUPTS:
            raise USBError("Entity not found", errno=errno.ENOENT)
        with self._lock:
            self._check(dev_handle)
            self._port.check_claimed(dev_handle)
            word = self._chip.give_interrupt()
            if not word:
                self._time_out(timeout)
            buff[: len(word)] = array("B", word)
            return len(word)

    def clear_halt(self, dev_handle: Handle, ep: int) -> None:
        """Clear a stall; stalls are not sticky."""
        self._check(dev_handle)

    def _check(self, handle: Handle) -> None:
        self._port.check(handle, self.clock.monotonic())

    def _strike(self, handle: Handle, transfer: Transfer, timeout: int) -> Fault | None:
        """Apply the scripted fault of this transfer; a fault that only changes data is returned."""
        self._check(handle)
        fault = self.faults.strike(transfer)
        if fault is None:
            return None
        if fault in _LEAVES:
            self._let_leave(fault)
            if transfer is not Transfer.RESET or fault is Fault.UNPLUG:
                self._check(handle)
        if fault is Fault.STALL:
            raise USBError("Pipe error", errno=errno.EPIPE)
        if fault is Fault.TIMEOUT:
            self._time_out(timeout)
        if fault is Fault.THERMAL_WARNING:
            self.warn_of_heat()
        if fault is Fault.CHIP_FAULT:
            self._chip.interrupt(Interrupt.FATAL_ERROR)
        return fault

    def _let_leave(self, fault: Fault) -> None:
        if fault is Fault.UNPLUG:
            self.unplug()
        else:
            slow = fault is Fault.SLOW_REENUMERATION
            self.plug(fault is Fault.REPLUG_IN_BOOT_MODE, SLOW_SECONDS if slow else 0.0)

    def _time_out(self, timeout: int) -> NoReturn:
        self.clock.sleep(timeout / 1000)
        raise USBTimeoutError("Operation timed out", errno=errno.ETIMEDOUT)


def _parts(compiled: CompiledModel | str | Path | bytes) -> tuple[CompiledModel, ...]:
    """The parts of a compiled model for the Edge TPU."""
    if isinstance(compiled, CompiledModel):
        return (compiled,)
    if isinstance(compiled, bytes):
        return CompiledModel.parse_parts(compiled)
    return CompiledModel.load_parts(compiled)

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
from edgetpu_driver.virtual import descriptors
from edgetpu_driver.virtual.clock import SimulatedClock
from edgetpu_driver.virtual.faults import Fault, FaultScript, Transfer
from edgetpu_driver.virtual.program_library import ProgramLibrary
from edgetpu_driver.virtual.silicon import Silicon

_STANDARD_IN = 0x80
_GET_DESCRIPTOR = 6
_STRING_DESCRIPTOR = 3


class _Handle:
    """A stick as enumerated once, or that opened; a new enumeration makes it stale."""

    def __init__(self, stick: VirtualEdgeTpu, enumeration: int) -> None:
        self.stick = stick
        self.enumeration = enumeration


class VirtualEdgeTpu(IBackend):  # type: ignore[misc]
    """One stick on a bus of its own. It answers as the silicon would, in simulated time.

    What it can run has to be taught: `teach(compiled, source)`. It learns of a model only what crosses the
    bus (instructions, parameters, inputs) and looks the instructions up in its library. The weights of models
    packed by virtual.packer are those that crossed the bus. Parameters written by Google's compiler are not
    decoded: as long as they are the file's own the source graph's weights stand for them, anything else gives
    noise. So does running without parameters in memory. Unknown instructions and transfers out of order make
    it hang until it is reset; `hang_reason` says why.
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
        """A stick plugged in at bus and ports; speed is "super" or "high" (USB 3 or USB 2)."""
        if speed not in ("super", "high"):
            raise ValueError(f"expected the speed super or high, got {speed!r}")
        super().__init__()
        self.clock = SimulatedClock()
        self.library = library or ProgramLibrary()
        self.faults = FaultScript()
        self._silicon = Silicon(self.library, speed == "super", boot_mode, celsius)
        self._super_speed = speed == "super"
        self._serial = serial
        self._place = (bus, ports)
        self._enumeration = 1
        self._plugged = True
        self._claimed_by: _Handle | None = None
        self._lock = threading.RLock()

    # What a test or a person does to it.

    def teach(
        self, compiled: CompiledModel | str | Path | bytes, source: str | Path | bytes
    ) -> VirtualEdgeTpu:
        """Let it run a compiled model as its source graph computes; paths, bytes or a parsed model.

        Returns the stick itself. Raises what CompiledModel.load raises, and ModelUnsupportedError when the
        two do not belong together.
        """
        if isinstance(compiled, bytes):
            compiled = CompiledModel.parse(compiled)
        elif not isinstance(compiled, CompiledModel):
            compiled = CompiledModel.load(compiled)
        graph = source if isinstance(source, bytes) else Path(source).read_bytes()
        self.library.teach(compiled, graph)
        return self

    def fail(self, fault: Fault, on: Transfer, after: int = 0, times: int = 1) -> None:
        """Let `after` transfers of that kind pass, then strike the next `times` ones."""
        self.faults.add(fault, on, after, times)

    def unplug(self) -> None:
        """Pull the stick out; it loses power."""
        with self._lock:
            self._plugged = False
            self._claimed_by = None

    def plug(self, boot_mode: bool = False) -> None:
        """Put the stick back into its port, by default with its firmware already loaded."""
        with self._lock:
            self._silicon.power_on(boot_mode)
            self._enumerate()
            self._plugged = True

    @property
    def hang_reason(self) -> str:
        """Why the chip hangs; empty while it does not."""
        return self._silicon.hang_reason

    def _enumerate(self) -> None:
        self._enumeration += 1
        self._claimed_by = None

    # The backend interface: enumeration and descriptors.

    def enumerate_devices(self) -> Iterator[_Handle]:
        """The stick, if it is plugged in."""
        return iter((_Handle(self, self._enumeration),) if self._plugged else ())

    def get_parent(self, dev: _Handle) -> None:
        """The stick sits on the root hub."""

    def get_device_descriptor(self, dev: _Handle) -> SimpleNamespace:
        """With the identity of the moment."""
        bus, ports = self._place
        boot_mode = self._silicon.boot_mode
        return descriptors.device_descriptor(
            boot_mode, self._super_speed, bus, ports, 1 + self._enumeration % 127, bool(self._serial)
        )

    def get_configuration_descriptor(self, dev: _Handle, config: int) -> SimpleNamespace:
        """There is one configuration."""
        if config:
            raise IndexError(config)
        return descriptors.configuration_descriptor()

    def get_interface_descriptor(
        self,
        dev: _Handle,
        intf: int,
        alt: int,
        config: int,
    ) -> SimpleNamespace:
        """There is one interface."""
        if intf or alt:
            raise IndexError(intf or alt)
        return descriptors.interface_descriptor(self._silicon.boot_mode)

    def get_endpoint_descriptor(
        self,
        dev: _Handle,
        ep: int,
        intf: int,
        alt: int,
        config: int,
    ) -> SimpleNamespace:
        """The endpoints of the running stick."""
        return descriptors.endpoint_descriptor(ep, self._super_speed)

    # Opening, claiming, resetting.

    def open_device(self, dev: _Handle) -> _Handle:
        """Any number of times, as long as the enumeration is current."""
        self._check(dev)
        return _Handle(self, dev.enumeration)

    def close_device(self, dev_handle: _Handle) -> None:
        """Releases the interface as well."""
        self._release(dev_handle)

    def set_configuration(self, dev_handle: _Handle, config_value: int) -> None:
        """Only configuration 1, and not while another handle has the interface."""
        self._check(dev_handle)
        if self._claimed_by not in (None, dev_handle):
            raise USBError("Resource busy", errno=errno.EBUSY)
        if config_value != 1:
            raise USBError("Entity not found", errno=errno.ENOENT)

    def get_configuration(self, dev_handle: _Handle) -> int:
        """Always 1."""
        self._check(dev_handle)
        return 1

    def claim_interface(self, dev_handle: _Handle, intf: int) -> None:
        """One handle at a time."""
        self._check(dev_handle)
        with self._lock:
            if self._claimed_by not in (None, dev_handle):
                raise USBError("Resource busy", errno=errno.EBUSY)
            self._claimed_by = dev_handle

    def release_interface(self, dev_handle: _Handle, intf: int) -> None:
        """Let another handle claim it."""
        self._release(dev_handle)

    def _release(self, dev_handle: _Handle) -> None:
        with self._lock:
            if self._claimed_by is dev_handle:
                self._claimed_by = None

    def reset_device(self, dev_handle: _Handle) -> None:
        """Reset the chip; a stick that has just got its firmware enumerates anew under its other identity."""
        self._check(dev_handle)
        with self._lock:
            if self._silicon.reset():
                self._enumerate()
                raise USBError("Entity not found", errno=errno.ENOENT)

    def is_kernel_driver_active(self, dev_handle: _Handle, intf: int) -> bool:
        """No kernel driver knows the stick."""
        return False

    # Transfers.

    def ctrl_transfer(
        self,
        dev_handle: _Handle,
        bmRequestType: int,
        bRequest: int,
        wValue: int,
        wIndex: int,
        data: array[int],
        timeout: int,
    ) -> int:
        """Registers, descriptors and DFU requests; anything else stalls."""
        with self._lock:
            self._strike(dev_handle, Transfer.CONTROL, timeout)
            if (bmRequestType, bRequest) == (_STANDARD_IN, _GET_DESCRIPTOR):
                answer = self._descriptor(wValue)
            else:
                payload = data.tobytes()
                try:
                    answer = self._silicon.control(bmRequestType, bRequest, wValue, wIndex, payload)
                except TimeoutError:
                    self._time_out(timeout)
            if answer is None:
                raise USBError("Pipe error", errno=errno.EPIPE)
            if not bmRequestType & 0x80:
                return len(data)
            count = min(len(answer), len(data))
            data[:count] = array("B", answer[:count])
            return count

    def _descriptor(self, value: int) -> bytes | None:
        if value >> 8 != _STRING_DESCRIPTOR or self._silicon.boot_mode:
            return None
        return descriptors.string_descriptor(value & 0xFF, self._serial)

    def bulk_write(self, dev_handle: _Handle, ep: int, intf: int, data: array[int], timeout: int) -> int:
        """Framed data to endpoint 1; a chip that hangs takes nothing."""
        with self._lock:
            self._strike(dev_handle, Transfer.BULK_OUT, timeout)
            self._check_claimed(dev_handle)
            if ep != 0x01:
                raise USBError("Entity not found", errno=errno.ENOENT)
            if not self._silicon.take(data.tobytes()):
                self._time_out(timeout)
            return len(data)

    def bulk_read(self, dev_handle: _Handle, ep: int, intf: int, buff: array[int], timeout: int) -> int:
        """Activations from endpoint 0x81, events from 0x82."""
        if ep not in (0x81, 0x82):
            raise USBError("Entity not found", errno=errno.ENOENT)
        with self._lock:
            fault = self._strike(dev_handle, Transfer.OUTPUT if ep == 0x81 else Transfer.EVENT, timeout)
            self._check_claimed(dev_handle)
            try:
                data, complete = self._silicon.give(ep, len(buff))
            except OverflowError as error:
                raise USBError("Overflow", errno=errno.EOVERFLOW) from error
            if fault is Fault.SHORT_READ:
                data = data[: len(data) // 2]
            if not complete:
                self.clock.sleep(timeout / 1000)
            if not data and not complete:
                raise USBTimeoutError("Operation timed out", errno=errno.ETIMEDOUT)
            buff[: len(data)] = array("B", data)
            return len(data)

    def intr_read(self, dev_handle: _Handle, ep: int, intf: int, buff: array[int], timeout: int) -> int:
        """No interrupt is pending on endpoint 0x83."""
        self._check(dev_handle)
        self._time_out(timeout)

    def clear_halt(self, dev_handle: _Handle, ep: int) -> None:
        """A stall does not last."""
        self._check(dev_handle)

    def _check(self, handle: _Handle) -> None:
        if not self._plugged or handle.enumeration != self._enumeration:
            raise USBError("No such device (it may have been disconnected)", errno=errno.ENODEV)

    def _check_claimed(self, handle: _Handle) -> None:
        if self._claimed_by is not handle:
            raise USBError("Entity not found", errno=errno.ENOENT)

    def _strike(self, handle: _Handle, transfer: Transfer, timeout: int) -> Fault | None:
        """Let the script's fault for this transfer happen; one that spoils only the data is returned."""
        self._check(handle)
        fault = self.faults.strike(transfer)
        if fault is Fault.UNPLUG:
            self.unplug()
            self._check(handle)
        if fault is Fault.STALL:
            raise USBError("Pipe error", errno=errno.EPIPE)
        if fault is Fault.TIMEOUT:
            self._time_out(timeout)
        return fault

    def _time_out(self, timeout: int) -> NoReturn:
        self.clock.sleep(timeout / 1000)
        raise USBTimeoutError("Operation timed out", errno=errno.ETIMEDOUT)

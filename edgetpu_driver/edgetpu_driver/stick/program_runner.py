"""Runs a user's own programs on a stick, and debugs the scalar core: halt, single-step, registers."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

from edgetpu_driver.darwinn.instructions.instruction_word import disassemble
from edgetpu_driver.darwinn.instructions.instruction_word_fields import WORD_BYTES
from edgetpu_driver.darwinn.instructions.requested_transfers import Transfer, transfers
from edgetpu_driver.errors import (
    DeviceError,
    InputError,
    ModelFormatError,
    ModelUnsupportedError,
)
from edgetpu_driver.stick.core_debugging import CoreState, halt, read_core, run, single_step
from edgetpu_driver.stick.final_release import FinalRelease
from edgetpu_driver.stick.program_link import ProgramLink
from edgetpu_driver.usb.chip_clock import ClockPreset
from edgetpu_driver.usb.connector import StickConnector
from edgetpu_driver.usb.firmware_loading import FirmwareImage
from edgetpu_driver.usb.framing import Event, Frame, Tag
from edgetpu_driver.usb.libusb import default_backend
from edgetpu_driver.usb.link import Reception, UsbLink

_log = logging.getLogger(__name__)
_Result = TypeVar("_Result")

LARGEST_PROGRAM = 1 << 26
"""Largest program, bytes. Uncritical: the largest compiled programs have a few hundred thousand."""
LONGEST_TIMEOUT = 3600.0
"""Longest timeout, seconds. Uncritical: no program is known to run for longer than a second."""


@dataclass(frozen=True)
class ProgramResult:
    """The output and events of a program, and the state of the core afterwards."""

    output: bytes
    events: tuple[Event, ...]
    """The completion events, in their order."""
    core: CoreState


class ProgramRunner:
    """A stick for your own programs. All methods may be called from any thread; calls are serialised.

        with ProgramRunner.open() as runner:
            result = runner.run(program, inputs=[data])

    Programs are not checked as models are: a wrong program hangs the chip until it is reset. Therefore the
    stick is reset and brought up again before the first call after a failure, and at the end, which may come
    by `close`, an exception, Ctrl-C, or the end of the process. Nobody else can use the stick meanwhile.
    Parameters stay in the chip's memory from one program to the next, until a reset.

    Every method raises DeviceError: TransferTimeoutError if a transfer did not end in time, ChipFaultError
    if the chip reports an error, DeviceLostError if the stick is gone.
    """

    def __init__(self, connector: StickConnector, timeout: float = 6.0) -> None:
        """Connect at once; use `ProgramRunner.open`, which raises the same errors."""
        if not 0 < timeout <= LONGEST_TIMEOUT:
            raise InputError(
                f"expected a timeout of up to {LONGEST_TIMEOUT:g} s, more than 0; got {timeout:g}"
            )
        self.timeout = timeout
        self._link = ProgramLink(connector, timeout)
        self._release = FinalRelease(self, self._link.close)

    @classmethod
    def open(
        cls,
        usb_backend: Any = None,
        serial: str | None = None,
        firmware: str | Path | FirmwareImage | None = None,
        *,
        bus_path: str | None = None,
        preset: ClockPreset | str = ClockPreset.HIGH,
        timeout: float = 6.0,
    ) -> ProgramRunner:
        """Find a stick, load its firmware if it is in boot mode, reset it, bring it up.

        timeout: seconds that each transfer may take, including the time it waits for the program; more than
        0, at most LONGEST_TIMEOUT, otherwise InputError. The other options and errors are those of
        EdgeTpu.open.
        """
        backend = default_backend() if usb_backend is None else usb_backend
        return cls(StickConnector(backend, serial, bus_path, firmware, preset), timeout)

    def __enter__(self) -> ProgramRunner:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.close()
        except DeviceError as failure:
            if error is None:
                raise
            _log.warning("%s", failure)

    def close(self) -> None:
        """Reset the stick, see that it comes up, put it to sleep, release it; harmless when called again.

        DeviceError if it does not come up: then it has to be plugged in again.
        """
        with self._link.lock:
            self._release()

    def run(
        self,
        program: bytes,
        *,
        parameters: bytes = b"",
        inputs: Sequence[bytes] = (),
        output_bytes: int | None = None,
        events: int | None = None,
    ) -> ProgramResult:
        """Send a program, start the core, send parameters, then inputs; read the output, then the events.

        program: a bitstream. parameters, inputs: each is sent as one transfer unless it is empty.
        output_bytes, events: how much to read; by default as much as the scalar code of the program requests.
        Raises ModelFormatError unless the program is a whole number of instructions; InputError for a
        negative number, or if a number is not given and cannot be derived from the program.
        """
        check_program(program)
        size, count = expected_transfers(program, output_bytes, events)

        def operation(link: UsbLink) -> ProgramResult:
            self._send(link, Tag.INSTRUCTIONS, program)
            run(link)
            self._send_data(link, parameters, inputs)
            output = self._receive(link, size) if size else b""
            found = tuple(self._event(link) for _ in range(count))
            return ProgramResult(output, found, read_core(link))

        return self._attempt(operation)

    def load(self, program: bytes) -> CoreState:
        """Halt the core and send it a program; the next step executes its first instruction."""
        check_program(program)

        def operation(link: UsbLink) -> CoreState:
            halt(link)
            self._send(link, Tag.INSTRUCTIONS, program)
            return read_core(link)

        return self._attempt(operation)

    def send(self, *, parameters: bytes = b"", inputs: Sequence[bytes] = ()) -> None:
        """Send parameters, then inputs, each as one transfer unless it is empty."""
        self._attempt(lambda link: self._send_data(link, parameters, inputs))

    def step(self) -> CoreState:
        """Let the core execute one instruction."""

        def operation(link: UsbLink) -> CoreState:
            single_step(link)
            return read_core(link)

        return self._attempt(operation)

    def halt(self) -> CoreState:
        """Halt the core, whether it runs or not."""

        def operation(link: UsbLink) -> CoreState:
            halt(link)
            return read_core(link)

        return self._attempt(operation)

    def resume(self) -> None:
        """Let the core run freely."""
        self._attempt(run)

    def core(self) -> CoreState:
        """Read the registers of the core; they are consistent only while it is halted."""
        return self._attempt(read_core)

    def read_output(self, size: int) -> bytes:
        """Wait for `size` bytes of output; InputError unless `size` is at least 1."""
        if size < 1:
            raise InputError(f"expected a number of bytes; got {size}")

        return self._attempt(lambda link: self._receive(link, size))

    def read_event(self) -> Event:
        """Wait for the next event, which is an interrupt of the program."""
        return self._attempt(self._event)

    def _send_data(self, link: UsbLink, parameters: bytes, inputs: Sequence[bytes]) -> None:
        for tag, data in ((Tag.PARAMETERS, parameters), *((Tag.INPUT_ACTIVATIONS, each) for each in inputs)):
            if data:
                self._send(link, tag, data)

    def _send(self, link: UsbLink, tag: Tag, data: bytes) -> None:
        self._link.doing = f"sending {len(data)} bytes of {tag.name.lower().replace('_', ' ')}"
        link.send(Frame(tag, data))

    def _receive(self, link: UsbLink, size: int) -> bytes:
        self._link.doing = f"waiting for {size} bytes of output"
        reception = Reception(size)
        link.receive(reception)
        return reception.data.tobytes()

    def _event(self, link: UsbLink) -> Event:
        self._link.doing = "waiting for an event"
        return link.read_event()

    def _attempt(self, operation: Callable[[UsbLink], _Result]) -> _Result:
        with self._link.lock:
            return self._link.attempt(operation)


def check_program(program: bytes) -> None:
    """Raise ModelFormatError unless a program has one or more whole instructions, up to LARGEST_PROGRAM."""
    if not program or len(program) % WORD_BYTES or len(program) > LARGEST_PROGRAM:
        raise ModelFormatError(
            f"expected a program of {WORD_BYTES}-byte instructions, at most {LARGEST_PROGRAM} bytes; "
            f"got {len(program)} bytes"
        )


def expected_transfers(program: bytes, output_bytes: int | None, events: int | None) -> tuple[int, int]:
    """The number of output bytes and of events to read; None is replaced by what the program requests.

    Raises InputError for a negative number, and for None if it cannot be derived from the program.
    """
    for name, value in (("bytes of output", output_bytes), ("events", events)):
        if value is not None and value < 0:
            raise InputError(f"expected a number of {name}; got {value}")
    if output_bytes is not None and events is not None:
        return output_bytes, events
    found = _requested(program)
    if output_bytes is None:
        output_bytes = sum(each.size for each in found if each.tag == Tag.OUTPUT_ACTIVATIONS)
    if events is None:
        events = sum(each.tag >= Tag.INTERRUPT_0 for each in found)
    return output_bytes, events


def _requested(program: bytes) -> list[Transfer]:
    try:
        return transfers(disassemble(program))
    except ModelUnsupportedError as error:
        raise InputError(f"say how much output and how many events to read; {error}") from None

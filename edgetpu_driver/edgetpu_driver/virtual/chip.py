"""The chip of a virtual stick: boot loader or firmware, registers, endpoints, power."""

from __future__ import annotations

from collections import deque

from edgetpu_driver.usb.chip_faults import Interrupt
from edgetpu_driver.usb.link import INTERFACE
from edgetpu_driver.usb.registers import CREDIT_BITS, GCB_CLOCK_DIVIDER, Register, register_width
from edgetpu_driver.virtual.boot_loader import BootLoader
from edgetpu_driver.virtual.processor.processor import Processor, QueuedEvent
from edgetpu_driver.virtual.program_library import ProgramLibrary
from edgetpu_driver.virtual.simulated_registers import RegisterFile
from edgetpu_driver.virtual.simulated_timing import compute_seconds
from edgetpu_driver.virtual.usb_descriptors import max_packet

_VENDOR_OUT, _VENDOR_IN = 0x40, 0xC0
"""Request types that write and read a register."""
_HIGH_SPEED_CHUNK = 256
"""Largest chunk of an output at high speed, bytes: the vendor's driver works around an erratum with it."""
_SHOW_CREDITS = 0xFFFFFFFF
"""The value to write to omc0_00 before reading ep_status_credit, by the vendor's register description."""
_REGISTER_BYTES = 8
"""Distance between two scalar registers in the address space, bytes: the size of a 64-bit register."""


class Chip:
    """The device behind the endpoints. TimeoutError: it does not answer; OverflowError: it sends too much."""

    def __init__(self, library: ProgramLibrary, super_speed: bool, boot_mode: bool, celsius: float) -> None:
        self._registers = RegisterFile(celsius)
        self._processor = Processor(library)
        self._super_speed = super_speed
        self._max_packet = max_packet(super_speed)
        self.power_on(boot_mode)

    def power_on(self, boot_mode: bool) -> None:
        """Power on, in the boot loader or with the firmware loaded."""
        self._boot_loader = BootLoader()
        self.boot_mode = boot_mode
        self._interrupt_words: deque[int] = deque()
        self._shows_credits = False
        """Whether the next read of ep_status_credit shows the credits."""
        self._registers.reset()
        self._processor.reset()

    def reset(self) -> bool:
        """A USB bus reset; returns whether the stick changes its identity."""
        starts_firmware = self.boot_mode and self._boot_loader.complete
        self.power_on(self.boot_mode and not starts_firmware)
        return starts_firmware

    @property
    def hang_reason(self) -> str:
        """Why the bulk endpoints do not answer; empty if they do."""
        return self._processor.hang_reason

    @property
    def begins_program(self) -> bool:
        """Whether the next bytes are the start of a program."""
        return self._processor.idle

    def interrupt(self, interrupt: Interrupt) -> None:
        """Raise an interrupt that is enabled; a fatal one comes with error registers and stops the chip."""
        if interrupt is Interrupt.FATAL_ERROR:
            self._registers.set_error()
            self._processor.hang("the chip stopped with a fatal error")
        if self._registers.raise_interrupt(interrupt):
            self._interrupt_words.append(interrupt)

    def give_interrupt(self) -> bytes:
        """The next word of the interrupt endpoint; empty when none is pending."""
        return self._interrupt_words.popleft().to_bytes(4, "little") if self._interrupt_words else b""

    def control(self, request_type: int, request: int, value: int, index: int, data: bytes) -> bytes | None:
        """A control transfer: the answer, empty if no data was requested; None is a stall."""
        if self.boot_mode:
            if index != INTERFACE:
                return None
            return self._boot_loader.control(request_type, request, value, data, len(data))
        address = index << 16 | value
        width = register_width(address)
        if request_type not in (_VENDOR_OUT, _VENDOR_IN) or (request, len(data)) != (int(width == 4), width):
            return None
        if request_type == _VENDOR_OUT:
            self._write(address, int.from_bytes(data, "little"))
            return b""
        return self._read(address).to_bytes(width, "little")

    def _write(self, address: int, value: int) -> None:
        """Write a register and apply the effects on the chip; TimeoutError if it does not answer."""
        if not self._registers.write(address, value):
            raise TimeoutError
        if self._registers.asleep:
            self._processor.reset()
        elif address == Register.omc0_00:
            self._shows_credits = value == _SHOW_CREDITS
        elif address == Register.scalarCoreRunControl:
            self._processor.control(value, self._registers[Register.descr_ep])

    def _read(self, address: int) -> int:
        """Read a register; TimeoutError if it does not answer."""
        content = self._registers.read(address)
        if content is None:
            raise TimeoutError
        if address == Register.ep_status_credit:
            shown, self._shows_credits = self._shows_credits, False
            each_kind = enumerate(self._processor.credits)
            content = sum(each << position * CREDIT_BITS for position, each in each_kind) if shown else 0
        return self._core_value(address, content)

    def _core_value(self, address: int, otherwise: int) -> int:
        """The value of the scalar core's register at an address; `otherwise` for other addresses."""
        core = self._processor.core
        if address == Register.currentPc and not self._registers[Register.hib_error_status]:
            return self._processor.word
        for first, values in (
            (Register.scalarRegisterFile, core.registers),
            (Register.predicateRegisterFile, core.predicates),
        ):
            number, rest = divmod(address - first, _REGISTER_BYTES)
            if 0 <= number < len(values) and not rest:
                return int(values[number])
        return otherwise

    def take(self, data: bytes) -> bool:
        """Bytes for the bulk endpoint; False if it accepts nothing."""
        if self._processor.hang_reason or self.boot_mode:
            return False
        if not self._registers.takes_work or self._registers[Register.multi_bo_ep]:
            self._processor.hang("a frame came before the chip was brought up")
            return False
        self._processor.take(data, self._registers[Register.descr_ep])
        return True

    def compute_seconds(self) -> float:
        """Compute time since the last call, simulated seconds."""
        cycles, self._processor.cycles = self._processor.cycles, 0
        divider = GCB_CLOCK_DIVIDER.of(self._registers[Register.scu_ctrl_3])
        return compute_seconds(cycles, divider) if cycles else 0.0

    def give_event(self, size: int) -> QueuedEvent | None:
        """Result of one read of the event endpoint; None if nothing is queued."""
        events = self._processor.events
        if self._processor.hang_reason or self.boot_mode or not events:
            return None
        if len(events[0].packet) > size:
            raise OverflowError
        return events.popleft()

    def give_outputs(self, size: int) -> tuple[bytes, bool]:
        """Result of one read of the activations endpoint, and whether it ends before its timeout.

        Packets until the buffer is full or one is short; each output starts a new packet.
        """
        if self._processor.hang_reason or self.boot_mode:
            return b"", False
        chunk = min(self._registers[Register.outfeed_chunk_length] * 8 or self._max_packet, self._max_packet)
        outputs = self._processor.outputs
        if outputs and not self._super_speed and chunk > _HIGH_SPEED_CHUNK:
            self._processor.hang(
                f"the output comes in chunks of {chunk} bytes; at high speed at most {_HIGH_SPEED_CHUNK} "
                "arrive"
            )
            return b"", False
        data = b""
        while outputs and len(data) < size:
            space = size - len(data)
            if chunk < self._max_packet:
                count = min(chunk, len(outputs[0]))
            else:  # as many whole packets as fit, else the short last one
                count = min(space // chunk * chunk or chunk, len(outputs[0]))
            if count > space:
                raise OverflowError
            data += outputs[0][:count]
            outputs[0] = outputs[0][count:]
            if not outputs[0]:
                outputs.popleft()
            if count % self._max_packet:
                return data, True
        return data, len(data) == size

"""The compute side of a virtual Edge TPU: receives frames, runs programs, sends activations and events."""

from __future__ import annotations

import hashlib
from collections import deque
from dataclasses import dataclass

from edgetpu_driver.darwinn.executable import (
    Description,
    Direction,
    DmaHint,
    ExecutableType,
    InstructionHint,
    InterruptHint,
)
from edgetpu_driver.darwinn.instructions.requested_transfers import Transfer
from edgetpu_driver.darwinn.instructions.scalar_core import ScalarCore
from edgetpu_driver.errors import EdgeTpuError, ModelUnsupportedError
from edgetpu_driver.usb.framing import EVENT, HEADER, MAX_BULK_WRITE, Tag
from edgetpu_driver.virtual.matrix_programs.operation_roles import ProgramFaultError
from edgetpu_driver.virtual.processor.core_execution import CodeProgram, CoreExecution
from edgetpu_driver.virtual.processor.program_run import ProgramRun
from edgetpu_driver.virtual.processor.simulated_parameter_memory import ParameterMemory
from edgetpu_driver.virtual.program_library import ProgramLibrary, noise

MAX_CREDIT = 0x1FFFFF
"""Limit of the credits, which are counters of 21 bits."""

_RUN, _SINGLE_STEP = 1, 3
"""Values of the register scalarCoreRunControl."""
_CREDIT_BYTES = 8
"""Length of the words that credits count, bytes."""

UNKNOWN_KEPT = 16
"""Number of unknown programs that are recognised when sent again. Chosen: the host repeats them at once."""


@dataclass(frozen=True)
class QueuedEvent:
    """An event packet on its way to the host."""

    packet: bytes
    ends_inference: bool


class Processor:
    """Runs the programs of a library; anything unexpected makes it hang until it is reset.

    It sees only what arrives in frames: instructions, parameters and inputs.
    """

    def __init__(self, library: ProgramLibrary) -> None:
        self._library = library
        self._unknown: deque[bytes] = deque(maxlen=UNKNOWN_KEPT)
        """Digests of the last instructions that belong to no known program, also from before a reset."""
        self.reset()

    def reset(self) -> None:
        """Reset everything, including parameters in memory."""
        self.hang_reason = ""
        self.outputs: deque[memoryview] = deque()
        self.events: deque[QueuedEvent] = deque()
        self.cycles = 0
        """Cycles of the main clock since this was last set to 0."""
        self._stream = bytearray()
        self._memory = ParameterMemory()
        self.core = ScalarCore()
        self.word = 0
        """Position of the scalar core in the program it ran last, in words."""
        self.running = False
        """Whether the scalar core runs freely; False if it is halted or was never started."""
        self._scalar_program = b""
        """The last program of the scalar core alone that ended."""
        self._finish()

    def _finish(self) -> None:
        self._run: ProgramRun | None = None
        """The present program if it is known by its transfers."""
        self._execution: CoreExecution | None = None
        """The present program if it is run from its bytes."""

    def _abort(self) -> None:
        """Stop the running program because computing its results failed, which no real chip does."""
        self.outputs.clear()
        self.events.clear()
        self._stream.clear()
        self._finish()

    def hang(self, reason: str) -> None:
        """Stop answering on the bulk endpoints."""
        self.hang_reason = reason

    @property
    def idle(self) -> bool:
        """Whether the next bytes are the start of a program."""
        return self._run is None and self._execution is None and not self._stream

    @property
    def credits(self) -> tuple[int, int, int]:
        """Number of units of 8 bytes that it would accept now: instructions, inputs, parameters."""
        if self.hang_reason or self.outputs:
            return 0, 0, 0
        if self._execution is not None:
            tag, size = _described(self._execution.wanted)
        elif self._run is None:
            return MAX_CREDIT, 0, 0
        else:
            tag, size = self._run.wanted
        return tuple(  # type: ignore[return-value]
            min(MAX_CREDIT, -(-size // _CREDIT_BYTES)) if tag == each else 0 for each in Tag if each < 3
        )

    def take(self, data: bytes, event_tags: int) -> None:
        """Handle bytes from the bulk endpoint: parts of frames, frames, or several of them.

        event_tags: the tags for which finished transfers are reported, one bit each.
        """
        if len(data) > MAX_BULK_WRITE:
            self.hang(f"a bulk transfer of {len(data)} bytes came; at most {MAX_BULK_WRITE} are taken")
            return
        self._stream += data
        while not self.hang_reason and self._stream:
            if self.outputs:
                self.hang("a frame came before the last output was read")
                return
            if len(self._stream) < HEADER.size:
                return
            length, tag = HEADER.unpack_from(self._stream)
            if not self._fits(tag & 0xF, length):
                return
            end = HEADER.size + length
            if len(self._stream) < end:
                return
            payload = bytes(memoryview(self._stream)[HEADER.size : end])
            del self._stream[:end]
            self._take_frame(tag & 0xF, payload, event_tags)

    def _fits(self, tag: int, length: int) -> bool:
        """Whether a frame with that header is accepted now; any other frame makes the chip hang."""
        if self._execution is not None:
            self._check_wanted(self._execution, tag, length)
        elif self._run is None:
            if tag != Tag.INSTRUCTIONS:
                self.hang(f"no known program starts with a frame with tag {tag} of {length} bytes")
                if self._scalar_program:  # a packed program, which has no other words
                    self._refuse_unknown(self._scalar_program)
        elif (tag, length) != self._run.wanted:
            self.hang(f"expected {self._run.steps[0]}; a frame with tag {tag} of {length} bytes came")
        return not self.hang_reason

    def _check_wanted(self, execution: CoreExecution, tag: int, length: int) -> None:
        if tag == Tag.INSTRUCTIONS:
            self.hang(f"a frame with tag 0 of {length} bytes came before the program ended")
        elif execution.wanted is not None and (tag, length) != _described(execution.wanted):
            self.hang(f"expected {execution.wanted}; a frame with tag {tag} of {length} bytes came")

    def _take_frame(self, tag: int, payload: bytes, event_tags: int) -> None:
        if self._execution is not None:
            self._execution.received.append((tag, payload))
            self._advance(self._execution, event_tags)
            return
        if self._run is None:
            self._start(payload)
        if self._execution is not None:
            self._report(event_tags, tag, len(payload))
            self._advance(self._execution, event_tags)
            return
        run = self._run
        if run is None:
            return
        step = run.steps[0] if run.steps else None
        if isinstance(step, DmaHint):
            run.receive(step, payload)
        elif not isinstance(step, InstructionHint) or not run.program.is_bitstream(step.chunk, payload):
            self.hang(f"expected {step}; other instructions came")
            return
        self._report(event_tags, tag, len(payload))
        run.steps.popleft()
        self._proceed(run, event_tags)

    def _start(self, payload: bytes) -> None:
        try:
            program = self._library.find(payload)
        except ProgramFaultError as fault:
            self.hang(str(fault))
            return
        self._scalar_program = b""
        if isinstance(program, CodeProgram):
            self._execution = CoreExecution(program, self.core)
            self._scalar_program = payload if program.scalar else b""
            return
        if program is not None and not self.running:
            self.hang("the core is halted, and this program is known by its transfers only")
            return
        if program is None:
            self.hang(
                f"no known program starts with a frame with tag 0 of {len(payload)} bytes; without a graph "
                "those of matrices and of the scalar core alone are known"
            )
            self._refuse_unknown(payload)
            return
        self._run = ProgramRun(program)

    def _refuse_unknown(self, instructions: bytes) -> None:
        """Raise ModelUnsupportedError if the host repeats instructions: they are intact but not known.

        A bit error would not occur twice; a stick that only hung would not say what is missing.
        """
        digest = hashlib.sha256(instructions).digest()
        if digest in self._unknown:
            self.hang_reason = ""
            self._abort()
            raise ModelUnsupportedError(
                f"the virtual stick knows no model whose program begins with these {len(instructions)} bytes "
                "of instructions; it needs the graph of every model: "
                "VirtualEdgeTpu.register_model(compiled, graph)"
            )
        self._unknown.append(digest)

    def control(self, command: int, event_tags: int) -> None:
        """Run, halt or single-step the scalar core: a write to its run control."""
        self.running = command == _RUN
        if self._execution is not None and command in (_RUN, _SINGLE_STEP) and not self.hang_reason:
            self._advance(self._execution, event_tags, single=command == _SINGLE_STEP)

    def _advance(self, execution: CoreExecution, event_tags: int, single: bool = False) -> None:
        """Run a program on the scalar core until it waits or halts, or for one operation."""
        while (self.running or single) and not self.hang_reason and not execution.halted:
            if execution.wanted is not None:
                if not execution.received:
                    return
                tag, execution.streamed = execution.received.popleft()
                self._check_wanted(execution, tag, len(execution.streamed))
                self._report(event_tags, tag, len(execution.streamed))
                execution.wanted = None
                continue
            try:
                transfer = execution.step()
            except ModelUnsupportedError as error:
                self.hang(str(error))
                return
            self.word, single = execution.word, False
            if transfer is not None and execution.wanted is None:
                self._answer(execution, transfer, event_tags)
        if execution.halted:
            self._end(execution)

    def _answer(self, execution: CoreExecution, transfer: Transfer, event_tags: int) -> None:
        """Carry out a transfer to the host that a program on the scalar core requests."""
        product = execution.program.product
        if transfer.tag != Tag.OUTPUT_ACTIVATIONS:
            ends = transfer.tag == Tag.INTERRUPT_0 and product is not None
            self._report(event_tags, transfer.tag, 0, ends_inference=ends)
        elif product is not None:
            outputs = product.multiply(execution.streamed, self._memory.tiles)
            if outputs is None:
                outputs = noise(transfer.size, "output", execution.streamed)
            self.cycles += product.cycles
            self.outputs.append(memoryview(outputs))
            self._report(event_tags, transfer.tag, transfer.size)

    def _end(self, execution: CoreExecution) -> None:
        if execution.received:
            tag, payload = execution.received[0]
            self.hang(f"the program ended; a frame with tag {tag} of {len(payload)} bytes is left")
            return
        if execution.program.upload is not None:
            self._memory.store(execution.program.upload, execution.streamed)
        self._finish()

    def _proceed(self, run: ProgramRun, event_tags: int) -> None:
        """Run the program until it needs another frame."""
        while run.steps:
            step = run.steps[0]
            if isinstance(step, InterruptHint):
                last = len(run.steps) == 1 and run.program.type is not ExecutableType.PARAMETER_CACHING
                self._report(event_tags, Tag.INTERRUPT_0 + step.number, 0, ends_inference=last)
            elif isinstance(step, DmaHint) and step.direction is Direction.OUTFEED:
                self.outputs.append(memoryview(self._outgoing(run, step)))
                self._report(event_tags, Tag.OUTPUT_ACTIVATIONS, step.size)
            else:
                return
            run.steps.popleft()
        self._memory.keep(run.program, run.parameters)
        self._finish()

    def _report(self, event_tags: int, tag: int, size: int, ends_inference: bool = False) -> None:
        """Queue the event of a finished transfer if the host enabled its tag."""
        if event_tags >> tag & 1:
            self.events.append(QueuedEvent(EVENT.pack(0, size, tag), ends_inference))

    def _outgoing(self, run: ProgramRun, step: DmaHint) -> bytes:
        if step.description is not Description.SCRATCH and run.results is None:
            try:
                run.compute(self._memory.uploaded_by(run.program.cached_parameters))
            except EdgeTpuError:
                self._abort()
                raise
            self.cycles += run.program.cycles
        return run.outgoing(step)


def _described(transfer: Transfer | None) -> tuple[int, int]:
    """Tag and size of a transfer; zeros for None."""
    return (0, 0) if transfer is None else (transfer.tag, transfer.size)

"""The compute side of a virtual Edge TPU: frames in, programs step by step, activations and events out."""

from __future__ import annotations

import hashlib
from collections import deque

from edgetpu_driver.darwinn.executable import (
    Description,
    Direction,
    DmaHint,
    ExecutableType,
    InstructionHint,
    InterruptHint,
)
from edgetpu_driver.usb.framing import EVENT, HEADER, Tag
from edgetpu_driver.virtual.program_library import Program, ProgramLibrary, Step

_TAG_OF = {
    Description.INPUT: Tag.INPUT_ACTIVATIONS,
    Description.PARAMETER: Tag.PARAMETERS,
    Description.SCRATCH: Tag.INPUT_ACTIVATIONS,
}


class Processor:
    """Runs the programs of a library; anything out of order makes it hang until it is reset.

    It knows only what arrives: the program by the digest of its instructions, parameters and inputs by their
    frames.
    """

    def __init__(self, library: ProgramLibrary) -> None:
        self._library = library
        self.reset()

    def reset(self) -> None:
        """Forget everything, the parameters in memory too."""
        self.hang_reason = ""
        self.outputs: deque[memoryview] = deque()
        self.events: deque[bytes] = deque()
        self._stream = bytearray()
        self._parameters: dict[bytes, bytes] = {}
        self._tokens: set[int] = set()
        self._finish()

    def _finish(self) -> None:
        self._program: Program | None = None
        self._steps: deque[Step] = deque()
        self._inputs: dict[str, bytearray] = {}
        self._streamed = bytearray()
        self._scratch = bytearray()
        self._results: dict[str, bytes] | None = None

    def hang(self, reason: str) -> None:
        """Stop answering on the bulk endpoints."""
        self.hang_reason = reason

    def take(self, data: bytes) -> None:
        """Bytes from the bulk endpoint: parts of frames, frames, or several of them."""
        self._stream += data
        while not self.hang_reason and len(self._stream) >= HEADER.size:
            length, tag = HEADER.unpack_from(self._stream)
            end = HEADER.size + length
            if len(self._stream) < end:
                return
            payload = bytes(memoryview(self._stream)[HEADER.size : end])
            del self._stream[:end]
            self._take_frame(tag & 0xF, payload)

    def _take_frame(self, tag: int, payload: bytes) -> None:
        if self.outputs:
            self.hang(f"a frame with tag {tag} came before the last output was read")
        elif self._program is None:
            self._start(tag, payload)
        elif not self._accept(tag, payload):
            self.hang(f"expected {self._steps[0]}; a frame with tag {tag} of {len(payload)} bytes came")
        if not self.hang_reason:
            self._proceed()

    def _start(self, tag: int, payload: bytes) -> None:
        program = self._library.find(hashlib.sha256(payload).digest()) if tag == Tag.INSTRUCTIONS else None
        if program is None:
            self.hang(f"no known program starts with a frame with tag {tag} of {len(payload)} bytes")
            return
        self._program = program
        self._steps = deque(program.steps)
        self._scratch = bytearray(program.executable.scratch_size_bytes)
        if not self._accept(tag, payload):
            self.hang("the program does not start with its instructions")

    def _accept(self, tag: int, payload: bytes) -> bool:
        """Whether the frame is what the program waits for; its content is kept."""
        step, program = self._steps[0], self._program
        if program is None:
            return False
        if isinstance(step, InstructionHint):
            fits = tag == Tag.INSTRUCTIONS and payload == program.executable.bitstreams[step.chunk].data
        elif isinstance(step, DmaHint) and step.direction is Direction.INFEED:
            fits = tag == _TAG_OF.get(step.description) and len(payload) == step.size
        else:
            fits = False
        if fits:
            self._steps.popleft()
            if isinstance(step, DmaHint):
                self._keep(step, payload)
        return fits

    def _keep(self, step: DmaHint, payload: bytes) -> None:
        if step.description is Description.INPUT:
            target = self._inputs.setdefault(step.name, bytearray())
        elif step.description is Description.PARAMETER:
            target = self._streamed
        else:
            target = self._scratch
        end = step.offset + step.size
        target.extend(bytes(max(0, end - len(target))))
        target[step.offset : end] = payload

    def _proceed(self) -> None:
        """Do what the program does on its own until it needs another frame."""
        program = self._program
        while program is not None and self._steps:
            step = self._steps[0]
            if isinstance(step, InterruptHint):
                self.events.append(EVENT.pack(0, 0, Tag.INTERRUPT_0 + step.number))
            elif isinstance(step, DmaHint) and step.direction is Direction.OUTFEED:
                self.outputs.append(memoryview(self._outgoing(program, step)))
            else:
                return
            self._steps.popleft()
        if program is not None:
            self._keep_parameters(program)
        self._finish()

    def _outgoing(self, program: Program, step: DmaHint) -> bytes:
        end = step.offset + step.size
        if step.description is Description.SCRATCH:
            return bytes(self._scratch[step.offset : end])
        if self._results is None:
            cached = self._parameters.get(program.cached_parameters)
            self._results = program.evaluate(self._inputs, cached, bytes(self._streamed))
        return self._results[step.name][step.offset : end].ljust(step.size, b"\0")

    def _keep_parameters(self, program: Program) -> None:
        """What stays in memory: the parameters of one caching token, until others take their place."""
        if program.type is ExecutableType.PARAMETER_CACHING:
            common = self._tokens & program.tokens - {0}
            if not common:
                self._parameters.clear()
            self._tokens = common or set(program.tokens)
            self._parameters[program.digest] = bytes(self._streamed)
        elif program.type is ExecutableType.STAND_ALONE and self._streamed:
            self._parameters.clear()

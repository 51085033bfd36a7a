"""One run of a program that is known by its transfers."""

from __future__ import annotations

from collections import deque

from edgetpu_driver.darwinn.executable import Description, DmaHint, InstructionHint
from edgetpu_driver.usb.framing import Tag
from edgetpu_driver.virtual.program_library import Program, Step

_TAG_OF = {
    Description.INPUT: Tag.INPUT_ACTIVATIONS,
    Description.PARAMETER: Tag.PARAMETERS,
    Description.SCRATCH: Tag.INPUT_ACTIVATIONS,
    Description.OUTPUT: Tag.OUTPUT_ACTIVATIONS,
}


class ProgramRun:
    """The data that a program has received and computed, and the remaining steps."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.steps: deque[Step] = deque(program.steps)
        self.results: dict[str, bytes] | None = None
        """The output layers, once they have been computed."""
        self._inputs: dict[str, bytearray] = {}
        self.parameters = bytearray()
        """The parameters received in this run."""
        self._scratch = bytearray(program.executable.scratch_size_bytes)

    @property
    def wanted(self) -> tuple[int, int]:
        """Tag and size of the frame that it waits for."""
        step = self.steps[0]
        if isinstance(step, InstructionHint):
            return Tag.INSTRUCTIONS, len(self.program.executable.bitstreams[step.chunk].data)
        assert isinstance(step, DmaHint)  # no frame is expected
        return _TAG_OF[step.description], step.size

    def receive(self, step: DmaHint, payload: bytes) -> None:
        """Take the inputs, parameters or scratch data of a step."""
        if step.description is Description.INPUT:
            target = self._inputs.setdefault(step.name, bytearray())
        elif step.description is Description.PARAMETER:
            target = self.parameters
        else:
            target = self._scratch
        end = step.offset + step.size
        target.extend(bytes(max(0, end - len(target))))
        target[step.offset : end] = payload

    def compute(self, cached: bytes | None) -> None:
        """Compute the output layers. cached: its parameters in memory; None if they are not there."""
        self.results = self.program.evaluate(self._inputs, cached, bytes(self.parameters))

    def outgoing(self, step: DmaHint) -> bytes:
        """The bytes sent in a step: scratch data, or part of a computed output layer."""
        end = step.offset + step.size
        if step.description is Description.SCRATCH:
            return bytes(self._scratch[step.offset : end])
        assert self.results is not None
        return self.results[step.name][step.offset : end].ljust(step.size, b"\0")

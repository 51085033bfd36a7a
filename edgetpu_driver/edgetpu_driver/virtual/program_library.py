"""Programs that a virtual Edge TPU can run, by the digest of their instructions, with their graphs."""

from __future__ import annotations

import hashlib
import threading
from collections import Counter, deque
from collections.abc import Callable, Mapping
from functools import partial
from typing import Protocol

import numpy as np

from edgetpu_driver.compiled_model import CompiledModel
from edgetpu_driver.darwinn.executable import (
    DmaHint,
    Executable,
    ExecutableType,
    FenceHint,
    InstructionBitstream,
    InstructionHint,
    InterruptHint,
)
from edgetpu_driver.darwinn.instructions.address_fields import write_field
from edgetpu_driver.darwinn.instructions.parameter_region import Region, region_of
from edgetpu_driver.engines.cpu_engine import CpuEngine
from edgetpu_driver.errors import ModelUnsupportedError
from edgetpu_driver.virtual.matrix_programs.operation_roles import ProgramFaultError
from edgetpu_driver.virtual.matrix_programs.upload import MatrixUpload
from edgetpu_driver.virtual.processor.core_execution import CodeProgram, read_matrix_program, read_program
from edgetpu_driver.virtual.reference_model import ReferenceModel

Step = InstructionHint | DmaHint | InterruptHint
_Fields = tuple[int, ...]
_MAX_REMEMBERED = 64
"""Number of programs whose analysis is cached; others are analysed again, which only takes time."""


class Computation(Protocol):
    """The computation of a program."""

    @property
    def cycles(self) -> int:
        """Cycles of the chip's main clock for one inference."""

    def evaluate(
        self, inputs: Mapping[str, bytearray], cached: bytes, streamed: bytes
    ) -> dict[str, bytes] | None:
        """Output layers as sent, from input layers as received; None for parameters of another model."""


class Program:
    """One executable as the chip sees it: expected transfers in order, and the computation."""

    def __init__(self, executable: Executable, cached_parameters: bytes) -> None:
        self.executable = executable
        self.digest = _digest(executable)
        self.steps: tuple[Step, ...] = tuple(h for h in executable.hints if not isinstance(h, FenceHint))
        self.tokens = {executable.parameter_caching_token}
        self.cached_parameters = cached_parameters
        """Digest of the caching program of this program's parameters; empty if it needs none."""
        caches = executable.type is ExecutableType.PARAMETER_CACHING
        self.region: Region = region_of(executable) if caches else 0
        """The rows of memory that a caching program fills."""
        self.upload: MatrixUpload | None = _upload(executable) if caches else None
        """The destinations of the parameters, if the program uploads those of a matrix."""
        self.models: list[Computation] = []
        """Models of these instructions; they may differ in their parameters."""

    @property
    def type(self) -> ExecutableType:
        """The executable's role in its package."""
        return self.executable.type

    @property
    def stand_alone(self) -> bool:
        """Whether it runs without a caching program, whatever type its executable states."""
        return self.type is not ExecutableType.PARAMETER_CACHING and not self.cached_parameters

    @property
    def cycles(self) -> int:
        """Cycles of the chip's main clock for the arithmetic of one run."""
        return self.models[0].cycles if self.models else 0

    def is_bitstream(self, chunk: int, payload: bytes) -> bool:
        """Whether these are the instructions of that chunk, ignoring addresses inserted by the host."""
        bitstream = self.executable.bitstreams[chunk]
        if payload == bitstream.data:
            return True
        fields = _fields(bitstream)
        return len(payload) == len(bitstream.data) and _normal(payload, fields) == _normal(
            bitstream.data, fields
        )

    def evaluate(
        self, inputs: Mapping[str, bytearray], cached: bytes | None, streamed: bytes
    ) -> dict[str, bytes]:
        """All output layers as sent; noise unless the memory holds the parameters of a registered model."""
        if cached is not None or not self.cached_parameters:
            for model in self.models:
                results = model.evaluate(inputs, cached or b"", streamed)
                if results is not None:
                    return results
        seed = b"".join((*inputs.values(), cached or b"", streamed))
        return {layer.name: noise(layer.size_bytes, layer.name, seed) for layer in self.executable.outputs}


class ProgramLibrary:
    """Programs by digest; several virtual sticks may share one library. Any thread may register models."""

    def __init__(self, make_engine: Callable[[bytes], CpuEngine] = CpuEngine) -> None:
        """make_engine: creates the engine that computes a graph."""
        self._make_engine = make_engine
        self._programs: dict[bytes, Program] = {}
        self._forms: dict[int, set[_Fields]] = {}
        """Positions of the address fields in bitstreams of a given length."""
        self._found: dict[bytes, Program | CodeProgram] = {}
        self._lock = threading.Lock()
        self._registered: Counter[ReferenceModel] = Counter()
        """How often each model was registered and not released."""
        self._released: deque[ReferenceModel] = deque()
        """Models that were released since the last one was registered."""

    @property
    def size(self) -> int:
        """Number of programs of registered models."""
        return len(self._programs)

    def register_model(self, compiled: CompiledModel, source_graph: bytes) -> Callable[[], None]:
        """Add the programs of a compiled model, which compute what source_graph, a .tflite file, defines.

        Returns a function that releases the model, to be called once for each registration; a finaliser may
        call it, in any thread. A released model is dropped when the next one is registered.
        ModelUnsupportedError if the two do not belong together.
        """
        model = ReferenceModel(compiled, source_graph, self._make_engine)
        with self._lock:
            self._drop_released()
            program = self._add_model(compiled)
            models = [each for each in program.models if isinstance(each, ReferenceModel)]
            known = next((each for each in models if each.computes_as(model)), model)
            program.models = [known, *(each for each in models if each is not known)]
            self._registered[known] += 1
        return partial(self._released.append, known)

    def _add_model(self, compiled: CompiledModel) -> Program:
        """Add the programs of a model; returns the one that is executed."""
        caching = compiled.caching
        if caching is not None:
            self._add(caching, b"")
        program = self._add(compiled.execution, _digest(caching) if caching is not None else b"")
        self._found.clear()  # some programs may have been recognised by their bytes before
        return program

    def _drop_released(self) -> None:
        dropped: list[ReferenceModel] = []
        while self._released:
            model = self._released.popleft()
            self._registered[model] -= 1
            if not self._registered[model]:
                del self._registered[model]
                dropped.append(model)
        for model in dropped:
            model.rest()
            for program in self._programs.values():
                program.models = [each for each in program.models if each is not model]
        self._drop_unused_programs()

    def _drop_unused_programs(self) -> None:
        used = {digest for digest, each in self._programs.items() if each.models}
        used |= {self._programs[digest].cached_parameters for digest in used}
        if not used.issuperset(self._programs):
            programs = {digest: each for digest, each in self._programs.items() if digest in used}
            forms: dict[int, set[_Fields]] = {}
            for each in programs.values():
                _note_form(forms, each.executable)
            self._programs, self._forms = programs, forms  # as a whole: a stick may be looking for a program

    def rest(self, compiled: CompiledModel) -> None:
        """End the process that computes a model, which stays registered; the next run starts another."""
        program = self._programs.get(_digest(compiled.execution))
        for model in program.models if program is not None else ():
            if isinstance(model, ReferenceModel) and model.is_of(compiled):
                model.rest()

    def find(self, instructions: bytes) -> Program | CodeProgram | None:
        """The program with this first bitstream, ignoring addresses inserted by the host.

        A program of no registered model is read from its bytes, if it is that of a matrix or uses the scalar
        core alone. Raises ProgramFaultError for a program that no chip would run to its end.
        """
        program = self._found.get(instructions)
        if program is None:
            program = self._search(instructions)
            if program is not None:
                if len(self._found) >= _MAX_REMEMBERED:
                    self._found.clear()
                self._found[instructions] = program
        return program

    def _search(self, instructions: bytes) -> Program | CodeProgram | None:
        for fields in tuple(self._forms.get(len(instructions), ())):  # another thread may be adding models
            program = self._programs.get(hashlib.sha256(_normal(instructions, fields)).digest())
            if program is not None:
                return program
        return read_program(instructions)

    def _add(self, executable: Executable, cached_parameters: bytes) -> Program:
        program = Program(executable, cached_parameters)
        known = self._programs.setdefault(program.digest, program)
        if known.steps != program.steps or known.cached_parameters != cached_parameters:
            raise ModelUnsupportedError(
                f"executable '{executable.name}' has the instructions of a known one and other transfers"
            )
        _note_form(self._forms, executable)
        known.tokens |= program.tokens
        return known


def _note_form(forms: dict[int, set[_Fields]], executable: Executable) -> None:
    first = _first(executable)
    forms.setdefault(len(first.data), set()).add(_fields(first))


def _upload(executable: Executable) -> MatrixUpload | None:
    try:
        program = read_matrix_program(_first(executable).data)
    except ProgramFaultError:
        return None
    return program.upload if program is not None else None


def _first(executable: Executable) -> InstructionBitstream:
    for hint in executable.hints:
        if isinstance(hint, InstructionHint):
            return executable.bitstreams[hint.chunk]
    raise ModelUnsupportedError(f"executable '{executable.name}' sends no instructions")


def _digest(executable: Executable) -> bytes:
    first = _first(executable)
    return hashlib.sha256(_normal(first.data, _fields(first))).digest()


def _fields(bitstream: InstructionBitstream) -> _Fields:
    return tuple(sorted(field.bit for field in bitstream.field_offsets))


def _normal(instructions: bytes, fields: _Fields) -> bytes:
    """The instructions with all address fields zeroed."""
    data = bytearray(instructions)
    for bit in fields:
        write_field(data, bit, 0)
    return bytes(data)


def noise(size: int, name: str, seed: bytes) -> bytes:
    """Noise in place of a result; deterministic by seed."""
    digest = hashlib.sha256(name.encode() + seed).digest()
    return np.random.default_rng(list(digest)).bytes(size)

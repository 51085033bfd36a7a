"""What a virtual Edge TPU can run: programs by the digest of their instructions, and their graphs."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgetpu_driver.compiled_model import CompiledModel
from edgetpu_driver.darwinn.executable import (
    DmaHint,
    Executable,
    ExecutableType,
    FenceHint,
    InstructionHint,
    InterruptHint,
)
from edgetpu_driver.darwinn.host_convention import input_from_wire
from edgetpu_driver.darwinn.output_tiles import TileGather
from edgetpu_driver.engines.cpu import CpuEngine
from edgetpu_driver.errors import ModelUnsupportedError
from edgetpu_driver.tensor import TensorSpec
from edgetpu_driver.tflite.model import parse_model
from edgetpu_driver.virtual.weights import parameters_of, with_parameters

Step = InstructionHint | DmaHint | InterruptHint


class TaughtModel:
    """A compiled model and the graph it was compiled from, which says what its program computes."""

    def __init__(self, compiled: CompiledModel, source: bytes) -> None:
        """ModelUnsupportedError unless inputs and outputs of the two correspond one to one, in order."""
        graph = parse_model(source).subgraphs[0]
        inputs, outputs = graph.input_specs, graph.output_specs
        _check_same("input", compiled.inputs, inputs)
        _check_same("output", compiled.outputs, outputs)
        self.compiled = compiled
        self._source = source
        self._packed = parameters_of(source) == b"".join(_parameters(compiled))
        """Whether the layout of the parameters is known: that of the packer."""
        self._inputs = list(zip(inputs, compiled.input_layers, strict=True))
        self._outputs = [
            (spec.name, TileGather(layer))
            for spec, layer in zip(outputs, compiled.output_layers, strict=True)
        ]
        self._engines: dict[tuple[bytes, bytes], CpuEngine | None] = {}

    def evaluate(
        self, inputs: Mapping[str, bytearray], cached: bytes, streamed: bytes
    ) -> dict[str, bytes] | None:
        """Output layers as the chip sends them, from input layers as it received them.

        None when these parameters are not those of this model.
        """
        engine = self._engine(cached, streamed)
        if engine is None:
            return None
        arrays: dict[str, NDArray[Any]] = {}
        for spec, layer in self._inputs:
            wire = np.frombuffer(inputs[layer.name], np.uint8)
            arrays[spec.name] = input_from_wire(layer, wire).view(spec.dtype).reshape(spec.shape)
        results = engine.run(arrays)
        return {gather.layer.name: gather.scatter(results[name]).tobytes() for name, gather in self._outputs}

    def _engine(self, cached: bytes, streamed: bytes) -> CpuEngine | None:
        key = (cached, streamed)
        if key not in self._engines:
            self._engines.clear()  # one set of parameters at a time is in use
            self._engines[key] = self._make_engine(cached, streamed)
        return self._engines[key]

    def _make_engine(self, cached: bytes, streamed: bytes) -> CpuEngine | None:
        if self._packed:
            return CpuEngine(with_parameters(self._source, cached or streamed))
        own_cached, own_streamed = _parameters(self.compiled)
        # Outputs may leave before the last parameters arrive.
        known = cached == own_cached and own_streamed.startswith(streamed)
        return CpuEngine(self._source) if known else None


def _parameters(compiled: CompiledModel) -> tuple[bytes, bytes]:
    """A model's own parameters: those kept on the chip, those sent with every inference."""
    return compiled.caching.parameters if compiled.caching else b"", compiled.execution.parameters


class Program:
    """One executable as the chip knows it: what to expect, in which order, and what to compute from it."""

    def __init__(self, executable: Executable, cached_parameters: bytes) -> None:
        self.executable = executable
        self.digest = _digest(executable)
        self.steps: tuple[Step, ...] = tuple(h for h in executable.hints if not isinstance(h, FenceHint))
        self.tokens = {executable.parameter_caching_token}
        self.cached_parameters = cached_parameters
        """Digest of the program that puts this one's parameters into memory; empty if it needs none there."""
        self.models: list[TaughtModel] = []
        """Models of these instructions; they may differ in their parameters."""

    @property
    def type(self) -> ExecutableType:
        """Role in its package."""
        return self.executable.type

    def evaluate(
        self, inputs: Mapping[str, bytearray], cached: bytes | None, streamed: bytes
    ) -> dict[str, bytes]:
        """All output layers as sent; noise when the parameters in memory are not those of a model taught."""
        if cached is not None or not self.cached_parameters:
            for model in self.models:
                results = model.evaluate(inputs, cached or b"", streamed)
                if results is not None:
                    return results
        seed = b"".join((*inputs.values(), cached or b"", streamed))
        return {layer.name: _noise(layer.size_bytes, layer.name, seed) for layer in self.executable.outputs}


class ProgramLibrary:
    """Programs by digest; several virtual sticks may share one library."""

    def __init__(self) -> None:
        self._programs: dict[bytes, Program] = {}

    def teach(self, compiled: CompiledModel, source_graph: bytes) -> None:
        """Add the programs of a compiled model; source_graph, an uncompiled .tflite file, says what they do.

        ModelUnsupportedError when the two do not belong together.
        """
        model = TaughtModel(compiled, source_graph)
        caching = compiled.caching
        if caching is not None:
            self._add(caching, b"")
        program = self._add(compiled.execution, _digest(caching) if caching is not None else b"")
        program.models.insert(0, model)

    def find(self, digest: bytes) -> Program | None:
        """The program whose first bitstream has that SHA-256 digest."""
        return self._programs.get(digest)

    def _add(self, executable: Executable, cached_parameters: bytes) -> Program:
        program = Program(executable, cached_parameters)
        known = self._programs.setdefault(program.digest, program)
        if known.steps != program.steps or known.cached_parameters != cached_parameters:
            raise ModelUnsupportedError(
                f"executable '{executable.name}' has the instructions of a known one and other transfers"
            )
        known.tokens |= program.tokens
        return known


def _digest(executable: Executable) -> bytes:
    first = next((hint.chunk for hint in executable.hints if isinstance(hint, InstructionHint)), None)
    if first is None:
        raise ModelUnsupportedError(f"executable '{executable.name}' sends no instructions")
    return hashlib.sha256(executable.bitstreams[first].data).digest()


def _check_same(kind: str, compiled: Sequence[TensorSpec], source: Sequence[TensorSpec]) -> None:
    expected = [(spec.dtype, int(np.prod(spec.shape))) for spec in compiled]
    if expected != [(spec.dtype, int(np.prod(spec.shape))) for spec in source]:
        raise ModelUnsupportedError(
            f"expected a source graph with the {kind}s {', '.join(map(str, compiled))};"
            f" it has {', '.join(map(str, source))}"
        )


def _noise(size: int, name: str, seed: bytes) -> bytes:
    """Bytes that look like a result and are none; the same for the same seed."""
    digest = hashlib.sha256(name.encode() + seed).digest()
    return np.random.default_rng(list(digest)).bytes(size)

"""A compiled model: the tensors of the .tflite container and the executables for the chip."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from edgetpu_driver.darwinn.executable import Executable, ExecutableType, Layer, Package
from edgetpu_driver.darwinn.package_reader import parse_package
from edgetpu_driver.errors import GraphError, ModelFormatError, ModelUnsupportedError
from edgetpu_driver.files.compiled_file_names import plain_stem
from edgetpu_driver.tflite import flexbuffer
from edgetpu_driver.tflite.checks.file_checks import read_model_file
from edgetpu_driver.tflite.model_reader import ABSENT, EDGETPU_CUSTOM_OP, Operator, Subgraph, parse_model
from edgetpu_driver.tflite.tensor import TensorSpec

if TYPE_CHECKING:
    from edgetpu_driver.darwinn.instructions.parameter_region import Region

# Keys of the custom operator's options (vendor driver).
PACKAGE_KEY = "4"
FURTHER_PACKAGES_KEY = "7"
INPUT_PADDING_KEY = "edgetpu_driver.input_padding"
"""Only files that this package writes have this option; other drivers send zeros."""

VIRTUAL_COMPILER = "edgetpu_driver.virtual"
"""The compiler named by models that were packed for the virtual stick."""

DENSE_COMPILER = "edgetpu_driver.dense"
"""The compiler named by models whose program was written by toolchain.dense_compiler."""

OWN_COMPILERS = (VIRTUAL_COMPILER, DENSE_COMPILER)
"""Compilers whose files may be replaced."""

_CHIP = "beagle"
_SEVERAL_CHIPS = -1
"""Value of virtual_chip_id in a file for several Edge TPUs."""

PARAMETER_MEMORY_BYTES = 8_000_000
"""Memory for cached parameters, bytes: about what edgetpu_compiler reports for small models, of the 8 MiB of
the chip."""


@dataclass(frozen=True)
class Parameters:
    """The parameter bytes of a model, cached and streamed; empty if it has none of that kind."""

    cached: bytes | memoryview
    """Uploaded once and kept in the chip's memory."""
    streamed: bytes | memoryview
    """Sent with every inference."""

    @property
    def arrays(self) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
        """Views of the cached and the streamed bytes, in this order: arrays[is_streamed]."""
        return np.frombuffer(self.cached, np.uint8), np.frombuffer(self.streamed, np.uint8)


@dataclass(frozen=True, eq=False)
class CompiledModel:
    """The part of a compiled .tflite file that runs on the Edge TPU.

    If the graph has other operators before or after that part, inputs and outputs are those of the part, not
    of the graph, and cpu_operators names the other operators.
    """

    name: str
    """The file's stem without "_edgetpu"."""
    path: Path | None
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    input_layers: tuple[Layer, ...]
    """The executable's layer for each of `inputs`."""
    output_layers: tuple[Layer, ...]
    """The executable's layer for each of `outputs`; execution.outputs may have more (state variables)."""
    execution: Executable
    """The executable that runs for every inference."""
    caching: Executable | None
    """The executable that uploads the cached parameters; None if there are none."""
    cpu_operators: tuple[str, ...]
    """Names of the operators that do not run on the Edge TPU, in order."""
    file: bytes = field(repr=False)
    """The file's content."""
    operator: int = 0
    """Index of the operator in the graph."""
    compiler: str = ""
    """The compiler and its version, as stated in the file."""
    remark: str = ""
    """A remark of the compiler about the file; only the compiler of this package writes one."""
    input_padding: bytes = b""
    """Bytes that the host sends after the elements of the only input; further padding is zeros."""

    @classmethod
    def load(cls, path: str | Path) -> CompiledModel:
        """Read and parse a file; raises as `parse`, and ModelNotFoundError if it cannot be read."""
        path = Path(path)
        return replace(cls.parse(read_model_file(path), plain_stem(path)), path=path)

    @classmethod
    def parse(cls, data: bytes, name: str = "") -> CompiledModel:
        """Parse the bytes of a .tflite file.

        Raises ModelFormatError for anything malformed or not compiled for the Edge TPU; ModelUnsupportedError
        for a model that has several Edge TPU parts or is compiled for several chips.
        """
        graph = parse_model(data).subgraphs[0]
        return cls.of_operator(data, graph, _only_part(graph), name)

    @classmethod
    def load_parts(cls, path: str | Path) -> tuple[CompiledModel, ...]:
        """Read and parse all parts for the Edge TPU in a file; raises as `load` and `parse_parts`."""
        path = Path(path)
        parts = cls.parse_parts(read_model_file(path), plain_stem(path))
        return tuple(replace(part, path=path) for part in parts)

    @classmethod
    def parse_parts(cls, data: bytes, name: str = "") -> tuple[CompiledModel, ...]:
        """All parts for the Edge TPU in the bytes of a .tflite file, in order; raises as `parse`."""
        graph = parse_model(data).subgraphs[0]
        parts = graph.edgetpu_operators
        if len(parts) <= 1:
            return (cls.of_operator(data, graph, _only_part(graph), name),)
        named = [(index, f"{name} part {number}") for number, index in enumerate(parts, 1)]
        return tuple(cls.of_operator(data, graph, index, part_name) for index, part_name in named)

    @classmethod
    def of_operator(cls, data: bytes, graph: Subgraph, operator: int, name: str = "") -> CompiledModel:
        """The part for the Edge TPU that one operator stands for; the graph may have several such operators.

        data: the file that `graph` was read from. operator: index of an operator EDGETPU_CUSTOM_OP. Raises as
        `parse`.
        """
        part = graph.operators[operator]
        package = _package(part)
        caching, execution = _executables(package)
        if ABSENT in part.inputs:
            raise ModelFormatError(f"an input of '{EDGETPU_CUSTOM_OP}' is absent; it has no optional ones")
        inputs = [graph.tensors[index].spec for index in part.inputs]
        outputs = [graph.tensors[index].spec for index in part.outputs]
        input_layers = _match("input", inputs, execution.inputs, execution.batch_size)
        return cls(
            name=name,
            path=None,
            inputs=tuple(inputs),
            outputs=tuple(outputs),
            input_layers=input_layers,
            output_layers=_match("output", outputs, execution.outputs, execution.batch_size),
            execution=execution,
            caching=caching,
            cpu_operators=tuple(
                each.custom_code or each.name
                for each in graph.operators
                if each.custom_code != EDGETPU_CUSTOM_OP
            ),
            file=data,
            operator=operator,
            compiler=package.compiler_version,
            remark=package.model_identifier,
            input_padding=_input_padding(part, input_layers),
        )

    @cached_property
    def sha256(self) -> str:
        """SHA-256 of the file, in hexadecimal; computed on first use, 0.5 ms per megabyte."""
        return sha256(self.file).hex()

    @cached_property
    def parameter_region(self) -> Region:
        """The rows of the chip's memory that the cached parameters fill, as bits; 0 if there are none."""
        from edgetpu_driver.darwinn.instructions.parameter_region import region_of  # takes 5 ms

        return 0 if self.caching is None else region_of(self.caching)

    @property
    def is_cached(self) -> bool:
        """Whether parameters stay in the chip's memory between inferences."""
        return self.caching is not None

    @property
    def parameter_caching_token(self) -> int:
        """Models with the same token can be resident together; 0: upload for every inference."""
        return self.execution.parameter_caching_token

    @property
    def parameters(self) -> Parameters:
        """The parameter bytes, cached and streamed."""
        return Parameters(self.caching.parameters if self.caching else b"", self.execution.parameters)

    @property
    def parameter_bytes(self) -> int:
        """Number of all parameter bytes, cached and streamed."""
        return len(self.execution.parameters) + (len(self.caching.parameters) if self.caching else 0)

    def source_part(self, graph: bytes) -> bytes:
        """The part of a .tflite graph that this was compiled from, as a file of its own.

        graph: the whole graph; other operators may have been left to the CPU or to other segments. The result
        has its inputs and outputs in the order of `inputs` and `outputs`, which need not be the graph's, and
        with the scales and zero points of this file if the graph was calibrated differently. It is the graph
        itself if the tensors of this part cannot be identified in it. ModelFormatError for a malformed graph.
        """
        from edgetpu_driver.tflite.subgraph_extraction import extract_between

        whole = parse_model(graph).subgraphs[0]
        try:
            inputs, outputs = self.source_ends(whole)
            graph = self._calibrated(graph, whole, (*inputs, *outputs))
            if (inputs, outputs) == (whole.inputs, whole.outputs):
                return graph
            return extract_between(graph, whole, inputs, outputs)
        except GraphError:
            return graph

    def calibrated(self, graph: bytes) -> bytes:
        """The whole graph with the scales and zero points that this file has for its inputs and outputs.

        A published graph may come from another calibration than the compiled file. Raises as `source_ends`.
        """
        whole = parse_model(graph).subgraphs[0]
        return self._calibrated(graph, whole, [index for each in self.source_ends(whole) for index in each])

    def _calibrated(self, graph: bytes, whole: Subgraph, ends: Sequence[int]) -> bytes:
        from edgetpu_driver.tflite.shared_quantisation import (
            ChipQuantisation,
            chip_quantisation,
            with_quantisation,
        )

        steps: dict[int, ChipQuantisation] = {}
        for index, layer in zip(ends, (*self.input_layers, *self.output_layers), strict=True):
            if layer.dequantization_factor > 0:
                steps[index] = ChipQuantisation(layer.dequantization_factor, layer.zero_point)
        same = all(chip_quantisation(whole.tensors[index]) in (None, each) for index, each in steps.items())
        return graph if same else with_quantisation(graph, steps)

    def source_ends(self, graph: Subgraph) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Indices of the tensors of the whole graph that are the inputs and outputs of this part.

        Their names may differ from those in this file (see `match_tensors`). GraphError, which names the
        tensor, if one cannot be identified.
        """
        from edgetpu_driver.tflite.graph_matching import match_tensors, named_alike

        container = parse_model(self.file).subgraphs[0]
        part = container.operators[self.operator]
        matched = named_alike(container, graph)
        if not matched.keys() >= {*part.inputs, *part.outputs}:
            matched = match_tensors(container, graph)
        for index in (*part.inputs, *part.outputs):
            if index not in matched:
                raise GraphError(
                    f"cannot find {container.tensors[index].spec} of '{self.name}' in its graph: none has "
                    "its name, and neither the operators around it nor its quantisation decide"
                )
        inputs, outputs = (tuple(matched[index] for index in each) for each in (part.inputs, part.outputs))
        return inputs, outputs

    def check_runnable(self) -> None:
        """Raise ModelUnsupportedError, with the reason, if no USB Edge TPU can run this model."""
        execution = self.execution
        layers = (*execution.inputs, *execution.outputs)
        executables = [execution] if self.caching is None else [self.caching, execution]
        reasons = (
            (execution.chip != _CHIP, f"it is compiled for the chip '{execution.chip}', not '{_CHIP}'"),
            (
                not all(each.fully_deterministic for each in executables),
                "its DMA hints are not fully deterministic, so the order of its transfers is unknown",
            ),
            (execution.batch_size != 1, f"its batch size is {execution.batch_size}, not 1"),
            (
                any(layer.execution_count != 1 for layer in layers),
                "a layer crosses the link more than once per inference",
            ),
        )
        for applies, reason in reasons:
            if applies:
                raise ModelUnsupportedError(f"cannot run '{self.name}' over USB: {reason}")


def caching_token(content: bytes) -> int:
    """A 64-bit parameter caching token for the given content; never 0, which has another meaning."""
    return int.from_bytes(sha256(content)[:8], "little") or 1


def sha256(content: bytes) -> bytes:
    """SHA-256 of the content, 32 bytes."""
    import hashlib  # takes 3 ms, as it loads OpenSSL

    return hashlib.sha256(content).digest()


def _only_part(graph: Subgraph) -> int:
    """Index of the only operator that runs on the Edge TPU."""
    count, parts = len(graph.operators), graph.edgetpu_operators
    if not parts:
        counted = "its only operator is not" if count == 1 else f"none of its {count} operators is"
        raise ModelFormatError(
            f"the model is not compiled for the Edge TPU: {counted} '{EDGETPU_CUSTOM_OP}'; compile "
            "it with `edgetpu models compile`, or use the backend cpu or virtual"
        )
    if len(parts) > 1:
        raise ModelUnsupportedError(
            f"the model has {len(parts)} parts for the Edge TPU with other operators in between; expected "
            "one part; edgetpu_driver.Model runs all of it"
        )
    return parts[0]


def _input_padding(operator: Operator, layers: Sequence[Layer]) -> bytes:
    options: Any = flexbuffer.decode(operator.custom_options)
    padding = options.get(INPUT_PADDING_KEY)
    if padding is None:
        return b""
    room = sum(layer.size_bytes - layer.element_count * layer.data_type.size for layer in layers)
    if not isinstance(padding, memoryview) or len(layers) != 1 or len(padding) > room:
        raise ModelFormatError(
            f"the option '{INPUT_PADDING_KEY}' of '{EDGETPU_CUSTOM_OP}' is not for the {room} bytes after "
            "one input"
        )
    return bytes(padding)


def _package(operator: Operator) -> Package:
    options = flexbuffer.decode(operator.custom_options)
    package: Any = options.get(PACKAGE_KEY) if isinstance(options, dict) else None
    if not isinstance(package, memoryview):
        raise ModelFormatError(
            f"the options of '{EDGETPU_CUSTOM_OP}' have no package under the key '{PACKAGE_KEY}'"
        )
    if options.get(FURTHER_PACKAGES_KEY):
        raise ModelUnsupportedError("the model is compiled for several Edge TPUs; one is expected")
    parsed = parse_package(package)
    if parsed.virtual_chip_id == _SEVERAL_CHIPS:
        raise ModelUnsupportedError("the model is compiled for several Edge TPUs; one is expected")
    return parsed


def _executables(package: Package) -> tuple[Executable | None, Executable]:
    """The executable that uploads parameters, if any, and the one that runs."""
    if len(package.executables) == 1:
        return None, package.executables[0]
    by_type = {executable.type: executable for executable in package.executables}
    kinds = sorted(executable.type.name for executable in package.executables)
    pair = {ExecutableType.PARAMETER_CACHING, ExecutableType.EXECUTION_ONLY}
    if len(by_type) != len(kinds) or not pair <= by_type.keys():
        raise ModelFormatError(
            "package: expected one executable, or PARAMETER_CACHING and EXECUTION_ONLY with or without "
            f"STAND_ALONE; got {', '.join(kinds)}"
        )
    if ExecutableType.STAND_ALONE in by_type:
        return None, by_type[ExecutableType.STAND_ALONE]
    caching, execution = (by_type[kind] for kind in sorted(pair))
    if caching.parameter_caching_token != execution.parameter_caching_token:
        raise ModelFormatError(
            f"package: the caching tokens of its executables differ: {caching.parameter_caching_token:#x} "
            f"and {execution.parameter_caching_token:#x}"
        )
    return caching, execution


def _match(
    kind: str, tensors: Sequence[TensorSpec], layers: Sequence[Layer], batch_size: int
) -> tuple[Layer, ...]:
    """The layer for each tensor: by name or, if the names differ, by position."""
    names = {tensor.name for tensor in tensors}
    if len(names) != len(tensors):
        raise ModelFormatError(f"{kind} tensors of '{EDGETPU_CUSTOM_OP}' share a name: {sorted(names)}")
    by_name = {layer.name: layer for layer in layers}
    if names <= by_name.keys():
        matched = tuple(by_name[tensor.name] for tensor in tensors)
    elif len(tensors) == len(layers):
        matched = tuple(layers)
    else:
        raise ModelFormatError(
            f"expected an {kind} layer for each tensor {sorted(names)}; the executable has {sorted(by_name)}"
        )
    for tensor, layer in zip(tensors, matched, strict=True):
        _check_match(tensor, layer, batch_size)
    return matched


def _check_match(tensor: TensorSpec, layer: Layer, batch_size: int) -> None:
    count = layer.element_count * layer.execution_count * batch_size
    if prod(tensor.shape) != count or tensor.dtype.itemsize != layer.data_type.size:
        raise ModelFormatError(
            f"tensor {tensor} does not fit layer '{layer.name}' of {count} elements of {layer.data_type.name}"
        )

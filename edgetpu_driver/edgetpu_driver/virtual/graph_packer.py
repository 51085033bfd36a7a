"""Wraps an uncompiled quantised graph into the container that the Edge TPU compiler writes.

Google's compiler is closed, so these programs cannot run on a real stick. Everything the host handles is
real: the custom operator and its options, the package, parameter caching, DMA hints, output tiles, and
parameter bytes that cross the wire. The virtual device identifies programs by their instruction stream.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import prod

import numpy as np

from edgetpu_driver.compiled_model import (
    PARAMETER_MEMORY_BYTES,
    VIRTUAL_COMPILER,
    Parameters,
    caching_token,
)
from edgetpu_driver.darwinn.executable import (
    DataType,
    Description,
    Direction,
    DmaHint,
    Executable,
    ExecutableType,
    Hint,
    InstructionHint,
    InterruptHint,
    Layer,
)
from edgetpu_driver.darwinn.instructions.parameter_region import (
    BYTES_OF_ALL_TILES,
    fill_all_tiles,
    rows_for,
)
from edgetpu_driver.errors import EdgeTpuError, ModelUnsupportedError
from edgetpu_driver.tflite.model_reader import Subgraph, parse_model
from edgetpu_driver.tflite.tensor import TensorSpec
from edgetpu_driver.toolchain.compiled_file_writer import write_compiled_file
from edgetpu_driver.virtual.output_tile_assignment import output_layout, padded_elements, round_up
from edgetpu_driver.virtual.packed_program import bitstream
from edgetpu_driver.weights.compiler_layout import encode_parameters
from edgetpu_driver.weights.packed_layout import parameters_of, with_parameters

_WIRE_WORD_BYTES = 8
"""Transfers are padded to whole words of this length."""
_CACHING_INSTRUCTIONS = 67  # as in real parameter caching programs of small models
_BASE_INSTRUCTIONS, _INSTRUCTIONS_PER_OPERATOR = 180, 64
"""Numbers of instructions of a packed program: they determine the bytes on the wire, not the results."""
_DONE = InterruptHint(0)

MEMORY_ROWS = PARAMETER_MEMORY_BYTES // BYTES_OF_ALL_TILES
"""Rows of the chip's memory that are used for parameters."""

_WIRE_TYPES = {
    np.dtype(np.uint8): DataType.FIXED_POINT8,
    np.dtype(np.int8): DataType.SIGNED_FIXED_POINT8,
    np.dtype(np.int16): DataType.SIGNED_FIXED_POINT16,
}


def pack(graph: bytes, *, name: str, token: int | None = None, first_row: int = 0) -> bytes:
    """The compiled model of a quantised .tflite graph, for the virtual device; always the same bytes.

    Inputs and outputs keep name, shape, dtype and quantisation. The execution program depends on everything
    in the graph except the weight values, and on the address of the parameters; the caching program depends
    on the number and address of the parameters only. Parameters have edgetpu_compiler's layout if it is known
    (weights.compiler_layout), otherwise the packed layout (weights.packed_layout). token: the caching token
    shared with other models. first_row: where cached parameters begin in the chip's memory; models of one
    token that are to be resident together must not overlap, see `pack_together`. Raises ModelFormatError for
    a malformed graph and ModelUnsupportedError for one with inputs or outputs that the chip does not support.
    """
    subgraph = parse_model(graph).subgraphs[0]
    _check(subgraph)
    inputs, outputs = subgraph.input_specs, subgraph.output_specs
    executables = _executables(graph, subgraph, name, token, first_row)
    title = f"{name}, packed for the virtual Edge TPU"
    return write_compiled_file(title, inputs, outputs, executables, compiler=VIRTUAL_COMPILER)


def pack_together(graphs: Mapping[str, bytes], others: Mapping[str, bytes]) -> dict[str, bytes]:
    """Pack graphs, by name, so that they can be resident together, as long as there is memory for them.

    others: graphs that other calls pack, for which `graphs` are the others. Raises what `pack` raises.
    """
    both = dict(sorted({**others, **graphs}.items()))
    token = caching_token(b"".join(both.values()))
    packed, row = {}, 0
    for name, graph in both.items():
        try:
            rows = memory_rows(graph)
        except EdgeTpuError:
            if name in graphs:
                raise
            continue  # the call that packs this graph raises the error
        if row + rows > MEMORY_ROWS:
            row = 0  # displaces others
        if name in graphs:
            packed[name] = pack(graph, name=name, token=token, first_row=row)
        row += rows
    return packed


def memory_rows(graph: bytes) -> int:
    """Rows of the chip's memory for the cached parameters of a graph; raises what `pack` raises."""
    return rows_for(len(_parameters(graph).cached))


def _check(graph: Subgraph) -> None:
    if graph.edgetpu_operators:
        raise ModelUnsupportedError("the graph is compiled for the Edge TPU already")
    specs = (*graph.input_specs, *graph.output_specs)
    if len({spec.name for spec in specs}) != len(specs):
        names = ", ".join(spec.name for spec in specs)
        raise ModelUnsupportedError(f"expected inputs and outputs of different names; got {names}")
    for spec in specs:
        if spec.dtype not in _WIRE_TYPES or not spec.scale > 0:
            quantisation = f"with scale {spec.scale}"
            raise ModelUnsupportedError(
                f"expected inputs and outputs of quantised uint8, int8 or int16; got {spec} {quantisation}"
            )
        if min(spec.shape, default=0) < 1:
            raise ModelUnsupportedError(f"expected inputs and outputs of fixed shapes; got {spec}")
        if _batch(spec) != 1:
            raise ModelUnsupportedError(f"expected a batch of 1; got {spec}")


def _executables(
    graph: bytes, subgraph: Subgraph, name: str, shared_token: int | None, first_row: int
) -> tuple[Executable, ...]:
    """Execution only and parameter caching, or one stand-alone executable if there is nothing to cache."""
    parameters = _parameters(graph)
    inputs = tuple(_input_layer(spec) for spec in subgraph.input_specs)
    outputs = tuple(_output_layer(spec) for spec in subgraph.output_specs)
    shape = with_parameters(graph, bytes(len(parameters_of(graph))))
    program = bitstream(
        hashlib.sha256(shape + first_row.to_bytes(2, "little")).digest(),
        _BASE_INSTRUCTIONS + _INSTRUCTIONS_PER_OPERATOR * len(subgraph.operators),
        [layer.name for layer in inputs],
        [layer.name for layer in outputs],
    )
    token = (shared_token or caching_token(graph)) if parameters.cached else 0
    execution = Executable(
        type=ExecutableType.EXECUTION_ONLY if parameters.cached else ExecutableType.STAND_ALONE,
        name=name,
        parameter_caching_token=token,
        bitstreams=(program,),
        parameters=parameters.streamed,
        hints=(
            InstructionHint(0),
            *(_transfer(Description.INPUT, layer.name, layer.size_bytes) for layer in inputs),
            *_parameter_transfer(parameters.streamed),
            *(_transfer(Description.OUTPUT, layer.name, layer.size_bytes) for layer in outputs),
            _DONE,
        ),
        fully_deterministic=True,
        inputs=inputs,
        outputs=outputs,
    )
    if not parameters.cached:
        return (execution,)
    return execution, _caching_executable(parameters.cached, token, first_row)


def _parameters(graph: bytes) -> Parameters:
    """The parameters in edgetpu_compiler's layout if it is known, otherwise in the packed layout."""
    try:
        return encode_parameters(parse_model(graph))
    except ModelUnsupportedError:
        plain = parameters_of(graph)
        fits = len(plain) <= PARAMETER_MEMORY_BYTES
        return Parameters(plain, b"") if fits else Parameters(b"", plain)


def _caching_executable(parameters: bytes | memoryview, token: int, first_row: int) -> Executable:
    digest = hashlib.sha256(len(parameters).to_bytes(8, "little") + first_row.to_bytes(2, "little")).digest()
    filling = fill_all_tiles(first_row, rows_for(len(parameters)))
    return Executable(
        type=ExecutableType.PARAMETER_CACHING,
        name="Unknown",
        parameter_caching_token=token,
        bitstreams=(bitstream(digest, _CACHING_INSTRUCTIONS, (), (), filling),),
        parameters=parameters,
        hints=(InstructionHint(0), *_parameter_transfer(parameters), _DONE),
        fully_deterministic=True,
        inputs=(),
        outputs=(),
    )


def _transfer(description: Description, name: str, size: int) -> Hint:
    direction = Direction.OUTFEED if description is Description.OUTPUT else Direction.INFEED
    return DmaHint(description, direction, name, 0, size)


def _parameter_transfer(parameters: bytes | memoryview) -> Sequence[Hint]:
    return [_transfer(Description.PARAMETER, "", len(parameters))] if parameters else []


def _batch(spec: TensorSpec) -> int:
    """The batch size: the product of all dimensions before (y, x, z); 1 for a tensor of one dimension."""
    return prod(spec.shape[: max(1, len(spec.shape) - 3)]) if len(spec.shape) > 1 else 1


def _wire_shape(spec: TensorSpec) -> tuple[int, int, int]:
    """(y, x, z) of a tensor with a batch of 1."""
    y_dim, x_dim, z_dim = (1, 1, 1, *spec.shape)[-3:]
    return y_dim, x_dim, z_dim


def _input_layer(spec: TensorSpec) -> Layer:
    shape = _wire_shape(spec)
    return _layer(spec, shape, prod(shape))


def _output_layer(spec: TensorSpec) -> Layer:
    shape = _wire_shape(spec)
    layer = _layer(spec, shape, padded_elements(shape))
    return replace(layer, layout=output_layout(shape))


def _layer(spec: TensorSpec, shape: tuple[int, int, int], elements: int) -> Layer:
    data_type = _WIRE_TYPES[spec.dtype]
    # Values on the wire are unsigned.
    shift = 1 << (8 * data_type.size - 1) if data_type.is_signed_fixed else 0
    return Layer(
        name=spec.name,
        size_bytes=round_up(elements * data_type.size, _WIRE_WORD_BYTES),
        shape=shape,
        data_type=data_type,
        zero_point=spec.zero_point + shift,
        dequantization_factor=spec.scale,
    )

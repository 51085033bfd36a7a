"""Compiles Dense graphs, a matrix times a vector, for a real Edge TPU without the vendor's compiler.

The program is the one that edgetpu_compiler writes, see `darwinn.programs.dense_program`. No program from
here has run on a stick.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from edgetpu_driver.compiled_model import DENSE_COMPILER, CompiledModel, caching_token
from edgetpu_driver.darwinn.chip_geometry import CELLS, TILES
from edgetpu_driver.darwinn.executable import (
    DataType,
    Description,
    Direction,
    DmaHint,
    Executable,
    ExecutableType,
    InstructionHint,
    InterruptHint,
    Layer,
    OutputLayout,
)
from edgetpu_driver.errors import ModelUnsupportedError
from edgetpu_driver.tflite.model_reader import parse_model
from edgetpu_driver.tflite.tensor import TensorSpec
from edgetpu_driver.toolchain import dense_graph
from edgetpu_driver.toolchain.compiled_file_writer import write_compiled_file
from edgetpu_driver.weights.dense_program_plan import DenseProgramPlan, plan_dense_program

_DONE = InterruptHint(0)


@dataclass(frozen=True)
class WrittenModel:
    """A compiled model whose program was generated here."""

    file: bytes
    """The compiled .tflite file."""
    remark: str
    """What a user should know before the file runs on a stick: what was padded, and how it was verified."""
    sidecar: bytes
    """The JSON description that goes next to the file."""


def is_dense(graph: bytes) -> bool:
    """Whether a program can be written for a .tflite graph; ModelFormatError if it is malformed."""
    try:
        plan_dense_program(parse_model(graph))
    except ModelUnsupportedError:
        return False
    return True


def compile_dense(graph: bytes, name: str = "") -> WrittenModel:
    """Compile a Dense .tflite graph; always the same bytes.

    name: of the model, for the file's description. Raises ModelFormatError for a malformed graph,
    ModelUnsupportedError, with the reason, for one that is not Dense or larger than 1024 x 1024.
    """
    plan = plan_dense_program(parse_model(graph))
    file = write_compiled_file(
        f"{name or 'a matrix'}, compiled by edgetpu_driver",
        [plan.input],
        [plan.output],
        _executables(plan, caching_token(graph)),
        compiler=DENSE_COMPILER,
        remark=plan.remark,
        input_padding=plan.input_padding,
    )
    return WrittenModel(file, plan.remark, _sidecar(plan))


def dense_model(size: int) -> CompiledModel:
    """The suite's own matrix of `size` rows and columns, compiled, to load onto a stick for MatMul.

    Raises GraphError for a size of which there is no graph, ModelUnsupportedError above 1024.
    """
    name = dense_graph.name(size)
    return CompiledModel.parse(compile_dense(dense_graph.build(size), name).file, name)


def _executables(plan: DenseProgramPlan, token: int) -> tuple[Executable, Executable]:
    """The program that runs, then the one that uploads the parameters: the order of the compiler's files."""
    return _execution(plan, token), _caching(plan, token)


def _execution(plan: DenseProgramPlan, token: int) -> Executable:
    program = plan.program
    source = _layer(plan.input, program.size, program.requantisation.input_zero_point)
    result = _layer(
        plan.output,
        program.size,
        program.requantisation.output_zero_point,
        OutputLayout(
            y_to_tile=(0,),
            x_to_tile=(0,),
            tile_offset=tuple(min(CELLS * tile, program.size) for tile in range(TILES)),
            x_to_local_offset=(0,),
            y_to_local_row=(0,),
            x_to_local_row_size=(CELLS,),
        ),
    )
    return Executable(
        type=ExecutableType.EXECUTION_ONLY,
        name="model",
        parameter_caching_token=token,
        bitstreams=(program.execution(source.name, result.name),),
        parameters=b"",
        hints=(
            InstructionHint(0),
            DmaHint(Description.INPUT, Direction.INFEED, source.name, 0, program.size),
            DmaHint(Description.OUTPUT, Direction.OUTFEED, result.name, 0, program.size),
            _DONE,
        ),
        fully_deterministic=True,
        inputs=(source,),
        outputs=(result,),
        narrow_memory_bytes_per_tile=program.narrow_memory_bytes_per_tile,
    )


def _caching(plan: DenseProgramPlan, token: int) -> Executable:
    parameters = plan.layout.encode().cached
    return Executable(
        type=ExecutableType.PARAMETER_CACHING,
        name="Unknown",
        parameter_caching_token=token,
        bitstreams=(plan.program.caching(),),
        parameters=parameters,
        hints=(
            InstructionHint(0),
            DmaHint(Description.PARAMETER, Direction.INFEED, "", 0, len(parameters)),
            _DONE,
        ),
        fully_deterministic=True,
        inputs=(),
        outputs=(),
    )


def _layer(spec: TensorSpec, size: int, zero_point: int, layout: OutputLayout | None = None) -> Layer:
    """The layer of a tensor; a padded layer has more elements on the wire than the tensor."""
    signed = spec.dtype.kind == "i"
    return Layer(
        name=spec.name,
        size_bytes=size,
        shape=(1, 1, spec.shape[-1]),
        data_type=DataType.SIGNED_FIXED_POINT8 if signed else DataType.FIXED_POINT8,
        zero_point=zero_point,
        dequantization_factor=spec.scale,
        layout=layout,
    )


def _sidecar(plan: DenseProgramPlan) -> bytes:
    """The sidecar file: the same keys as for other compiled matrices, and the generator of the program."""
    (layer,) = plan.layout.layers
    content: dict[str, Any] = {
        "matrix_size": plan.columns,
        "rows": plan.rows,
        "program_size": plan.program.size,
        "input_scale": plan.input.scale,
        "input_zero_point": plan.input.zero_point,
        "output_scale": plan.output.scale,
        "output_zero_point": plan.output.zero_point,
        "use_bias": plan.bias_columns > 0,
        "param_size": layer.size,
        "compiler": DENSE_COMPILER,
        "remark": plan.remark,
    }
    return (json.dumps(content, indent=2) + "\n").encode()

"""Programs of a matrix that the virtual Edge TPU runs from their bytes, without the graph they came from.

A program runs if it is, bit for bit, one that `darwinn.programs.dense` writes for some zero points and
clamps; with anything else in any of its operations it is an unknown one, at which the chip hangs. Weights,
multipliers and zero points of the rows are those of the parameters that crossed the wire.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from edgetpu_driver.compiled_model import CompiledModel
from edgetpu_driver.darwinn.executable import (
    DataType,
    Description,
    Direction,
    DmaHint,
    Executable,
    ExecutableType,
    Hint,
    InstructionBitstream,
    InstructionHint,
    InterruptHint,
    Layer,
)
from edgetpu_driver.darwinn.parameters.dense import GROUP_ROWS, HEADER_BYTES
from edgetpu_driver.darwinn.programs.dense import DenseProgram, recognise_caching, recognise_execution
from edgetpu_driver.darwinn.requantisation import Requantisation

_INPUT, _OUTPUT = "input", "output"
_LARGEST = 255
_PRODUCTS_AT_ONCE = 16 * 64 * 4
"""Of the whole chip, in a cycle: tiles, cells and lanes."""
_NOTHING = Requantisation(1.0, 0.0, 0.0, 0, 0, 0)


@dataclass(frozen=True)
class DenseComputation:
    """A matrix times a vector, in the chip's arithmetic as it is documented.

    output[r] = clip(round(clip(m[r] * sum_c((w[r, c] - z[r]) * (x[c] - zero point of x)))) + zero point)
    """

    program: DenseProgram

    @property
    def cycles(self) -> int:
        """Cycles of the chip's main clock for one product."""
        return -(-(self.program.size**2) // _PRODUCTS_AT_ONCE)

    def evaluate(
        self, inputs: Mapping[str, bytearray], cached: bytes, streamed: bytes
    ) -> dict[str, bytes] | None:
        """The output as sent; None unless the parameters are as many as the program takes."""
        size, read = self.program.size, self.program.requantisation
        if len(cached) != self.program.parameter_bytes or streamed:
            return None
        groups = np.frombuffer(cached, np.uint8).reshape(-1, HEADER_BYTES + GROUP_ROWS * size)
        half = HEADER_BYTES // 2
        multipliers = np.ascontiguousarray(groups[:, :half]).view("<f4").reshape(-1)
        zero_points = np.ascontiguousarray(groups[:, half:HEADER_BYTES]).view("<i4").reshape(-1, 1)
        cells = groups[:, HEADER_BYTES:].reshape(len(groups), size // 4, GROUP_ROWS, 4)
        weights = cells.transpose(0, 2, 1, 3).reshape(size, size).astype(np.float64)  # sums stay exact
        values = np.frombuffer(inputs[_INPUT], np.uint8).astype(np.float64)
        sums = (weights - zero_points) @ (values - read.input_zero_point)
        with np.errstate(invalid="ignore", over="ignore"):
            steps = np.clip(multipliers * sums, read.minimum, read.maximum)
        result = np.clip(np.rint(np.nan_to_num(steps)) + read.output_zero_point, 0, _LARGEST)
        return {_OUTPUT: result.astype(np.uint8).tobytes()}


def dense_executable(
    instructions: bytes,
) -> tuple[Executable, Executable | None, DenseComputation | None] | None:
    """What a program of a matrix does, with the program that uploads its parameters and what it computes.

    The latter two are None for a program that uploads parameters; all is None for any other program.
    """
    uploaded = recognise_caching(instructions)
    if uploaded is not None:
        return _caching(uploaded), None, None
    program = recognise_execution(instructions)
    if program is None:
        return None
    execution = _executable(
        ExecutableType.EXECUTION_ONLY,
        program.execution(_INPUT, _OUTPUT),
        DmaHint(Description.INPUT, Direction.INFEED, _INPUT, 0, program.size),
        DmaHint(Description.OUTPUT, Direction.OUTFEED, _OUTPUT, 0, program.size),
        outputs=(Layer(_OUTPUT, program.size, (1, 1, program.size), DataType.FIXED_POINT8, 0, 1.0),),
    )
    return execution, _caching(program.size), DenseComputation(program)


def _caching(size: int) -> Executable:
    program = DenseProgram(size, _NOTHING)
    transfer = DmaHint(Description.PARAMETER, Direction.INFEED, "", 0, program.parameter_bytes)
    return _executable(ExecutableType.PARAMETER_CACHING, program.caching(), transfer)


def runs_from_bytes(model: CompiledModel) -> bool:
    """Whether the virtual stick runs a compiled model without its graph."""
    if model.caching is None or len(model.execution.bitstreams) != 1 or len(model.caching.bitstreams) != 1:
        return False
    program = recognise_execution(model.execution.bitstreams[0].data)
    uploaded = recognise_caching(model.caching.bitstreams[0].data)
    return program is not None and program.size == uploaded


def _executable(
    kind: ExecutableType,
    program: InstructionBitstream,
    *transfers: Hint,
    outputs: tuple[Layer, ...] = (),
) -> Executable:
    return Executable(
        type=kind,
        name="",
        parameter_caching_token=0,
        bitstreams=(program,),
        parameters=b"",
        hints=(InstructionHint(0), *transfers, InterruptHint(0)),
        fully_deterministic=True,
        inputs=(),
        outputs=outputs,
    )

"""Determines whether a virtual stick runs a compiled model from its bytes, without its graph."""

from __future__ import annotations

from edgetpu_driver.compiled_model import CompiledModel
from edgetpu_driver.virtual.matrix_programs.operation_roles import ProgramFaultError
from edgetpu_driver.virtual.processor.core_execution import CodeProgram, read_matrix_program


def runs_from_bytes(model: CompiledModel) -> bool:
    """Whether both programs of a model belong to a matrix of one size."""
    if model.caching is None or len(model.execution.bitstreams) != 1 or len(model.caching.bitstreams) != 1:
        return False
    execution = _read(model.execution.bitstreams[0].data)
    caching = _read(model.caching.bitstreams[0].data)
    if execution is None or caching is None or execution.product is None or caching.upload is None:
        return False
    return caching.upload.parameter_bytes == 8 * execution.product.size + execution.product.size**2


def _read(instructions: bytes) -> CodeProgram | None:
    try:
        return read_matrix_program(instructions)
    except ProgramFaultError:
        return None

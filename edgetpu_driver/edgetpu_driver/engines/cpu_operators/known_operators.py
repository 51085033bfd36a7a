"""The custom operators that this package implements, by custom code."""

from __future__ import annotations

import importlib
from collections.abc import Sequence

from edgetpu_driver.engines.cpu_operators.operator import CpuOperator
from edgetpu_driver.tflite.tensor import TensorSpec

_HOME: dict[str, tuple[str, str]] = {
    "PosenetDecoderOp": ("posenet_operator", "PosenetOperator"),
}
"""Module and class; the constructor takes the options, the input specifications and the number of outputs."""


def is_known(custom_code: str) -> bool:
    """Whether this package implements the operator of that code."""
    return custom_code in _HOME


def make_operator(
    custom_code: str, options: memoryview, inputs: Sequence[TensorSpec], outputs: int
) -> CpuOperator:
    """Make the operator of that code.

    options: the custom options in the file. outputs: their number. Raises ModelFormatError for options,
    inputs or a number of outputs that do not fit.
    """
    module, name = _HOME[custom_code]
    home = importlib.import_module(f"edgetpu_driver.engines.cpu_operators.{module}")
    operator: CpuOperator = getattr(home, name)(options, inputs, outputs)
    return operator

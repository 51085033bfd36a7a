"""Writes a compiled .tflite file: one operator that holds the package for the chip."""

from __future__ import annotations

from collections.abc import Sequence

from edgetpu_driver.compiled_model import FURTHER_PACKAGES_KEY, INPUT_PADDING_KEY, PACKAGE_KEY
from edgetpu_driver.darwinn.executable import Executable, Package
from edgetpu_driver.darwinn.package_writer import write_package
from edgetpu_driver.tflite import flexbuffer
from edgetpu_driver.tflite.graph_builder import GraphBuilder
from edgetpu_driver.tflite.model_reader import EDGETPU_CUSTOM_OP
from edgetpu_driver.tflite.tensor import TensorSpec

_MIN_RUNTIME_VERSION = 14
"""Runtime version in the files of edgetpu_compiler 16."""
_CHIP_ID = 18  # what edgetpu_compiler writes for the chip "beagle"


def write_compiled_file(
    title: str,
    inputs: Sequence[TensorSpec],
    outputs: Sequence[TensorSpec],
    executables: tuple[Executable, ...],
    *,
    compiler: str,
    remark: str = "",
    input_padding: bytes = b"",
) -> bytes:
    """The file, always the same bytes for the same arguments.

    compiler: the name of the compiler. remark, input_padding: see CompiledModel.
    """
    package = Package(
        executables=executables,
        min_runtime_version=_MIN_RUNTIME_VERSION,
        compiler_version=compiler,
        model_identifier=remark,
    )
    options: dict[str, flexbuffer.Value] = {
        "1": 0,
        PACKAGE_KEY: write_package(package),
        "5": -1,
        "6": [_CHIP_ID],
        FURTHER_PACKAGES_KEY: [],
    }
    if input_padding:
        options[INPUT_PADDING_KEY] = input_padding
    builder = GraphBuilder(title)
    operands = [
        builder.input(spec.name, spec.shape, spec.dtype, scale=spec.scale, zero_point=spec.zero_point)
        for spec in inputs
    ]
    for result in builder.custom(EDGETPU_CUSTOM_OP, operands, outputs, flexbuffer.encode(options)):
        builder.output(result)
    return builder.build()

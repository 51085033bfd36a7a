"""A pure-Python driver for the USB Coral Edge TPU.

The names below are loaded on first use, so that importing the package costs nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from edgetpu_driver.compiled_model import CompiledModel
    from edgetpu_driver.engines.cpu_engine import CpuEngine
    from edgetpu_driver.engines.whole_model.model import Model
    from edgetpu_driver.errors import EdgeTpuError, ModelFormatError
    from edgetpu_driver.matrix.matmul import MatMul
    from edgetpu_driver.stick.edge_tpu import EdgeTpu
    from edgetpu_driver.stick.program_runner import ProgramRunner
    from edgetpu_driver.tflite.tensor import TensorSpec
    from edgetpu_driver.toolchain.dense_compiler import dense_model
    from edgetpu_driver.virtual.virtual_edge_tpu import VirtualEdgeTpu
    from edgetpu_driver.weights.weight_request import WeightRequest

__all__ = [
    "CompiledModel",
    "CpuEngine",
    "EdgeTpu",
    "EdgeTpuError",
    "MatMul",
    "Model",
    "ModelFormatError",
    "ProgramRunner",
    "TensorSpec",
    "VirtualEdgeTpu",
    "WeightRequest",
    "dense_model",
]

_HOME = {
    "CompiledModel": "compiled_model",
    "CpuEngine": "engines.cpu_engine",
    "EdgeTpu": "stick.edge_tpu",
    "EdgeTpuError": "errors",
    "MatMul": "matrix.matmul",
    "Model": "engines.whole_model.model",
    "ModelFormatError": "errors",
    "ProgramRunner": "stick.program_runner",
    "TensorSpec": "tflite.tensor",
    "VirtualEdgeTpu": "virtual.virtual_edge_tpu",
    "WeightRequest": "weights.weight_request",
    "dense_model": "toolchain.dense_compiler",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)

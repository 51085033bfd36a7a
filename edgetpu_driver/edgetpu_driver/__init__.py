"""A pure-Python driver for the USB Coral Edge TPU.

The names below are loaded on first use, so that importing the package costs nothing.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
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
    from edgetpu_driver.virtual.pyusb_backend import VirtualEdgeTpu
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
    "CompiledModel": ".compiled_model",
    "CpuEngine": ".engines.cpu_engine",
    "EdgeTpu": ".stick.edge_tpu",
    "EdgeTpuError": ".errors",
    "MatMul": ".matrix.matmul",
    "Model": ".engines.whole_model.model",
    "ModelFormatError": ".errors",
    "ProgramRunner": ".stick.program_runner",
    "TensorSpec": ".tflite.tensor",
    "VirtualEdgeTpu": ".virtual.pyusb_backend",
    "WeightRequest": ".weights.weight_request",
    "dense_model": ".toolchain.dense_compiler",
}


def lazy_getattr(package: str, home: Mapping[str, str]) -> Callable[[str], Any]:
    """Make the `__getattr__` of a package whose names are imported on first use.

    home: the module of each name, absolute or, with a leading dot, relative to the package.
    """

    def get(name: str) -> Any:
        if name not in home:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(importlib.import_module(home[name], package), name)

    return get


__getattr__ = lazy_getattr(__name__, _HOME)

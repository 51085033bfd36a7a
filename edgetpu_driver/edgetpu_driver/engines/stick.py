"""The engine that runs a compiled model on an Edge TPU."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from numpy.typing import NDArray

from edgetpu_driver.compiled_model import CompiledModel
from edgetpu_driver.device import EdgeTpu
from edgetpu_driver.tensor import TensorSpec


class StickEngine:
    """One compiled model on one stick; several engines may share a stick."""

    def __init__(self, tpu: EdgeTpu, model: CompiledModel) -> None:
        """ModelUnsupportedError when the model cannot run over USB."""
        tpu.prepare(model)
        self.model = model
        self._tpu = tpu

    @property
    def inputs(self) -> tuple[TensorSpec, ...]:
        """The model's inputs, in the model's order."""
        return self.model.inputs

    @property
    def outputs(self) -> tuple[TensorSpec, ...]:
        """The model's outputs, in the model's order."""
        return self.model.outputs

    def run(self, inputs: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        """Run the model once; see EdgeTpu.run."""
        return self._tpu.run(self.model, inputs)

"""Inferences with a known result, which reveal a stick that computes wrong results."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgetpu_driver.backends.backend import Placement
from edgetpu_driver.errors import EdgeTpuError
from edgetpu_driver.host.models.model_replica import ModelReplica
from edgetpu_driver.tflite.tensor import TensorSpec
from edgetpu_driver.weights.weight_request import WeightRequest

Outputs = Mapping[str, NDArray[Any]]


class SelfCheckError(EdgeTpuError):
    """A stick gave another result than before for the same inputs."""


class SelfCheck:
    """The known answers of one stick, one for each compiled model and the present weights of its engine.

    Graphs that LiteRT runs are left out: they may keep a state or draw random numbers, and no stick runs
    them. An answer is learned from two inferences that agree, the first time a model is checked with its
    present weights. LiteRT does not compute it, because it may differ from the chip in the last bit.
    """

    def __init__(self) -> None:
        self.failures = 0
        """Number of checks with a wrong result."""
        self._answers: dict[ModelReplica, tuple[WeightRequest | None, Outputs]] = {}
        self._checked: list[ModelReplica] = []
        """The models that were checked, in the order of their last check."""

    def choose(self, replicas: list[ModelReplica]) -> ModelReplica | None:
        """The model to check: the one checked longest ago, of resident ones if there are any; None: none."""
        compiled = [replica for replica in replicas if replica.parsed.placement is not Placement.HOST]
        able = [replica for replica in compiled if replica.engine is not None]
        self._answers = {replica: answer for replica, answer in self._answers.items() if replica in able}
        self._checked = [replica for replica in self._checked if replica in able]
        if not able:
            return None
        turns = {replica: turn for turn, replica in enumerate(self._checked)}
        return min(able, key=lambda replica: (not replica.resident, turns.get(replica, -1)))

    def check(self, replica: ModelReplica) -> None:
        """Run a model and compare its result with the known one. Raises SelfCheckError, DeviceError."""
        if replica in self._checked:
            self._checked.remove(replica)
        self._checked.append(replica)
        engine = replica.engine
        assert engine is not None
        inputs = {spec.name: _pattern(spec) for spec in engine.inputs}
        weights, expected = self._answers.get(replica, (None, {}))
        if not expected or weights is not replica.engine_weights:
            expected = engine.run(inputs)
        outputs = engine.run(inputs)
        for name, values in outputs.items():
            wrong = int(np.count_nonzero(values.view(np.uint8) != expected[name].view(np.uint8)))
            if wrong:
                self.failures += 1
                raise SelfCheckError(
                    f"the self-check failed: model '{replica.name}' gave a different output '{name}' than "
                    f"before, in {wrong} of {values.nbytes} bytes. Its results cannot be trusted: replace "
                    "the stick, or reset the driver to use it again"
                )
        self._answers[replica] = replica.engine_weights, outputs


def _pattern(spec: TensorSpec) -> NDArray[Any]:
    """Values that cover the range of an input, always the same."""
    random = np.random.default_rng(0)
    if spec.dtype.kind == "f":
        return random.uniform(-1, 1, spec.shape).astype(spec.dtype)
    if spec.dtype.kind == "b":
        return random.integers(0, 2, spec.shape).astype(spec.dtype)
    limits = np.iinfo(spec.dtype)
    return random.integers(max(limits.min, -(2**15)), min(limits.max, 2**15) + 1, spec.shape, spec.dtype)

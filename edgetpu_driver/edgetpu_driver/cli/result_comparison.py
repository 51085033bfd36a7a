"""Compares a device's results with LiteRT's for the same graph, part by part.

Correct implementations of a quantised network may differ: each layer may round by one step differently, and
deep networks amplify that. LiteRT has two sets of kernels, XNNPACK's and its own, whose results differ by 3
to 15 steps at the outputs of common networks, and by 100 in MoveNet. A device counts as correct if its
difference from one set is about as large as the difference between the sets. The difference of a faulty
device is several times larger.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgetpu_driver.cli.random_inputs import random_values
from edgetpu_driver.engines.cpu_engine import CpuEngine
from edgetpu_driver.engines.graph_runner import GraphInThisProcess, GraphOperands
from edgetpu_driver.engines.whole_model.model_plan import EdgeTpuStep, LiteRtStep, ModelPlan, Operand, Step
from edgetpu_driver.errors import ModelUnsupportedError
from edgetpu_driver.tflite.model_reader import parse_model
from edgetpu_driver.tflite.tensor import TensorSpec

_FACTOR = 1.5
"""Limit of a device's mean difference, as a multiple of the difference between LiteRT's kernels. In five
common networks, a third set of kernels reaches 1.1; a device given another picture starts at 2."""
_STEPS = 0.1
"""Additional accepted mean difference, quantisation steps, for networks in which kernels agree."""
_FEWEST_CLASSES = 3
"""Minimum n of an output [1, n] whose largest value is compared too."""
_PATCHES = 6
"""Random values along each side of a test image, which is interpolated between them."""


@dataclass(frozen=True)
class Verdict:
    """The outcome of one comparison."""

    name: str
    good: bool
    detail: str


@dataclass
class _Differences:
    """Differences of one output over all runs, in quantisation steps."""

    values: int = 0
    total: float = 0.0
    largest: float = 0.0

    def add(self, one: NDArray[np.float64], other: NDArray[np.float64]) -> None:
        alike = (one == other) | (np.isnan(one) & np.isnan(other))
        difference = np.abs(np.subtract(one, other, out=np.zeros_like(one), where=~alike))
        self.values += difference.size
        self.total += float(difference.sum())
        self.largest = max(self.largest, float(difference.max(initial=0.0)))

    @property
    def mean(self) -> float:
        return self.total / max(self.values, 1)


@dataclass
class _Output:
    """Statistics of one output so far."""

    spec: TensorSpec
    device: _Differences = field(default_factory=_Differences)
    kernels: _Differences = field(default_factory=_Differences)
    tops: int = 0
    tops_right: int = 0

    def add(self, came: NDArray[Any], wanted: NDArray[Any], other: NDArray[Any]) -> None:
        """Add one run. came: the device's values; wanted, other: from LiteRT's two sets of kernels."""
        ours, theirs, others = (array.astype(np.float64).reshape(-1) for array in (came, wanted, other))
        self.device.add(ours, theirs)
        self.kernels.add(theirs, others)
        if len(self.spec.shape) == 2 and self.spec.shape[0] == 1 and theirs.size >= _FEWEST_CLASSES:
            self.tops += 1
            # Values that the kernels do not distinguish are equally good.
            self.tops_right += bool(theirs[int(ours.argmax())] >= theirs.max() - max(self.kernels.largest, 1))

    @property
    def limit(self) -> float:
        """The largest mean difference of a correct device."""
        return _FACTOR * self.kernels.mean + _STEPS

    @property
    def good(self) -> bool:
        exact = self.kernels.largest <= 1  # a shallow network
        return self.device.mean <= self.limit and (self.device.largest <= 1 or not exact)


class _Reference:
    """One part in LiteRT, with both sets of kernels."""

    def __init__(self, step: EdgeTpuStep | LiteRtStep, graph: bytes) -> None:
        part = step.graph if isinstance(step, LiteRtStep) else step.model.source_part(graph)
        self._engine = CpuEngine(part, name=step.name)
        operands = GraphOperands.of(parse_model(part).subgraphs[0])
        self._own_kernels = GraphInThisProcess(step.name, operands, xnnpack=False)
        self._own_kernels.load(part)
        self._step = step
        for ours, theirs in ((step.inputs, self._engine.inputs), (step.outputs, self._engine.outputs)):
            if len(ours) != len(theirs) or not all(map(_fits, ours, theirs)):
                raise ModelUnsupportedError(
                    f"'{step.name}' has {', '.join(str(each.spec) for each in ours)}; its graph has "
                    f"{', '.join(map(str, theirs))}"
                )
        self.outputs = [_Output(spec) for spec in self._engine.outputs]

    def compare(self, inputs: Mapping[str, NDArray[Any]], outputs: Mapping[str, NDArray[Any]]) -> None:
        given = {
            spec.name: inputs[operand.spec.name].reshape(spec.shape)
            for operand, spec in zip(self._step.inputs, self._engine.inputs, strict=True)
        }
        wanted, other = self._engine.run(given), self._own_kernels.run(given)
        for operand, output in zip(self._step.outputs, self.outputs, strict=True):
            name = output.spec.name
            output.add(outputs[operand.spec.name], wanted[name], other[name])


def _fits(operand: Operand, spec: TensorSpec) -> bool:
    """Whether the tensors have the same size; the shape [] in a file means unknown."""
    unknown = spec.shape == ()
    return operand.spec.dtype == spec.dtype and (unknown or prod(operand.spec.shape) == prod(spec.shape))


class Comparison:
    """Compares every part of a plan that runs on a device, while the plan runs."""

    def __init__(self, plan: ModelPlan, graph: bytes) -> None:
        """graph: the source graph of the plan's compiled parts.

        Raises what CpuEngine raises, and ModelUnsupportedError for a graph of another model and for a plan
        with nothing to compare.
        """
        on_cpu = [step for step in plan.steps if isinstance(step, LiteRtStep)]
        compared: Sequence[EdgeTpuStep | LiteRtStep] = plan.edge_tpu_steps or on_cpu
        if not any(step.outputs for step in compared):
            raise ModelUnsupportedError(
                f"expected outputs of the Edge TPU or LiteRT to compare; '{plan.name}' has none"
            )
        self._references: dict[Step, _Reference] = {step: _Reference(step, graph) for step in compared}

    def note(
        self, step: Step, inputs: Mapping[str, NDArray[Any]], outputs: Mapping[str, NDArray[Any]]
    ) -> None:
        """Compare a step's outputs with LiteRT's for the same inputs."""
        reference = self._references.get(step)
        if reference is not None:
            reference.compare(inputs, outputs)

    def verdicts(self) -> list[Verdict]:
        """Whether all outputs of all parts agree with LiteRT in the runs that were noted."""
        outputs = [output for reference in self._references.values() for output in reference.outputs]
        worst = max(outputs, key=lambda output: output.device.mean / output.limit)
        details = (
            f"mean difference from LiteRT {worst.device.mean:.3f} steps, expected at most {worst.limit:.3f}; "
            f"largest {worst.device.largest:g}, between LiteRT's own kernels {worst.kernels.largest:g}"
        )
        verdicts = [Verdict("results", all(output.good for output in outputs), details)]
        tops, right = (sum(getattr(each, name) for each in outputs) for name in ("tops", "tops_right"))
        if tops:
            same = f"{right} of {tops} have the largest value where LiteRT has it"
            verdicts.append(Verdict("top results", right == tops, same))
        return verdicts


def scene_inputs(specs: Sequence[TensorSpec], rng: np.random.Generator) -> dict[str, NDArray[Any]]:
    """Image-like inputs, smooth between random values; uniform values for inputs that are not images.

    Networks trained on images respond to noise with noise.
    """
    return {spec.name: _scene(spec, rng) for spec in specs}


def _scene(spec: TensorSpec, rng: np.random.Generator) -> NDArray[Any]:
    if spec.dtype.kind not in "iu" or len(spec.shape) != 4 or min(spec.shape[1:3]) <= _PATCHES:
        return random_values(spec, rng)
    limits = np.iinfo(spec.dtype)
    batch, height, width, channels = spec.shape
    patches = rng.random((batch, _PATCHES, _PATCHES, channels))
    down, across = (_interpolation(extent) for extent in (height, width))
    smooth = np.einsum("hp,bpqc,wq->bhwc", down, patches, across, optimize=True)
    values = limits.min + smooth * (float(limits.max) - float(limits.min))
    return np.asarray(np.rint(values).astype(spec.dtype))


def _interpolation(extent: int) -> NDArray[np.float64]:
    """Matrix [extent, patches] of linear interpolation."""
    position = np.linspace(0, _PATCHES - 1, extent)[:, None]
    return np.asarray(np.maximum(0.0, 1.0 - np.abs(position - np.arange(_PATCHES))))

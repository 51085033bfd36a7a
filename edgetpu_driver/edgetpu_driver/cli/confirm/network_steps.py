"""A step with the user's compiled networks: replaces the weights of one layer."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgetpu_driver.cli.confirm.memory_steps import runnable_parts
from edgetpu_driver.cli.confirm.outcome import NotApplicable, Refuted, Values
from edgetpu_driver.cli.confirm.trial_stick import TrialStick
from edgetpu_driver.cli.random_inputs import random_inputs
from edgetpu_driver.compiled_model import CompiledModel
from edgetpu_driver.engines.cpu_engine import CpuEngine
from edgetpu_driver.engines.stick_engine import StickEngine
from edgetpu_driver.errors import DependencyMissingError, EdgeTpuError
from edgetpu_driver.weights.replaceable_weights import WeightTensor
from edgetpu_driver.weights.sidecar_files import SidecarFiles
from edgetpu_driver.weights.weight_locations import WeightLocations
from edgetpu_driver.weights.weight_request import WeightRequest

_ROUNDING = 2
"""Accepted increase of the difference from LiteRT with replaced weights, quantisation steps. Derived: the
chip may be off by one step in either comparison."""

_Outputs = Mapping[str, NDArray[Any]]


def network_layer(stick: TrialStick) -> Values:
    """Replace the weights of a network's last layer, compare with LiteRT, and restore them."""
    for path in stick.models:
        for model in runnable_parts(stick, path):
            sidecars, tensor = _settable_layer(model, path)
            if tensor is not None:
                return _replaced(stick, model, sidecars, tensor)
    raise NotApplicable(
        "it needs a network, compiled as a whole, with its graph next to it: edgetpu confirm --only "
        "network_layer --models DIR"
    )


def _settable_layer(model: CompiledModel, path: Path) -> tuple[SidecarFiles, WeightTensor | None]:
    """The last layer of a network whose weights can be set; None if there is no such layer."""
    try:
        sidecars = SidecarFiles.next_to(path)
        known = WeightLocations(model, sidecars).known if sidecars.graph else ()
    except EdgeTpuError:
        return SidecarFiles(), None
    layers = [each.tensor for each in known if not each.tensor.is_pure_matmul]
    return sidecars, layers[-1] if layers else None


def _replaced(
    stick: TrialStick, model: CompiledModel, sidecars: SidecarFiles, tensor: WeightTensor
) -> Values:
    """Run the network with its own weights, with others, and with its own again."""
    try:
        reference = CpuEngine(sidecars.graph)
    except DependencyMissingError as error:
        raise NotApplicable(str(error)) from None
    if {each.name for each in reference.outputs} != {each.name for each in model.outputs}:
        raise NotApplicable(f"it needs a network that runs on the stick as a whole; {model.name} does not")
    engine, inputs = StickEngine(stick.tpu, model, sidecars), random_inputs(model.inputs)
    try:
        first = engine.run(inputs)
        at_first, wanted = (
            _difference(first, reference.run(inputs)),
            WeightRequest(_weights(tensor), tensor.name),
        )
        engine.set_weights(wanted)
        reference.set_weights(wanted)
        second, expected = engine.run(inputs), reference.run(inputs)
    finally:
        engine.close()
    values = {
        "model": model.name,
        "tensor": tensor.name,
        "steps_from_litert": at_first,
        "steps_from_litert_with_other_weights": _difference(second, expected),
    }
    if _difference(second, first) == 0 and _difference(expected, first) > _ROUNDING:
        raise Refuted(f"{model.name} gives the same outputs with other weights of '{tensor.name}'", values)
    if _difference(second, expected) > at_first + _ROUNDING:
        raise Refuted(
            f"with other weights of '{tensor.name}' the outputs of {model.name} are up to "
            f"{_difference(second, expected)} steps from LiteRT's; with its own they are up to {at_first}",
            values,
        )
    again = stick.tpu.load(model).run(inputs)
    if _difference(again, first):
        raise Refuted(f"{model.name} gives different outputs after its own weights are restored", values)
    return values


def _weights(tensor: WeightTensor) -> NDArray[np.float32]:
    """Random weights over half of the range of every row."""
    low, high = (limit // 2 for limit in tensor.limits)
    steps = np.random.default_rng(5).integers(low, high, tensor.shape, endpoint=True)
    scales = tensor.scales if tensor.rows_last else tensor.scales.reshape(-1, *[1] * (len(tensor.shape) - 1))
    return np.asarray(steps * scales, np.float32)


def _difference(some: _Outputs, others: _Outputs) -> int:
    """The largest difference between two sets of outputs, in steps."""
    return max(int(np.abs(some[name].astype(int) - others[name].astype(int)).max()) for name in some)

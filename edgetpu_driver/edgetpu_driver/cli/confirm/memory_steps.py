"""Steps with the user's compiled models: which models stay in the chip's memory together."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from typing import Any

from numpy.typing import NDArray

from edgetpu_driver.backends.usb import copy_path
from edgetpu_driver.cli.confirm.outcome import NotApplicable, Refuted, Values
from edgetpu_driver.cli.confirm.trial_stick import TrialStick
from edgetpu_driver.cli.random_inputs import random_inputs
from edgetpu_driver.compiled_model import VIRTUAL_COMPILER, CompiledModel
from edgetpu_driver.errors import EdgeTpuError
from edgetpu_driver.files.compiled_file_names import source_graph
from edgetpu_driver.stick.loaded_model import LoadedModel

_ROUNDS = 3
"""Rounds through all models: from the second one on, each model runs after all others."""


def resident_together(stick: TrialStick) -> Values:
    """Run two co-compiled models alternately; neither may lose its parameters."""
    for one, other in combinations(_compiled(stick), 2):
        if _fit_together(one, other) and not _are_copies(one, other):
            return _in_turn(stick, one, other)
    raise NotApplicable(
        "it needs two models that were compiled together: edgetpu models compile --co-compile .., then "
        "--models DIR"
    )


def copies(stick: TrialStick) -> Values:
    """Run two co-compiled copies of one graph alternately."""
    for one, other in combinations(_compiled(stick), 2):
        if _fit_together(one, other) and _are_copies(one, other):
            return _in_turn(stick, one, other)
    raise NotApplicable(
        "it needs a graph and its copy compiled together: cp x.tflite x_copy2.tflite, then "
        "edgetpu models compile --co-compile x.tflite x_copy2.tflite, then --models DIR"
    )


def _compiled(stick: TrialStick) -> list[CompiledModel]:
    return [part for path in stick.models for part in runnable_parts(stick, path)]


def runnable_parts(stick: TrialStick, path: Any) -> Iterator[CompiledModel]:
    """The parts of a file that this stick can run; empty if there are none."""
    try:
        for part in CompiledModel.load_parts(path):
            part.check_runnable()
            if stick.simulated:
                graph = source_graph(path)
                if graph is not None:
                    stick.bus.register_model(part, graph)
                    yield part
            elif part.compiler != VIRTUAL_COMPILER:
                yield part
    except (EdgeTpuError, OSError):
        return


def _fit_together(one: CompiledModel, other: CompiledModel) -> bool:
    """Whether they have the same token and no common memory rows."""
    together = one.parameter_caching_token == other.parameter_caching_token != 0
    cached = one.is_cached and other.is_cached
    return together and cached and not one.parameter_region & other.parameter_region


def _are_copies(one: CompiledModel, other: CompiledModel) -> bool:
    if one.path is None or other.path is None:
        return False
    return other.path in (copy_path(one.path, 1), one.path) or one.path == copy_path(other.path, 1)


def _in_turn(stick: TrialStick, *models: CompiledModel) -> Values:
    """Check that alternating models give the same outputs as after an upload, with one upload each."""
    loaded = [stick.tpu.load(model) for model in models]
    inputs = [random_inputs(each.inputs) for each in loaded]
    expected = []
    for each, given in zip(loaded, inputs, strict=True):
        each.upload()
        expected.append(each.run(given))
    values = {"models": [each.model.name for each in loaded], "rounds": _ROUNDS}
    for _ in range(_ROUNDS):
        for each, given, wanted in zip(loaded, inputs, expected, strict=True):
            _compare(each, each.run(given), wanted, values)
    return values


def _compare(
    loaded: LoadedModel, came: dict[str, NDArray[Any]], wanted: dict[str, NDArray[Any]], values: Values
) -> None:
    name = loaded.model.name
    if loaded.uploads != 1:
        raise Refuted(f"the parameters of {name} were uploaded {loaded.uploads} times; expected once", values)
    if any(came[each].tobytes() != wanted[each].tobytes() for each in came):
        raise Refuted(f"{name} gives different outputs after the other model has run", values)

"""Lists the weights of a model file that can be replaced, for `edgetpu info`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from edgetpu_driver.cli.terminal import table
from edgetpu_driver.compiled_model import CompiledModel
from edgetpu_driver.errors import EdgeTpuError
from edgetpu_driver.tflite.model_reader import Model
from edgetpu_driver.weights.replaceable_weights import WeightTensor, weight_tensors
from edgetpu_driver.weights.sidecar_files import SidecarFiles
from edgetpu_driver.weights.weight_locations import NOT_IN_PART, WeightLocations


def weights_of_graph(model: Model) -> dict[str, Any]:
    """The tensors of a plain graph, all of which can be set."""
    return _answer([_settable(tensor) for tensor in weight_tensors(model)], "")


def weights_of_parts(models: Sequence[CompiledModel]) -> dict[str, Any]:
    """The tensors of the parts of a compiled model, and the reason for those that cannot be set."""
    settable: dict[str, dict[str, Any]] = {}
    refused: dict[str, str] = {}
    reasons = []
    for model in models:
        try:
            locations = WeightLocations(model, SidecarFiles.next_to(model.path))
            known, not_settable = locations.known, locations.refused
        except EdgeTpuError as error:
            reasons.append(str(error))
            continue
        settable |= {each.tensor.name: _settable(each.tensor) for each in known}
        # The reason given by the part that has the tensor takes precedence over those of other parts.
        refused = {**not_settable, **{name: why for name, why in refused.items() if why != NOT_IN_PART}}
    tensors = list(settable.values())
    tensors += [
        {"tensor": name, "settable": False, "reason": why}
        for name, why in refused.items()
        if name not in settable
    ]
    return _answer(tensors, "" if tensors else "; ".join(dict.fromkeys(reasons)))


def weights_text(value: dict[str, Any]) -> str:
    """The result of `weights_of_graph` or `weights_of_parts` as a table."""
    if value["weights_reason"]:
        return f"no weights can be set: {value['weights_reason']}"
    rows = [
        (
            each["tensor"],
            each["operator"],
            "x".join(map(str, each["shape"])),
            each["dtype"],
            "yes" if each["bias"] else "no",
        )
        if each["settable"]
        else (each["tensor"], f"no: {each['reason']}", "", "", "")
        for each in value["weights"]
    ]
    return table(rows, ("weights that can be set", "operator", "shape", "dtype", "bias")) if rows else ""


def _answer(tensors: list[dict[str, Any]], reason: str) -> dict[str, Any]:
    return {"weights": tensors, "weights_reason": reason or None}


def _settable(tensor: WeightTensor) -> dict[str, Any]:
    return {
        "tensor": tensor.name,
        "settable": True,
        "operator": tensor.operator,
        "shape": tensor.shape,
        "dtype": tensor.dtype.name,
        "bias": tensor.bias_scales is not None,
    }

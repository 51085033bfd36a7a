"""A host with one matrix, and the weights with which its results were computed."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from edgetpu_driver.backends.cpu import CpuBackend
from edgetpu_driver.host.model_host import ModelHost
from edgetpu_driver.host.models.inference_result import InferenceResult
from edgetpu_driver.toolchain import dense_graph as dense
from edgetpu_driver.virtual import VirtualEdgeTpu
from edgetpu_driver.weights.weight_request import WeightRequest
from testdata.devices.virtual_backend import backend_of

SIZE = 64
ONES = {"x": np.full((1, SIZE), 255, np.uint8)}


def corner(value: float) -> WeightRequest:
    """A request that sets a corner of the weights to a 1x1 matrix."""
    return WeightRequest(np.array([[value]], np.float32))


def effective(inference: InferenceResult) -> float:
    """The weight with which a result was computed, to the model's resolution."""
    return float((int(inference.outputs["y"][0, 0]) - 128) * dense.output_scale(SIZE))


def make_host(backend: str, stick: VirtualEdgeTpu, models: Path) -> ModelHost:
    """A host on `backend` ("cpu", or the virtual `stick`) that has loaded the matrix."""
    if backend == "cpu":
        host = ModelHost(CpuBackend(), [models])
    else:
        device = backend_of(stick)
        host = ModelHost(device, [models])
    host.connect()
    host.load("dense")
    return host

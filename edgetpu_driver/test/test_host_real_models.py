"""Public Coral models on a host: the whole result, bit for bit that of LiteRT on the graph."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

pytest.importorskip("ai_edge_litert", reason="needs LiteRT: pip install ai-edge-litert")

from edgetpu_driver.backends.factory import make_backend
from edgetpu_driver.engines.litert_process_limits import ProcessLimits
from edgetpu_driver.engines.whole_model.model import Model
from edgetpu_driver.host.model_host import ModelHost
from edgetpu_driver.tflite.tensor import TensorSpec
from testdata import GOLDEN

PATIENT = ProcessLimits(load_seconds=60.0, run_seconds=60.0)
"""For busy machines."""

MODELS = {
    "deeplabv3_mnv2_pascal_quant": ("models", "models"),
    "movenet_single_pose_lightning_ptq": ("models", "vision"),
    "posenet_mobilenet_v1_075_353_481_16_quant_decoder": ("models", "models"),
}
"""Compiled models with operators left to the CPU: where the compiled file is, and the graph."""


def values(specs: tuple[TensorSpec, ...], seed: int = 0) -> dict[str, NDArray[Any]]:
    random = np.random.default_rng(seed)
    return {
        spec.name: random.integers(0, 256, spec.shape).astype(spec.dtype)
        if spec.dtype.kind in "ui"
        else random.uniform(-1, 1, spec.shape).astype(spec.dtype)
        for spec in specs
    }


@pytest.mark.parametrize("name", MODELS)
def test_a_compiled_model_gives_what_its_graph_gives(tmp_path: Path, name: str) -> None:
    compiled, plain = MODELS[name]
    shutil.copy(GOLDEN.path(f"{compiled}/{name}_edgetpu.tflite"), tmp_path / f"{name}_edgetpu.tflite")
    graph = shutil.copy(GOLDEN.path(f"{plain}/{name}.tflite"), tmp_path / f"{name}.tflite")
    host = ModelHost(make_backend("virtual", limits=PATIENT), [tmp_path], process_limits=PATIENT)
    host.connect()
    loaded = host.load(f"{name}_edgetpu")
    assert [part.on_device for part in loaded.parts].count(True) == 1
    whole = Model.load(graph)
    for seed in range(2):
        inputs = values(loaded.inputs, seed)
        expected = whole.run(inputs)
        outputs = host.invoke(name, inputs).outputs
        assert list(outputs) == list(expected)
        for each, array in expected.items():
            np.testing.assert_array_equal(outputs[each], array)
    host.close()


def test_a_recurrent_model_is_fed_back_by_its_caller(tmp_path: Path) -> None:
    graph = shutil.copy(GOLDEN.path("vision/traffic_model.tflite"), tmp_path / "traffic_model.tflite")
    host = ModelHost(make_backend("cpu", limits=PATIENT), [tmp_path], process_limits=PATIENT)
    host.connect()
    loaded = host.load("traffic_model")
    plan_inputs = {spec.name: spec for spec in loaded.inputs}
    feedback = _feedback(loaded.inputs, loaded.outputs)
    assert len(feedback) == 2
    model = Model.load(graph, feedback=feedback)
    state = {name: np.zeros(plan_inputs[name].shape, plan_inputs[name].dtype) for name in feedback.values()}
    for seed in range(3):
        inputs = values(model.inputs, seed)
        outputs = host.invoke("traffic_model", {**inputs, **state}).outputs
        for name, array in model.run(inputs, stamp=0.1 * seed).items():
            np.testing.assert_array_equal(outputs[name], array)
        state = {taken: outputs[given] for given, taken in feedback.items()}
    host.close()


def _feedback(inputs: tuple[TensorSpec, ...], outputs: tuple[TensorSpec, ...]) -> dict[str, str]:
    """From the outputs that hold a state to the inputs that take it, by what their names have in common."""
    found = {}
    for state in ("lstm_c", "lstm_h"):
        (given,) = [spec.name for spec in outputs if state in spec.name]
        (taken,) = [spec.name for spec in inputs if state in spec.name]
        found[given] = taken
    return found

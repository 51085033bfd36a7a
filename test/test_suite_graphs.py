"""Every graph the suite builds: reproducible, readable by LiteRT, with operators the compiler maps."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
import pytest

from edgetpu_driver.engines.cpu_engine import CpuEngine
from edgetpu_driver.toolchain.catalogue_recognition import is_of_catalogue
from edgetpu_driver.toolchain.graph_catalogue import catalogue
from edgetpu_driver.toolchain.graph_family import build_graph
from edgetpu_driver.toolchain.mappable_operators import SUPPORTED_OPERATORS
from edgetpu_driver.toolchain.sidecar_writer import describe

litert = pytest.importorskip("ai_edge_litert.interpreter", reason="needs LiteRT")

STANDARD = [name for family in catalogue().families for name in family.standard]
UNUSUAL = (
    *("dense_37", "spot_bright_48x100", "spot_color_7e0000_33x64", "features2_64x96", "looming_130x200"),
    *("pattern_96x128_24x24", "pattern_64x64_9x5"),
)


def details(name: str) -> list[dict[str, Any]]:
    """What LiteRT says of the tensors of a graph, in the file's order, without those it adds."""
    data = build_graph(name, catalogue().families)
    interpreter = litert.Interpreter(model_content=data)
    count = len(describe(name, data)["tensors"])
    return sorted(interpreter.get_tensor_details(), key=lambda tensor: tensor["index"])[:count]


def test_the_catalogue_is_complete() -> None:
    assert catalogue().problems == ()
    families = {name.split("_")[0].rstrip("12") for name in STANDARD}
    assert families == {"dense", "spot", "features", "looming", "pattern"}


@pytest.mark.parametrize("name", [*STANDARD, *UNUSUAL])
def test_a_graph_is_the_same_bytes_each_time(name: str) -> None:
    first, second = (build_graph(name, catalogue().families) for _ in range(2))
    assert hashlib.sha256(first).digest() == hashlib.sha256(second).digest()


@pytest.mark.parametrize("name", [*STANDARD, *UNUSUAL, "spot_color_568192_64x64"])
def test_a_graph_is_recognised_by_its_content(name: str) -> None:
    assert is_of_catalogue(build_graph(name, catalogue().families))


@pytest.mark.parametrize("name", [*STANDARD, *UNUSUAL])
def test_litert_sees_the_tensors_that_the_sidecar_states(name: str) -> None:
    stated = describe(name, build_graph(name, catalogue().families))["tensors"]
    for ours, theirs in zip(stated, details(name), strict=True):
        assert (ours["name"], ours["shape"]) == (theirs["name"], theirs["shape"].tolist())
        assert np.dtype(ours["dtype"]) == theirs["dtype"]
        quantization = theirs["quantization_parameters"]
        assert np.array_equal(np.float32(ours.get("scales", [])), quantization["scales"])
        assert ours.get("zero_points", []) == quantization["zero_points"].tolist()
        if "axis" in ours:
            assert ours["axis"] == quantization["quantized_dimension"]


@pytest.mark.parametrize("name", [*STANDARD, *UNUSUAL])
def test_a_graph_has_only_operators_the_compiler_maps(name: str) -> None:
    operators = describe(name, build_graph(name, catalogue().families))["operators"]
    assert set(operators) <= SUPPORTED_OPERATORS


@pytest.mark.parametrize("name", [*STANDARD, *UNUSUAL])
def test_a_graph_runs(name: str) -> None:
    engine = CpuEngine(build_graph(name, catalogue().families))
    random = np.random.default_rng(4)
    inputs = {spec.name: random.integers(0, 256, spec.shape, np.uint8) for spec in engine.inputs}
    (output,) = engine.run(inputs).values()
    assert output.std() > 0

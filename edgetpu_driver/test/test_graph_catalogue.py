"""The Dense graphs, families of graphs and their sidecars."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from importlib.metadata import EntryPoint
from typing import Any

import numpy as np
import pytest

from edgetpu_driver.engines.cpu_engine import CpuEngine
from edgetpu_driver.errors import GraphError, ModelNameError
from edgetpu_driver.tflite.constant_patch import replace_scales, replace_tensor
from edgetpu_driver.tflite.graph_builder import GraphBuilder
from edgetpu_driver.tflite.model_reader import parse_model
from edgetpu_driver.toolchain import dense_graph as dense
from edgetpu_driver.toolchain import graph_catalogue as catalogue_module
from edgetpu_driver.toolchain.catalogue_recognition import is_of_catalogue
from edgetpu_driver.toolchain.graph_catalogue import catalogue
from edgetpu_driver.toolchain.graph_family import GraphFamily, build_graph
from edgetpu_driver.toolchain.sidecar_writer import describe, to_text
from edgetpu_driver.weights.compiler_layout import parameter_layout

WINGS = GraphFamily("wings_<n>", re.compile(r"wings_(\d)"), lambda n: n.encode(), "flying", ("wings_2",))


def test_dense_multiplies_its_weights_with_the_input() -> None:
    pytest.importorskip("ai_edge_litert", reason="needs LiteRT")
    engine = CpuEngine(dense.build(64))
    tensors = {tensor.name: tensor for tensor in parse_model(dense.build(64)).subgraphs[0].tensors}
    weights = np.frombuffer(tensors["y_steps/weights"].data, np.int8).reshape(64, 64)
    x = np.random.default_rng(1).integers(90, 166, (1, 64), np.uint8)
    real = (weights * dense.weight_scales(64)[:, np.newaxis]) @ ((x[0].astype(float) - 128) / 127)
    (y,) = engine.run({"x": x}).values()
    expected = np.clip(np.rint(real / dense.output_scale(64)) + 128, 0, 255)
    assert np.abs(y[0] - expected).max() <= 1


def test_dense_weights_use_all_of_int8_and_no_two_rows_are_alike() -> None:
    graph = parse_model(dense.build(256)).subgraphs[0]
    (weights,) = (tensor for tensor in graph.tensors if tensor.name == "y_steps/weights")
    values = np.frombuffer(weights.data, np.int8).reshape(256, 256)
    assert (values.min(), values.max()) == (-127, 127)
    assert len(np.unique(values, axis=0)) == 256


@pytest.mark.parametrize("size", [64, 256, 1024])
def test_the_parameter_layout_of_dense_graphs_is_known(size: int) -> None:
    (layer,) = parameter_layout(parse_model(dense.build(size))).cached
    assert layer.weights.shape == (size, size)
    assert layer.multipliers is not None
    assert len(np.unique(layer.multipliers)) == size


@pytest.mark.parametrize("size", [0, 2049])
def test_dense_of_other_sizes_is_refused(size: int) -> None:
    with pytest.raises(GraphError, match=f"a matrix of 1 to 2048 rows; got {size}"):
        dense.build(size)


def test_a_name_selects_the_family_and_its_parameters() -> None:
    assert build_graph("wings_4", (*dense.FAMILIES, WINGS)) == b"4"


@pytest.mark.parametrize("name", ["wings_44", "wings", "", "dense_4096"])
def test_other_names_are_refused(name: str) -> None:
    with pytest.raises(ModelNameError, match="expected"):
        build_graph(name, (*dense.FAMILIES, WINGS))


def test_a_size_without_end_is_refused_with_the_sizes_there_are() -> None:
    with pytest.raises(ModelNameError, match=r"dense_<size>, with sizes from 1 to 9999; got 'dense_10{93}'"):
        build_graph(f"dense_1{'0' * 5000}", dense.FAMILIES)


@pytest.fixture(autouse=True)
def catalogue_is_read_again() -> Iterator[None]:
    catalogue.cache_clear()
    yield
    catalogue.cache_clear()


def with_entry_points(monkeypatch: pytest.MonkeyPatch, **points: str) -> None:
    group = [EntryPoint(name, value, catalogue_module.GROUP) for name, value in points.items()]
    monkeypatch.setattr(catalogue_module, "entry_points", lambda **_: group)


def test_packages_offer_families_by_entry_points(monkeypatch: pytest.MonkeyPatch) -> None:
    with_entry_points(monkeypatch, edgetpu_perception="edgetpu_driver.toolchain.dense_graph:FAMILIES")
    assert catalogue().families == (*dense.FAMILIES, *dense.FAMILIES)
    assert catalogue().problems == ()


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with_entry_points(monkeypatch)
    assert catalogue().families == dense.FAMILIES
    assert catalogue().problems == (
        "no installed package offers graphs under the entry-point group edgetpu.graphs",
    )


def test_a_package_that_cannot_be_imported_loses_only_its_own_graphs(monkeypatch: pytest.MonkeyPatch) -> None:
    with_entry_points(monkeypatch, edgetpu_perception="edgetpu_driver.absent:FAMILIES")
    assert catalogue().families == dense.FAMILIES
    (problem,) = catalogue().problems
    assert problem.startswith("the graphs of edgetpu_perception are missing: No module named")


def test_a_sidecar_states_scales_with_every_bit() -> None:
    data = dense.build(64)
    description: dict[str, Any] = json.loads(to_text(describe("dense_64", data)))
    (stated,) = (each for each in description["tensors"] if each["name"] == "y_steps/weights")
    (tensor,) = (t for t in parse_model(data).subgraphs[0].tensors if t.name == "y_steps/weights")
    assert np.array_equal(np.array(stated["scales"], np.float32), tensor.quantization.scales)
    assert (stated["shape"], stated["axis"], stated["constant"]) == ([64, 64], 0, True)
    assert description["operators"] == ["QUANTIZE", "FULLY_CONNECTED", "QUANTIZE"]
    assert description["parameter_bytes"] == 64 * 64


class TestAGraphOfTheCatalogue:
    def test_is_recognised_with_other_weights_and_scales(self) -> None:
        graph = dense.build(64)
        other = replace_scales(graph, "y_steps/weights", np.linspace(0.001, 0.002, 64))
        assert is_of_catalogue(replace_tensor(other, "y_steps/weights", np.zeros((64, 64), np.int8)))

    def test_is_not_recognised_with_another_scale_of_a_result(self) -> None:
        assert not is_of_catalogue(replace_scales(dense.build(64), "y", [1.0]))

    def test_is_not_recognised_by_its_description_alone(self) -> None:
        graph = GraphBuilder("dense_64")
        x = graph.input("x", (1, 64), np.uint8, scale=1 / 127, zero_point=128)
        graph.output(graph.quantize(x, np.int8, scale=1 / 127, zero_point=0))
        assert not is_of_catalogue(graph.build())

    def test_is_not_built_to_compare_when_its_name_tells_a_huge_size(self) -> None:
        graph = GraphBuilder("spot_bright_9999x9999")
        x = graph.input("x", (1, 64), np.uint8, scale=1 / 127, zero_point=128)
        graph.output(graph.quantize(x, np.int8, scale=1 / 127, zero_point=0))
        assert not is_of_catalogue(graph.build())

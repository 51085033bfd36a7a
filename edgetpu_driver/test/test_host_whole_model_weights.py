"""New weights for the parts of whole models on a host, and state that LiteRT keeps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("ai_edge_litert", reason="needs LiteRT: pip install ai-edge-litert")

from edgetpu_driver.backends.cpu import CpuBackend
from edgetpu_driver.engines.cpu_engine import CpuEngine
from edgetpu_driver.errors import (
    InputError,
    ModelUnsupportedError,
    UnavailableError,
)
from edgetpu_driver.host.model_host import ModelHost
from edgetpu_driver.tflite.constant_patch import replace_tensor
from edgetpu_driver.tflite.model_reader import parse_model
from edgetpu_driver.weights.replaceable_weights import weight_tensors
from edgetpu_driver.weights.weight_request import WeightRequest
from testdata.devices.hosted_whole_models import IMAGE, by_litert, check_same
from testdata.devices.virtual_backend import backend_of
from testdata.graphs.compiled_graphs import source_graph
from testdata.graphs.recurrent_cell import recurrent_cell

RNG = np.random.default_rng(14)


@pytest.mark.usefixtures("graphs_in_this_process")
class TestWeights:
    def test_those_of_the_only_part_are_replaced(
        self, whole_model_host: ModelHost, whole_models: Path
    ) -> None:
        from edgetpu_driver.tflite.graph_builder import GraphBuilder
        from edgetpu_driver.toolchain import dense_graph

        (whole_models / "first.tflite").write_bytes(dense_graph.build(64))
        builder = GraphBuilder("second")
        y = parse_model(dense_graph.build(64)).subgraphs[0].output_specs[0]
        shaped = builder.input("y", y.shape, y.dtype, scale=y.scale, zero_point=y.zero_point)
        builder.output(builder.reshape(shaped, (2, 32), name="pair"))  # the chip cannot have two rows
        (whole_models / "second.tflite").write_bytes(builder.build())
        loaded = whole_model_host.load(["first.tflite", "second.tflite"], "both")
        assert [part.on_device for part in loaded.parts] == [True, False]
        engine = CpuEngine(dense_graph.build(64))
        x = {"x": RNG.integers(0, 256, (1, 64), np.uint8)}
        for version in (1, 2):
            weights = WeightRequest(RNG.uniform(-0.1, 0.1, (64, 64)).astype(np.float32))
            assert whole_model_host.set_weights("both", weights).version == version
            engine.set_weights(weights)
            answer = whole_model_host.invoke("both", x)
            assert (answer.weights_version, loaded.weights_version) == (version, version)
            np.testing.assert_array_equal(answer.outputs["pair"].ravel(), engine.run(x)["y"].ravel())

    def test_a_layer_between_operators_on_the_cpu_takes_weights_by_its_name(
        self, whole_model_host: ModelHost
    ) -> None:
        loaded = whole_model_host.load("one_edgetpu")
        assert [part.on_device for part in loaded.parts] == [False, True, False]
        (tensor,) = weight_tensors(parse_model(source_graph(1)))
        steps = RNG.integers(-127, 128, tensor.shape).astype(np.int8)
        swap = whole_model_host.set_weights(
            "one", WeightRequest(steps * tensor.scales[:, np.newaxis], tensor.name)
        )
        assert (swap.version, swap.clipped) == (1, 0)
        changed = replace_tensor(source_graph(1), tensor.name, steps)
        check_same(whole_model_host.invoke("one", IMAGE).outputs, by_litert(changed, IMAGE))

    def test_with_several_parts_it_is_not_known_which_are_meant(self, whole_model_host: ModelHost) -> None:
        whole_model_host.load("parts_edgetpu")
        with pytest.raises(
            ModelUnsupportedError, match=r"one part for the Edge TPU.*'parts' has 2: name the tensor"
        ):
            whole_model_host.set_weights("parts", WeightRequest(np.zeros((8, 8), np.float32)))

    def test_a_model_on_the_cpu_has_none_that_can_be_set(
        self, whole_model_host: ModelHost, whole_models: Path
    ) -> None:
        (whole_models / "cell.tflite").write_bytes(recurrent_cell())
        whole_model_host.load("cell")
        with pytest.raises(ModelUnsupportedError) as raised:
            whole_model_host.set_weights("cell", WeightRequest(np.zeros((8, 8), np.float32)))
        assert str(raised.value) == (
            "expected a model with a part for the Edge TPU; all of 'cell' runs on the CPU here"
        )

    def test_those_of_one_of_several_parts_are_replaced(
        self, whole_model_host: ModelHost, whole_models: Path
    ) -> None:
        from edgetpu_driver.tflite.graph_builder import GraphBuilder
        from edgetpu_driver.toolchain import dense_graph

        first = dense_graph.build(64)
        (whole_models / "first.tflite").write_bytes(first)
        y = parse_model(first).subgraphs[0].output_specs[0]
        builder = GraphBuilder("second")
        grey = builder.input("y", y.shape, y.dtype, scale=y.scale, zero_point=y.zero_point)
        inner = builder.quantize(grey, np.int8, scale=y.scale, zero_point=y.zero_point - 128)
        outer = builder.fully_connected(
            inner, RNG.integers(-127, 128, (64, 64)), weight_scale=0.01, scale=0.1, zero_point=0, name="z"
        )
        builder.output(outer)
        (whole_models / "second.tflite").write_bytes(builder.build())
        loaded = whole_model_host.load(["first.tflite", "second.tflite"], "both")
        assert [part.on_device for part in loaded.parts] == [True, True]
        engines = [CpuEngine(first), CpuEngine(builder.build())]
        x = RNG.integers(0, 256, (1, 64), np.uint8)
        for version, part in enumerate((2, 1, 2), start=1):
            weights = WeightRequest(RNG.uniform(-0.1, 0.1, (64, 64)).astype(np.float32))
            assert whole_model_host.set_weights("both", weights, part=part).version == version
            engines[part - 1].set_weights(weights)
            answer = whole_model_host.invoke("both", {"x": x})
            assert (answer.weights_version, loaded.weights_version) == (version, version)
            middle = engines[0].run({"x": x})["y"]
            np.testing.assert_array_equal(answer.outputs["z"], engines[1].run({"y": middle})["z"])

    def test_the_part_that_has_the_tensor_is_found_by_its_name(self, whole_model_host: ModelHost) -> None:
        loaded = whole_model_host.load("parts_edgetpu")
        source = source_graph(2)
        tensors = weight_tensors(parse_model(source))
        for version, tensor in enumerate(tensors[::-1], start=1):
            steps = RNG.integers(-127, 128, tensor.shape).astype(np.int8)
            swap = whole_model_host.set_weights(
                "parts", WeightRequest(steps * tensor.scales[:, np.newaxis], tensor.name)
            )
            assert swap.version == loaded.weights_version == version
            source = replace_tensor(source, tensor.name, steps)
        assert [part.weights.version for part in loaded.device_parts] == [1, 1]
        check_same(whole_model_host.invoke("parts", IMAGE).outputs, by_litert(source, IMAGE))

    def test_a_tensor_of_no_part_is_refused_with_what_each_has(self, whole_model_host: ModelHost) -> None:
        whole_model_host.load("parts_edgetpu")
        with pytest.raises(InputError, match=r"'x' is in none: part 1: .*; part 2: expected one of"):
            whole_model_host.set_weights("parts", WeightRequest(np.zeros((8, 8), np.float32), "x"))

    def test_a_tensor_of_a_part_that_no_stick_holds_at_present_may_be_set_later(
        self, whole_model_host: ModelHost, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        loaded = whole_model_host.load("parts_edgetpu")
        (replica,) = loaded.device_parts[1].replicas.values()
        monkeypatch.setattr(replica, "engine", None)  # as while its stick is opened again
        tensor = weight_tensors(parse_model(source_graph(2)))[1]
        with pytest.raises(UnavailableError, match=r"part 2: no stick holds it at present"):
            whole_model_host.set_weights("parts", WeightRequest(np.zeros(tensor.shape), tensor.name))

    def test_a_part_that_is_not_there_is_refused(self, whole_model_host: ModelHost) -> None:
        whole_model_host.load("parts_edgetpu")
        with pytest.raises(
            InputError, match="expected part 1 to 2 of 'parts', or 0 for the whole model; got 3"
        ):
            whole_model_host.set_weights("parts", WeightRequest(np.zeros((8, 8), np.float32)), part=3)


@pytest.mark.usefixtures("graphs_in_this_process")
class TestStateThatLiteRtKeeps:
    @pytest.mark.parametrize("backend", ["cpu", "virtual"])
    def test_it_is_set_to_zero_on_request(self, backend: str, sticks: Any, whole_models: Path) -> None:
        (whole_models / "cell.tflite").write_bytes(recurrent_cell())
        whole_model_host = ModelHost(
            CpuBackend() if backend == "cpu" else backend_of(sticks[0]), [whole_models]
        )
        whole_model_host.connect()
        whole_model_host.load("cell")
        x = {"x": np.ones((1, 1), np.float32)}
        resets = [True, False, False, True, False]
        found = [
            float(whole_model_host.invoke("cell", x, reset=reset).outputs["y"][0, 0]) for reset in resets
        ]
        whole_model_host.close()
        assert found == [1.0, 2.0, 3.0, 1.0, 2.0]

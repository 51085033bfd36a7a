"""Products with a matrix on a host, and the weights they were computed with."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("ai_edge_litert", reason="needs LiteRT: pip install ai-edge-litert")

from edgetpu_driver.backends.cpu import CpuBackend
from edgetpu_driver.backends.virtual import pack_for_virtual_stick
from edgetpu_driver.errors import (
    InputError,
    ModelUnsupportedError,
)
from edgetpu_driver.host.client_limits import ClientLimits
from edgetpu_driver.host.model_host import ModelHost
from edgetpu_driver.matrix.loaded_matrix import ProductRequest
from edgetpu_driver.tflite.graph_builder import GraphBuilder
from edgetpu_driver.toolchain import dense_graph as dense
from edgetpu_driver.weights.replaceable_weights import INT8_MAX
from edgetpu_driver.weights.weight_request import WeightRequest
from testdata.devices.hosted_matrix import ONES, SIZE, corner, effective

pytestmark = pytest.mark.usefixtures("graphs_in_this_process")


class TestProducts:
    MATRIX = np.random.default_rng(1).standard_normal((SIZE, SIZE)).astype(np.float32)
    VECTOR = np.random.default_rng(2).standard_normal(SIZE)

    def error(self, matrix_host: ModelHost, matrix: Any, vector: Any) -> float:
        product = matrix_host.multiply("dense", ProductRequest(vector, passes=2))
        assert product.weights_version == matrix_host.model("dense").weights_version
        return float(np.linalg.norm(product.outputs - matrix @ vector) / np.linalg.norm(matrix @ vector))

    def test_weights_are_multiplied_by_as_they_are(self, matrix_host: ModelHost) -> None:
        matrix = self.MATRIX[:20, :30] / 5
        matrix_host.set_weights("dense", WeightRequest(matrix))
        assert self.error(matrix_host, matrix, self.VECTOR[:30]) < 0.03

    def test_rescaled_weights_use_the_full_range_without_changing_invoke(
        self, matrix_host: ModelHost
    ) -> None:
        matrix = 1e-3 * self.MATRIX
        matrix_host.set_weights("dense", WeightRequest(matrix, rescale_rows=True))
        assert self.error(matrix_host, matrix, self.VECTOR) < 0.02
        steps = np.rint(self.VECTOR * 30).clip(-127, 127)
        outputs = matrix_host.invoke("dense", {"x": (steps + 128).astype(np.uint8)[np.newaxis]}).outputs["y"]
        expected = matrix @ (steps / INT8_MAX) / dense.output_scale(SIZE) + 128
        assert np.abs(outputs[0] - expected).max() <= 1
        assert self.error(matrix_host, matrix, self.VECTOR) < 0.02

    def test_a_larger_matrix_is_cut_into_tiles_which_invoke_refuses(self, matrix_host: ModelHost) -> None:
        matrix = np.tile(self.MATRIX, (2, 3))
        swap = matrix_host.set_weights("dense", WeightRequest(matrix, rescale_rows=True))
        assert (swap.version, swap.row_scales.shape) == (1, (2 * SIZE,))
        assert self.error(matrix_host, matrix, np.tile(self.VECTOR, 3)) < 0.02
        with pytest.raises(InputError, match=r"holds a matrix \[128, 192\] in tiles"):
            matrix_host.invoke("dense", ONES)
        matrix_host.set_weights("dense", corner(0.5))
        assert effective(matrix_host.invoke("dense", ONES)) == pytest.approx(0.5, abs=0.02)

    def test_tiles_are_limited(self, matrix_models: Path) -> None:
        matrix_host = ModelHost(CpuBackend(), [matrix_models], limits=ClientLimits(tiles=4))
        matrix_host.connect()
        matrix_host.load("dense")
        matrix_host.set_weights("dense", WeightRequest(np.zeros((2 * SIZE, 2 * SIZE), np.float32)))
        with pytest.raises(
            InputError, match=r"at most 4 tiles of \[64, 64\]; got \[65, 129\], which takes 6"
        ):
            matrix_host.set_weights("dense", WeightRequest(np.zeros((SIZE + 1, 2 * SIZE + 1), np.float32)))
        matrix_host.close()

    def test_inferences_of_a_product_are_limited_over_all_tiles(self, matrix_models: Path) -> None:
        matrix_host = ModelHost(CpuBackend(), [matrix_models], limits=ClientLimits(inferences=8))
        matrix_host.connect()
        matrix_host.load("dense")
        matrix_host.set_weights("dense", WeightRequest(np.zeros((2 * SIZE, 2 * SIZE), np.float32)))
        assert matrix_host.multiply("dense", ProductRequest(np.ones((2, 2 * SIZE)), batch=2)).clipped == 0
        with pytest.raises(InputError, match="3 vectors, 1 passes and 4 tiles take 12"):
            matrix_host.multiply("dense", ProductRequest(np.ones((3, 2 * SIZE)), batch=3))
        matrix_host.close()

    def test_tiles_come_back_with_the_device(self, stick_matrix_host: ModelHost) -> None:
        matrix = np.tile(self.MATRIX, (2, 1))
        stick_matrix_host.set_weights("dense", WeightRequest(matrix, rescale_rows=True))
        stick_matrix_host.reset()
        stick_matrix_host.connect()
        assert self.error(stick_matrix_host, matrix, self.VECTOR) < 0.02

    def test_the_files_own_weights_can_be_multiplied_by(self, matrix_host: ModelHost) -> None:
        product = matrix_host.multiply("dense", ProductRequest(np.eye(SIZE)[0]))
        assert (product.outputs.shape, product.weights_version) == ((SIZE,), 0)
        assert np.abs(product.outputs).max() > 0.9

    def test_a_model_that_is_not_a_matrix_is_refused(self, matrix_host: ModelHost) -> None:
        matrix_host.load("sum")
        with pytest.raises(ModelUnsupportedError):
            matrix_host.multiply("sum", ProductRequest(np.ones(4)))

    def test_tiles_of_a_packed_graph_stay_in_memory_until_another_model_runs(
        self, stick_matrix_host: ModelHost
    ) -> None:
        def uploads() -> int:
            stick_matrix_host.refresh()
            return stick_matrix_host.status().readings.uploads

        matrix, vector = np.tile(self.MATRIX, (2, 3)), np.tile(self.VECTOR, 3)
        stick_matrix_host.set_weights("dense", WeightRequest(matrix, rescale_rows=True))
        assert uploads() == 6
        for _ in range(2):
            assert self.error(stick_matrix_host, matrix, vector) < 0.02
        assert uploads() == 6
        stick_matrix_host.load("other")
        stick_matrix_host.invoke("other", {"x": np.zeros((1, 2 * SIZE), np.uint8)})
        assert self.error(stick_matrix_host, matrix, vector) < 0.02
        assert uploads() == 6 + 1 + 6

    @pytest.mark.parametrize("copies", [0, 1, 3])
    def test_a_compiled_model_keeps_one_resident_tile_per_compiled_copy(
        self, stick_matrix_host: ModelHost, matrix_models: Path, copies: int
    ) -> None:
        stems = ["compiled", *(f"compiled_copy{number + 2}" for number in range(copies))]
        together = pack_for_virtual_stick(dict.fromkeys(stems, dense.build(SIZE)), together=True)
        for stem in stems:
            (matrix_models / f"{stem}.tflite").write_bytes(dense.build(SIZE))
            (matrix_models / f"{stem}_edgetpu.tflite").write_bytes(together[stem])
        stick_matrix_host.load("compiled_edgetpu", "compiled")
        matrix = np.tile(self.MATRIX, (2, 2))
        stick_matrix_host.set_weights("compiled", WeightRequest(matrix, rescale_rows=True))
        for _ in range(3):
            product = stick_matrix_host.multiply(
                "compiled", ProductRequest(np.tile(self.VECTOR, 2), passes=2)
            )
            expected = matrix @ np.tile(self.VECTOR, 2)
            assert np.linalg.norm(product.outputs - expected) < 0.02 * np.linalg.norm(expected)
        stick_matrix_host.refresh()
        # Tiles beyond the copies share the model's region, and are uploaded once for all passes; the one set
        # last is still there for the first product.
        in_turn = {0: 3 * 4 - 1, 1: 3 * 3 - 1, 3: 0}
        assert stick_matrix_host.status().readings.uploads == 4 + in_turn[copies]


def test_a_hidden_layer_may_be_larger_than_the_output_of_its_network(
    matrix_host: ModelHost, matrix_models: Path
) -> None:
    graph = GraphBuilder()
    x = graph.input("x", (1, 4), np.int8, scale=1 / 127, zero_point=0)
    hidden = graph.fully_connected(
        x, np.zeros((16, 4), np.int8), 1 / 127, scale=1 / 127, zero_point=0, name="hidden"
    )
    mean = np.ones((2, 16), np.int8)
    graph.output(graph.fully_connected(hidden, mean, 1 / 16, scale=1 / 127, zero_point=0, name="y"))
    (matrix_models / "network.tflite").write_bytes(graph.build())
    matrix_host.load("network")
    matrix_host.set_weights("network", WeightRequest(np.full((16, 4), 0.25), tensor="hidden/weights"))
    outputs = matrix_host.invoke("network", {"x": np.full((1, 4), 100, np.int8)}).outputs["y"]
    np.testing.assert_allclose(outputs, [[101, 101]], atol=1)
